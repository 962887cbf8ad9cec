"""Where records come from: Kafka topics, rotated files, and the coordinator's own log."""
