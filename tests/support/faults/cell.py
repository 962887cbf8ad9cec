"""One cell of the table: a fault that begins in a phase, lasts for some seconds, and what became of everything.

The one idea: in every cell one pod departs, so that there is always something to do that could be done wrongly, and
both its member's end and the new status show when the operator is back at work.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from support.devcluster.kafka_log import now_ms
from support.fault_proxy.kafka_relay import KafkaFault
from support.fault_proxy.kube_proxy import KubeFault
from support.fault_proxy.relay import ByteFault
from support.faults.lane import SESSION_S, Fault, Lane, removed_by
from support.faults.phases import Phase, beginning_of
from support.waiting import until

LASTS_S = {True: 5.0, False: 12.0}
"""Of faults of brokers, and of the API server: longer than a request to either may take, or a Lease holds."""
REACHED_WITHIN_S = 40.0
RECOVERED_WITHIN_S = 110.0
"""Silence of a watch is noticed after 75 s."""
SILENT: frozenset[Fault] = frozenset({KubeFault.STALLED_WATCH, ByteFault.HALF_OPEN})
"""Time until a silent connection works again, longer than a session: so each cell starts a new process."""
LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What was seen.

    Parameters
    ----------
    is_reached: the fault began in its phase; otherwise in none, and the rest says nothing of it.
    ended_by: what ended the departed member: operator, session or nobody.
    member_gone_s, settled_s: from the end of the fault until that, and until the status was right; negative: before.
    said: what was not True in the status from the begin of the fault until all was well, and had been before.
    is_alive: the process of the operator lives, the same one.
    """

    fault: str
    phase: str
    is_reached: bool
    ended_by: str
    member_gone_s: float | None
    settled_s: float | None
    said: list[str]
    is_alive: bool
    is_healthy: bool
    exceptions: list[str]
    rss_max_mib: int

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)


def lasts_s(fault: Fault) -> float:
    """Return how long a fault lasts."""
    return LASTS_S[isinstance(fault, KafkaFault)]


def play_cell(lane: Lane, fault: Fault, phase: Phase, replicas: int) -> Cell:
    """Let one pod of so many depart, with a fault in the way."""
    name, ordinal = lane.play.name, replicas - 1
    if fault in SILENT and phase is not Phase.START:
        lane.renew(replicas)
    ids = {i.removeprefix(f"{name}-").split(".")[0]: m for i, m in lane.play.member_ids().items()}
    member_id, known = ids[str(ordinal)], len(lane.operator.exceptions())
    usual, said = set(lane.troubles()), set[str]()
    is_reached = _begin(lane, fault, phase, ordinal)
    _look_for(lane, lasts_s(fault) if is_reached else 0.0, said)
    lane.end()
    ended_ms = now_ms()
    if phase is Phase.START:
        lane.play.scale(ordinal)
    gone_at_ms, settled_at_ms = _recovery(lane, member_id, ordinal, said)
    return Cell(
        fault=str(fault), phase=str(phase), is_reached=is_reached, ended_by=removed_by(lane.end_of(member_id)),
        member_gone_s=None if gone_at_ms is None else round((gone_at_ms - ended_ms) / 1000, 1),
        settled_s=None if settled_at_ms is None else round((settled_at_ms - ended_ms) / 1000, 1),
        said=sorted(said - usual), is_alive=lane.operator.is_alive(), is_healthy=lane.operator.is_healthy(),
        exceptions=lane.operator.exceptions()[known:], rss_max_mib=lane.operator.rss_max_mib(),
    )  # fmt: skip


def _begin(lane: Lane, fault: Fault, phase: Phase, ordinal: int) -> bool:
    """Bring the operator to a phase and the fault with it; returns whether it came there."""
    name = lane.play.name
    match phase:
        case Phase.START:
            lane.operator.stop()
            lane.begin_now(fault)
            lane.operator.start()
        case Phase.WATCHING:
            lane.begin_now(fault)
            lane.play.scale(ordinal)
        case _:
            is_it = beginning_of(phase, name=name, pod=f"{name}-{ordinal}")
            lane.wire.arm(is_it, lambda: lane.begin(fault))
            lane.play.scale(ordinal)
            return lane.wire.touched.wait(REACHED_WITHIN_S)
    return True


def _look_for(lane: Lane, seconds: float, said: set[str]) -> None:
    """Let a fault last, and note what the status says meanwhile."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        said.update(lane.troubles())
        time.sleep(LOOK_S)


def _recovery(lane: Lane, member_id: str, replicas: int, said: set[str]) -> tuple[int | None, int | None]:
    """Wait until the member is gone and the status says so; returns when each was, or None."""

    def is_over() -> bool:
        said.update(lane.troubles())
        return lane.end_of(member_id) is not None and lane.is_settled(replicas)

    settled_at_ms: int | None = None
    with suppress(AssertionError):  # the cell says what did not come
        until(is_over, deadline_s=RECOVERED_WITHIN_S + SESSION_S, what="recovered", poll_s=LOOK_S)
        settled_at_ms = now_ms()
    gone = lane.end_of(member_id)
    return (gone.at_ms if gone else None), settled_at_ms
