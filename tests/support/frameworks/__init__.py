"""Applications of frameworks as users write them, for pods: which ids their clients really join with, the brokers tell."""
