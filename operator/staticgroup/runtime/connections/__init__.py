"""KafkaConnections: the Secrets that they name, read again when they rotate, and the status that says whether they work."""

from .connections import Connections

__all__ = ["Connections"]
