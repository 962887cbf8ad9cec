"""The journal held against Kafka's own record of the groups."""
