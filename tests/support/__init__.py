"""Support for tests that need real systems: the development cluster and its brokers."""
