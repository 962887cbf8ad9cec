"""The bill: what rebalances and absences cost every group of a Kafka cluster, from `__consumer_offsets` alone."""
