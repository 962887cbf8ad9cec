"""A Kafka Streams application with state: what a user's pod with several stream threads does, and says, while it is rolled."""
