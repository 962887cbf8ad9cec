"""What was ever written of one pod, and what its versions say: its ids, its containers, their ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from ..kubernetes.node.container_status import environment
from ..kubernetes.objects import Json, controller_of, is_terminating

ID_VARIABLES = "INSTANCE_ID"
"""Part of the name of every variable that carries an id."""


@dataclass(slots=True)
class PodLife:
    """Everything that was ever written of one pod.

    Parameters
    ----------
    ids: those it was given, before a client appends anything. shown: the containers of which an id was ever shown.
    gone_s: since when its object has been gone, virtual seconds; infinite while it is there.
    deployment: whose pod it is; "": of none. is_leaving: it is being deleted or has ended.
    had: what its processes read from the file of its slot, and since when; virtual seconds.
    is_node_off: its Node was deleted, which in this world happens only once the machine is off.
    """

    uid: str
    namespace: str
    name: str
    created_s: float
    ids: set[str] = field(default_factory=set)
    was_bound: bool = False
    shown: set[str] = field(default_factory=set)
    has_proof: bool = False
    has_end: bool = False
    is_forgotten: bool = False
    node: str = ""
    gone_s: float = math.inf
    is_node_off: bool = False
    deployment: str = ""
    is_leaving: bool = False
    had: dict[str, float] = field(default_factory=dict)

    def carried_since_s(self, bases: AbstractSet[str]) -> float:
        """Return since when it has carried one of these ids, virtual seconds; infinite: it never has."""
        by_spec = [self.created_s] if bases & self.ids else []
        return min(by_spec + [since_s for given, since_s in self.had.items() if given in bases], default=math.inf)

    @property
    def is_gone(self) -> bool:
        """Whether its object is gone, or was forgotten."""
        return self.gone_s != math.inf

    @property
    def is_certified(self) -> bool:
        """Whether some component has written down that nothing of this pod runs, or that nothing ever did.

        Notes
        -----
        Of those that showed no container no proof is asked; whether a process of theirs lives is asked of all (S1).
        """
        return self.has_proof or self.is_node_off or (
            not self.shown and (self.has_end or self.is_forgotten or (self.is_gone and not self.was_bound))
        )


def carried(body: Json) -> set[str]:
    """Return the ids that a pod was given, by annotation or by a variable of its containers."""
    annotations = body["metadata"].get("annotations") or {}
    found = {str(value) for key, value in annotations.items() if key.startswith("staticgroup.io/instance-id")}
    for container in body["spec"]["containers"]:
        found |= ids_in(environment(body, container["name"]))
    return found


def ids_in(variables: Mapping[str, str]) -> set[str]:
    """Return the ids among a process' variables."""
    return {value for name, value in variables.items() if ID_VARIABLES in name and value}


def deployment_of(body: Json) -> str:
    """Return the Deployment of a pod: its ReplicaSet is called after it and a hash."""
    owner = controller_of(body)
    return owner["name"].rpartition("-")[0] if owner is not None and owner["kind"] == "ReplicaSet" else ""


def is_leaving(body: Json) -> bool:
    """Whether a pod is being deleted or has ended."""
    return is_terminating(body) or (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def statuses(status: Mapping[str, Any]) -> list[Json]:
    """Return the entries of all containers of a pod."""
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return [s for kind in kinds for s in status.get(kind) or []]


def all_ended(body: Json, shown: Sequence[Json], ran: AbstractSet[str]) -> bool:
    """Whether every container of the spec is shown as terminated by its runtime, or is shown and never ran."""
    kinds = ("containers", "initContainers", "ephemeralContainers")
    names = {c["name"] for kind in kinds for c in body["spec"].get(kind) or []}
    ended = {
        s["name"]
        for s in shown
        if (state := (s.get("state") or {}).get("terminated")) is not None
        and state.get("containerID")
        and state.get("reason") != "ContainerStatusUnknown"
    }
    return bool(names) and names <= ended | ({s["name"] for s in shown} - ran)
