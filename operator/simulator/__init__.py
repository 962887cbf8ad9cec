"""The real operator in a model of its world: Kubernetes, Kafka, users and clients in virtual time.

One event loop, one seed, no threads, no sockets: the same seed gives the same history, to the last byte.
"""
