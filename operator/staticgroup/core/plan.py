"""One plan per round: what to remove, what to inject, when to look again, and why not more.

`plan` is pure and total: same spec, snapshot, history and time, same plan. Between its two halves, `survey` and
`decide`, the shell reads what the first one asks for. It executes the actions, unless the mode is Observe, and reports.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..api.resources.staticgroup import StaticGroupSpec
from .consuming import STUCK_AFTER_S, TopicPlan, plan_topics, rebalancing_since_s, seen_to_close
from .evidence.certificate import WORDS
from .evidence.chain import KnownPod
from .findings import Finding
from .group import ConnectLoad, GroupType, GroupView, KafkaProblem, LeaveCall, LeaveEntry, load_of, work_after
from .guards import Candidate, first_hit
from .ids.naming import HeldSeat, Naming, is_scope_refused, without_retired
from .ids.own_ids import OwnIds, own_ids
from .ids.suffixes import SuffixMismatch, suffix_mismatch
from .injection import InjectionPlan, InjectionVerdict
from .issuance import Issuance, issue
from .members.memory import Members, described, settle_s, with_living, without_ended
from .protocols import CONNECT_ROLE, protocol_of, role_of
from .releases import Crash, Release, ReleaseGuard, find_crashes, may_be_read, plan_releases, with_crashes, with_reads
from .seats import Seat, SeatTable, Standing, build_seat_table, holders_of, pods_without_id
from .slots.deployment import SlotPlan, plan_slots
from .snapshot import History, Snapshot
from .timeouts.group_config import GroupConfigWrite
from .timeouts.in_force import TimeoutPlan, plan_timeouts

STEADY_REQUEUE_S = 30.0
"""Poll of a quiet group; nothing but the group itself tells of a member that fell silent."""
ACTIVE_REQUEUE_S = 5.0
"""Poll while members are away or departed members are held."""
VERIFY_REQUEUE_S = 1.0
READS_MAX = 50
"""Most departed seats read afresh in one round; the rest take their turn in the next."""
EVIDENCE_MAX = 3
REASON_LENGTH_MAX = 255
"""The Java client cuts LeaveGroup reasons here (KIP-800)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One member to remove, with the pods that may have held its id and whose end was seen."""

    entry: LeaveEntry
    ordinal: int
    ended: tuple[KnownPod, ...] = ()
    attempt: int = 1

    @property
    def evidence(self) -> str:
        """What the removal rests on, for people: the newest ends first."""
        newest = sorted(self.ended, key=lambda p: -p.since_s)
        ends = [(p, p.certificate) for p in newest]
        said = [f"{WORDS[c.kind]}: {c.statement}" if c else f"ended with its node {p.node_name}" for p, c in ends]
        named = [f"pod {p.pod_name} uid {p.uid} {text}" for p, text in zip(newest, said, strict=True)]
        unnamed = "every pod that was there when it joined has ended, by its certificate or with its node"
        return "; ".join(named[:EVIDENCE_MAX]) or unnamed


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMembers:
    """Remove members in one batch, each by its pair of ids; `by` is the call that removes members of such a group."""

    group_id: str
    by: LeaveCall
    removals: tuple[Removal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one round decided.

    Parameters
    ----------
    actions: writes to Kafka; the shell executes them unless it may only observe.
    held: removals that were not planned, each with the guard that holds it as its reason.
    history: what is remembered after this round, before the outcomes of the actions.
    group_config: what to set on the group; None when nothing.
    releases: crashed members to let go for a while, each by its pair of ids; executed or not likewise.
    locked_out: crashed members that are not released, each with why.
    table: None when the group could not be read.
    too_large: why nothing is decided about a workload that calls for too many ids; "" when it does not.
    pods_without_id: pods that run without the id of their ordinal, known whether or not the group could be read.
    load: what the workers of a Connect cluster hold; None of other groups, and where it is not known.
    topics: topics that nobody reads, and whether the group is rebalanced for them.
    slots: what the pods of a Deployment wait for, which `Reconciler.hand_out` gives them.
    is_stuck: the group has been rebalancing for longer than that takes.
    suffix: foreign members that hold an id of ours but for what their client appends; None when there are none.
    own_ids: foreign members that are of our pods, under ids of the application's own; None when there are none.
    requeue_after_s: when to look again if nothing happens before.
    """

    actions: tuple[RemoveMembers, ...] = ()
    held: tuple[Finding, ...] = ()
    group_config: GroupConfigWrite | None = None
    releases: tuple[Release, ...] = ()
    locked_out: tuple[Finding, ...] = ()
    table: SeatTable | None = None
    pods_without_id: tuple[KnownPod, ...] = ()
    suffix: SuffixMismatch | None = None
    own_ids: OwnIds | None = None
    load: ConnectLoad | None = None
    topics: TopicPlan = field(default_factory=TopicPlan)
    slots: SlotPlan = field(default_factory=SlotPlan)
    is_stuck: bool = False
    naming: Naming | None = None
    identity_error: str = ""
    too_large: str = ""
    timeout: TimeoutPlan | None = None
    injection: InjectionPlan | None = None
    history: History = field(default_factory=History)
    requeue_after_s: float = STEADY_REQUEUE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The first half of a round: whose ids there are, who holds them, and what to read before anything is decided.

    Parameters
    ----------
    history: of earlier rounds, with what is issued now and the members as described now.
    table: None while nothing is decided about members.
    crashes: members of wanted seats that may be of a run that is over.
    reads: the seats to read afresh, at most `READS_MAX`: crashed ones first, then departed ones whose pods have ended.
    """

    issuance: Issuance
    history: History
    table: SeatTable | None = None
    crashes: tuple[Crash, ...] = ()
    reads: tuple[Seat, ...] = ()

    @property
    def judged(self) -> tuple[Seat, ...]:
        """The seats of which every pod is looked for that may hold them."""
        return (*(self.table.departed if self.table is not None else ()), *(crash.seat for crash in self.crashes))


def plan(spec: StaticGroupSpec, snapshot: Snapshot, history: History, now_s: float) -> Plan:
    """Decide everything about one StaticGroup from one snapshot; never raises for anything the world can show.

    Parameters
    ----------
    spec: the spec whose metadata.generation the snapshot names.
    history: its durable parts come from the status.
    """
    return decide(spec, snapshot, survey(spec, snapshot, issue(spec, snapshot, history), now_s), now_s)


def survey(spec: StaticGroupSpec, snapshot: Snapshot, issuance: Issuance, now_s: float) -> Survey:
    """Find who is in the group, who should be, and what has to be read before anything is decided.

    Parameters
    ----------
    snapshot: with its sight, before any seat was read afresh; parameters else as for `plan`.
    """
    # Step 1: whatever this round decides, remember the pods that may live unseen. While the ids have no rule, those
    # pods are not known, so the pod watch is not trusted for members to come.
    members, sight = issuance.history.members, snapshot.sight
    members = without_ended(members, sight) if sight is not None else replace(members, watch="")
    found = replace(issuance.history, members=members)
    naming, expected, group = issuance.naming, issuance.expected, snapshot.group
    if naming is None or expected is None:
        return Survey(issuance=issuance, history=found)

    # Step 2: attribute the members to the pods that were there when they joined.
    found = replace(found, members=members_after(snapshot, found, naming))
    if isinstance(group, KafkaProblem):
        # While brokers are away sessions expire, and every member joins anew: nobody took an id over.
        seats = {key: replace(seat, sightings=()) for key, seat in found.seats.items()}
        return Survey(issuance=issuance, history=replace(found, seats=seats))

    # Step 3: the table of seats, and the members whose process may be over.
    table = build_seat_table(role_of(spec), naming, expected, snapshot, group, found, now_s)
    crashes = find_crashes(spec, naming, expected, snapshot, group, found, now_s)

    # Step 4: what is worth a consistent read.
    reads: list[Seat] = []
    if protocol_of(group).leaves_by is not None:
        reads += [crash.seat for crash in crashes if may_be_read(crash)]
        reads += [seat for seat in table.departed if _has_ended(seat, found.members)]
    return Survey(issuance=issuance, history=found, table=table, crashes=crashes, reads=tuple(reads[:READS_MAX]))


def decide(spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, now_s: float) -> Plan:
    """Decide on the actions of a round.

    Parameters
    ----------
    snapshot: of which the survey was made, with the evidence that was gathered since; parameters else as for `plan`.
    """
    issuance = found.issuance
    if issuance.injection is None:
        return Plan(history=found.history)

    # Step 1: the session timeout, and so what the next pods receive and what is set on the group.
    timeout = plan_timeouts(spec, snapshot, found.history, issuance.injection, now_s)
    base = Plan(
        group_config=timeout.group_config.write,
        timeout=timeout,
        injection=issuance.injection,
        history=timeout.remembered(found.history),
        identity_error=issuance.identity_error,
        too_large=issuance.too_large,
    )
    naming, expected, group = issuance.naming, issuance.expected, snapshot.group
    if naming is None or expected is None:
        return base
    base = replace(base, naming=naming, pods_without_id=pods_without_id(naming, expected, snapshot.pods))
    has_slots = snapshot.workload is not None and snapshot.workload.rollout is not None
    if has_slots and issuance.injection.verdict is InjectionVerdict.ACTIVE:
        slots = plan_slots(
            snapshot.workload, snapshot.known, found.history.members, naming, now_s,
            scope=snapshot.scope, watch=snapshot.watch, watch_no=snapshot.watch_no,
        )  # fmt: skip
        base = replace(base, slots=slots, requeue_after_s=ACTIVE_REQUEUE_S if slots.waiting else STEADY_REQUEUE_S)
    if found.table is None or isinstance(group, KafkaProblem):
        return base

    # Step 2: what is remembered of the seats.
    table = found.table.with_evidence(snapshot.evidence)
    load = load_of(group, base.history.connect_work) if table.role is CONNECT_ROLE else None
    history = replace(base.history, seats=table.memories(), connect_work=work_after(load, base.history.connect_work))
    history = without_retired(history, naming, snapshot, group, now_s)

    # Step 3: which departed members are removed, and which crashed ones are released.
    removals, kept = _plan_removals(spec, snapshot, group, table, naming, history, now_s)
    crashes = with_reads(found.crashes, snapshot)
    releases, locked_out = plan_releases(crashes)
    history = replace(history, seats=with_crashes(history.seats, crashes))
    refused = (f.subject.instance_id or "" for f in locked_out if f.reason == ReleaseGuard.REPORT_ONLY)
    table = table.with_locked_out(set(refused))
    topics = plan_topics(spec, snapshot, group, table, history.unread, now_s)
    since_s = rebalancing_since_s(group, history.rebalancing_since_s, now_s)
    left = seen_to_close(snapshot, group, issuance.history, found.history.members, now_s)
    history = replace(history, unread=topics.unread, rebalancing_since_s=since_s, left_on_close=left)
    by = protocol_of(group).leaves_by
    actions = (RemoveMembers(group_id=group.group_id, by=by, removals=removals),) if removals and by is not None else ()
    acting = bool(actions or releases or base.group_config or topics.action)
    suffix = suffix_mismatch(spec, naming, table, snapshot.carried_elsewhere) if table.foreign else None
    return replace(
        base,
        actions=actions,
        held=kept,
        releases=releases,
        locked_out=locked_out,
        table=table,
        load=load,
        topics=topics,
        is_stuck=since_s is not None and now_s - since_s >= STUCK_AFTER_S,
        suffix=suffix,
        own_ids=own_ids(spec, snapshot, table, suffix) if table.foreign else None,
        history=history,
        requeue_after_s=min(
            _requeue_after_s(table, (*kept, *locked_out), history, acting, base.timeout),
            topics.requeue_after_s or STEADY_REQUEUE_S,
            base.requeue_after_s,
        ),
    )


def _has_ended(seat: Seat, members: Members) -> bool:
    """True when no pod that was there when a holder joined is left."""
    known = (members.attribution(seat.key, m.member_id) for m in seat.holders)
    return any(attribution is not None and not attribution.carriers for attribution in known)


def members_after(snapshot: Snapshot, history: History, naming: Naming) -> Members:
    """Return what is remembered of the members after this round."""
    sight, group = snapshot.sight, snapshot.group
    if sight is None or not isinstance(group, GroupView):
        return history.members
    found = holders_of(group)
    held = {i: m[0].member_id if len(m) == 1 else None for i, m in found.items() if naming.is_own(i)}
    seats = {i: HeldSeat(i, naming, snapshot.namespace) for i in held}
    known_ms = [ms for pod in snapshot.known for ms in pod.session_timeouts_ms]
    group_ms = snapshot.bounds.of(group.group_type).group_ms
    if group_ms is not None:
        known_ms.append(group_ms)
    settle = settle_s(snapshot.settle_least_s, known_ms, (float(p.grace_s or 0) for p in snapshot.known))
    members = described(
        history.members, held, sight, lambda suspect, i: seats[i].may_be_held_by(suspect), settle_s=settle
    )
    is_durable = group.group_type is not GroupType.CLASSIC  # there a fail-over may undo an acknowledged leave
    removed = {r.instance_id: r.member_id for r in history.removals} if is_durable else {}
    return with_living(members, held, removed, sight.dated_at_s)


def _plan_removals(
    spec: StaticGroupSpec, snapshot: Snapshot, group: GroupView, table: SeatTable, naming: Naming, history: History,
    now_s: float,
) -> tuple[tuple[Removal, ...], tuple[Finding, ...]]:
    """Run every departed member through the guards."""
    removals: list[Removal] = []
    kept: list[Finding] = []
    for seat in table.departed:
        for member in seat.holders:
            candidate = Candidate(
                seat=seat,
                member=member,
                attribution=history.members.attribution(seat.key, member.member_id),
                group=group,
                spec=spec,
                snapshot=snapshot,
                history=history,
                is_scoped=naming.is_scoped(seat.key) and not is_scope_refused(naming.scope, snapshot),
                issues_scoped=naming.issues_scoped,
                now_s=now_s,
            )
            finding = first_hit(candidate)
            if finding is not None:
                kept.append(finding)
            else:
                removals.append(_removal(candidate))
    return tuple(removals), tuple(kept)


def _removal(c: Candidate) -> Removal:
    """Write the compare-and-set removal of a candidate that no guard holds."""
    reason = f"staticgroup {c.snapshot.namespace}/{c.snapshot.name}: {_why(c)}"
    record = c.seat.memory.removal
    attempt = record.attempts + 1 if record is not None and record.member_id == c.member.member_id else 1
    entry = LeaveEntry(member_id=c.member.member_id, instance_id=c.seat.key, reason=reason[:REASON_LENGTH_MAX])
    with_node = c.snapshot.sight.ended if c.snapshot.sight is not None else frozenset()
    ended = tuple(pod for pod in c.seat.chain if pod.certificate is not None or pod.uid in with_node)
    return Removal(entry=entry, ordinal=c.seat.ordinal, ended=ended, attempt=attempt)


def _why(c: Candidate) -> str:
    """Say why the id is not wanted any more."""
    workload, ordinal = c.snapshot.workload, c.seat.ordinal
    if workload is None or not workload.replicas or workload.is_ending:
        return f"workload gone or scaled to zero, ordinal {ordinal} ended"
    if workload.wants(ordinal):
        return f"ordinal {ordinal} has another id"
    if workload.rollout is not None:
        return f"no pod takes over slot {workload.name}-{ordinal}, whose pod has ended"
    if workload.listed is not None:
        return f"pod {workload.name}-{ordinal} is not wanted any more, ordinal {ordinal} ended"
    return f"scaled to {workload.start}..{workload.start + workload.replicas - 1}, ordinal {ordinal} ended"


def _requeue_after_s(
    table: SeatTable, kept: tuple[Finding, ...], history: History, acting: bool, timeout: TimeoutPlan | None
) -> float:
    """Return the earliest moment at which looking again without an event can help."""
    waits = [finding.requeue_after_s for finding in kept if finding.requeue_after_s is not None]
    are_open = any(m.release is not None and m.release.settled_at_s is None for m in history.seats.values())
    are_open = are_open or history.group_config.is_open
    if acting or are_open or any(r.settled_at_s is None for r in history.removals):
        waits.append(VERIFY_REQUEUE_S)
    if timeout is not None and timeout.in_force.slow_ms is not None:
        waits.append(ACTIVE_REQUEUE_S)
    if any(seat.standing not in (Standing.JOINED, Standing.VACATED) for seat in table.seats):
        waits.append(ACTIVE_REQUEUE_S)
    return max(0.05, min([STEADY_REQUEUE_S, *waits]))
