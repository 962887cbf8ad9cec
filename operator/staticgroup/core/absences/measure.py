"""What two readings of a group show: how often it rebalanced in between, which members returned, and after how long.

A KIP-848 group numbers its rebalances by its epoch. A classic group does not show its generation (DescribeGroups), so
a rebalance of one is known by the members before and after it, and two between two readings are one.

Both ends of an absence (`api.absences` defines it) are states, not events. The pod store keeps when the containers of
each pod last ended, also of pods that are gone, and a reading of the group shows who holds an id. Remembered is only
since when an id is held and the first end since then. That is lost at a restart or a hand-over; then the absences under
way are lost, and none is invented.

In a group whose members must leave before a successor is let in (KIP-848, KIP-1071), a process that ended without
leaving keeps its successor out until the session expires. Such an absence is as long as the session, and a session as
long as the absence would never stop growing, so it counts as not measured.
Sources: KIP-848 (group epoch); KIP-345 (a static rejoin into a stable group does not rebalance it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.absences import UNSEEN_MS
from ..evidence.chain import KnownPod, PodState, holders
from ..group import GroupType, GroupView, MemberView
from ..ids.naming import Naming
from ..seats import Seat, SeatTable
from ..snapshot import Snapshot
from ..timeouts.desired import longest_restart_ms
from .samples import Cause, Reservoir, Sample, lot_of

BEFORE_FIRST_EPOCH: Final = 1
"""A new KIP-848 group begins with epoch 2 since Kafka 4.3 (KAFKA-20268), with 1 before: 1 may never have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the last complete reading of a group showed, and what of earlier ones still counts.

    Parameters
    ----------
    began_ms: before the group was described, Unix milliseconds.
    settled_ms: `began_ms` of the last reading that saw it settled; None: none did.
    settled: its members then, each as (instance id or "", member id, what it held or None where unknown).
    was_unsettled: a rebalance was in flight at a reading since.
    rebalances: how many were seen.
    holders: per id of ours its member id, and how many rebalances had been seen when it was last described.
    """

    group_type: GroupType
    state: str
    epoch: int | None
    began_ms: int
    settled_ms: int | None = None
    settled: tuple[tuple[str, str, int | None], ...] = ()
    was_unsettled: bool = False
    rebalances: int = 0
    holders: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, int | None]:
        """Return what each member held when it was settled, static ones by instance id."""
        return {instance_id or member_id: share for instance_id, member_id, share in self.settled}

    def seen_again(self, began_ms: int) -> Reading:
        """Return it after a reading, begun at `began_ms`, that showed the same: what changes next does after that."""
        settled_ms = began_ms if self.settled_ms == self.began_ms else self.settled_ms
        return replace(self, began_ms=began_ms, settled_ms=settled_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Another member holds an id of ours than at the reading before.

    Parameters
    ----------
    previous_member_id: the holder before; "" when none is known.
    lo_ms, hi_ms: between which times the group had the new one first, Unix milliseconds.
    is_absorbed: the group did not rebalance for it.
    """

    instance_id: str
    member_id: str
    previous_member_id: str
    lo_ms: int
    hi_ms: int
    is_absorbed: bool


def read_again(
    last: Reading | None, group: GroupView, naming: Naming | None, table: SeatTable | None, *, began_ms: int,
    ended_ms: int,
) -> tuple[Reading, tuple[Return, ...]]:
    """Compare a reading with the last one.

    Parameters
    ----------
    last: None: there was none, so nothing is known to have changed.
    naming, table: which ids are ours and wanted; None while that is not known.
    began_ms, ended_ms: before the group was described and after, Unix milliseconds.

    Returns
    -------
    What to remember of this reading, and a return for each of our ids that another member holds than before. An id with
    two members is a wrong reading.
    """
    # Step 1: the rebalances since then, and what the group was when it was last settled.
    before = comparable(last, group)
    rebalances = (last.rebalances if last is not None else 0) + rebalances_since(before, group)
    known = last.holders if last is not None else {}
    earlier = (before.settled_ms, before.settled) if before is not None else (None, ())
    settled_ms, settled = (began_ms, held_by_members(group)) if is_settled(group) else earlier
    now = Reading(
        group_type=group.group_type,
        state=group.state,
        epoch=group.group_epoch,
        began_ms=began_ms,
        settled_ms=settled_ms,
        settled=settled,
        was_unsettled=not is_settled(group),
        rebalances=rebalances,
        holders=known,
    )
    if naming is None or table is None:
        return now, ()

    # Step 2: who holds our ids. A holder that was replaced twice between two readings returned once.
    holders = {seat.key: known[seat.key] for seat in table.wanted if seat.key in known}
    is_quiet = group.group_epoch is not None or is_settled(group)  # an epoch shows a rebalance at once
    returns = []
    for member in group.members:
        instance_id = member.instance_id
        if instance_id is None or instance_id in table.duplicates or naming.ordinal_of(instance_id) is None:
            continue
        previous_id, seen_rebalances = known.get(instance_id, ("", -1))
        if last is not None and previous_id != member.member_id:
            returns.append(
                Return(
                    instance_id=instance_id,
                    member_id=member.member_id,
                    previous_member_id=previous_id,
                    lo_ms=last.began_ms,
                    hi_ms=ended_ms,
                    is_absorbed=is_quiet and seen_rebalances == rebalances,
                )
            )
        holders[instance_id] = (member.member_id, rebalances)
    return replace(now, holders=holders), tuple(returns)


def comparable(last: Reading | None, group: GroupView) -> Reading | None:
    """Return what to compare a reading with; None after a conversion of the protocol, whose rebalances do not count.

    A group that did not exist was one before its first certain epoch.
    """
    if last is None or last.group_type is group.group_type:
        return last
    if last.group_type is GroupType.ABSENT:
        return replace(last, epoch=None if group.group_epoch is None else BEFORE_FIRST_EPOCH)
    return last if group.group_type is GroupType.ABSENT and last.epoch is None else None


def rebalances_since(before: Reading | None, group: GroupView) -> int:
    """Count the rebalances that a reading shows; of a classic group at most one, once it has settled."""
    if before is None:
        return 0
    if before.epoch is not None:
        return max(0, (group.group_epoch or 0) - before.epoch)
    is_other = before.settled_ms is not None and before.shares != shares_of(group)
    return int(is_settled(group) and (before.was_unsettled or is_other))


def is_settled(group: GroupView) -> bool:
    """Whether no rebalance is on its way, as far as the state shows."""
    return group.is_settled or group.group_type is GroupType.ABSENT


def shares_of(group: GroupView) -> dict[str, int | None]:
    """Return how much each member holds; an instance id cannot be a member.id of another member in practice."""
    return {m.instance_id or m.member_id: _share(m) for m in group.members}


def held_by_members(group: GroupView) -> tuple[tuple[str, str, int | None], ...]:
    """Return the members as `Reading.settled` has them."""
    return tuple((m.instance_id or "", m.member_id, _share(m)) for m in group.members)


def _share(member: MemberView) -> int | None:
    """Return the partitions of a member, or the connectors and tasks of a Connect worker."""
    worker = member.worker
    if worker is None:
        return member.assigned_partitions
    return None if worker.connectors is None or worker.tasks is None else worker.connectors + worker.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of a process that may have held an id.

    Parameters
    ----------
    at_ms: when it ended by the node's clock, at most `seen_ms`, when the operator saw that; Unix milliseconds.
    run: id of the container that ended; "" when the pod vanished without a kubelet's report: only `seen_ms` is known.
    """

    at_ms: int
    seen_ms: int
    pod_uid: str
    revision: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What is remembered of one wanted id between rounds.

    Parameters
    ----------
    since_ms: an earlier end began no measured absence: the group had the member then, or was not watched.
    end: the first end of a process since then; None while none is known.
    back: the return of a member whose process is not known to have ended yet; pod statuses may be later than the group.
    is_unreleased: after the end the member had not left.
    """

    since_ms: int
    end: ProcessEnd | None = None
    back: Return | None = None
    is_unreleased: bool = False


def measure(
    before: Mapping[str, Following],
    kept: Mapping[Cause, Reservoir],
    snapshot: Snapshot,
    naming: Naming,
    wanted: Iterable[Seat],
    returns: Iterable[Return],
    *,
    began_ms: int,
) -> tuple[Mapping[str, Following], Mapping[Cause, Reservoir]]:
    """Add what one round saw.

    Parameters
    ----------
    before: of the last round. kept: the absences so far.
    wanted: seats that the workload calls for; a member of another one does not restart, so it is not remembered.
    returns: since the last reading.
    began_ms: before the group was described, Unix milliseconds.
    """
    # Step 1: the ends of processes, the present pods, and the members that have not left, where members must.
    ends, present = _ends_by_id(snapshot.known, naming), {p.pod_name: p for p in snapshot.known if p.object_present}
    group, returned = snapshot.group, {each.instance_id: each for each in returns}
    must_leave = isinstance(group, GroupView) and group.group_epoch is not None
    members = group.members if isinstance(group, GroupView) and must_leave else ()
    staying = {m.instance_id for m in members if not m.is_away}
    after, reservoirs, fresh = {}, dict(kept), Following(since_ms=began_ms)
    for seat in wanted:
        # Step 2: the return. It follows on another one whose end never came.
        now = before.get(seat.key, fresh)
        if seat.key in returned:
            since_ms = now.back.hi_ms if now.back is not None else now.since_ms
            now = replace(now, since_ms=since_ms, back=returned[seat.key])

        # Step 3: the first end since the member was in the group; a crash loop that never joins is one absence.
        if now.end is None:
            later = (end for end in ends.get(seat.key, ()) if end.at_ms > now.since_ms)
            end = min(later, key=lambda each: each.at_ms, default=None)
            now = replace(now, end=end) if end is not None else now

        # Step 4: with both known the absence is over, unless the end came after the return and so begins the next one.
        end, back = now.end, now.back
        if end is not None and back is not None:
            if end.at_ms <= back.hi_ms:
                cause = _cause(end, present.get(seat.pod_name))
                old, is_released = reservoirs.get(cause, Reservoir()), not now.is_unreleased
                reservoirs[cause] = _with_absence(old, end, back, cause, snapshot, is_released=is_released)
            now = Following(since_ms=back.hi_ms, end=end if end.at_ms > back.hi_ms else None)

        # Step 5: a member still in the group although its process ended before the describe keeps its successor out.
        if now.end is not None and now.end.seen_ms <= began_ms and seat.key in staying:
            now = replace(now, is_unreleased=True)
        after[seat.key] = now
    return after, reservoirs if reservoirs != kept else kept


def _ends_by_id(pods: Iterable[KnownPod], naming: Naming) -> Mapping[str, list[ProcessEnd]]:
    """Return the known ends of processes by the ids that they may have held."""
    found = defaultdict(list)
    for pod in pods:
        has_vanished = pod.state is PodState.SUSPECT and not pod.object_present
        if not has_vanished and all(each.end is None for each in pod.ends):
            continue
        for instance_id in naming.expand(pod).instance_ids:
            times = [
                (min(each.end.finished_at_s, each.end.received_at_s), each.end.received_at_s, each.end.container_id)
                for each in holders(pod.ends, instance_id)
                if each.end is not None
            ]
            for at_s, seen_s, run in times + ([(pod.since_s, pod.since_s, "")] if has_vanished else []):
                at_ms, seen_ms = int(at_s * 1000), int(seen_s * 1000)
                end = ProcessEnd(at_ms=at_ms, seen_ms=seen_ms, pod_uid=pod.uid, revision=pod.revision, run=run)
                found[instance_id].append(end)
    return found


def _cause(end: ProcessEnd, successor: KnownPod | None) -> Cause:
    """Return why a member was away; a pod that comes back under the same revision was taken away, as by an eviction."""
    if not end.run:
        return Cause.NODE_LOSS
    if successor is not None and successor.uid == end.pod_uid:
        return Cause.CRASH
    return Cause.DRAIN if successor is not None and successor.revision == end.revision else Cause.ROLLOUT


def _with_absence(
    kept: Reservoir, end: ProcessEnd, back: Return, cause: Cause, snapshot: Snapshot, *, is_released: bool
) -> Reservoir:
    """Return what is kept after an absence; one longer than any restart waited for a node, an image or a person."""
    is_end_seen = bool(end.run) and end.seen_ms - end.at_ms <= UNSEEN_MS
    is_seen = is_end_seen and back.hi_ms - max(back.lo_ms, end.at_ms) <= UNSEEN_MS
    longest_ms = back.hi_ms - end.at_ms
    if not is_seen or not is_released or longest_ms > longest_restart_ms(snapshot.workload):
        return kept.with_unmeasured()
    return kept.with_sample(
        Sample(
            at_s=back.hi_ms // 1000,
            lot=lot_of(snapshot.uid, end.pod_uid, end.run if cause is Cause.CRASH else ""),
            longest_ms=longest_ms,
            shortest_ms=max(0, back.lo_ms - end.seen_ms),
        )
    )
