"""Applications of frameworks as users write them, for pods; brokers show the ids of their clients."""
