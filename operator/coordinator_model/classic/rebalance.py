"""How a classic group rebalances: the join phase, its timers, and how members leave it.

Timers: ("classic-session", group, member), ("classic-join", group) and ("classic-sync", group).
Source: GroupMetadataManager of Kafka 4.4, from prepareRebalance to expirePendingSync.
"""

from __future__ import annotations

from ..base.errors import ErrorCode
from ..base.messages import JoinGroupResponse, SyncGroupResponse
from ..base.result import Step
from ..base.shard import Shard
from ..base.timers import TimerKey
from . import plans as classic_plans
from .group import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup
from .member import NO_MEMBER, ClassicMember


def arm_session(step: Step, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
    """Give a member its session in full (rescheduleClassicGroupMemberHeartbeat).

    Parameters
    ----------
    timeout_ms: another time than the member's session timeout.
    """
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    step.arm(("classic-session", group.group_id, member.member_id), delay_ms)


def cancel_session(step: Step, group: ClassicGroup, member_id: str) -> None:
    """Drop the session timer of a member or of a given-out id."""
    step.cancel(("classic-session", group.group_id, member_id))


def answer_join(step: Step, group: ClassicGroup, member: ClassicMember, response: JoinGroupResponse) -> None:
    """Answer the waiting JoinGroup of a member, if one waits."""
    if member.join_ticket is not None:
        step.complete(member.join_ticket, response)
        group.set_join_ticket(member, None)


def answer_sync(step: Step, member: ClassicMember, response: SyncGroupResponse) -> bool:
    """Answer the waiting SyncGroup of a member; returns False when none waits."""
    if member.sync_ticket is None:
        return False
    step.complete(member.sync_ticket, response)
    member.sync_ticket = None
    return True


def fail_waiting(step: Step, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every waiting JoinGroup and SyncGroup with an error, as an upgrade to a consumer group does."""
    for member in group.members.values():
        answer_join(step, group, member, JoinGroupResponse(error_code=error, member_id=member.member_id))
        answer_sync(step, member, SyncGroupResponse(error_code=error))


def join_response(group: ClassicGroup, member_id: str, *, with_members: bool, skip: bool = False) -> JoinGroupResponse:
    """Return the answer that admits a member to the current generation."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        skip_assignment=skip,
        member_id=member_id,
        members=group.current_members() if with_members else (),
    )


def rebalance_or_complete_join(shard: Shard, step: Step, group: ClassicGroup) -> None:
    """Start a rebalance where one may start, else see whether the running join phase is now complete."""
    if group.can_rebalance:
        prepare_rebalance(shard, step, group)
    else:
        maybe_complete_join(shard, step, group)


def prepare_rebalance(shard: Shard, step: Step, group: ClassicGroup) -> None:
    """Start a rebalance: from Empty with the initial delay, else until all members have joined or time is up.

    Source: GroupMetadataManager.prepareRebalance; group.initial.rebalance.delay.ms (KIP-134).
    """
    classic_plans.before_rebalance(shard, step, group)
    if group.state == COMPLETING_REBALANCE:
        reset_assignments(step, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.clear()
    step.cancel(("classic-sync", group.group_id))
    initial = group.state == EMPTY
    if initial:
        delay_ms = step.settings.group_initial_rebalance_delay_ms
        group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        step.arm(("classic-join", group.group_id), delay_ms)
    group.transition_to(PREPARING_REBALANCE, step.now_ms)
    if initial:
        return
    if group.has_all_members_joined:
        complete_join(shard, step, group)
    else:
        group.initial_delay = None
        step.arm(("classic-join", group.group_id), group.rebalance_timeout_ms)


def maybe_complete_join(shard: Shard, step: Step, group: ClassicGroup) -> None:
    """Complete the join phase if all have joined; the first rebalance of a group waits for its delay regardless."""
    if group.state == PREPARING_REBALANCE and group.previous_state != EMPTY and group.has_all_members_joined:
        complete_join(shard, step, group)


def complete_join(shard: Shard, step: Step, group: ClassicGroup) -> None:
    """End the join phase: absent dynamic members go, absent static ones stay, and a generation begins.

    When no member has joined, the phase goes on until sessions expire. Source: completeClassicGroupJoin (KIP-345: the
    rebalance timeout does not remove static members).
    """
    step.cancel(("classic-join", group.group_id))
    group.initial_delay = None
    for member in [m for m in group.members.values() if m.join_ticket is None and not m.is_static]:
        group.remove(member.member_id)
        cancel_session(step, group, member.member_id)
    if group.state == DEAD:
        return
    if not group.elect_joined_leader() and group.members:
        step.arm(("classic-join", group.group_id), group.rebalance_timeout_ms)
        return
    classic_plans.choose_standbys(shard, group)
    group.init_next_generation(step.now_ms)
    if group.state == EMPTY:
        shard.append(step, group.metadata_record())
        return
    for member in group.members.values():
        response = join_response(group, member.member_id, with_members=group.leader == member.member_id)
        answer_join(step, group, member, response)
        arm_session(step, group, member)
        member.is_new = False
        group.pending_sync_members.add(member.member_id)
    step.arm(("classic-sync", group.group_id), group.rebalance_timeout_ms)


def reset_assignments(step: Step, group: ClassicGroup, error: ErrorCode) -> None:
    """Forget the assignments and answer the waiting SyncGroups with an error."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(step, member, SyncGroupResponse(error_code=error)):
            arm_session(step, group, member)


def remove_waiting(step: Step, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member; its waiting JoinGroup, if any, gets UNKNOWN_MEMBER_ID, so that a live client tries again."""
    refused = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=NO_MEMBER)
    answer_join(step, group, member, refused)
    group.remove(member.member_id)


def rebalance_after_removal(shard: Shard, step: Step, group: ClassicGroup, removed: list[ClassicMember]) -> None:
    """Let a group in Stable or CompletingRebalance go on without these members: one rebalance, however many went."""
    if not classic_plans.absorbs_removal(shard, step, group, removed):
        rebalance_or_complete_join(shard, step, group)


def expire_session(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove a member whose session is over (expireClassicGroupMemberHeartbeat).

    A member whose JoinGroup or SyncGroup waits is alive; only one that never joined before expires all the same
    (new member timeout). A given-out id that was not used is dropped.
    """
    group = classic_group(shard, key[1])
    member_id = key[2]
    if group is None or group.state == DEAD:
        return
    if member_id in group.pending_members:
        group.remove(member_id)
        if group.state == PREPARING_REBALANCE and group.has_all_members_joined:
            complete_join(shard, step, group)
        return
    member = group.members.get(member_id)
    if member is not None and not member.has_satisfied_heartbeat:
        remove_waiting(step, group, member)
        if group.state in (STABLE, COMPLETING_REBALANCE):
            rebalance_after_removal(shard, step, group, [member])
        elif group.state == PREPARING_REBALANCE and group.has_all_members_joined:
            complete_join(shard, step, group)


def expire_join(shard: Shard, step: Step, key: TimerKey) -> None:
    """End the join phase when its time is up; the initial delay is extended first if members keep coming.

    Source: tryCompleteInitialRebalanceElseSchedule: in total not longer than the rebalance timeout.
    """
    group = classic_group(shard, key[1])
    if group is None:
        return
    if group.initial_delay is not None and group.new_member_added and group.initial_delay[1] != 0:
        delay_ms, remaining_ms = group.initial_delay
        group.new_member_added = False
        new_delay_ms = min(step.settings.group_initial_rebalance_delay_ms, remaining_ms)
        group.initial_delay = (new_delay_ms, max(remaining_ms - delay_ms, 0))
        step.arm(key, new_delay_ms)
        return
    complete_join(shard, step, group)


def expire_sync(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove the members that did not send SyncGroup within the rebalance timeout, static ones too, and rebalance.

    Source: expirePendingSync (KAFKA-13419).
    """
    group = classic_group(shard, key[1])
    if group is None or group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync_members:
        return
    for member_id in [m for m in group.members if m in group.pending_sync_members]:
        group.remove(member_id)
        cancel_session(step, group, member_id)
    prepare_rebalance(shard, step, group)


def classic_group(shard: Shard, group_id: str) -> ClassicGroup | None:
    """Return a group if it exists and is a classic one."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None
