"""Which session timeout the next pods get, which ones members hold now, and whether both outlast a restart.

These are two things as long as pods are to be restarted. A classic member holds what its pod was started with, as the
pod's environment or annotation shows, from its first heartbeat on: until then the coordinator counts with the timeout
of the member that held the seat before (GroupMetadataManager starts the timer of a replaced static member before it
updates the member). Members of a KIP-848 or Streams group hold the group's setting at the brokers. A client of these
protocols does not start with session.timeout.ms, so nothing is injected, and a pod that still shows one is a classic
member that has not been replaced; unless the pod template sets one all the same, which no client takes up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...api.injection import env_entries
from ...api.reasons import Reason
from ...api.resources.injected import InjectedMethod
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ...api.resources.status import TimeoutSource
from ...api.schema import TIMEOUT_MS_MAX
from ..evidence.chain import PodState
from ..group import SessionBounds
from ..ids.naming import ordinal_of_pod, seat_name
from ..injection import InjectionPlan, InjectionVerdict, with_init_container
from ..protocols import CLASSIC, Protocol, protocol_asked_for, protocol_in_force, role_of
from ..snapshot import History, Snapshot
from .bounds import ASSUMED_MAX_MS, ASSUMED_MIN_MS, Bounds, bounds_of, client_of
from .desired import SESSION_TIMEOUT, Basis, DesiredTimeout, desired_timeout, judge_advice
from .group_config import GroupConfigPlan, plan_group_config

_BY_HAND: Final = (InjectionVerdict.OFF_BY_USER, InjectionVerdict.OBSERVE_ONLY, InjectionVerdict.NOT_SERVED)
_GOES_ON: Final = (InjectionVerdict.INVALID, InjectionVerdict.CONFLICTING, InjectionVerdict.HINDERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The session timeouts that hold now.

    Parameters
    ----------
    shortest_ms, longest_ms: over the live pods, or the group's own; None when none is known.
    slow_ms: a shorter one that members may still hold after theirs was raised; None when none may.
    pods: how many pods live, seen or reported by the StatefulSet.
    unknown: of how many of them it is not known. such_as: name of one of these that was seen; "" when none was.
    """

    shortest_ms: int | None = None
    longest_ms: int | None = None
    slow_ms: int | None = None
    pods: int = 0
    unknown: int = 0
    such_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPlan:
    """The session timeout of one group.

    Parameters
    ----------
    protocol: None while it is not known. brokers: what they say of the protocol's session timeouts.
    desired: before any bound, and why. chosen_ms: what this StaticGroup wants by itself, inside all bounds.
    inject_ms: what the injection writes into the next pods; None where it writes none (KIP-848, or unknown protocol).
    group_config: what becomes of the group's own setting.
    next_ms: what the next pods get: what is injected, or else their template, or the group's own; None when unknown.
    reason, message: of the condition TimeoutSufficient: what is short, and which setting to raise to what; "" when
        nothing is.
    """

    protocol: Protocol | None
    brokers: SessionBounds
    desired: DesiredTimeout
    chosen_ms: int
    inject_ms: int | None
    group_config: GroupConfigPlan
    in_force: InForce = InForce()
    next_ms: int | None = None
    reason: Reason = Reason.TIMEOUT_UNKNOWN
    message: str = ""

    @property
    def is_of_group(self) -> bool:
        """True where all members hold a setting of their group."""
        return self.protocol is not None and bool(self.protocol.group_setting)

    def remembered(self, history: History) -> History:
        """Return what is remembered after this round."""
        injected = history.injected
        return replace(
            history,
            injected=replace(injected, session_timeout_ms=self.inject_ms) if injected is not None else None,
            fleet_timeout_ms=self.chosen_ms if self.desired.source is TimeoutSource.FLEET else None,
            measured=self.desired.hysteresis,
            group_config=self.group_config.record,
        )


def plan_timeouts(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, injection: InjectionPlan, now_s: float
) -> TimeoutPlan:
    """Decide the session timeout of one group, and judge it.

    Parameters
    ----------
    injection: of the next pods; the session timeout in it does not matter.

    Returns
    -------
    A plan whose reason is TimeoutFits only if everything that holds is known and reaches the need, and so does what the
    next pods get.
    """
    # Step 1: choose a value inside all bounds.
    session, found = spec.session_timeout, snapshot.bounds
    protocol = protocol_in_force(protocol_asked_for(spec), snapshot.group)
    workload, assumed = with_init_container(spec, snapshot.workload), protocol or CLASSIC
    brokers = found.of(assumed.group_type)
    bounds = bounds_of(session, client_of(spec, workload, assumed), assumed, brokers)
    is_managed = spec.mode is Mode.MANAGE and session.write_group_config
    writes = is_managed and bool(assumed.group_setting)
    kept_ms = history.fleet_timeout_ms if writes or not assumed.group_setting else None
    advice = None
    if snapshot.advice is not None:
        advice = judge_advice(snapshot.advice, session, assumed.group_setting or SESSION_TIMEOUT, bounds, kept_ms)
    desired = desired_timeout(session, workload, bounds.heartbeat_ms, advice, history.absences, history.measured, now_s)
    chosen_ms = desired.within(bounds)

    # Step 2: set it on the group, where its members hold the group's.
    group_config = GroupConfigPlan(record=history.group_config) if is_managed else GroupConfigPlan()
    if writes and brokers.group_ms is not None and not bounds.is_assumed:
        wanted_ms = max(bounds.broker_min_ms, min(max(chosen_ms, snapshot.asked_by_others_ms), bounds.broker_max_ms))
        keeps = "" if snapshot.workload is not None else "the workload does not exist"
        if snapshot.unheard:
            keeps = f"{', '.join(snapshot.unheard[:3])} in the same group cannot say yet what they want"
        group_config = plan_group_config(
            assumed, found, snapshot.group, history.group_config, wanted_ms, keeps, bounds.heartbeat_ms, now_s
        )

    # Step 3: say what the next pods get.
    if assumed.group_setting and (not writes or group_config.is_elsewhere):
        desired = _left_to_others(desired, assumed, brokers)
    advice = desired.advice
    if protocol is None and advice is not None and advice.reason is Reason.RECOMMENDATION_USED:
        cause = f"{advice.recommended_ms} ms are recommended, and the group's protocol is not known yet"
        desired = replace(desired, advice=advice.shown(cause))
    inject_ms = None if assumed.group_setting else chosen_ms
    if protocol is None or injection.verdict in _GOES_ON:  # the number of before stays
        inject_ms = injection.injected.session_timeout_ms if injection.injected is not None else None
    plan = TimeoutPlan(
        protocol=protocol,
        brokers=brokers,
        desired=desired,
        chosen_ms=chosen_ms,
        inject_ms=inject_ms,
        group_config=group_config,
    )
    plan = replace(plan, next_ms=_next_ms(spec, snapshot, plan, injection))

    # Step 4: compare it, and what holds now, with what a restart takes.
    plan = replace(plan, in_force=_in_force(spec, snapshot, plan, bounds.heartbeat_ms, now_s))
    reason, message = _verdict(spec, plan, bounds, injection, may_write=writes)
    return replace(plan, reason=reason, message=message)


def _left_to_others(desired: DesiredTimeout, protocol: Protocol, brokers: SessionBounds) -> DesiredTimeout:
    """Return what a group's setting is judged by that a person or another program sets."""
    advice, setting = desired.advice, protocol.group_setting
    fleet_ms = advice.fleet_ms if advice is not None else None
    if advice is not None and advice.reason is Reason.RECOMMENDATION_USED and fleet_ms != brokers.group_ms:
        advice = advice.shown(f"set {setting}={fleet_ms} on the group")
    return replace(
        desired,
        need_ms=desired.need_ms if fleet_ms is None else fleet_ms,
        source=TimeoutSource.BROKER,
        basis=Basis.GROUP_CONFIG,
        why=f"the group's own setting, which the operator does not set; {desired.why}",
        advice=advice,
    )


def _next_ms(spec: StaticGroupSpec, snapshot: Snapshot, t: TimeoutPlan, injection: InjectionPlan) -> int | None:
    """Return what the next pods get; an injected variable takes the place of one that the template sets."""
    if t.is_of_group:
        return t.brokers.group_ms if t.group_config.target_ms is None else t.group_config.target_ms
    if not all(entry.session_timeout_name for entry in env_entries(spec.client)):
        return None
    return t.inject_ms if _injects(injection) and t.inject_ms is not None else _of_template(spec, snapshot)


def _in_force(spec: StaticGroupSpec, snapshot: Snapshot, t: TimeoutPlan, heartbeat_ms: int, now_s: float) -> InForce:
    live = [pod for pod in snapshot.pods if pod.state is PodState.LIVE and snapshot.watch]
    unseen = _unseen(snapshot)
    shown = {ms for pod in live for ms in pod.session_timeouts_ms}
    if t.is_of_group:
        slow_ms = t.group_config.record.slow_ms(heartbeat_ms, now_s)
        if t.brokers.group_ms is None:
            return InForce(slow_ms=slow_ms, pods=len(live) + unseen, unknown=len(live) + unseen)
        held = {t.brokers.group_ms} | (shown if _of_template(spec, snapshot) is None else set())
        held |= {slow_ms} if slow_ms is not None else set()
        return InForce(shortest_ms=min(held), longest_ms=max(held), slow_ms=slow_ms, pods=len(live) + unseen)
    all_named = all(entry.session_timeout_name for entry in env_entries(spec.client))
    silent = [pod.pod_name for pod in live if not pod.session_timeouts_ms or not all_named]
    before = _of_before(snapshot)
    before_ms = min(before, default=None)
    is_shorter = before_ms is not None and before_ms < min(shown, default=TIMEOUT_MS_MAX + 1)
    shown |= before
    return InForce(
        shortest_ms=min(shown, default=None),
        longest_ms=max(shown, default=None),
        slow_ms=before_ms if is_shorter else None,
        pods=len(live) + unseen,
        unknown=len(silent) + unseen,
        such_as=min(silent, default=""),
    )


def _of_before(snapshot: Snapshot) -> set[int]:
    """Return the session timeouts of pods that are gone with which the seats of their successors still run.

    That is until the successor's first heartbeat, known by how long it is Ready, or until the session has expired.
    """
    found: set[int] = set()
    scope = snapshot.scope
    for pod in snapshot.pods:
        ready_s = snapshot.described_at_s - pod.ready_since_s if pod.ready_since_s is not None else 0.0
        if pod.state is not PodState.LIVE or ready_s >= CLASSIC.heartbeat_interval_s:
            continue
        gone = [
            i for i in snapshot.known
            if seat_name(i, scope) == seat_name(pod, scope) and i.uid != pod.uid and i.created_at_s <= pod.created_at_s
        ]  # fmt: skip
        before = max(gone, key=lambda i: (i.created_at_s, i.resource_version), default=None)
        if before is not None and not before.object_present:
            age_ms = 1000 * (snapshot.described_at_s - pod.created_at_s)
            found |= {ms for ms in before.session_timeouts_ms if age_ms < ms}
    return found


def _unseen(snapshot: Snapshot) -> int:
    """Return how many pods the StatefulSet reports that were never seen; at least one while the watch is not complete.

    A name whose pod went explains one: the StatefulSet's status may be behind. No clock decides, or time alone would be
    news.
    """
    reported = snapshot.workload.status_replicas if snapshot.workload is not None else 0
    if not snapshot.watch:
        return max(1, reported)
    name = snapshot.workload.name if snapshot.workload is not None else ""
    names = {pod.pod_name for pod in (*snapshot.pods, *snapshot.known)}
    return max(0, reported - sum(ordinal_of_pod(name, pod_name) is not None for pod_name in names))


def _of_template(spec: StaticGroupSpec, snapshot: Snapshot) -> int | None:
    """Return the session timeout that the pod template sets itself; None when none, or none that a client takes."""
    names = {entry.session_timeout_name for entry in env_entries(spec.client)} - {""}
    containers = snapshot.workload.containers if snapshot.workload is not None else ()
    texts = [value for c in containers for name, value in c.env_values if name in names]
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 10]
    return min((n for n in numbers if 0 < n <= TIMEOUT_MS_MAX), default=None)


def _injects(injection: InjectionPlan) -> bool:
    """True while new pods get what `injected` says, also when a later template of ids is refused."""
    return injection.injected is not None and injection.injected.method != InjectedMethod.NONE.value


def _verdict(
    spec: StaticGroupSpec, t: TimeoutPlan, bounds: Bounds, injection: InjectionPlan, *, may_write: bool
) -> tuple[Reason, str]:
    """Judge: what to change for the next pods comes first, because a restart alone would not help without it."""
    if t.protocol is None:
        way = "set spec.groupProtocol to decide it now"
        return Reason.TIMEOUT_UNKNOWN, (
            f"the group's protocol is not known yet, so no session timeout is injected; {way}"
        )

    # Step 1: what the operator gives the next pods; where it sets no session timeout, its choice does not matter.
    is_by_hand = not t.is_of_group and (
        injection.verdict in _BY_HAND or not any(e.session_timeout_name for e in env_entries(spec.client))
    )
    found = None if is_by_hand else _of_next_pods(t, t.protocol, bounds, may_write=may_write)
    if found is not None and found[0] is not Reason.TIMEOUT_UNKNOWN:
        return found

    # Step 2: what pods that run hold, and what the pod template gives the next ones.
    need, shortest_ms = _need(t), t.in_force.shortest_ms
    if shortest_ms is not None and shortest_ms < t.desired.need_ms:
        return Reason.TIMEOUT_BELOW_NEED, f"{need} but pods that run hold {shortest_ms} ms; {_way_for_pods(spec, t)}"
    if is_by_hand and t.next_ms is not None and t.next_ms < t.desired.need_ms:
        way = f"set the session timeout in the pod template to at least {t.desired.need_ms}"
        return Reason.TIMEOUT_BELOW_NEED, f"{need} but the next pods get {t.next_ms} ms; {way}"

    # Step 3: what is not known.
    if found is not None:
        return found
    if t.in_force.unknown:
        return Reason.TIMEOUT_UNKNOWN, _not_known(spec, t, injection)
    if shortest_ms is None and t.next_ms is None:
        return Reason.TIMEOUT_UNKNOWN, f"there is no pod now, and {_why_not_set(spec)}"
    return Reason.TIMEOUT_FITS, ""


def _of_next_pods(t: TimeoutPlan, protocol: Protocol, bounds: Bounds, *, may_write: bool) -> tuple[Reason, str] | None:
    """Judge what the operator chose for the next pods, or found set on the group; None when that suffices."""
    need_ms, target_ms, setting = t.desired.need_ms, t.group_config.target_ms, protocol.group_setting
    group_ms, asked_ms = t.brokers.group_ms, t.desired.target_ms
    gets_ms: int | None = t.chosen_ms if not setting else group_ms if target_ms is None else target_ms
    if gets_ms is None or (setting and may_write and bounds.is_assumed):
        unread, on = ("and its bounds are", "the Group and the Cluster") if may_write else ("is", "the Group")
        right = f"once the brokers answer, this needs DESCRIBE_CONFIGS on {on} resource"
        return Reason.TIMEOUT_UNKNOWN, f"{setting} of the group {unread} not known; {right}"
    is_fixed = t.desired.source is TimeoutSource.FIXED
    if is_fixed and t.chosen_ms != asked_ms:
        way, end = ("raise", "max") if asked_ms > bounds.broker_max_ms else ("lower", "min")
        assumed = " (assumed, the broker's bounds are unreadable)" if bounds.is_assumed else ""
        return Reason.BROKER_BOUND_TOO_LOW, (
            f"spec.sessionTimeout.seconds asks for {asked_ms} ms but the broker allows {bounds.broker_min_ms} to "
            f"{bounds.broker_max_ms} ms{assumed}; {gets_ms} ms is {'set' if setting else 'injected'} instead; "
            f"{way} {protocol.prefix}{end}.session.timeout.ms to {asked_ms} on the brokers or change the field"
        )
    if gets_ms < need_ms:
        is_low = bool(setting) and (target_ms is None or bounds.broker_max_ms < need_ms)
        way = bounds.way_to(need_ms, fixed_ms=asked_ms if is_fixed else None)
        if setting and target_ms is None:
            first = f"{bounds.raise_brokers(need_ms)}, then " if bounds.broker_max_ms < need_ms else ""
            way = f"{first}set {setting}={need_ms} on the group"
        gets = f"the group's session ends after {gets_ms} ms" if setting else f"the next pods get {gets_ms} ms"
        reason = Reason.BROKER_BOUND_TOO_LOW if is_low else Reason.TIMEOUT_BELOW_NEED
        return reason, f"{_need(t)} but {gets}" + ("" if t.group_config.is_elsewhere else f"; {way}")
    if group_ms is not None and group_ms < need_ms:
        problem = t.group_config.record.problem
        being = f"it is being set to {target_ms} ms"
        if problem is not None:
            being = f"{target_ms} ms could not be set: {problem.message}"
        return Reason.TIMEOUT_BELOW_NEED, f"{_need(t)} but the group's session ends after {group_ms} ms; {being}"
    if not setting and bounds.is_assumed:
        return Reason.TIMEOUT_UNKNOWN, (
            f"the broker's bounds are not known, {ASSUMED_MIN_MS} to {ASSUMED_MAX_MS} ms are assumed; once the brokers "
            "answer, this needs DESCRIBE_CONFIGS on the Cluster resource"
        )
    return None


def _way_for_pods(spec: StaticGroupSpec, t: TimeoutPlan) -> str:
    """Say how pods that run with too short a session timeout come to a longer one."""
    if t.in_force.shortest_ms == t.in_force.slow_ms:
        if not t.is_of_group:
            return "those that have just restarted hold the longer one within seconds"
        taken = f"they take over the {t.brokers.group_ms} ms of the group with their next heartbeat"
        return f"{taken}, and those that are away when they are back"
    if t.is_of_group:
        return "restart them, and they hold the setting of the group"
    if t.next_ms is not None and t.next_ms >= t.desired.need_ms:
        return f"restart them, and they get {t.next_ms} ms"
    return f"set the session timeout of the {role_of(spec).plural} to at least {t.desired.need_ms}"


def _need(t: TimeoutPlan) -> str:
    """Say what a session timeout must reach, and by which source."""
    if t.desired.is_from_fleet:
        return f"the fleet learner recommends that a member may be away for {t.desired.need_ms} ms"
    return f"a restart may keep a member away for {t.desired.need_ms} ms"


def _not_known(spec: StaticGroupSpec, t: TimeoutPlan, injection: InjectionPlan) -> str:
    """Say of how many pods the session timeout is not known, and what to do."""
    if not t.in_force.such_as:
        return "the session timeout of pods that cannot be seen now is not known"
    count = f"{t.in_force.unknown} of {t.in_force.pods} pods, such as {t.in_force.such_as},"
    unnamed = next((e.instance_id_name for e in env_entries(spec.client) if not e.session_timeout_name), "")
    if unnamed and t.in_force.shortest_ms is not None:
        return (
            f"{count} do not show the session timeout of all their {role_of(spec).plural}: spec.client.env names no "
            f"variable for it (sessionTimeoutName) beside {unnamed}"
        )
    count += " show no session timeout in their environment"
    if t.next_ms is not None and _injects(injection):
        return f"{count}; restart them, and they get {t.next_ms} ms"
    return f"{count}: {_why_not_set(spec)}"


def _why_not_set(spec: StaticGroupSpec) -> str:
    """Say why the operator sets no session timeout, and what does."""
    if spec.mode is Mode.OBSERVE:
        return "nothing is injected in mode Observe"
    names = sorted({entry.session_timeout_name for entry in env_entries(spec.client)} - {""})
    if not names:
        return "spec.client.env names no variable for it (sessionTimeoutName)"
    return f"nothing is injected; set {names[0]} in the pod template"


def seconds(value_ms: int) -> str:
    """Return milliseconds as people read them, such as 125 s or 90.5 s."""
    return f"{value_ms / 1000:g} s"
