"""What happened to each group on each day."""
