"""The Kubernetes operator that makes Kafka static membership safe and automatic."""
