"""The brokers as the world shows them: the log, the coordinator on it, and the way between a client and them."""
