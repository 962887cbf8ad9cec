"""A classic group becomes a group of the draft, and back (item 75)."""

from __future__ import annotations

from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks

from ..messages import ClassicConnectGroup, ClassicConnectMember
from ..metadata import classic_allocation, worker_url
from ..records import (
    Assignor,
    ClassicWorker,
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecordType,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
    TargetMember,
)
from .effects import ASSIGNMENT, MEMBER_TIMERS, Effects
from .group import ConnectGroup

COOPERATIVE = "cooperative"
EAGER = "eager"


def classic_assignors(protocols: tuple[tuple[str, bytes], ...]) -> tuple[Assignor, ...]:
    """Express the protocols a worker of the old kind offers as assignors with version ranges.

    The eager protocol is version 0, the two cooperative ones 1 and 2 ("currently it's between 0-2", item 63).
    """
    modes = {ConnectProtocolCompatibility.from_protocol(name): data for name, data in protocols}
    cooperative = [mode for mode in modes if mode is not ConnectProtocolCompatibility.EAGER]
    assignors = []
    if cooperative:
        newest = max(cooperative, key=lambda mode: mode.version)
        assignors.append(Assignor(COOPERATIVE, 1, newest.version, 0, newest.version, modes[newest]))
    if ConnectProtocolCompatibility.EAGER in modes:
        assignors.append(Assignor(EAGER, 0, 0, 0, 0, modes[ConnectProtocolCompatibility.EAGER]))
    return tuple(assignors)


def _runs(member: ClassicConnectMember) -> ConnectorsAndTasks:
    """What a worker of a stable classic group runs: what it kept through the last round and what that added."""
    if not member.assignment:
        return NOTHING
    last = decode_assignment(member.assignment)
    if last.failed:
        return NOTHING
    kept = NOTHING if last.version == 0 else classic_allocation(member.protocols[0][1])
    return kept.minus(last.revoked).plus(last.assigned)


def upgrade(fx: Effects, classic: ClassicConnectGroup) -> None:
    """Write the records of a stable classic group as a group of the draft; the caller ends the classic one.

    Group and assignment epoch are the generation, and so is each worker's epoch; target and current assignment are
    what the workers run. Work whose worker is gone is not known here: no worker of the old protocol reports what is
    configured, so it shows with the first worker of the new one.
    """
    group = fx.group(classic.group_id)
    runs = {member.member_id: _runs(member) for member in classic.members}
    everything = ConnectorsAndTasks.union(runs.values()).sorted()
    epoch = classic.generation_id
    for member in classic.members:
        metadata = MemberMetadata(
            group_epoch=epoch,
            instance_id=None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            assignors=classic_assignors(member.protocols),
            classic=ClassicWorker(member.session_timeout_ms, member.protocols),
        )
        fx.put_member(group, member.member_id, metadata)
        fx.put_current(
            group,
            member.member_id,
            CurrentMemberAssignment(epoch, epoch, 0, runs[member.member_id]),
        )
        fx.arm_session(group, member.member_id)
        group.memory.reported[member.member_id] = runs[member.member_id]
    fx.append(group, DraftRecordType.CONNECTORS_TASKS_METADATA, ConnectorsTasksMetadata(epoch, everything, -1))
    members = tuple(TargetMember(member_id, 0, work) for member_id, work in sorted(runs.items()))
    fx.append(group, DraftRecordType.TARGET_ASSIGNMENT, TargetAssignment(epoch, 0, members))
    fx.append(group, DraftRecordType.GROUP_METADATA, GroupMetadata(epoch))


def downgrade(fx: Effects, group: ConnectGroup) -> None:
    """End a group in which only workers of the old protocol are left; the step's result carries it as a classic one.

    Its generation is the group epoch. A worker's assignment is what it may run; the classic coordinator that takes
    over starts a round, in which each reports what it really runs.
    """
    member_ids = sorted(group.members)
    leader = member_ids[0]
    workers = {member_id: group.members[member_id] for member_id in member_ids}
    modes = [
        {ConnectProtocolCompatibility.from_protocol(name) for name, _ in worker.classic.protocols}
        for worker in workers.values()
        if worker.classic
    ]
    mode = max(set.intersection(*modes), key=lambda m: m.version)
    members = []
    for member_id, worker in workers.items():
        assert worker.classic is not None
        protocols = worker.classic.protocols
        assignment = Assignment(
            version=mode.version,
            error=AssignmentError.NO_ERROR,
            leader=leader,
            leader_url=worker_url(workers[leader].assignors[0].metadata),
            config_offset=decode_metadata(protocols[0][1]).config_offset,
            assigned=group.current_of(member_id).assigned,
        )
        members.append(
            ClassicConnectMember(
                member_id=member_id,
                client_id=worker.client_id,
                client_host=worker.client_host,
                session_timeout_ms=worker.classic.session_timeout_ms,
                rebalance_timeout_ms=worker.rebalance_timeout_ms,
                protocols=protocols,
                assignment=encode_assignment(assignment),
            )
        )
    fx.downgraded = ClassicConnectGroup(group.group_id, group.epoch, mode.protocol, tuple(members))
    _end(fx, group)


def _end(fx: Effects, group: ConnectGroup) -> None:
    """Write tombstones for every key of the group and drop its timers."""
    for member_id in sorted(group.members):
        fx.drop_member(group, member_id)
        for kind in MEMBER_TIMERS:
            fx.cancel(kind, group, member_id)
    fx.cancel(ASSIGNMENT, group)
    for record_type in (
        DraftRecordType.GROUP_CONFIGURATION,
        DraftRecordType.TARGET_ASSIGNMENT,
        DraftRecordType.CONNECTORS_TASKS_METADATA,
        DraftRecordType.GROUP_METADATA,
    ):
        fx.append(group, record_type, None)
