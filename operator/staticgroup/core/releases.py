"""Crash release: which members are the ghosts of crashed processes, and what keeps one from being let go.

A static member of a KIP-848 or streams group that ends without leaving keeps its seat until its session expires, and
its own successor is refused meanwhile (UNRELEASED_INSTANCE_ID). A temporary leave with both of its ids lets the
successor in at once, with the same partitions. It may only be sent for a process that is dead:

* One live pod alone is left of those that were there when the member joined (`members.carriers`).
* The member was first described well before the end of a run of each container of that pod that can hold its id. So it
  belongs to that run or an earlier one, and of one container only the last run can live.

A crash that is not released is reported, with the reason, for as long as its session may last.
Source: KIP-848 and KIP-1071 (static membership, member epoch -2); consumerGroupLeave and streamsGroupLeave of
GroupMetadataManager, each a compare-and-set of both ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ..api import remedies
from ..api.injection import env_entries
from ..api.resources.client import ClientType
from ..api.resources.staticgroup import Mode, RemovalPolicy, StaticGroupSpec
from ..api.resources.status import IssueKind
from .evidence.chain import ContainerEnd, KnownPod, PodState, RunEnd, holders
from .findings import Finding, Subject
from .group import GroupView, LeaveCall, LeaveEntry, MemberView
from .guards import (
    TRANSIENT_GUARDS,
    Candidate,
    Hit,
    conflict,
    duplicate,
    no_barrier,
    not_read_afresh,
    pods_unseen,
    suspended,
    unscoped,
)
from .ids.naming import Naming, is_scope_refused, seat_name
from .protocols import protocol_of, role_of
from .seats import Seat, Standing, holders_of
from .snapshot import NOTHING_REMEMBERED, CrashRecord, History, SeatMemory, Snapshot

MARGIN_S: Final = 10.0
"""A member was described so long before a run ended, for the clocks of the operator and the node may differ."""
SESSION_MAX_S: Final = 60.0
"""Longest session that a stock broker allows (group.consumer.max.session.timeout.ms, the same for streams groups)."""


class ReleaseGuard(StrEnum):
    """Names of the guards that only releases have; the value is the reason in status and `explain`."""

    PROCESS_MAY_LIVE = "ProcessMayLive"
    END_DOUBTED = "EndDoubted"
    OTHER_PROCESS = "OtherProcessPossible"
    RELEASED_BEFORE = "ReleasedBefore"
    POD_REPLACED = "PodReplaced"
    NOT_WANTED = "NotWanted"
    REPORT_ONLY = "LockedOut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(Candidate):
    """One member whose process is over, or may be, as far as the runs of its pod's containers show.

    Parameters
    ----------
    pod: the one live pod of the seat. runs: each of its containers that can hold the id, with its newest end.
    member_since_s: when the member was described first, operator's clock, seconds since the Unix epoch.
    by: the call that lets a member of such a group leave for a while.
    """

    by: LeaveCall
    pod: KnownPod
    runs: tuple[ContainerEnd, ...]
    member_since_s: float

    @property
    def ends(self) -> tuple[RunEnd, ...]:
        """Of each of these containers the newest end that is known."""
        return tuple(run.end for run in self.runs if run.end is not None)

    @property
    def is_over(self) -> bool:
        """Whether no process of the pod can be the member's any more."""
        return _is_over(self.runs, self.member_since_s)

    @property
    def record(self) -> CrashRecord:
        """The first end that may have been that of the member's process; anew when what was doubted is proven."""
        known = self.seat.memory.crash
        if known is not None and known.member_id == self.member.member_id and known.is_over >= self.is_over:
            return known
        return CrashRecord(member_id=self.member.member_id, ended_at_s=self.ended_at_s, is_over=self.is_over)

    @property
    def ended_at_s(self) -> float:
        """When the last of the runs ended by the node's clock, seconds since the Unix epoch."""
        return max(end.finished_at_s for end in self.ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One crashed member to let go for a while, with the evidence that allows it; `by` is the call that does it."""

    entry: LeaveEntry
    by: LeaveCall
    ordinal: int
    pod: KnownPod
    ends: tuple[RunEnd, ...]
    evidence: str


def find_crashes(
    spec: StaticGroupSpec, naming: Naming, expected: Mapping[str, int], snapshot: Snapshot, group: GroupView,
    history: History, now_s: float,
) -> tuple[Crash, ...]:
    """Return the members of wanted seats that may be of a run that is over, each with the round it was seen in.

    Parameters
    ----------
    history: with the members as described now.

    Notes
    -----
    A member whose process may live is left alone once its session would have expired since the last end: then it lives.
    """
    by = protocol_of(group).released_by
    live = (pod for pod in snapshot.pods if pod.state is PodState.LIVE)
    pods = {seat_name(pod, naming.scope): pod for pod in live if any(each.end is not None for each in pod.ends)}
    if not pods or by is None or not role_of(spec).may_be_in(group):
        return ()
    held, session_s = holders_of(group), _session_s(snapshot, group)
    found = []
    for key, ordinal in expected.items():
        pod, members = pods.get(f"{naming.schemes[0].workload_name}-{ordinal}"), held.get(key)
        if pod is None or not members or key not in pod.instance_ids:
            continue
        runs, since_s = holders(pod.ends, key), history.members.first_seen_s(key, members[0].member_id)
        if since_s is None or not _may_be_over(runs, members[0], since_s):
            continue
        crash = Crash(
            seat=Seat(
                key=key, ordinal=naming.ordinals_of(key)[0], pod_name=pod.pod_name,
                pod_names=(pod.pod_name,) if pod.slots else naming.pod_names_of(key),
                standing=Standing.LOCKED_OUT, holders=tuple(members),
                memory=history.seats.get(key, NOTHING_REMEMBERED),
            ),
            member=members[0], group=group, spec=spec,
            snapshot=snapshot, attribution=history.members.attribution(key, members[0].member_id), history=history,
            is_scoped=naming.is_scoped(key) and not is_scope_refused(naming.scope, snapshot),
            issues_scoped=naming.issues_scoped, now_s=now_s, by=by, pod=pod, runs=runs, member_since_s=since_s,
        )  # fmt: skip
        if crash.is_over or now_s <= crash.ended_at_s + session_s + MARGIN_S:
            found.append(crash)
    return tuple(found)


def with_reads(crashes: Iterable[Crash], snapshot: Snapshot) -> tuple[Crash, ...]:
    """Return the crashes with what was read since and the pods as the watch shows them now, without pods that ended."""
    found = []
    for crash in crashes:
        evidence = snapshot.evidence.get(crash.seat.key)
        seat, pod = replace(crash.seat, evidence=evidence), crash.pod
        if evidence is not None:
            now = next((p for p in evidence.chain if p.uid == pod.uid), None)
            if now is None or now.state is not PodState.LIVE:
                continue
            pod = now
        found.append(replace(crash, seat=seat, pod=pod, runs=holders(pod.ends, seat.key), snapshot=snapshot))
    return tuple(found)


def _may_be_over(runs: tuple[ContainerEnd, ...], member: MemberView, since_s: float) -> bool:
    """True when a member is in the group and was described before a run of a container that can hold its id ended."""
    if member.member_epoch is None or member.is_away:
        return False
    return any(run.end is not None and since_s < run.end.finished_at_s for run in runs)


def _is_over(runs: tuple[ContainerEnd, ...], since_s: float) -> bool:
    """True when a member was described well before a run of each container ended that can hold its id."""
    return bool(runs) and all(run.end is not None and since_s + MARGIN_S < run.end.finished_at_s for run in runs)


def process_may_live(c: Crash) -> Hit | None:
    """Hold unless a run of every container that can hold the id ended well after the member was described.

    An application that brings its ids may do so in any container, whatever another one shows. So may one whose ids are
    injected from its next restart on: the container that is to get the id has to be among those that ended.
    """
    if c.spec.client.type is ClientType.OWN:
        sentence = "client.type is Own, so it is not known which container has the id"
        return Hit(ReleaseGuard.PROCESS_MAY_LIVE, sentence)
    injected = c.history.injected.container if c.history.injected is not None else ""
    given = {entry.container or injected for entry in env_entries(c.spec.client)}
    if given.isdisjoint(run.container for run in c.runs):
        sentence = f"container {min(given)} should have this id, and does not show it"
        return Hit(ReleaseGuard.PROCESS_MAY_LIVE, sentence)
    if c.is_over:
        return None
    going = next((run.container for run in c.runs if run.end is None or run.end.finished_at_s <= c.member_since_s), "")
    if going:
        sentence = f"container {going} can hold this id too, and may still run"
    else:
        sentence = f"the member was first seen less than {MARGIN_S:g} s before that, and clocks differ"
    return Hit(ReleaseGuard.PROCESS_MAY_LIVE, sentence)


def end_doubted(c: Crash) -> Hit | None:
    """Hold when something stands against the end of a run, or against the clock that dates it."""
    doubt = next((end.doubt for end in c.ends if end.doubt), "")
    return Hit(ReleaseGuard.END_DOUBTED, doubt) if doubt else None


def other_process(c: Crash) -> Hit | None:
    """Hold unless the pod is the only one left of those there when the member joined, with none of its runs lost."""
    # A live pod is a suspect for a lost run, and stays one when an operator began after the object showed it.
    has_lost_run = c.pod.has_lost_run or any(s.uid == c.pod.uid for s in c.history.members.suspects)
    if c.attribution is not None and c.attribution.carriers == {c.pod.uid} and not has_lost_run:
        return None
    lost = "the kubelet lost a container of the pod, which may run"
    return Hit(ReleaseGuard.OTHER_PROCESS, lost if has_lost_run else "another pod may hold this member")


def released_before(c: Crash) -> Hit | None:
    """Hold when this member was released before: one that is back after that lives."""
    record = c.seat.memory.release
    if record is None or record.member_id != c.member.member_id:
        return None
    sentence = "the operator removed this member once, and it is in the group all the same"
    remedy = "if it stays for longer than its session, find and stop the second process with this id"
    return Hit(ReleaseGuard.RELEASED_BEFORE, sentence, remedy)


def pod_replaced(c: Crash) -> Hit | None:
    """Hold unless the consistent read shows this very pod under the names of the seat, and no other one."""
    objects = c.seat.fresh.objects if c.seat.fresh is not None else ()
    if objects == ((c.pod.pod_name, c.pod.uid),):
        return None
    sentence = f"pod {c.pod.pod_name} (uid {c.pod.uid}) is not the only one that the API server has for this id"
    return Hit(ReleaseGuard.POD_REPLACED, sentence, requeue_after_s=1.0)


def not_wanted(c: Crash) -> Hit | None:
    """Hold when the consistent read shows that the ordinal is not wanted any more: then it is a removal's matter."""
    if c.seat.fresh is not None and not c.seat.fresh.is_expected:
        return Hit(ReleaseGuard.NOT_WANTED, f"ordinal {c.seat.ordinal} is not wanted any more", requeue_after_s=1.0)
    return None


def report_only(c: Crash) -> Hit | None:
    """Hold when the user only wants a report, or the operator may only observe."""
    if c.spec.removal is RemovalPolicy.DEPARTED_AND_CRASHED and c.spec.mode is Mode.MANAGE:
        return None
    return Hit(ReleaseGuard.REPORT_ONLY, "its successor is refused until the session expires")


Rule = Callable[[Crash], Hit | None]
_WHATEVER_IS_READ: Final[tuple[Rule, ...]] = (
    suspended,
    conflict,
    unscoped,
    duplicate,
    pods_unseen,
    process_may_live,
    end_doubted,
    other_process,
    released_before,
    report_only,
)
RELEASE_GUARDS: Final[tuple[Rule, ...]] = (
    *_WHATEVER_IS_READ,
    not_read_afresh,
    pod_replaced,
    not_wanted,
    no_barrier,
)
"""In this order; the first that hits names the reason."""
_PASSING: Final = TRANSIENT_GUARDS | {ReleaseGuard.POD_REPLACED, ReleaseGuard.NOT_WANTED}
"""Guards that pass by themselves within a round or two; they are not reported."""


def may_be_read(crash: Crash) -> bool:
    """True unless a guard holds a release back whatever the API server would say of its pod."""
    return _first_hit(crash, _WHATEVER_IS_READ) is None


def plan_releases(crashes: Iterable[Crash]) -> tuple[tuple[Release, ...], tuple[Finding, ...]]:
    """Run every crashed member through the guards; returns whom to release, and what is so with the others."""
    releases, held = [], []
    for crash in crashes:
        hit = _first_hit(crash, RELEASE_GUARDS)
        if hit is None:
            releases.append(_release(crash))
        else:
            held.append(_finding(crash, hit))
    return tuple(releases), tuple(held)


def with_crashes(seats: Mapping[str, SeatMemory], crashes: Iterable[Crash]) -> Mapping[str, SeatMemory]:
    """Return the memories of seats in which it is noted since when each of them is known to have crashed."""
    crashed = {c.seat.key: replace(seats.get(c.seat.key, NOTHING_REMEMBERED), crash=c.record) for c in crashes}
    return {**seats, **crashed}


def _session_s(snapshot: Snapshot, group: GroupView) -> float:
    """Return the longest that a session of the group may last, as far as it is known."""
    bounds = snapshot.bounds.of(group.group_type)
    known_ms = bounds.group_ms or bounds.max_ms
    return known_ms / 1000 if known_ms is not None else SESSION_MAX_S


def _as_rfc3339(at_s: float) -> str:
    """Write a time as RFC 3339 in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _first_hit(crash: Crash, guards: tuple[Rule, ...]) -> Hit | None:
    hits = (guard(crash) for guard in guards)
    return next((hit for hit in hits if hit is not None), None)


def _release(c: Crash) -> Release:
    entry = LeaveEntry(member_id=c.member.member_id, instance_id=c.seat.key)
    ids = ", ".join(end.container_id for end in c.ends)
    ended_at = _as_rfc3339(c.ended_at_s)
    evidence = f"pod {c.pod.pod_name} uid {c.pod.uid}: {ids} ended at {ended_at}, and the member was described before"
    return Release(entry=entry, by=c.by, ordinal=c.seat.ordinal, pod=c.pod, ends=c.ends, evidence=evidence)


def _finding(c: Crash, hit: Hit) -> Finding:
    """Word that a crashed member locks its successor out, and why it is not released."""
    is_certain = hit.guard is ReleaseGuard.REPORT_ONLY
    ended_at = _as_rfc3339(c.record.ended_at_s)
    sentence = f"its process ended at {ended_at} without leaving; {hit.sentence}"
    may_have = f"its process may have ended at {ended_at} without leaving"
    may_act = is_certain and c.spec.mode is Mode.MANAGE
    advise = remedies.let_in if may_act else remedies.wait_for_session
    return Finding(
        kind=IssueKind.MISSING,
        reason=hit.guard.value,
        sentence=sentence if is_certain else f"{may_have}; not removed: {hit.sentence}",
        remedy=hit.remedy or advise(c.snapshot.namespace, c.pod.pod_name),
        subject=Subject(instance_id=c.seat.key, member_id=c.member.member_id, pod_name=c.pod.pod_name),
        is_transient=hit.guard in _PASSING,
        requeue_after_s=hit.requeue_after_s,
    )
