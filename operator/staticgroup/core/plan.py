"""One plan per round: what to remove, what to inject, when to look again, and why not more.

`plan` is pure and total: same spec, snapshot, history and time, same plan. Everything is decided here at once,
because removal, timeouts and injection interact (a pod that gets a shorter session dies sooner; an id that is
not issued cannot be removed). The shell executes the actions, or does not (mode Observe), and reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..api.identifiers import AmbiguousIdentityError, InvalidInstanceIdError, TooManyIdsError
from ..api.ordinals import Ordinals
from ..api.resources.durable import InjectedMethod
from ..api.resources.identity import InjectionMethod
from ..api.resources.staticgroup import CrashRelease, StaticGroupSpec
from .connect import ConnectLoad, load_of, work_after
from .evidence.chain import KnownPod
from .findings import Finding
from .group import GroupType, GroupView, KafkaProblem, LeaveCall, LeaveEntry
from .guards import Candidate, Guard, Hit, first_hit, held
from .ids.naming import Naming, is_scope_refused, naming_of
from .ids.retired import without_retired
from .ids.suffixes import SuffixMismatch, suffix_mismatch
from .intent import Intent, expected_ids, group_setting, intent_of, next_pods
from .members.carriers import Attribution
from .members.holding import Seat as Seated
from .members.memory import Members, described, settle_s, with_living, without_ended
from .next_pods.group_config import GroupConfigWrite
from .next_pods.in_force import judged
from .next_pods.injection import InjectionPlan, InjectionVerdict
from .next_pods.timeouts import TimeoutPlan
from .protocols import leaves_by, protocol_in_force
from .releases import Release, ReleaseGuard, crashed_seats, crashes_of, may_be_read, plan_releases, with_crashes
from .roles import CONNECT, protocol_asked_for, role_of
from .seats import Seat, SeatTable, Standing, departed_seats, holders_of, lay, pods_without_id
from .snapshot import History, Snapshot

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
    """One member to remove, with the evidence that allows it.

    Parameters
    ----------
    ended: the pods that may have held the id and whose end was seen.
    """

    entry: LeaveEntry
    ordinal: int
    ended: tuple[KnownPod, ...] = ()
    attempt: int = 1

    @property
    def evidence(self) -> str:
        """What the removal rests on, for people: the newest ends first."""
        newest = sorted(self.ended, key=lambda p: -p.since_s)
        told = [f"pod {p.pod_name} uid {p.uid} {p.certificate.kind.value}: {p.certificate.statement}" for p in newest if p.certificate]
        return "; ".join(told[:EVIDENCE_MAX]) or "every pod that was there when it joined has ended, by its certificate or with its node"


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
    suffix: foreign members that hold an id of ours but for what their client appends; None when there are none.
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
    load: ConnectLoad | None = None
    naming: Naming | None = None
    identity_error: str = ""
    too_large: str = ""
    timeout: TimeoutPlan | None = None
    injection: InjectionPlan | None = None
    history: History = field(default_factory=History)
    requeue_after_s: float = STEADY_REQUEUE_S


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
    if snapshot.sight is not None:  # whatever else this round comes to, who may live unseen is remembered
        history = replace(history, members=without_ended(history.members, snapshot.sight))
    if snapshot.workload_problem:  # who is wanted cannot be told, so nothing is decided but whether the next pods get ids
        return Plan(history=_silenced(history) if _must_be_silent(spec, snapshot, history) else history)
    protocol = protocol_in_force(protocol_asked_for(spec), snapshot.group)
    timeout, injection = next_pods(spec, snapshot, history)
    timeout, write, record, setting = group_setting(spec, snapshot, history, timeout, now_s)
    timeout = judged(spec, snapshot, timeout, injection, protocol)
    base = Plan(
        group_config=write,
        timeout=timeout,
        injection=injection,
        history=replace(
            history,
            injected=injection.injected,
            templates=injection.templates,
            fleet_timeout_ms=timeout.fleet_ms,
            measured=timeout.held,
            group_config=record,
            shared_setting=setting,
            members=_first_members(history, injection),
        ),
    )
    issued = _with_issued(base.history, snapshot, injection)
    try:
        naming = naming_of(spec, base.history)
        expected = expected_ids(naming, snapshot.workload)
    except InvalidInstanceIdError as error:
        return replace(base, identity_error=str(error))
    except AmbiguousIdentityError as error:
        return replace(base, history=_silenced(history), identity_error=str(error))
    except TooManyIdsError as error:  # ids are issued all the same, so they are remembered; nothing else is decided
        return replace(base, history=_without_departures(issued), too_large=str(error))
    bare = pods_without_id(naming, expected, snapshot.pods)
    base = replace(base, naming=naming, pods_without_id=bare, history=issued)
    return _about_members(base, spec, snapshot, naming, expected, now_s)


def _about_members(
    base: Plan, spec: StaticGroupSpec, snapshot: Snapshot, naming: Naming, expected: Mapping[str, int], now_s: float
) -> Plan:
    """Add to a plan what is decided about the members of the group, if that could be read."""
    group = snapshot.group
    members = members_after(spec, snapshot, base.history, naming)
    base = replace(base, history=replace(base.history, members=members))
    if isinstance(group, KafkaProblem):
        return base
    table = lay(role_of(spec), naming, expected, snapshot, group, base.history, now_s)
    load = load_of(group, base.history.connect_work) if table.role is CONNECT else None
    history = replace(
        base.history, seats=table.memories(), connect_work=work_after(load, base.history.connect_work)
    )
    history = without_retired(history, naming, snapshot, group, now_s)
    removals, kept = _plan_removals(spec, snapshot, group, table, naming, history, now_s)
    intent = Intent(naming=naming, expected=expected)
    crashes = crashes_of(spec, snapshot, group, crashed(spec, snapshot, base.history, intent), naming, base.history, now_s)
    releases, locked_out = plan_releases(crashes)
    history = replace(history, seats=with_crashes(history.seats, crashes))
    table = table.with_locked_out({f.subject.instance_id or "" for f in locked_out if f.reason == ReleaseGuard.REPORT_ONLY})
    by = leaves_by(group)
    actions = (RemoveMembers(group_id=group.group_id, by=by, removals=removals),) if removals and by is not None else ()
    return replace(
        base,
        actions=actions,
        held=kept,
        releases=releases,
        locked_out=locked_out,
        table=table,
        load=load,
        suffix=suffix_mismatch(spec, history.injected, naming, table, snapshot.told_elsewhere),
        history=history,
        requeue_after_s=_requeue_after_s(
            table, (*kept, *locked_out), history, bool(actions or releases or base.group_config), base.timeout
        ),
    )


def _first_members(history: History, injection: InjectionPlan) -> Members:
    """Return what is remembered of members; where ids are issued for the first time, nobody can have joined before the pod watch was whole."""
    return replace(history.members, watch=injection.watch) if injection.watch else history.members


def members_after(spec: StaticGroupSpec, snapshot: Snapshot, history: History, naming: Naming) -> Members:
    """Return what is remembered of the members after this round."""
    sight, group = snapshot.sight, snapshot.group
    if sight is None or not isinstance(group, GroupView):
        return history.members
    found = holders_of(role_of(spec), group)
    held = {i: m[0].member_id if len(m) == 1 else None for i, m in found.items() if naming.is_own(i)}
    seats = {i: Seated(i, naming, snapshot.namespace) for i in held}
    known_ms = [ms for pod in snapshot.known for ms in pod.session_timeouts_ms]
    bounds = snapshot.bounds.of(group.group_type) if snapshot.bounds is not None else None
    if bounds is not None and bounds.group_ms is not None:
        known_ms.append(bounds.group_ms)
    settle = settle_s(snapshot.settle_least_s, known_ms, (float(p.grace_s or 0) for p in snapshot.known))
    members = described(history.members, held, sight, lambda suspect, i: seats[i].may_be_held_by(suspect), settle_s=settle)
    is_durable = group.group_type is not GroupType.CLASSIC  # there a fail-over may bring back whose leave was acknowledged
    return with_living(members, held, {r.instance_id: r.member_id for r in history.removals} if is_durable else {}, sight.dated_at_s)


def _must_be_silent(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> bool:
    """True where the next pods must not go on getting the ids of before, whatever the workload wants."""
    try:
        naming_of(spec, history)
    except AmbiguousIdentityError:
        return True
    except InvalidInstanceIdError:  # those of before stay
        pass
    return bool(snapshot.prior_claims) or spec.identity.method is InjectionMethod.NONE


def _silenced(before: History) -> History:
    """Remember that the next pods get no ids: two members of each would fence each other; `before`: of before this round."""
    if before.injected is None:
        return before
    silent = replace(before.injected, method=InjectedMethod.NONE.value)
    return replace(before, injected=silent)


def reads_needed(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, now_s: float, intent: Intent | None = None
) -> tuple[Seat, ...]:
    """Return the seats to read afresh before anything can be planned: departed and crashed ones whose evidence is there already.

    Parameters
    ----------
    snapshot: with its sight, before any consistent read of seats.
    intent: of this snapshot, where it is known; None: it is found here.

    Returns
    -------
    At most `READS_MAX`; crashed ones first.
    """
    intent = intent or intent_of(spec, snapshot, history)
    group = snapshot.group
    if intent is None or not isinstance(group, GroupView) or leaves_by(group) is None:
        return ()
    crashes = crashes_of(spec, snapshot, group, crashed(spec, snapshot, history, intent), intent.naming, history, now_s)
    urgent = tuple(crash.seat for crash in crashes if may_be_read(crash))[:READS_MAX]
    members = members_after(spec, snapshot, history, intent.naming)
    seats = departed(spec, snapshot, history, now_s, intent)
    ripe = [s for s in seats if any(_has_ended(members.attribution(s.key, m.member_id)) for m in s.holders)]
    return (*urgent, *ripe[: READS_MAX - len(urgent)])


def _has_ended(attribution: Attribution | None) -> bool:
    return attribution is not None and not attribution.carriers


def crashed(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, intent: Intent | None = None
) -> tuple[Seat, ...]:
    """Return the wanted seats that `plan` will find crashed; none while it decides nothing. `intent` as for `reads_needed`."""
    intent = intent or intent_of(spec, snapshot, history)
    group = snapshot.group
    if intent is None or not isinstance(group, GroupView) or spec.crash_release is CrashRelease.OFF:
        return ()
    return crashed_seats(role_of(spec), intent.naming, intent.expected, snapshot, group, history)


def departed(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, now_s: float, intent: Intent | None = None
) -> tuple[Seat, ...]:
    """Return the departed seats that `plan` will find, by key; none while it decides nothing. `intent` as for `reads_needed`."""
    intent = intent or intent_of(spec, snapshot, history)
    group = snapshot.group
    if intent is None or not isinstance(group, GroupView):
        return ()
    return departed_seats(role_of(spec), intent.naming, intent.expected, snapshot, group, history, now_s)


def _with_issued(history: History, snapshot: Snapshot, injection: InjectionPlan) -> History:
    """Remember every ordinal that may have been issued: those wanted now while ids can reach pods."""
    may_issue = injection.verdict in (InjectionVerdict.ACTIVE, InjectionVerdict.OFF_BY_USER)
    if injection.injected is None or snapshot.workload is None or not may_issue:
        return history
    known = history.issued_ordinals
    return replace(history, issued_ordinals=Ordinals.of(*known.runs, *snapshot.workload.reach))


def _without_departures(history: History) -> History:
    """Forget since when seats are departed, while nobody can tell which are."""
    seats = {key: replace(memory, departed_since_s=None) for key, memory in history.seats.items()}
    return replace(history, seats=seats)


def _plan_removals(
    spec: StaticGroupSpec, snapshot: Snapshot, group: GroupView, table: SeatTable, naming: Naming, history: History, now_s: float
) -> tuple[tuple[Removal, ...], tuple[Finding, ...]]:
    """Run every departed member through the guards; the budget limits the survivors."""
    passed: list[Candidate] = []
    kept: list[Finding] = []
    for candidate in _candidates(spec, snapshot, group, table.departed, naming, history, now_s):
        finding = first_hit(candidate)
        if finding is not None:
            kept.append(finding)
        else:
            passed.append(candidate)
    percent = spec.removal.max_percent_of_group
    allowed = max(1, len(group.members) * percent // 100)
    sentence = f"at most {percent} % of the group ({allowed}) leave at once; its turn comes next"
    late = Hit(Guard.BUDGET, sentence, requeue_after_s=ACTIVE_REQUEUE_S)
    kept += [held(candidate, late) for candidate in passed[allowed:]]
    return tuple(_removal(candidate) for candidate in passed[:allowed]), tuple(kept)


def _candidates(
    spec: StaticGroupSpec, snapshot: Snapshot, group: GroupView, seats: Iterable[Seat], naming: Naming, history: History, now_s: float
) -> Iterable[Candidate]:
    for seat in seats:
        for member in seat.holders:
            yield Candidate(
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


def _removal(c: Candidate) -> Removal:
    """Write the compare-and-set removal of a candidate that no guard holds."""
    reason = f"staticgroup {c.snapshot.namespace}/{c.snapshot.name}: {_why(c)}"
    record = c.seat.memory.removal
    attempt = record.attempts + 1 if record is not None and record.member_id == c.member.member_id else 1
    entry = LeaveEntry(member_id=c.member.member_id, instance_id=c.seat.key, reason=reason[:REASON_LENGTH_MAX])
    ended = tuple(pod for pod in c.seat.chain if pod.certificate is not None)
    return Removal(entry=entry, ordinal=c.seat.ordinal, ended=ended, attempt=attempt)


def _why(c: Candidate) -> str:
    """Say why the id is not wanted any more."""
    workload, ordinal = c.snapshot.workload, c.seat.ordinal
    if workload is None or not workload.replicas or workload.is_ending:
        return f"workload gone or scaled to zero, ordinal {ordinal} ended"
    if workload.wants(ordinal):
        return f"ordinal {ordinal} has another id"
    if workload.listed is not None:
        return f"pod {workload.name}-{ordinal} is not listed any more, ordinal {ordinal} ended"
    return f"scaled to {workload.start}..{workload.start + workload.replicas - 1}, ordinal {ordinal} ended"


def _requeue_after_s(
    table: SeatTable, kept: tuple[Finding, ...], history: History, acting: bool, timeout: TimeoutPlan | None
) -> float:
    """Return the earliest moment at which looking again without an event can help."""
    waits = [finding.requeue_after_s for finding in kept if finding.requeue_after_s is not None]
    are_open = any(m.release is not None and m.release.settled_at_s is None for m in history.seats.values())
    are_open = are_open or (history.group_config is not None and history.group_config.is_open)
    if acting or are_open or any(r.settled_at_s is None for r in history.removals):
        waits.append(VERIFY_REQUEUE_S)
    if timeout is not None and timeout.slow_ms is not None:
        waits.append(ACTIVE_REQUEUE_S)
    if any(seat.standing not in (Standing.JOINED, Standing.VACATED) for seat in table.seats):
        waits.append(ACTIVE_REQUEUE_S)
    return max(0.05, min([STEADY_REQUEUE_S, *waits]))
