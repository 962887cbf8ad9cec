"""Everything that can go wrong, by name; importing this package knows every kind."""

from . import ambushes, api_server, arrivals, control_plane, heirs, kafka, labels, memory, nodes, operators, people  # noqa: F401
from .registry import FAULTS, Fault, carry_out

__all__ = ["FAULTS", "Fault", "carry_out"]
