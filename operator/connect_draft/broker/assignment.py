"""Choosing the worker that assigns, and the two requests it does it with (items 66, 69 to 72, 81, 82)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ConnectorsAndTasks

from ..errors import DraftErrorCode, require
from ..messages import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    PreparedMember,
)
from ..records import DraftRecordType, TargetAssignment, TargetMember
from .effects import ASSIGNMENT, Effects
from .group import ConnectGroup, Prepared
from .membership import able_to_compute, offered_by
from .selection import able_workers, select_assignor
from .validation import check_assignment_request


def choose(fx: Effects, group: ConnectGroup) -> None:
    """Pick the worker that computes, if a new assignment is wanted and no able worker is picked.

    Item 70: with the sticky switch it is the worker that assigned last, which alone remembers a running delay; it is
    kept in the group's metadata record, so a new coordinator picks the same one. Otherwise the first by id.
    """
    memory = group.memory
    if group.epoch <= group.target.assignment_epoch:
        return
    offered = offered_by(group)
    assignor = select_assignor(offered)
    able = able_workers(assignor, offered, able_to_compute(group)) if assignor is not None else []
    if memory.chosen in able:
        return
    memory.chosen = None
    fx.cancel(ASSIGNMENT, group)
    if not able:
        return
    if not set(able) - memory.declined:
        memory.declined.clear()
    willing = [member_id for member_id in able if member_id not in memory.declined]
    last = group.metadata.assignor_worker
    memory.chosen = last if fx.settings.sticky_assignor_worker and last in willing else willing[0]


def tell_to_compute(fx: Effects, group: ConnectGroup) -> DraftErrorCode:
    """Return the error that tells the chosen worker so; from the first time on its rebalance timeout runs.

    "The worker should finish the assignment within rebalance.timeout.ms" does not say what else happens: here another
    worker is picked, and the slow one stays a member.
    """
    chosen = group.memory.chosen or ""
    if not fx.is_armed(ASSIGNMENT, group):
        fx.arm(ASSIGNMENT, group, "", group.members[chosen].rebalance_timeout_ms)
    return DraftErrorCode.COMPUTE_ASSIGNMENT


def decline(fx: Effects, group: ConnectGroup) -> None:
    """Give up on the chosen worker and pick another."""
    if group.memory.chosen is not None:
        group.memory.declined.add(group.memory.chosen)
        group.memory.chosen = None
        choose(fx, group)


def _check_chosen(
    fx: Effects, request: ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest
) -> ConnectGroup:
    """Rules 1 to 4, alike in both requests; a wrong epoch does not remove the worker here."""
    check_assignment_request(request)
    group = fx.groups.get(request.group_id)
    require(group is not None, ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    assert group is not None
    require(request.member_id in group.members, ErrorCode.UNKNOWN_MEMBER_ID, "unknown worker")
    epoch = group.current_of(request.member_id).member_epoch
    require(request.member_epoch == epoch, ErrorCode.FENCED_MEMBER_EPOCH, f"the worker's epoch is {epoch}")
    chosen = group.memory.chosen == request.member_id
    require(chosen, ErrorCode.UNKNOWN_MEMBER_ID, "another worker computes the assignment, or none is wanted")
    return group


def prepare(fx: Effects, request: ConnectGroupPrepareAssignmentRequest) -> ConnectGroupPrepareAssignmentResponse:
    """Hand the chosen worker what it needs, and remember it: its assignment is held against just this (item 81)."""
    group = _check_chosen(fx, request)
    assignor = select_assignor(offered_by(group))
    assert assignor is not None, "a worker is chosen only for an assignor"
    prepared = _snapshot(group)
    group.memory.prepared[group.epoch] = prepared
    members = []
    for member_id in sorted(group.members):
        member = group.members[member_id]
        offered = next(a for a in member.assignors if a.name == assignor)
        members.append(
            PreparedMember(
                member_id=member_id,
                member_epoch=group.current_of(member_id).member_epoch,
                instance_id=member.instance_id,
                version=offered.version,
                reason=offered.reason,
                metadata=offered.metadata,
                work=group.target_of(member_id),
            )
        )
    return ConnectGroupPrepareAssignmentResponse(
        group_epoch=group.epoch,
        assignor_name=assignor,
        members=tuple(members),
        configured=prepared.configured,
        held_back=prepared.held_back,
    )


def _snapshot(group: ConnectGroup) -> Prepared:
    return Prepared(frozenset(group.members), group.connectors.work, group.held_back())


def install(fx: Effects, request: ConnectGroupInstallAssignmentRequest) -> ConnectGroupInstallAssignmentResponse:
    """Make an assignment the target, for the group epoch it was computed from (item 82).

    The group may be at a newer epoch by now; then another assignment is wanted right after. An assignment that says
    it failed leaves each worker its work and moves the epoch only (item 72), so that it isn't asked for again.
    """
    group = _check_chosen(fx, request)
    prepared = group.memory.prepared.get(request.group_epoch)
    if prepared is None and request.group_epoch == group.epoch:
        prepared = _snapshot(group)
    require(prepared is not None, DraftErrorCode.INVALID_ASSIGNMENT, "computed from an unknown group epoch")
    assert prepared is not None
    if request.error:
        target = replace(group.target, assignment_epoch=request.group_epoch, error=request.error)
    else:
        missing = _check_assignment(request, prepared)
        target = TargetAssignment(
            assignment_epoch=request.group_epoch,
            error=0,
            members=tuple(
                TargetMember(m.member_id, 0, m.work, m.version, m.metadata)
                for m in sorted(request.members, key=lambda m: m.member_id)
            ),
            held_back=tuple((owner, left) for owner, work in prepared.held_back if (left := work.common(missing))),
        )
    fx.append(group, DraftRecordType.TARGET_ASSIGNMENT, target)
    if group.metadata.assignor_worker != request.member_id:
        metadata = replace(group.metadata, assignor_worker=request.member_id)
        fx.append(group, DraftRecordType.GROUP_METADATA, metadata)
    group.memory.chosen = None
    group.memory.declined.clear()
    group.memory.prepared.clear()
    fx.cancel(ASSIGNMENT, group)
    choose(fx, group)
    return ConnectGroupInstallAssignmentResponse()


def _check_assignment(request: ConnectGroupInstallAssignmentRequest, prepared: Prepared) -> ConnectorsAndTasks:
    """Refuse an assignment that breaks an invariant; returns what it leaves out of what may be left out (item 71)."""
    invalid = DraftErrorCode.INVALID_ASSIGNMENT
    workers = [member.member_id for member in request.members]
    require(set(workers) <= prepared.members, invalid, "a worker that is not in the group")
    require(len(workers) == len(set(workers)), invalid, "a worker is named twice")
    given = Counter(item for m in request.members for item in (*m.work.connectors, *m.work.tasks))
    twice = sorted(str(item) for item, count in given.items() if count > 1)
    require(not twice, invalid, f"assigned more than once: {twice}")
    assigned = ConnectorsAndTasks.union(member.work for member in request.members)
    require(assigned.within(prepared.configured), invalid, "something that is not configured")
    missing = prepared.configured.minus(assigned)
    may_wait = ConnectorsAndTasks.union(work for _, work in prepared.held_back)
    require(missing.within(may_wait), invalid, "not everything is assigned")
    return missing
