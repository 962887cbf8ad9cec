"""Measure for how long members were away, from what a round sees (`api.absences` defines an absence).

Both ends of an absence are states, not events. The pod store keeps when the containers of each pod last ended, also of pods that are gone,
and a reading of the group shows who holds an id. Remembered is only since when an id is held and the first end since then. That is lost at
a restart or a hand-over; then the absences under way are lost, and none is invented.

In a group whose members must leave before a successor is let in (KIP-848, KIP-1071), a process that ended without leaving keeps its
successor out until the session expires. Such an absence is as long as the session, and a session as long as the absence would never stop
growing, so it counts as not measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...api.absences import UNSEEN_MS
from ..evidence.chain import KnownPod, PodState, holders
from ..group import GroupView
from ..ids.naming import Naming
from ..seats import Seat
from ..snapshot import Snapshot
from ..timeouts.desired import longest_restart_ms
from .readings import Return
from .samples import Cause, Reservoir, Sample, lot_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of a process that may have held an id.

    Parameters
    ----------
    at_ms: when it ended by the node's clock, and never later than `seen_ms`, when the operator saw that; Unix milliseconds.
    run: id of the container that ended; "" when the pod vanished and no kubelet reported its end, so that only `seen_ms` is known.
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
    since_ms: a process that ended before began no absence that is measured: the group had the member then, or nobody watched.
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
    wanted: seats that the workload calls for; a member that nobody wants is not away for a restart, and nothing is remembered of it.
    returns: since the last reading.
    began_ms: before the group was described, Unix milliseconds.
    """
    # Step 1: the ends of processes, the present pods, and the members that have not left, where members must.
    ends, present = _ends_by_id(snapshot.known, naming), {p.pod_name: p for p in snapshot.known if p.object_present}
    group, returned = snapshot.group, {each.instance_id: each for each in returns}
    must_leave = isinstance(group, GroupView) and group.group_epoch is not None
    staying = {m.instance_id for m in group.members if not m.is_away} if isinstance(group, GroupView) and must_leave else ()
    after, reservoirs, fresh = {}, dict(kept), Following(since_ms=began_ms)
    for seat in wanted:
        # Step 2: the return. It follows on another one whose end never came.
        now = before.get(seat.key, fresh)
        if seat.key in returned:
            now = replace(now, since_ms=now.back.hi_ms if now.back is not None else now.since_ms, back=returned[seat.key])

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
                reservoirs[cause] = _with_absence(reservoirs.get(cause, Reservoir()), end, back, cause, snapshot, is_released=not now.is_unreleased)
            now = Following(since_ms=back.hi_ms, end=end if end.at_ms > back.hi_ms else None)

        # Step 5: a member that is in the group although its process was over before the group was described keeps its successor out.
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
                end = ProcessEnd(at_ms=int(at_s * 1000), seen_ms=int(seen_s * 1000), pod_uid=pod.uid, revision=pod.revision, run=run)
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
    """Return what is kept after an absence; one that is longer than any restart waited for a node, an image or a person."""
    is_seen = bool(end.run) and end.seen_ms - end.at_ms <= UNSEEN_MS and back.hi_ms - max(back.lo_ms, end.at_ms) <= UNSEEN_MS
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
