"""Real Kafka Connect workers in pods, as docs/guide/kafka-connect.md tells a user to run them."""
