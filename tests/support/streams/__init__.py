"""A Kafka Streams application with state: what a pod with several threads does and prints while it is rolled."""
