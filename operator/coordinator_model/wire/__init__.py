"""The model behind a TCP socket that speaks Kafka's protocol, for real clients."""
