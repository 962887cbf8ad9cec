"""What a process remembers of each StaticGroup from round to round, what of it a status holds, and how that is written."""
