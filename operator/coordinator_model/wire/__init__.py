"""The model behind a TCP socket with Kafka's protocol, for real clients."""
