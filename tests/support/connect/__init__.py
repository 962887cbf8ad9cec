"""Real Kafka Connect workers on this machine, and a connector that tells by itself when its tasks ran."""
