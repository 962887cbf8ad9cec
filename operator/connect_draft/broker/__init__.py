"""The draft's coordinator on the broker: it keeps what the leader of today keeps, and reconciles the workers."""
