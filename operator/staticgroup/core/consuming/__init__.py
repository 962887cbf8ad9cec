"""What members consume: topics that nobody reads, and members that leave when they close."""
