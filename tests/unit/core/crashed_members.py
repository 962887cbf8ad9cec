"""A member whose process has crashed, the runs of its pod's containers, and what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from staticgroup.core.evidence.chain import ContainerEnd, KnownPod, PodState, RunEnd
from staticgroup.core.group import GroupType, MemberView
from staticgroup.core.plan import Plan, plan
from staticgroup.core.releases import MARGIN_S
from staticgroup.core.snapshot import FreshRead, History, ReleaseRecord, SeatMemory, Snapshot
from unit.core.builders import (
    NOW_S,
    attributed,
    departure,
    evidence,
    fresh,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
)

ENDED_S = NOW_S - 3
HEARD_S = NOW_S - 2
GHOST = ("m0", id_of(0))
DEAD, LIVE, SUSPECT = PodState.DEAD, PodState.LIVE, PodState.SUSPECT


def end(**changes: Any) -> RunEnd:
    values = {"container_id": "containerd://app-a", "finished_at_s": ENDED_S, "received_at_s": HEARD_S}
    return RunEnd(**(values | changes))


def run(container: str = "app", **changes: Any) -> ContainerEnd:
    return ContainerEnd(container=container, **({"end": end()} | changes))


def crashed_pod(*runs: ContainerEnd, **changes: Any) -> KnownPod:
    return known_pod(0, "u0", **({"ends": runs or (run(),)} | changes))


def read(**changes: Any) -> FreshRead:
    return fresh(**({"is_expected": True, "objects": (("web-0", "u0"),)} | changes))


def crash(pod: KnownPod | None = None, *others: KnownPod, reads: FreshRead | None = None, **changes: Any) -> Snapshot:
    """A process of web-0 has crashed and is started again; its member m0 is still in the group."""
    pod = pod or crashed_pod()
    values: dict[str, Any] = {
        "pods": (pod, known_pod(1, "u1")),
        "group": consumers(),
        "evidence": evidence({id_of(0): (pod, *others)}, {id_of(0): reads or read()}),
        "sight": sight(ended=frozenset()),
    }
    return departure(**(values | changes))


def consumers(ghost: MemberView | None = None, **changes: Any) -> Any:
    values = {"group_type": GroupType.CONSUMER, "group_epoch": 5, "assignment_epoch": 5} | changes
    return group(ghost or member(0, member_epoch=5), member(1, member_epoch=5), **values)


def remembered(
    since_s: float = ENDED_S - MARGIN_S - 1, carriers: Sequence[str] = ("u0",), key: str = id_of(0), **changes: Any
) -> History:
    """Its member was described before, when these pods were there."""
    known = members(attributions={key: attributed("m0", *carriers, first_seen_s=since_s)})
    return (
        history(members=known) if not changes else replace(history(members=known), seats={key: SeatMemory(**changes)})
    )


def planned(snapshot: Snapshot | None = None, memory: History | None = None, **spec_changes: Any) -> Plan:
    wanted = {"groupProtocol": "Auto", "removal": "DepartedAndCrashed"} | spec_changes
    return plan(spec(**wanted), snapshot or crash(), memory or remembered(), NOW_S)


def released(decided: Plan) -> list[tuple[str, str]]:
    return [(r.entry.member_id, r.entry.instance_id) for r in decided.releases]


def only_guard(decided: Plan) -> str:
    assert decided.releases == ()
    (held,) = decided.locked_out
    assert held.text
    return held.reason


def is_silent(decided: Plan) -> bool:
    return decided.releases == () and decided.locked_out == ()


def record(member_id: str = "m0", **changes: Any) -> ReleaseRecord:
    return ReleaseRecord(**({"member_id": member_id} | changes))
