"""What members and their processes did between two rounds: counted and measured, whether or not a journal is kept."""
