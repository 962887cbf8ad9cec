"""Which session timeouts hold now, and which one the next pods get: two things as long as pods are to be restarted.

A classic member holds what its pod was started with, as the pod shows it in its environment or its annotation, from its first heartbeat
on: until then the coordinator counts with the timeout of whoever had the seat before (GroupMetadataManager, replacement of a static
member: the timer is started before the member is updated). Members of
a KIP-848 or streams group hold the group's setting at the broker, beside pods that still show one of their own: a client
of these protocols does not start with session.timeout.ms, so such a pod is a classic member that has not been replaced;
unless the pod template sets one all the same, which then no client takes up.
"""

from __future__ import annotations

from dataclasses import replace

from ...api.injection import env_entries, identity_of
from ...api.resources.durable import InjectedMethod
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ...api.schema import TIMEOUT_MS_MAX
from ..evidence.chain import PodState
from ..ids.naming import ordinal_of_pod
from ..protocols import CLASSIC, Protocol
from ..roles import role_of
from ..snapshot import Snapshot
from .injection import InjectionPlan, InjectionVerdict
from .timeouts import InForce, TimeoutPlan, TimeoutVerdict, need_words


def judged(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    timeout: TimeoutPlan,
    injection: InjectionPlan,
    protocol: Protocol | None,
) -> TimeoutPlan:
    """Add to a plan for the next pods what holds now, and judge both.

    Parameters
    ----------
    timeout, injection: as planned for the next pods.
    protocol: as `timeout` was planned for.

    Returns
    -------
    The plan; its verdict is Sufficient only if everything that holds is known and reaches the need, and so does what the
    next pods get.
    """
    if not _is_of_the_group(protocol):
        timeout = replace(timeout, slow_ms=_slow_ms(snapshot))
    in_force = _in_force(spec, snapshot, timeout, protocol)
    found = replace(timeout, in_force=in_force, next_ms=_next_ms(spec, snapshot, timeout, injection, protocol))
    verdict, message = _verdict(spec, found, injection, protocol)
    return replace(found, verdict=verdict, message=message)


def _in_force(
    spec: StaticGroupSpec, snapshot: Snapshot, timeout: TimeoutPlan, protocol: Protocol | None
) -> InForce:
    live = [pod for pod in snapshot.pods if pod.state is PodState.LIVE and snapshot.watch]
    unseen = _unseen(snapshot)
    shown = {t for pod in live for t in pod.session_timeouts_ms}
    if _is_of_the_group(protocol):
        if timeout.group_ms is None:
            return InForce(pods=len(live) + unseen, unknown=len(live) + unseen)
        held = {timeout.group_ms} | (shown if _of_template(spec, snapshot) is None else set())
        held |= {timeout.slow_ms} if timeout.slow_ms is not None else set()
        return InForce(shortest_ms=min(held), longest_ms=max(held), pods=len(live) + unseen)
    is_told = all(entry.session_timeout_name for entry in env_entries(identity_of(spec)))
    shown |= _of_before(snapshot)
    silent = [pod.pod_name for pod in live if not pod.session_timeouts_ms or not is_told]
    return InForce(
        shortest_ms=min(shown, default=None),
        longest_ms=max(shown, default=None),
        pods=len(live) + unseen,
        unknown=len(silent) + unseen,
        such_as=min(silent, default=""),
    )


def _slow_ms(snapshot: Snapshot) -> int | None:
    """Return what a seat still runs with and no pod that lives was started with, where it is shorter; None when there is none."""
    before_ms = min(_of_before(snapshot), default=None)
    own = [ms for pod in snapshot.pods if pod.state is PodState.LIVE for ms in pod.session_timeouts_ms]
    return before_ms if before_ms is not None and before_ms < min(own, default=before_ms + 1) else None


def _of_before(snapshot: Snapshot) -> set[int]:
    """Return the session timeouts of pods that are gone with which the seats of their successors still run.

    Notes
    -----
    That is until the successor's first heartbeat, told by how long it is Ready, or until the session has expired.
    """
    found: set[int] = set()
    for pod in snapshot.pods:
        has_beaten = pod.ready_since_s is not None and snapshot.described_at_s - pod.ready_since_s >= CLASSIC.heartbeat_interval_s
        if pod.state is not PodState.LIVE or has_beaten:
            continue
        gone = [i for i in snapshot.known if i.pod_name == pod.pod_name and i.uid != pod.uid and i.created_at_s <= pod.created_at_s]
        before = max(gone, key=lambda i: (i.created_at_s, i.resource_version), default=None)
        told = before.session_timeouts_ms if before is not None and not before.object_present else ()
        found |= {ms for ms in told if snapshot.described_at_s - pod.created_at_s < ms / 1000}
    return found


def _is_of_the_group(protocol: Protocol | None) -> bool:
    """True where all members hold a setting of their group."""
    return protocol is not None and bool(protocol.group_setting)


def _unseen(snapshot: Snapshot) -> int:
    """Return how many pods the StatefulSet reports that were never seen; at least one while the watch is not complete.

    Notes
    -----
    A name whose pod went explains one: the StatefulSet's status may be behind. No clock decides, or time alone would be news.
    """
    reported = snapshot.workload.status_replicas if snapshot.workload is not None else 0
    if not snapshot.watch:
        return max(1, reported)
    name = snapshot.workload.name if snapshot.workload is not None else ""
    seen = {pod.pod_name for pod in (*snapshot.pods, *snapshot.known) if ordinal_of_pod(name, pod.pod_name) is not None}
    return max(0, reported - len(seen))


def _next_ms(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    timeout: TimeoutPlan,
    injection: InjectionPlan,
    protocol: Protocol | None,
) -> int | None:
    """Return what the next pods get; an injected variable takes the place of one that the template sets."""
    if _is_of_the_group(protocol):
        return timeout.group_ms if timeout.group_target_ms is None else timeout.group_target_ms
    names = {entry.session_timeout_name for entry in env_entries(identity_of(spec))}
    if "" in names:
        return None
    injected = injection.injected
    if injected is not None and _injects(injection) and injected.session_timeout_ms is not None:
        return injected.session_timeout_ms
    return _of_template(spec, snapshot)


def _of_template(spec: StaticGroupSpec, snapshot: Snapshot) -> int | None:
    """Return the session timeout that the pod template sets itself; None when none, or none that a client takes."""
    names = {entry.session_timeout_name for entry in env_entries(identity_of(spec))} - {""}
    containers = snapshot.workload.containers if snapshot.workload is not None else ()
    texts = [value for c in containers for name, value in c.env_values if name in names]
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 10]
    return min((n for n in numbers if 0 < n <= TIMEOUT_MS_MAX), default=None)


def _injects(injection: InjectionPlan) -> bool:
    """True while new pods get what `injected` says, also when a later template of ids is refused."""
    return injection.injected is not None and injection.injected.method != InjectedMethod.NONE.value


def _is_left_to_the_template(spec: StaticGroupSpec, injection: InjectionPlan) -> bool:
    """True where the operator sets the session timeout of no pod, so that what it would choose is nobody's."""
    is_off = injection.verdict in (InjectionVerdict.OFF_BY_USER, InjectionVerdict.OBSERVE_ONLY, InjectionVerdict.NOT_SERVED)
    return is_off or not any(entry.session_timeout_name for entry in env_entries(identity_of(spec)))


def _verdict(
    spec: StaticGroupSpec, t: TimeoutPlan, injection: InjectionPlan, protocol: Protocol | None
) -> tuple[TimeoutVerdict, str]:
    """Judge: what to change for the next pods comes first, because a restart alone would not help without it."""
    is_by_hand = not _is_of_the_group(protocol) and _is_left_to_the_template(spec, injection)
    is_unsure = t.verdict in (TimeoutVerdict.UNKNOWN, TimeoutVerdict.BOUNDS_UNREADABLE)
    if t.verdict is TimeoutVerdict.UNKNOWN or not (t.verdict is TimeoutVerdict.SUFFICIENT or is_unsure or is_by_hand):
        return t.verdict, t.message
    need = need_words(t.need_ms, is_fleet=t.is_from_fleet)
    shortest_ms = t.in_force.shortest_ms
    if shortest_ms is not None and shortest_ms < t.need_ms:
        if shortest_ms == t.slow_ms:
            way = "those that took a seat over hold their own from their first heartbeat on"
            if _is_of_the_group(protocol):
                way = f"they take over the {t.group_ms} ms of the group with their next heartbeat, and those that are away when they are back"
        elif _is_of_the_group(protocol):
            way = "restart them, and they hold the setting of the group"
        elif t.next_ms is not None and t.next_ms >= t.need_ms:
            way = f"restart them, and they get {t.next_ms} ms"
        else:
            way = f"set the session timeout of the {role_of(spec).plural} to at least {t.need_ms}"
        return TimeoutVerdict.BELOW_NEED, f"{need} but pods that run hold {shortest_ms} ms; {way}"
    if is_by_hand and t.next_ms is not None and t.next_ms < t.need_ms:
        way = f"set the session timeout in the pod template to at least {t.need_ms}"
        return TimeoutVerdict.BELOW_NEED, f"{need} but the next pods get {t.next_ms} ms; {way}"
    if is_unsure and not is_by_hand:
        return t.verdict, t.message
    if t.in_force.unknown:
        return TimeoutVerdict.UNKNOWN, _not_known(spec, t, injection)
    if shortest_ms is None and t.next_ms is None:
        return TimeoutVerdict.UNKNOWN, f"there is no pod now, and {_why_not_set(spec)}"
    return TimeoutVerdict.SUFFICIENT, ""


def _not_known(spec: StaticGroupSpec, t: TimeoutPlan, injection: InjectionPlan) -> str:
    """Say of how many pods the session timeout is not known, and what to do."""
    if not t.in_force.such_as:
        return "the session timeout of pods that cannot be seen now is not known"
    count = f"{t.in_force.unknown} of {t.in_force.pods} pods, such as {t.in_force.such_as}, show no session timeout"
    untold = _untold(spec)
    if untold and t.in_force.shortest_ms is not None:
        return (
            f"{t.in_force.unknown} of {t.in_force.pods} pods, such as {t.in_force.such_as}, do not show the session timeout of all "
            f"their {role_of(spec).plural}: spec.identity.env names no variable for it (sessionTimeoutName) beside {untold}"
        )
    if t.next_ms is not None and _injects(injection):
        return f"{count} in their environment; restart them, and they get {t.next_ms} ms"
    return f"{count} in their environment: {_why_not_set(spec)}"


def _untold(spec: StaticGroupSpec) -> str:
    """Return the variable of the first consumer for whose session timeout none is named; "" when each has one."""
    return next((e.instance_id_name for e in env_entries(identity_of(spec)) if not e.session_timeout_name), "")


def _why_not_set(spec: StaticGroupSpec) -> str:
    """Say why the operator sets no session timeout, and who does."""
    if spec.mode is Mode.OBSERVE:
        return "nothing is injected in mode Observe"
    names = sorted({entry.session_timeout_name for entry in env_entries(identity_of(spec))} - {""})
    if not names:
        return "spec.identity.env names no variable for it (sessionTimeoutName)"
    return f"nothing is injected; set {names[0]} in the pod template"
