"""The sources of records: Kafka topics, rotated files, and the coordinator's own log."""
