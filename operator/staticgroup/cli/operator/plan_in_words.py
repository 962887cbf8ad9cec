"""A plan in words: the state of each seat, what is planned, and the findings that the status would show."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.ordinals import Ordinals
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ...core.evidence.chain import KnownPod
from ...core.findings import ended
from ...core.findings.members import findings_of_seats
from ...core.group import GroupView, KafkaProblem
from ...core.outcomes import Executed
from ...core.plan import Plan
from ...core.seats import Seat
from ...core.snapshot import Snapshot
from ...core.status.projection import findings_of_round
from ...core.timeouts.in_force import TimeoutPlan, seconds

FINDINGS_MAX = 100


def explained(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, now_s: float) -> str:
    """Return the explanation of one round as lines of text."""
    return "\n".join(_lines(spec, snapshot, decided, now_s)) + "\n"


def _lines(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, now_s: float) -> Iterator[str]:
    yield f"StaticGroup {snapshot.namespace}/{snapshot.name}: {spec.mode.value}{', suspended' if spec.suspend else ''}"
    yield from _world(spec, snapshot, decided)
    if isinstance(snapshot.group, KafkaProblem):
        yield f"Group {spec.group_id}: not readable ({snapshot.group.kind.value})."
    else:
        yield from _seats(snapshot.group, decided, now_s)
        yield from _removals(spec, decided)
    yield from _findings(spec, snapshot, decided)
    yield f"Next round in {decided.requeue_after_s:.0f} s at the latest."


def _world(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> Iterator[str]:
    w = snapshot.workload
    if w is None:
        why = "cannot be read" if snapshot.workload_problem else "does not exist"
        yield f"Workload: {spec.workload_ref.kind} {spec.workload_ref.name} {why}."
    else:
        wanted = f"ordinals {w.start} to {w.start + w.replicas - 1}" if w.replicas else "no pods"
        if w.listed:
            wanted = f"ordinals {Ordinals.of(*w.reach).words}"
        yield f"Workload: {w.kind.kind} {w.name} wants {wanted}; {w.ready_replicas} ready{', rolling' if w.is_rolling else ''}."
    injected = decided.history.injected
    if injected is None:
        yield "Identity: no id has been issued yet; ids are issued once the pod watch is complete."
    else:
        yield f"Identity: {injected.id_template}, injected by {injected.method}; {_watch(snapshot, decided)}."
    if decided.timeout is not None:
        t = decided.timeout
        yield f"Session timeout: {_timeouts(t)} ({t.desired.source.value}, {t.desired.basis.value}): {t.desired.why}."
    if decided.group_config is not None:
        yield f"To be set on the group: {', '.join(f'{key}={value}' for key, value in sorted(decided.group_config.values.items()))}."


def _timeouts(t: TimeoutPlan) -> str:
    """Say what holds, and what the next pods get if that is another one."""
    shortest_ms, longest_ms, unknown = t.in_force.shortest_ms, t.in_force.longest_ms, t.in_force.unknown
    if shortest_ms is None or longest_ms is None:
        held = "unknown" if unknown else "none in force"
    elif shortest_ms == longest_ms:
        held = seconds(shortest_ms)
    else:
        held = f"{seconds(shortest_ms)} to {seconds(longest_ms)}"
    if unknown and shortest_ms is not None:
        held += f", unknown of {unknown} of {t.in_force.pods} pods"
    if t.next_ms is None or (not unknown and shortest_ms == longest_ms == t.next_ms):
        return held
    return f"{held}; the next pods get {seconds(t.next_ms)}"


def _watch(snapshot: Snapshot, decided: Plan) -> str:
    """Say whether pods may have come and gone unseen."""
    if not snapshot.watch:
        return "the pod watch is not whole now, so nobody is removed"
    if decided.history.members.watch == snapshot.watch:
        return "the pod watch has seen every pod that can join"
    return "members that joined before the pod watch was whole stay until their session expires or their pod restarts"


def _seats(group: GroupView, decided: Plan, now_s: float) -> Iterator[str]:
    yield f"Group {group.group_id}: {group.group_type.value}, {group.state}, {len(group.members)} members, coordinator {group.coordinator}."
    for seat in decided.table.seats if decided.table is not None else ():
        held = f", held by member {' and '.join(m.member_id for m in seat.holders)}" if not seat.is_wanted and seat.holders else ""
        yield f"  {seat.key}: {seat.standing.value}{held}{_worker(seat)}."
        for member in seat.holders:
            yield from _carriers(decided, seat, member.member_id)
        for pod in seat.chain:
            yield f"      {_pod(pod, now_s)}"


def _worker(seat: Seat) -> str:
    """Say what a Connect worker holds; nothing of other members."""
    worker = seat.holders[0].worker if seat.holders else None
    if worker is None:
        return ""
    is_known = worker.connectors is not None
    work = f"{worker.connectors} connectors and {worker.tasks} tasks" if is_known else "connectors and tasks not known"
    return f", {work}, advertised as {worker.host or 'nothing that can be read'}"


def _carriers(decided: Plan, seat: Seat, member_id: str) -> Iterator[str]:
    """Say who was there when a member joined and has not ended."""
    found = decided.history.members.attribution(seat.key, member_id)
    if found is not None and not seat.is_wanted:
        left = ", ".join(sorted(found.carriers)) or "nobody"
        yield f"      left of those that were there when it joined: {left}"


def _pod(i: KnownPod, now_s: float) -> str:
    evidence = f"{i.certificate.kind.value}: {i.certificate.statement}" if i.certificate else i.refusal
    return f"pod {i.pod_name} uid {i.uid}: {i.state.value} for {max(0, int(now_s - i.since_s))} s; {evidence}"


def _removals(spec: StaticGroupSpec, decided: Plan) -> Iterator[str]:
    for action in decided.actions:
        for r in action.removals:
            verb = "would be removed (mode Observe)" if spec.mode is Mode.OBSERVE else "is removed"
            yield f"Plan: {r.entry.instance_id} {verb}: {r.evidence}."
    for record in decided.history.removals:
        if record.settled_at_s is None:
            yield f"Verifying: {record.instance_id} was removed, attempt {record.attempts}; not yet seen to last."
    if not decided.actions and not decided.held:
        yield "Plan: nothing to remove."


def _findings(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> Iterator[str]:
    """Yield what the status says, in the same words."""
    executed = Executed(observe_only=spec.mode is Mode.OBSERVE)
    for finding in findings_of_round(spec, snapshot, decided, executed):
        yield f"{finding.kind}: {finding.status} ({finding.reason}). {finding.text}"
    findings = tuple(findings_of_seats(decided, snapshot))
    for finding in findings[:FINDINGS_MAX]:
        about = finding.subject.instance_id or finding.subject.pod_name or "the group"
        yield f"{finding.kind}: {about} ({finding.reason}): {ended(finding.text)}"
    if len(findings) > FINDINGS_MAX:
        yield f"... and {len(findings) - FINDINGS_MAX} more."
