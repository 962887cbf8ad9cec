"""What `__consumer_offsets` holds, decoded."""
