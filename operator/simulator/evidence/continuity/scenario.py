"""How far one exploration of the continuity rules goes: which faults may happen, and how often.

Every count is a bound of the exploration, not of the product. Within them every interleaving is explored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .rules import Rules

FAULTS = (
    "toggle",
    "force",
    "gap",
    "death",
    "roll",
    "recreation",
    "restore",
    "emptied",
    "put back",
    "take-over",
    "fail-over",
    "hand",
    "strip",
    "rejection",
    "claim",
    "stale controller",
    "word",
    "pod word",
    "twin",
    "late write",
)
"""Positions in `State.left`."""
(
    TOGGLE,
    FORCE,
    GAP,
    DEATH,
    ROLL,
    RECREATION,
    RESTORE,
    EMPTIED,
    PUT_BACK,
    TAKE_OVER,
    FAIL_OVER,
    HAND,
    STRIP,
    REJECTION,
    CLAIM,
    STALE_CONTROLLER,
    WORD,
    POD_WORD,
    TWIN,
    LATE_WRITE,
) = range(len(FAULTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One exploration.

    Parameters
    ----------
    says: what it is about, for the table. faults: how often each of FAULTS may happen in all.
    pods: most incarnations of the name. operators: replicas, of which one holds the Lease.
    is_durable: the status is written and read; without it the process lives for ever and keeps its checkpoint in memory.
    has_positions: the watch's position is stored with the Lease, and a new process resumes there.
    lags: the watch may lag behind; without it events are shown at once.
    is_lagging_controller: the StatefulSet controller may act on an older generation until it has reported the newest.
    is_slow: the kubelet starts a container, and posts it, some time after the pod was created.
    has_ended: pod 1 has ended, as the kubelet proved, before the beginning; its member is still there.
    is_bumped: a restore raises the revision, so that nothing but single objects looks older.
    is_restored_said: a restore happens while no operator runs, and a person then says so. is_restored_running: it
        happens while one runs.
    is_backed_up: the only backup of etcd is one of the beginning; without it backups are taken at any time.
    rules: mutants change them.
    """

    name: str
    says: str = ""
    faults: Mapping[str, int] = field(default_factory=dict)
    pods: int = 3
    operators: int = 1
    is_durable: bool = False
    has_positions: bool = False
    lags: bool = False
    is_lagging_controller: bool = False
    is_slow: bool = False
    has_ended: bool = False
    is_bumped: bool = False
    is_restored_said: bool = False
    is_restored_running: bool = False
    is_backed_up: bool = False
    rules: Rules = field(default_factory=Rules)

    @property
    def progress(self) -> bool:
        """False: that departures end is shown by the model of the evidence."""
        return False
