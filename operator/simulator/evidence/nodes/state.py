"""The state of one pod, its two possible machines, and the operator that watches over its node."""

from __future__ import annotations

from typing import Final, NamedTuple

DELETING, GONE, LATER = "deleting", "gone", "later"
"""Events of the API server that kubelets hear in their order: the pod is being deleted, its object is gone, a later pod is bound."""
IDLE, KILLING, HUNG = range(3)
"""What becomes of the pod's process by its kubelet: nothing, an end within its grace period, or an end that never comes."""

FAULTS = ("partition", "freeze", "reboot", "replacement", "node deletion", "taint", "hang", "late hang", "restart", "power-off", "runtime")
(PARTITION, FREEZE, REBOOT, REPLACEMENT, NODE_DELETION, TAINT, HANG, LATE_HANG, RESTART, POWER_OFF, RUNTIME) = range(len(FAULTS))
"""Positions in `State.left`."""


NO_VIGIL: Final = -1


class Machine(NamedTuple):
    """A machine, its kubelet and the pod's process on it.

    Parameters
    ----------
    is_on: it has power. is_up: its kubelet works. is_cut: it cannot reach the API server.
    is_member: its kubelet takes the Node's name for its own.
    heard: how many events its kubelet has heard. runs: the process runs. kill: what its kubelet does about that.
    runtime: which container runtime serves it. is_lost: the process was started by an earlier one, so nobody knows of it.
    later: a container of the later pod runs here. has_told: its kubelet has written its Node since it was booted.
    """

    is_on: bool = True
    is_up: bool = True
    is_cut: bool = False
    is_member: bool = True
    boot: int = 0
    heard: int = 0
    runs: bool = False
    kill: int = IDLE
    later: bool = False
    has_told: bool = True
    runtime: int = 0
    is_lost: bool = False

    @property
    def is_connected(self) -> bool:
        """True while its kubelet works and reaches the API server."""
        return self.is_on and self.is_up and not self.is_cut and self.is_member


class Node(NamedTuple):
    """The Node object: which machine, boot and container runtime its kubelet told last, and whether the controllers call it Ready."""

    uid: int = 1
    machine: int = 0
    boot: int = 0
    runtime: int = 0
    is_ready: bool = True
    is_tainted: bool = False


class Watcher(NamedTuple):
    """The operator; records and vigils by their numbers in `watcher.Watching`, since a search holds some ten thousand states.

    Parameters
    ----------
    record: what it remembers of the node, and has written down.
    vigil: since the object was gone, its times counted from the last look.
    doubt: what the vanished object left behind. has_seen_end: it has heard that the object is gone, or that its watch was interrupted.
    shown_until_s: what it remembers was still so when it read the node at its beginning.
    is_down: no operator runs. has_certified: it holds the process for dead.
    """

    record: int = 0
    vigil: int = NO_VIGIL
    doubt: str = ""
    has_seen_end: bool = False
    shown_until_s: float = 0.0
    is_down: bool = False
    has_certified: bool = False


class State(NamedTuple):
    """Everything.

    Parameters
    ----------
    log: the events so far. settled: how many of them every API server knows.
    is_overdue: the deletion has lasted longer than the grace period. later_shown: the API server shows that the later pod runs.
    left: how often each of FAULTS may still happen.
    """

    machines: tuple[Machine, Machine]
    node: Node | None
    log: tuple[str, ...]
    settled: int
    is_overdue: bool
    later_shown: bool
    watcher: Watcher
    left: tuple[int, ...]

    @property
    def is_alive(self) -> bool:
        """True while the process runs anywhere."""
        return any(m.runs for m in self.machines)
