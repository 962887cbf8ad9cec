"""What was announced for a classic group, and what it changes about a rebalance; in no Kafka (see `future`).

Source: KIP-345, section Future Works, items 1 and 2.
"""

from __future__ import annotations

from ..base.errors import ErrorCode
from ..base.result import Step
from ..base.shard import GroupPlan, Shard
from .group import STABLE, ClassicGroup
from .member import ClassicMember, new_member


def is_complete(group: ClassicGroup, plan: GroupPlan) -> bool:
    """Return whether exactly the announced members are present, held joins included."""
    return frozenset(group.static_members) | frozenset(plan.held) == plan.expected


def close(step: Step, group: ClassicGroup, plan: GroupPlan) -> None:
    """Wait for the announced set no longer."""
    step.cancel(("classic-plan", group.group_id))
    plan.expected = frozenset()


def absorbs_removal(shard: Shard, step: Step, group: ClassicGroup, removed: list[ClassicMember]) -> bool:
    """Return whether the group goes on without a rebalance although it has lost these members."""
    plan = shard.plans.get(group.group_id)
    if plan is None or group.state != STABLE:
        return False
    if plan.expected and all(m.is_static and m.group_instance_id not in plan.expected for m in removed):
        plan.rebalance_due = True
        if not is_complete(group, plan):
            return True
        close(step, group, plan)
        return False
    lost = [m for m in removed if m.assignment]
    if plan.target_size == 0 or len(lost) > len(group.standbys):
        return False
    _swap(shard, step, group, lost)
    return True


def admits_standby(shard: Shard, step: Step, group: ClassicGroup, member: ClassicMember) -> bool:
    """Return whether a newcomer was taken in as a standby, in the generation that runs."""
    plan = shard.plans.get(group.group_id)
    if plan is None or plan.target_size == 0 or group.state != STABLE:
        return False
    if len(group.members) - len(group.standbys) < plan.target_size:
        return False
    if not any(p.name == group.protocol_name for p in member.protocols):
        return False
    member.is_new = False
    group.add(member)
    group.standbys.add(member.member_id)
    step.arm(("classic-session", group.group_id, member.member_id), member.session_timeout_ms)
    if shard.append(step, group.metadata_record()) is not ErrorCode.NONE:
        group.remove(member.member_id)
        return False
    return True


def before_rebalance(shard: Shard, step: Step, group: ClassicGroup) -> None:
    """Take the members that were set aside into the round that begins."""
    group.swapped.clear()
    plan = shard.plans.get(group.group_id)
    if plan is None:
        return
    plan.rebalance_due = False
    for instance_id, (request, ticket) in plan.held.items():
        member = new_member(request, instance_id, f"{instance_id}-{step.new_uuid()}")
        group.add(member, ticket)
        key = ("classic-session", group.group_id, member.member_id)
        step.arm(key, step.settings.new_member_join_timeout_ms)
    plan.held.clear()


def choose_standbys(shard: Shard, group: ClassicGroup) -> None:
    """Choose the standbys of the next generation: members beyond the target size, leader and old members last."""
    plan = shard.plans.get(group.group_id)
    group.standbys = set()
    if plan is None or plan.target_size == 0:
        return
    by_claim = sorted(group.members.values(), key=lambda m: (m.member_id != group.leader, not m.assignment))
    group.standbys = {m.member_id for m in by_claim[plan.target_size :]}


def _swap(shard: Shard, step: Step, group: ClassicGroup, lost: list[ClassicMember]) -> None:
    waiting = [m for m in group.members.values() if m.member_id in group.standbys]
    for gone, standby in zip(lost, waiting, strict=False):
        standby.assignment = gone.assignment
        group.standbys.discard(standby.member_id)
        group.swapped.add(standby.member_id)
    shard.append(step, group.metadata_record())
