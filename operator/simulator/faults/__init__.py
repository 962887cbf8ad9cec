"""Everything that can go wrong, by name; importing this package knows every kind."""

from . import ambushes, api_server, kafka, nodes, operators, people
from .registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "ambushes", "api_server", "kafka", "nodes", "operators", "people"]
