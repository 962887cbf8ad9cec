"""Kafka's group coordinator as an executable model: pure functions of requests and time, no clock, no I/O."""
