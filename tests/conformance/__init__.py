"""Conformance of the coordinator model with Kafka: one test per row of the catalogue."""
