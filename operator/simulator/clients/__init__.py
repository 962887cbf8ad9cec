"""Consumers that react as the real libraries do, the processes that they run in, and the work that they do."""
