"""Pods of Deployment web for tests of their slots: short to write, whole when read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.core.evidence.pod import SlotView
from staticgroup.core.ids.naming import Naming, naming_of
from staticgroup.core.members.memory import Members
from staticgroup.core.slots.deployment import SlotNote, SlotPlan, plan_slots
from staticgroup.core.workload import Rollout, WorkloadView
from unit.core.builders import (
    NOW_S,
    SCOPE,
    WATCH,
    attributed,
    history,
    known_pod,
    spec,
    workload,
)

WATCH_NO = 3


def slotted(
    uid: str, *, given: str = "", claimed: str = "", waits: bool = False, started: bool | None = None, count: int = 1,
    since_s: float = NOW_S - 300, noted_s: float = NOW_S - 300, scope: str = SCOPE, owner: str = "web-6d4b75cb6d",
    **changes: Any,
) -> KnownPod:  # fmt: skip
    """A pod that has the slot `given`, or waits; it has started unless it waits."""
    slot = SlotView(
        scope=scope, workload_name="web", given=given, claimed=claimed, is_waiting=waits, count=count,
        has_started=(not waits) if started is None else started, noted_s=noted_s, changed_s=since_s,
    )  # fmt: skip
    ids = frozenset({f"{given}.{scope}"}) if given else frozenset()
    values: dict[str, Any] = {"pod_name": f"web-6d4b75cb6d-{uid}", "owner_name": owner, "slots": (slot,)}
    return known_pod(0, uid, **(values | {"instance_ids": ids} | changes))


def waiting(uid: str, **changes: Any) -> KnownPod:
    """A pod whose waiter runs and that was told nothing yet."""
    return slotted(uid, **({"waits": True, "count": 0} | changes))


def ending(uid: str, given: str, **changes: Any) -> KnownPod:
    """A pod that is being deleted and has time left."""
    return slotted(uid, given=given, **({"is_deleting": True, "ends_by_s": NOW_S + 20} | changes))


def over(uid: str, given: str, **changes: Any) -> KnownPod:
    """A pod whose end the present watch has brought."""
    values = {"state": PodState.DEAD, "ended_under": WATCH_NO, "alive_under": WATCH_NO}
    return slotted(uid, given=given, **(values | changes))


def lost(uid: str, given: str, **changes: Any) -> KnownPod:
    """A pod whose object is gone without a certificate."""
    return slotted(uid, given=given, **({"state": PodState.SUSPECT} | changes))


def deployment(replicas: int = 3, updated: int | None = None, **changes: Any) -> WorkloadView:
    rollout = Rollout(**{key: changes.pop(key) for key in list(changes) if key in Rollout.__slots__})
    done = replicas if updated is None else updated
    return workload(replicas, **({"updated_replicas": done, "rollout": rollout, "listed": ()} | changes))


def naming() -> Naming:
    return naming_of(spec(workloadRef={"name": "web", "kind": "Deployment"}), history())


def holders(**carriers: Sequence[str]) -> Members:
    """A member in each slot `a<n>` (a1 is web-1), with its carriers; without any its pod has ended."""
    numbers = {int(key.removeprefix("a")): uids for key, uids in carriers.items()}
    known = {f"web-{n}.{SCOPE}": attributed(f"m{n}", *uids) for n, uids in numbers.items()}
    return Members(watch=WATCH, attributions=known)


def planned(
    *known: KnownPod, members: Members | None = None,
    now_s: float = NOW_S, **changes: Any,
) -> SlotPlan:  # fmt: skip
    """Plan the notes; where no members are said, each slot has one that is of the pod that has it."""
    values: dict[str, Any] = {"view": deployment(), "watch": WATCH, "watch_no": WATCH_NO, "scope": SCOPE}
    given = ((slot.given, pod.uid) for pod in known for slot in pod.slots if slot.given)
    theirs = {f"{slot}.{SCOPE}": attributed("m", uid) for slot, uid in given}
    members = members or Members(watch=WATCH, attributions=theirs)
    return plan_slots(known=known, members=members, naming=naming(), now_s=now_s, **(values | changes))


def texts(plan: SlotPlan) -> list[str]:
    return [note.text for note in plan.notes]


def note(plan: SlotPlan) -> SlotNote:
    (found,) = plan.notes
    return found
