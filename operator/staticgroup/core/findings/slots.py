"""What is said about the slots of a Deployment: what a roll costs, who has which slot, and what each pod waits for."""

from __future__ import annotations

from typing import Final

from ...api.reasons import ConditionType, Reason
from ...api.resources.status import SLOTS_SHOWN_MAX, Slots
from ..evidence.chain import PodState
from ..members.memory import Members
from ..plan import Plan
from ..slots.hand_out import Step
from ..snapshot import Snapshot
from . import MESSAGE_MAX, Finding, counted

_WHY: Final = {
    Step.CLAIM: "waits for slot {slot}, until the pod that has it has ended",
    Step.GIVE: "takes over slot {slot}",
    Step.OWN: "gets slot {slot}, which nobody had before: no slot was free, or the end of its pod was not seen",
    Step.WAIT: "waits for a slot, until another pod begins to end",
}


def slots_pass_on(snapshot: Snapshot, members: Members) -> Finding | None:
    """Say what a roll of a Deployment costs; None for any other workload, and while its pods get no slots."""
    view = snapshot.workload
    if view is None or view.rollout is None or not snapshot.scope:
        return None
    name, rollout = f"{view.kind.kind} {view.name}", view.rollout
    stay = sum(attribution.is_guessed for attribution in members.attributions.values())
    if stay:
        why = f"{counted(stay, 'member was', 'members were')} first seen soon after the pod watch began anew"
        return Finding(
            kind=ConditionType.ROLLS_QUIETLY,
            reason=Reason.SLOTS_STAY,
            sentence=f"{why}, so a pod that nobody saw may have the same id, and in the next roll of {name} these "
            "slots pass on to no pod: that costs a rebalance each, and their partitions wait until the sessions end.",
            remedy="Roll when such a pause is harmless; the roll after it is quiet again.",
        )
    if rollout.ends_before_it_begins or not view.replicas:
        sentence = f"In a roll of {name} each slot passes from a pod that has ended to a new one."
        return Finding(kind=ConditionType.ROLLS_QUIETLY, reason=Reason.SLOTS_PASS_ON, sentence=sentence)
    unavailable = f"maxUnavailable of {name} is 0 ({rollout.max_unavailable_text} of {view.replicas}, rounded down), so"
    cost, which = "Each roll costs 2 rebalances", unavailable
    if rollout.begins_beside:
        cost, which = "Each step of a roll costs up to 3 rebalances", f"by the strategy of {name}"
    return Finding(
        kind=ConditionType.ROLLS_QUIETLY,
        reason=Reason.SURGE_NEEDS_SLOT,
        sentence=f"{cost}, because {which} a pod starts before another has ended.",
        remedy=f"For none, set {rollout.path} of the {view.kind.kind} to maxUnavailable 1 and maxSurge 0.",
    )


def wire_slots(snapshot: Snapshot, plan: Plan) -> Slots | None:
    """Write who has which slot and who waits; None for a workload that is no Deployment."""
    view, scope = snapshot.workload, snapshot.scope
    if view is None or view.rollout is None:
        return None
    shown = ((pod, pod.slot_of(scope)) for pod in snapshot.pods if pod.state is PodState.LIVE)
    held = {slot.given: pod.pod_name for pod, slot in shown if slot is not None and slot.given}
    kept = [f"{view.name}-{number}" for number in view.listed or ()]
    return Slots(
        held=len(held),
        kept=sum(slot not in held for slot in kept),
        pods=[f"{slot}: pod {pod}"[:MESSAGE_MAX] for slot, pod in sorted(held.items())[:SLOTS_SHOWN_MAX]],
        waiting=[
            f"pod {pod.pod_name} {_why(step, slot)}"[:MESSAGE_MAX]
            for pod, step, slot in plan.slots.waiting[:SLOTS_SHOWN_MAX]
        ],
    )


def _why(step: Step, slot: str) -> str:
    """Say what the next note of a pod does; one that waits on for a slot says it again."""
    return _WHY[Step.CLAIM if step is Step.WAIT and slot else step].format(slot=slot)
