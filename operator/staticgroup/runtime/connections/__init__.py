"""KafkaConnections: the Secrets that they name, read again when they rotate, and a status that says if they work."""
