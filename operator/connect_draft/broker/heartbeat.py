"""ConnectGroupHeartbeat: joining, living, acknowledging and leaving (items 78 to 80)."""

from __future__ import annotations

from dataclasses import replace

from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks

from ..errors import DraftError, DraftErrorCode, require
from ..messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    HeartbeatAssignment,
)
from ..metadata import decode_worker_metadata
from ..records import Assignor, CurrentMemberAssignment, DraftRecordType, MemberMetadata
from .assignment import choose, tell_to_compute
from .effects import Effects
from .group import NEW_WORKER, ConnectGroup
from .membership import able_to_compute, offered_by, remove_member, update_configured
from .reconcile import acknowledge, advance
from .selection import fits_together
from .settings import HEARTBEAT_INTERVAL_CONFIG
from .validation import check_first_heartbeat, check_heartbeat


def heartbeat(fx: Effects, request: ConnectGroupHeartbeatRequest) -> ConnectGroupHeartbeatResponse:
    """Carry out one heartbeat in the order the draft gives: group, member, epoch, update, reconcile."""
    check_heartbeat(request, fx.settings)
    group = fx.group(request.group_id)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return _leave(fx, group, request)
    known = group.members.get(request.member_id)
    require(known is None or known.classic is None, ErrorCode.UNKNOWN_MEMBER_ID, "a worker of the old protocol")
    joining = _is_join(request, known)
    if joining:
        check_first_heartbeat(request)
        _check_assignors(group, request, known)
        known = _admit(fx, group, request, known)
    else:
        require(known is not None, ErrorCode.UNKNOWN_MEMBER_ID, "unknown worker; join with epoch 0")
        _check_epoch(fx, group, request)
        _check_assignors(group, request, known)
    _update(fx, group, request, known)
    fx.arm_session(group, request.member_id)
    fx.put_current(
        group,
        request.member_id,
        acknowledge(group.current_of(request.member_id), request.connectors_and_tasks),
    )
    choose(fx, group)
    if not joining and group.memory.chosen == request.member_id:
        return _answer(fx, group, request, tell_to_compute(fx, group))
    return _reconcile(fx, group, request)


def _is_join(request: ConnectGroupHeartbeatRequest, known: MemberMetadata | None) -> bool:
    """Epoch 0 joins, except for a worker that has been at epoch 0 since it joined and says nothing new.

    A process that starts again under its old id sets all fields and runs nothing (item 73: the draft says both "as a
    new member" and "with the same member id and the epoch 0"; the id stays).
    """
    if request.member_epoch != JOIN_EPOCH:
        return False
    fresh = request.rebalance_timeout_ms > 0 and request.connectors_and_tasks == NOTHING
    return known is None or fresh


def _admit(
    fx: Effects, group: ConnectGroup, request: ConnectGroupHeartbeatRequest, known: MemberMetadata | None
) -> MemberMetadata | None:
    """Let a worker in; returns what was known of it, or of the static worker it replaces."""
    if known is not None:
        fx.put_current(group, request.member_id, NEW_WORKER)
        _forget_delay(fx, group, request.member_id)
        return known
    if not fx.settings.static_workers or request.instance_id is None:
        return None
    for member_id, member in list(group.members.items()):
        if member.instance_id == request.instance_id:
            absent = group.current_of(member_id).member_epoch == LEAVE_STATIC_EPOCH
            require(absent, ErrorCode.UNRELEASED_INSTANCE_ID, f"{request.instance_id} is in use by {member_id}")
            _replace_static(fx, group, member_id, request.member_id)
            return member
    return None


def _forget_delay(fx: Effects, group: ConnectGroup, member_id: str) -> None:
    """Want a new assignment when the process that held work back, and alone knew until when, is gone.

    The draft keeps the delay in the worker that assigned. If that one dies its removal is a trigger, but if it is back
    under its id before its session ends nothing is, and the work would wait for ever (item 74).
    """
    if group.metadata.assignor_worker == member_id and group.target.held_back:
        fx.bump(group)


def _replace_static(fx: Effects, group: ConnectGroup, old_id: str, new_id: str) -> None:
    """Hand the place of an absent static worker to its next process: its member, its part of the target."""
    member = group.members[old_id]
    fx.drop_member(group, old_id)
    fx.put_member(group, new_id, member)
    members = tuple(replace(m, member_id=new_id) if m.member_id == old_id else m for m in group.target.members)
    if members != group.target.members:
        fx.append(group, DraftRecordType.TARGET_ASSIGNMENT, replace(group.target, members=members))


def _check_epoch(fx: Effects, group: ConnectGroup, request: ConnectGroupHeartbeatRequest) -> None:
    """Fence a worker whose epoch is not the one it should have.

    It may still be at the epoch before when the answer that moved it on was lost; then what it runs is part of what
    it was given, and it is given that again (item 79).
    """
    member = group.members[request.member_id]
    if fx.settings.static_workers and request.instance_id is not None:
        same = request.instance_id == member.instance_id
        require(same, ErrorCode.FENCED_INSTANCE_ID, "another instance id than at the join")
    current = group.current_of(request.member_id)
    if request.member_epoch == current.member_epoch:
        return
    owned = request.connectors_and_tasks
    if request.member_epoch == current.previous_epoch and owned is not None and owned.within(current.assigned):
        return
    if fx.settings.fenced_member_is_removed:
        remove_member(fx, group, request.member_id)
    raise DraftError(
        ErrorCode.FENCED_MEMBER_EPOCH, f"epoch {request.member_epoch} is not {current.member_epoch}; join again"
    )


def _update(
    fx: Effects, group: ConnectGroup, request: ConnectGroupHeartbeatRequest, known: MemberMetadata | None
) -> None:
    """Store what the worker says again; the epoch rises once if the group's metadata changed by it (item 65)."""
    assignors = request.client_assignors
    if assignors is None:
        assignors = known.assignors if known else ()
    timeout_ms = request.rebalance_timeout_ms
    member = MemberMetadata(
        group_epoch=group.epoch + 1 if known is None else known.group_epoch,
        instance_id=request.instance_id or (known.instance_id if known else None),
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=timeout_ms if timeout_ms > 0 or known is None else known.rebalance_timeout_ms,
        assignors=assignors,
    )
    changed = known is None or _is_trigger(known.assignors, assignors)
    if changed:
        member = replace(member, group_epoch=group.epoch + 1)
    fx.put_member(group, request.member_id, member)
    configured_changed = update_configured(fx, group, assignors)
    if changed or configured_changed:
        fx.bump(group)


def _check_assignors(
    group: ConnectGroup, request: ConnectGroupHeartbeatRequest, known: MemberMetadata | None
) -> None:
    """Refuse assignors that the server or other workers of the group do not support (UNSUPPORTED_ASSIGNOR)."""
    code = ErrorCode.UNSUPPORTED_ASSIGNOR
    named = request.server_assignor
    # Connect has no server-side assignors; the draft keeps the field (item 68).
    require(named is None, code, f"no server assignor {named}")
    if known is not None and request.client_assignors is None:
        return
    assignors = request.client_assignors or ()
    require(bool(assignors), code, "no client assignor")
    members = {**offered_by(group), request.member_id: assignors}
    fits = fits_together(members, {*able_to_compute(group), request.member_id})
    require(fits, code, "no assignor and worker that fit every worker of the group")


def _is_trigger(before: tuple[Assignor, ...], after: tuple[Assignor, ...]) -> bool:
    """Whether changed assignors call for a new assignment.

    A reason counts when it is given, not when it is taken back to 0: else every delayed rebalance would come twice
    (item 74). Metadata counts, except that reading what the group already knows is configured does not.
    """
    if [_without_news(a) for a in before] != [_without_news(a) for a in after]:
        return True
    return any(new.reason not in (0, old.reason) for old, new in zip(before, after, strict=True))


def _without_news(assignor: Assignor) -> tuple[Assignor, str]:
    return replace(assignor, reason=0, metadata=b""), decode_worker_metadata(assignor.metadata).url


def _reconcile(
    fx: Effects, group: ConnectGroup, request: ConnectGroupHeartbeatRequest
) -> ConnectGroupHeartbeatResponse:
    """Move the worker on, unless it sent this request before it got the answer with the last move.

    Two moves whose answers were lost in a row would leave a live worker two epochs behind, and fenced.
    """
    member_id = request.member_id
    target = group.target
    if request.member_epoch != group.current_of(member_id).member_epoch and request.member_epoch != JOIN_EPOCH:
        return _answer(fx, group, request, None)
    current = advance(
        group.current_of(member_id),
        group.target_of(member_id),
        target.assignment_epoch,
        target.error,
        group.held_by_others(member_id),
    )
    fx.put_current(group, member_id, current)
    return _answer(fx, group, request, None)


def _answer(
    fx: Effects,
    group: ConnectGroup,
    request: ConnectGroupHeartbeatRequest,
    error: DraftErrorCode | None,
) -> ConnectGroupHeartbeatResponse:
    current = group.current_of(request.member_id)
    behind = request.member_epoch < group.target.assignment_epoch
    return ConnectGroupHeartbeatResponse(
        error_code=error or ErrorCode.NONE,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=group.setting_ms(HEARTBEAT_INTERVAL_CONFIG, fx.settings.heartbeat_interval_ms),
        assignment=_assignment(group, request, current) if behind and error is None else None,
    )


def _assignment(
    group: ConnectGroup, request: ConnectGroupHeartbeatRequest, current: CurrentMemberAssignment
) -> HeartbeatAssignment:
    """All that the worker may run; while it must stop something, nothing it does not run yet (never both in one)."""
    work: ConnectorsAndTasks = current.assigned
    if current.revoking and request.connectors_and_tasks is not None:
        work = work.common(request.connectors_and_tasks)
    target = next((m for m in group.target.members if m.member_id == request.member_id), None)
    return HeartbeatAssignment(
        error=group.target.error,
        work=work,
        version=target.version if target else 0,
        metadata=target.metadata if target else b"",
    )


def _leave(fx: Effects, group: ConnectGroup, request: ConnectGroupHeartbeatRequest) -> ConnectGroupHeartbeatResponse:
    """Take a worker out for good, or a static one for a while; it has stopped everything before it says so.

    An absent static worker keeps its part of the target, so no other worker gets it, and its session keeps running;
    it ends as if it had died if it is not back in time (our extension, after KIP-848).
    """
    member = group.members.get(request.member_id)
    if member is None:
        raise DraftError(ErrorCode.UNKNOWN_MEMBER_ID, "unknown worker")
    if request.member_epoch == LEAVE_EPOCH:
        remove_member(fx, group, request.member_id)
        return ConnectGroupHeartbeatResponse(member_epoch=LEAVE_EPOCH)
    require(request.instance_id == member.instance_id, ErrorCode.FENCED_INSTANCE_ID, "another instance id")
    fx.put_current(group, request.member_id, replace(NEW_WORKER, member_epoch=LEAVE_STATIC_EPOCH))
    fx.arm_session(group, request.member_id)
    _forget_delay(fx, group, request.member_id)
    choose(fx, group)
    return ConnectGroupHeartbeatResponse(member_epoch=LEAVE_STATIC_EPOCH)
