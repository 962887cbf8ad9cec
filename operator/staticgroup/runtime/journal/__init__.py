"""The journal leaves the process: who tells it, and the sinks that take it elsewhere."""

from .journal import Journal, MemorySink, RoundReport, Sink

__all__ = ["Journal", "MemorySink", "RoundReport", "Sink"]
