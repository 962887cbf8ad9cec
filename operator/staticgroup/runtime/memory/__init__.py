"""What a process remembers of each StaticGroup between rounds, what a status holds of it, and how that is written."""
