"""The audit: compare the journal with Kafka's own record of the groups."""
