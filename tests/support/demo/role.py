"""One kind of workload in the storyline: what is started, and what shows that its work goes on or stands still.

The one idea: whatever the work is, it appears as lines of one form (`consumed`, `assigned`, `revoked`, `closed`, as
consumers print them), so that one set of functions measures all of it.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from support.demo.wording import Wording
from support.devcluster.kafka_log import now_ms
from support.scene.play import Play
from support.scene.pod_lines import PodLines, PodVoice
from support.scene.stage import Stage

if TYPE_CHECKING:
    from support.demo.groups import DemoGroup

TOPIC = "orders"
PARTITIONS = 6
"""Pieces of work in every role."""
REPLICAS = 3
STOCK, MANAGED = "stock", "managed"
MANAGED_STATE = "managed-state"
FILES = Path(tempfile.gettempdir()) / "sg-demo-files"
"""What pods keep on this machine: states of Kafka Streams, ticks of Connect's tasks."""
RECORDS_PER_S = 20
"""For each partition."""
Tell = Callable[[str], None]


class Voices(Protocol):
    """What the pods of a namespace said, those that are gone included."""

    def voices(self) -> list[PodVoice]:
        """Return what was said up to now, one entry for each pod UID, in the order of appearance."""

    def stop(self) -> None:
        """Stop listening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What went wrong with the work itself, by group: None where the role does not know such a thing."""

    unconsumed_records: dict[str, int] | None = None
    twice: dict[str, int] | None = None


class Role(ABC):
    """One kind of workload; an object lives for one run of the demo.

    Attributes
    ----------
    names: of the groups, which are those of namespaces and workloads too; the last is the managed one.
    titles: what distinguishes each, for people.
    roll_pair, scale_pair: which two are compared in which scene. state_pair: those whose members have state and poll
        slowly, rolled as the others are; None where there are none.
    workload_kind, replicas: what holds the pods, and how many of them. game: makes and moves it.
    chart_values: with which the operator is installed.
    members_per_pod: in the group, as the broker counts.
    timeout_variable: by which the managed pods are given their session timeout.
    own_session_ms: the session timeout of the group that `scale_pair` compares with.
    """

    wording: ClassVar[Wording]
    names: ClassVar[tuple[str, ...]] = (STOCK, MANAGED)
    titles: ClassVar[Mapping[str, str]]
    roll_pair: ClassVar[tuple[str, str]] = (STOCK, MANAGED)
    scale_pair: ClassVar[tuple[str, str]] = (STOCK, MANAGED)
    state_pair: ClassVar[tuple[str, str] | None] = None
    workload_kind: ClassVar[str] = "StatefulSet"
    replicas: ClassVar[int] = REPLICAS
    game: ClassVar[type[Play]] = Play
    chart_values: ClassVar[Mapping[str, Any]] = {}
    members_per_pod: ClassVar[int] = 1
    timeout_variable: ClassVar[str]
    own_session_ms: ClassVar[int]
    steady_deadline_s: ClassVar[float] = 90.0
    roll_deadline_s: ClassVar[float] = 180.0
    leaves_by_itself: ClassVar[bool] = False
    """Whether an unmanaged member leaves the group when its process is ended."""

    def prepare(self, stage: Stage) -> None:
        """Build and load the images that the stage does not have yet."""
        return

    @abstractmethod
    def open(self, stage: Stage, tell: Tell) -> None:
        """Begin the load, before any pod."""

    def static_group(self) -> dict[str, Any]:
        """Return what the StaticGroup says beside its references."""
        return {}

    @abstractmethod
    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Return the workload of a group, making what it needs beside itself."""

    def follow(self, group: DemoGroup) -> None:
        """Do what is to be done once the members of a group have joined and before they work."""
        return

    def is_settled(self, group: DemoGroup, members: int) -> bool:
        """Say whether a group is at rest with so many members."""
        shown = group.play.stage.admin.describe_group(group.name)
        return shown.state == "Stable" and len(shown.members) == members

    def voices(self, stage: Stage, name: str) -> Voices:
        """Begin to listen to the pods of a namespace."""
        return PodLines(stage.cluster, name).start()

    @abstractmethod
    def interruptions(self, group: DemoGroup, since_ms: int) -> tuple[int, float | None]:
        """Return how often what ran on had to give up work since then, and for how long in s where that is known."""

    def restored(self, group: DemoGroup, since_ms: int) -> int | None:
        """Return how many records were read again to rebuild state; None where there is no state."""
        return None

    def departing(self, group: DemoGroup) -> str:
        """Return the name of the pod that a scale-down by one takes."""
        return f"{group.name}-{self.replicas - 1}"

    def before_departure(self, group: DemoGroup, pod_name: str, tell: Tell) -> None:
        """Do what must be done before this pod is scaled away, so that what is shown does not depend on chance."""
        return

    def ending(self, group: DemoGroup, pod_name: str) -> Callable[[], int | None]:
        """Return a function that returns when the process of a pod ended, milliseconds since 1970; None before."""
        since_ms = now_ms()

        def closed() -> int | None:
            ends = (x["at_ms"] for x in group.lines(pod_name) if x["kind"] == "closed" and x["at_ms"] > since_ms)
            return next(ends, None)

        return closed

    @abstractmethod
    def count(self, groups: Mapping[str, DemoGroup], tell: Tell) -> Faults:
        """End the load, give the groups time to finish, and count what went wrong with the work itself."""

    def close(self) -> None:
        """End the load, whatever state it is in."""
        return


def process_ends(pids: list[int]) -> Callable[[], int | None]:
    """Return what tells when all of some processes were seen to be gone, by the process table."""
    gone_at_ms: list[int] = []

    def ended_at_ms() -> int | None:
        if not gone_at_ms and not any(_is_alive(pid) for pid in pids):
            gone_at_ms.append(now_ms())
        return gone_at_ms[0] if gone_at_ms else None

    return ended_at_ms


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; {} when it has ended."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
