"""Everything that can go wrong, by name; importing this package knows every kind."""

from . import (  # noqa: F401
    ambushes,
    api_server,
    arrivals,
    control_plane,
    heirs,
    kafka,
    labels,
    machines,
    memory,
    nodes,
    operators,
    people,
)
from .registry import FAULTS, Fault, carry_out

__all__ = ["FAULTS", "Fault", "carry_out"]
