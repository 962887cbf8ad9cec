"""When a fault begins: the phases of a removal, each known by the request with which it begins.

The one idea: the order of a removal is fixed (describe, consistent reads, leave, describe again, status), so each phase
has a request that no other begins with, and the proxies see it first.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from support.fault_proxy.tripwire import Passing, Peer

_DESCRIBES = ("15", "69")
"""DescribeGroups, ConsumerGroupDescribe."""
_LEAVE = "13"


class Phase(StrEnum):
    """Where in its work the operator is when the fault begins."""

    START = "at start"
    WATCHING = "while watching"
    DESCRIBED = "between describe and leave"
    LEAVE = "during the leave"
    VERIFICATION = "at verification"
    STATUS = "status write"


def beginning_of(phase: Phase, *, name: str, pod: str) -> Callable[[Passing], bool]:
    """Return what tells the request with which a phase begins, after a scale-down.

    Parameters
    ----------
    name: of the StaticGroup and its namespace. pod: the one that departs.
    """
    has_left = False

    def is_verification(passing: Passing) -> bool:
        nonlocal has_left
        if passing.peer is Peer.BROKER and passing.call == _LEAVE:
            has_left = True
        return has_left and passing.peer is Peer.BROKER and passing.call in _DESCRIBES

    match phase:
        case Phase.DESCRIBED:  # the consistent read of the departing pod, which follows the describe
            return lambda p: (
                p.path.startswith(f"/api/v1/namespaces/{name}/pods?") and f"metadata.name%3D{pod}" in p.path
            )
        case Phase.LEAVE:
            return lambda p: p.peer is Peer.BROKER and p.call == _LEAVE
        case Phase.VERIFICATION:
            return is_verification
        case Phase.STATUS:
            return lambda p: p.call == "PATCH" and f"/staticgroups/{name}/status" in p.path
    raise ValueError(f"{phase} begins without a request")
