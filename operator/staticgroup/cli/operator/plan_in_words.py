"""A plan in words: the state of each seat, what is planned, and the findings that the status would show."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.ordinals import Ordinals
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ...core.findings import ended
from ...core.findings.issues import findings_of_seats
from ...core.group import GroupView, KafkaProblem
from ...core.outcomes import Executed
from ...core.plan import Plan
from ...core.seats import Seat
from ...core.snapshot import Snapshot
from ...core.status.projection import findings_of_round
from ...core.timeouts.in_force import TimeoutPlan, seconds
from ..explanation import injected_by

FINDINGS_MAX = 100


def explained(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, now_s: float) -> str:
    """Return the explanation of one round as lines of text."""
    lines = [
        f"StaticGroup {snapshot.namespace}/{snapshot.name}: {spec.mode.value}",
        *_world(spec, snapshot, decided),
        *_group(spec, snapshot.group, decided, now_s),
        *_findings(spec, snapshot, decided),
        f"Next round in {decided.requeue_after_s:.0f} s at the latest.",
    ]
    return "\n".join(lines) + "\n"


def _world(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> Iterator[str]:
    w = snapshot.workload
    if w is None:
        why = "cannot be read" if snapshot.workload_problem else "does not exist"
        yield f"Workload: {spec.workload_ref.kind} {spec.workload_ref.name} {why}."
    else:
        wanted = f"ordinals {w.start} to {w.start + w.replicas - 1}" if w.replicas else "no pods"
        if w.listed:
            wanted = f"ordinals {Ordinals.of(*w.reach).words}"
        rolling = ", rolling" if w.is_rolling else ""
        yield f"Workload: {w.kind.kind} {w.name} wants {wanted}; {w.ready_replicas} ready{rolling}."
    injected = decided.history.injected
    if injected is None:
        yield "Identity: no id has been issued yet; ids are issued once the pod watch is complete."
    else:
        if not snapshot.watch:
            watch = "the pod watch is not complete now, so nobody is removed"
        elif decided.history.members.watch == snapshot.watch:
            watch = "the pod watch has seen every pod that can join"
        else:
            watch = "members that joined before the pod watch was complete stay until their session expires "
            watch += "or their pod restarts"
        yield f"Identity: {injected.id_template}, {injected_by(injected.method)}; {watch}."
    if decided.timeout is not None:
        t = decided.timeout
        yield f"Session timeout: {_timeouts(t)} ({t.desired.source.value}, {t.desired.basis.value}): {t.desired.why}."
    if decided.group_config is not None:
        values = ", ".join(f"{key}={value}" for key, value in sorted(decided.group_config.values.items()))
        yield f"To be set on the group: {values}."


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


def _group(spec: StaticGroupSpec, group: GroupView | KafkaProblem, decided: Plan, now_s: float) -> Iterator[str]:
    """Say in which state each seat is and why, what is removed, and what is still verified."""
    if isinstance(group, KafkaProblem):
        yield f"Group {spec.group_id}: not readable ({group.kind.value})."
        return
    what = f"{group.group_type.value}, {group.state}, {len(group.members)} members, coordinator {group.coordinator}"
    yield f"Group {group.group_id}: {what}."
    for seat in decided.table.seats if decided.table is not None else ():
        is_held = not seat.is_wanted and seat.holders
        held = f", held by member {' and '.join(m.member_id for m in seat.holders)}" if is_held else ""
        yield f"  {seat.key}: {seat.standing.value}{held}{_worker(seat)}."
        for member in seat.holders:
            found = decided.history.members.attribution(seat.key, member.member_id)
            if found is not None and not seat.is_wanted:
                left = ", ".join(sorted(found.carriers)) or "nobody"
                yield f"      left of those that were there when it joined: {left}"
        for i in seat.chain:
            evidence = i.certificate.statement if i.certificate else i.refusal
            state = f"{i.state.value} for {max(0, int(now_s - i.since_s))} s"
            yield f"      pod {i.pod_name} uid {i.uid}: {state}; {evidence}"
    for action in decided.actions:
        for r in action.removals:
            verb = "in mode Manage the operator would remove" if spec.mode is Mode.OBSERVE else "the operator removes"
            yield f"Plan: {verb} {r.entry.instance_id}: {r.evidence}."
    for release in decided.releases:
        yield f"Plan: the crashed member of {release.entry.instance_id} leaves until it restarts: {release.evidence}."
    if decided.topics.action is not None:
        yield f"Plan: group {group.group_id} is rebalanced once for {', '.join(decided.topics.action.topics)}."
    for record in decided.history.removals:
        if record.settled_at_s is None:
            yield f"Verifying: {record.instance_id} was removed, attempt {record.attempts}; not yet seen to last."
    if not (decided.actions or decided.held or decided.releases or decided.topics.action):
        yield "Plan: nothing to remove."


def _worker(seat: Seat) -> str:
    """Say what a Connect worker holds; nothing of other members."""
    worker = seat.holders[0].worker if seat.holders else None
    if worker is None:
        return ""
    is_known = worker.connectors is not None
    work = f"{worker.connectors} connectors and {worker.tasks} tasks" if is_known else "connectors and tasks not known"
    return f", {work}, advertised as {worker.host or 'nothing that can be read'}"


def _findings(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> Iterator[str]:
    """Yield what the status says, in the same words."""
    executed = Executed(observe_only=spec.mode is Mode.OBSERVE)
    for finding in findings_of_round(spec, snapshot, decided, executed):
        yield f"{finding.kind}: {finding.status} ({finding.reason}). {finding.text}"
    findings = tuple(findings_of_seats(spec, decided, snapshot))
    for finding in findings[:FINDINGS_MAX]:
        about = finding.subject.instance_id or finding.subject.pod_name or "the group"
        yield f"{finding.kind}: {about} ({finding.reason}): {ended(finding.text)}"
    if len(findings) > FINDINGS_MAX:
        yield f"... and {len(findings) - FINDINGS_MAX} more."
