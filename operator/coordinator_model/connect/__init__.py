"""Today's Kafka Connect group: the leader's assignors, the workers' reactions, and a cluster in virtual time.

To the coordinator, workers are dynamic members of a classic group of protocol type `connect`; everything that is
Connect's own happens in the workers, so it is modelled here as the leader's assignor and the worker's steps. Connect
has no static membership (WorkerCoordinator.onLeaderElected refuses skipAssignment).
"""
