"""The Kubernetes operator that makes Kafka static membership safe and automatic."""

__version__ = "0.1.0"
"""As in pyproject.toml; the image and the kubectl plugin carry no metadata of packages."""
