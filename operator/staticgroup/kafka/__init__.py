"""The edge to Kafka: bytes become typed answers, and an error is a value."""
