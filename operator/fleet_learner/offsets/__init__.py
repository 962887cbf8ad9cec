"""Decoders for the records of `__consumer_offsets`."""
