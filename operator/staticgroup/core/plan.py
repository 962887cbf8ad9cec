"""One plan per round: what to remove, what to inject, when to look again, and why not more.

`plan` is pure and total: same spec, snapshot, history and time, same plan. Everything is decided here at once,
because removal, timeouts and injection interact (a pod that gets a shorter session dies sooner; an id that is
not issued cannot be removed). The shell executes the actions, or does not (mode Observe), and reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..api.identifiers import InvalidInstanceIdError, TooManyIdsError
from ..api.staticgroup import StaticGroupSpec
from .chain import ChainVerdict, Incarnation, judge
from .continuity import Checkpoint, SpanReason
from .group import GroupType, GroupView, KafkaProblem, LeaveEntry, MemberView
from .guards import SAME_MEMBER_READY_S, Candidate, Guard, Held, first_hit
from .identity import identity_of
from .in_force import judged
from .injection import InjectionPlan, InjectionVerdict
from .intent import expected_ids, next_pods, protocol_of
from .membership import Identity, Membership, classify, pods_without_id
from .snapshot import EPOCH_UNKNOWN, History, RemovalRecord, Snapshot
from .timeouts import TimeoutPlan

STEADY_REQUEUE_S = 30.0
"""Poll of a quiet group; nothing but the group itself tells of a member that fell silent."""
ACTIVE_REQUEUE_S = 5.0
"""Poll while members are away or departed members are held."""
VERIFY_REQUEUE_S = 1.0
COORDINATOR_CHANGE_SETTLE_S = 2.0
"""Just after a fail-over a describe may show the state before the last write; believe two, this far apart."""
REASON_LENGTH_MAX = 255
"""The Java client cuts LeaveGroup reasons here (KIP-800)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One member to remove, with the evidence that allows it."""

    entry: LeaveEntry
    ordinal: int
    chain: ChainVerdict
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMembers:
    """Remove members in one batch LeaveGroup, each by its pair of ids."""

    group_id: str
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one round decided.

    Parameters
    ----------
    actions: writes to Kafka; the shell executes them unless it may only observe.
    held: removals that were not planned, each with the guard that holds it.
    history: what is remembered after this round, before the outcomes of the actions.
    membership: None when the group could not be read.
    too_large: why nothing is decided about a workload that calls for too many ids; "" when it does not.
    pods_without_id: pods that run without the id of their ordinal, known whether or not the group could be read.
    requeue_after_s: when to look again if nothing happens before.
    """

    actions: tuple[RemoveMembers, ...] = ()
    held: tuple[Held, ...] = ()
    membership: Membership | None = None
    pods_without_id: tuple[Incarnation, ...] = ()
    identity: Identity | None = None
    identity_error: str = ""
    too_large: str = ""
    timeout: TimeoutPlan | None = None
    injection: InjectionPlan | None = None
    history: History = field(default_factory=History)
    requeue_after_s: float = STEADY_REQUEUE_S
    summary: str = ""


def plan(spec: StaticGroupSpec, snapshot: Snapshot, history: History, now_s: float) -> Plan:
    """Decide everything about one StaticGroup from one snapshot.

    Parameters
    ----------
    spec: the spec whose metadata.generation the snapshot names.
    history: what earlier rounds left; durable parts come from the status.
    now_s: seconds since the Unix epoch.

    Returns
    -------
    A Plan; never raises for anything the world can show.
    """
    group = snapshot.group
    timeout, injection = next_pods(spec, snapshot, history)
    timeout = judged(spec, snapshot, timeout, injection, protocol_of(spec, group))
    history = replace(
        history,
        injected=injection.injected,
        templates=injection.templates,
        continuity=_continuity(snapshot, history, injection, now_s),
        fleet_timeout_ms=timeout.fleet_ms,
    )
    if snapshot.continuity is not None and injection.injected is not None:
        snapshot = replace(snapshot, continuity=history.continuity)  # a lost memory counts from this round on
    try:
        identity = identity_of(spec, history)
        expected = expected_ids(identity, snapshot.workload)
    except InvalidInstanceIdError as error:
        return Plan(
            timeout=timeout, injection=injection, history=history, identity_error=str(error), summary=str(error)
        )
    except TooManyIdsError as error:  # ids are issued all the same, so they are remembered; nothing else is decided
        history = replace(_with_issued(history, snapshot, injection), departed_since_s={})
        return Plan(timeout=timeout, injection=injection, history=history, too_large=str(error), summary=str(error))
    history = _with_issued(history, snapshot, injection)
    bare = pods_without_id(identity, expected, snapshot.pods)
    base = Plan(identity=identity, pods_without_id=bare, timeout=timeout, injection=injection, history=history)
    if isinstance(group, KafkaProblem):
        return replace(base, requeue_after_s=STEADY_REQUEUE_S, summary=group.message)
    membership = classify(identity, expected, group, snapshot.pods, now_s=now_s)
    history = _remember(history, snapshot, group, membership, identity, now_s)
    removals, held = _plan_removals(spec, snapshot, history, group, membership, identity, now_s)
    actions = (RemoveMembers(group_id=group.group_id, removals=removals),) if removals else ()
    return replace(
        base,
        actions=actions,
        held=held,
        membership=membership,
        history=history,
        requeue_after_s=_requeue_after_s(membership, held, history, bool(actions)),
        summary=_summary(membership, actions, held),
    )


def _with_issued(history: History, snapshot: Snapshot, injection: InjectionPlan) -> History:
    """Remember every ordinal that may have been issued: those wanted now while ids can reach pods."""
    may_issue = injection.verdict in (InjectionVerdict.ACTIVE, InjectionVerdict.OFF_BY_USER)
    if injection.injected is None or snapshot.workload is None or not may_issue:
        return history
    return replace(history, issued_ordinals=history.issued_ordinals.united(snapshot.workload.ordinals))


def _remember(
    history: History, snapshot: Snapshot, group: GroupView, membership: Membership, identity: Identity, now_s: float
) -> History:
    """Carry the memory over one reading: departures, sightings and the verification of removals."""
    departed = {m.instance_id: m for m in membership.departed if m.instance_id is not None}
    since = {i: history.departed_since_s.get(i, now_s) for i in departed}
    return replace(
        history,
        departed_since_s=since,
        sightings=_sightings(history, snapshot.pods, group, membership, now_s),
        removals=tuple(
            verified
            for record in history.removals
            if record.instance_id not in membership.expected
            for verified in [_verify(record, group, now_s)]
        ),
    )


def _sightings(
    history: History, pods: tuple[Incarnation, ...], group: GroupView, membership: Membership, now_s: float
) -> Mapping[str, tuple[tuple[str, str, float], ...]]:
    """Note which member was described while which pod had been Ready for long; at most four a member."""
    settled = {
        i: pod.uid
        for pod in pods
        if pod.ready_since_s is not None and now_s - pod.ready_since_s >= SAME_MEMBER_READY_S
        for i in pod.instance_ids
    }
    sightings = dict(history.sightings)
    relevant = set(membership.expected) | {m.instance_id for m in membership.departed}
    for member in group.members:
        i = member.instance_id
        if i is None or i not in relevant or i not in settled:
            continue
        seen = tuple(s for s in sightings.get(i, ()) if s[0] == member.member_id)
        if not any(s[1] == settled[i] for s in seen):
            sightings[i] = (*seen, (member.member_id, settled[i], now_s))[-4:]
    return {i: s for i, s in sightings.items() if i in relevant}


def _verify(record: RemovalRecord, group: GroupView, now_s: float) -> RemovalRecord:
    """Advance the verification of one acknowledged removal by one reading (step 7 of the chain).

    Settled means: described as gone, nothing in flight, under the coordinator that acknowledged it, or twice at
    least two seconds apart under another one. A classic removal is acknowledged before it is durable. A group that
    expired has no rest to wait for, but a coordinator that has only just loaded may not show a group that exists: its
    absence, too, is believed at the second reading.
    """
    if record.member_id in {m.member_id for m in group.members}:
        return replace(record, absent_since_s=None, settled_at_s=None)
    if record.settled_at_s is not None and record.coordinator == group.coordinator:
        return record
    if record.coordinator != group.coordinator:
        return replace(record, coordinator=group.coordinator, absent_since_s=now_s, settled_at_s=None)
    is_expired = group.group_type is GroupType.ABSENT
    if not group.is_settled and not is_expired:
        return record
    if is_expired and record.absent_since_s is None:
        return replace(record, absent_since_s=now_s)
    if record.absent_since_s is not None and now_s - record.absent_since_s < COORDINATOR_CHANGE_SETTLE_S:
        return record
    return replace(record, settled_at_s=now_s)


def _plan_removals(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    history: History,
    group: GroupView,
    membership: Membership,
    identity: Identity,
    now_s: float,
) -> tuple[tuple[Removal, ...], tuple[Held, ...]]:
    """Run every departed member through the guards; the budget limits the survivors."""
    removals: list[Removal] = []
    held: list[Held] = []
    for member in sorted(membership.departed, key=lambda m: (m.instance_id or "", m.member_id)):
        candidate = _candidate(spec, snapshot, history, group, membership, identity, member, now_s)
        hit = first_hit(candidate)
        if hit is not None:
            held.append(hit)
            continue
        removals.append(_removal(candidate))
    allowed = max(1, len(group.members) * spec.removal.max_percent_of_group // 100)
    for late in removals[allowed:]:
        held.append(
            Held(
                instance_id=late.entry.instance_id,
                member_id=late.entry.member_id,
                guard=Guard.BUDGET,
                requeue_after_s=ACTIVE_REQUEUE_S,
                message=f"at most {spec.removal.max_percent_of_group} % of the group ({allowed}) leave at once; its turn comes next",
            )
        )
    return tuple(removals[:allowed]), tuple(held)


def _candidate(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    history: History,
    group: GroupView,
    membership: Membership,
    identity: Identity,
    member: MemberView,
    now_s: float,
) -> Candidate:
    instance_id = member.instance_id or ""
    ordinal = identity.ordinal_of(instance_id)
    verdict = judge(
        instance_id,
        snapshot.chains.get(instance_id, ()),
        continuous=is_continuous(snapshot, history, ordinal),
        unseen=unseen_by(snapshot, ordinal),
        namespace=snapshot.namespace,
    )
    return Candidate(
        member=member,
        instance_id=instance_id,
        ordinal=ordinal if ordinal is not None else -1,
        spec=spec,
        snapshot=snapshot,
        history=history,
        group=group,
        membership=membership,
        identity=identity,
        chain=verdict,
        now_s=now_s,
    )


def is_continuous(snapshot: Snapshot, history: History, ordinal: int | None) -> bool:
    """Tell whether no pod of an ordinal's name can have come and gone unseen since its ids could first be issued."""
    known = snapshot.continuity
    if history.injected is None or ordinal is None or known is None or known.epoch != snapshot.watch_epoch:
        return False
    return known.is_unbroken(ordinal)


def unseen_by(snapshot: Snapshot, ordinal: int | None) -> str:
    """Say when pods of an ordinal's name can have come and gone unseen, the last time; "" when nothing is known of that.

    Notes
    -----
    The status has them all; in a message they would push out what to do.
    """
    spans = snapshot.continuity.spans_of(ordinal) if snapshot.continuity is not None and ordinal is not None else ()
    others = f" and {len(spans) - 1} times before" if len(spans) > 1 else ""
    return f"{spans[-1].words}{others}" if spans else ""


def _continuity(snapshot: Snapshot, history: History, injection: InjectionPlan, now_s: float) -> Checkpoint | None:
    """Return what is to be remembered of the seats' histories; the last word holds while nothing is known.

    Parameters
    ----------
    history: of before this round; without `injected` the ids are acknowledged now, or not at all.
    """
    known = snapshot.continuity
    if injection.injected is None or known is None:
        return history.continuity
    if history.injected is None and injection.injected.watch_epoch == EPOCH_UNKNOWN:
        return known.blinded(SpanReason.MEMORY_LOST, since_s=snapshot.created_at_s, until_s=now_s)
    return known


def _removal(c: Candidate) -> Removal:
    """Write the compare-and-set removal of a candidate that no guard holds."""
    reason = f"staticgroup {c.snapshot.namespace}/{c.snapshot.name}: {_why(c)}"
    record = c.history.removal_of(c.instance_id)
    attempt = record.attempts + 1 if record is not None and record.member_id == c.member.member_id else 1
    entry = LeaveEntry(member_id=c.member.member_id, instance_id=c.instance_id, reason=reason[:REASON_LENGTH_MAX])
    return Removal(entry=entry, ordinal=c.ordinal, chain=c.chain, attempt=attempt)


def _why(c: Candidate) -> str:
    """Say why the id is not wanted any more."""
    workload = c.snapshot.workload
    if workload is None or not workload.replicas or workload.is_ending:
        return f"workload gone or scaled to zero, ordinal {c.ordinal} ended"
    last = workload.start + workload.replicas - 1
    if workload.start <= c.ordinal <= last:
        return f"ordinal {c.ordinal} has another id"
    return f"scaled to {workload.start}..{last}, ordinal {c.ordinal} ended"


def _requeue_after_s(membership: Membership, held: tuple[Held, ...], history: History, acting: bool) -> float:
    """Return the earliest moment at which looking again without an event can help."""
    waits = [h.requeue_after_s for h in held if h.requeue_after_s is not None]
    if acting or any(r.settled_at_s is None for r in history.removals):
        waits.append(VERIFY_REQUEUE_S)
    if membership.away or membership.missing or membership.unissued or membership.departed:
        waits.append(ACTIVE_REQUEUE_S)
    return max(0.05, min([STEADY_REQUEUE_S, *waits]))


def _summary(membership: Membership, actions: tuple[RemoveMembers, ...], held: tuple[Held, ...]) -> str:
    """Say the round in one line."""
    removing = sum(len(a.removals) for a in actions)
    parts = [f"{len(membership.joined)} of {len(membership.expected)} expected members joined"]
    if removing:
        parts.append(f"removing {removing} departed")
    if held:
        parts.append(f"holding {len(held)} back ({held[0].guard.value})")
    return ", ".join(parts)
