"""A plan in words: per member what is seen, what is planned, and which guard holds it back."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.staticgroup import Mode, StaticGroupSpec
from ...core.chain import Incarnation
from ...core.group import GroupView, KafkaProblem
from ...core.plan import Plan
from ...core.snapshot import Snapshot


def explained(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, now_s: float) -> str:
    """Return the explanation of one round as lines of text."""
    return "\n".join(_lines(spec, snapshot, decided, now_s)) + "\n"


def _lines(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, now_s: float) -> Iterator[str]:
    yield f"StaticGroup {snapshot.namespace}/{snapshot.name}: {spec.mode.value}{', suspended' if spec.suspend else ''}"
    yield from _world(spec, snapshot, decided)
    if isinstance(snapshot.group, KafkaProblem):
        yield f"Group {spec.group_id}: not readable ({snapshot.group.kind.value}). {snapshot.group.message}"
        return
    yield from _members(snapshot, snapshot.group, decided, now_s)
    yield from _removals(spec, decided)
    yield f"Next look in {decided.requeue_after_s:.0f} s at the latest."


def _world(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> Iterator[str]:
    w = snapshot.workload
    if w is None:
        yield f"Workload: StatefulSet {spec.workload_ref.name} does not exist."
    else:
        wanted = f"ordinals {w.start} to {w.start + w.replicas - 1}" if w.replicas else "no pods"
        yield f"Workload: StatefulSet {w.name} wants {wanted}; {w.ready_replicas} ready{', rolling' if w.is_rolling else ''}."
    if decided.too_large:
        yield f"Workload: {decided.too_large}; nothing is decided about it."
    injected = decided.history.injected
    if injected is None:
        yield "Identity: no id has been issued yet; ids are issued once the pod watch is complete."
    else:
        yield f"Identity: {injected.id_template}, injected by {injected.method}; {_continuity(snapshot)}."
    if decided.identity_error:
        yield f"Identity: {decided.identity_error}"
    if decided.timeout is not None:
        t = decided.timeout
        effective = f"{t.effective_ms / 1000:g} s" if t.effective_ms is not None else "unknown"
        yield f"Session timeout: {effective} ({t.source.value}), a restart is estimated to take {t.structural_ms / 1000:g} s."
        if t.message:
            yield f"  {t.message}."
        if t.advice is not None:
            said = ", ".join(f"{name} {fact}" if name != "cause" else str(fact) for name, fact in t.advice.facts)
            yield f"Recommendation: {t.advice.reason.value}{f'; {said}' if said else ''}."
    if snapshot.overlaps:
        yield f"Conflict: {', '.join(snapshot.overlaps)} issue the same ids."


def _continuity(snapshot: Snapshot) -> str:
    known = snapshot.continuity
    if known is None:
        return "nothing is known now of the seats' histories: the pod watch is not complete"
    if not known.blind:
        return "no pod of any seat can have come and gone unseen since ids were first issued"
    blind = "; ".join(f"ordinals {s.ordinals.words} from {s.words}" for s in known.blind)
    return f"pods can have come and gone unseen of {blind}; staticgroup confirm-gap --list says what to do"


def _members(snapshot: Snapshot, group: GroupView, decided: Plan, now_s: float) -> Iterator[str]:
    yield f"Group {group.group_id}: {group.group_type.value}, {group.state}, {len(group.members)} members, coordinator {group.coordinator}."
    m = decided.membership
    if m is None:
        return
    for instance_id in m.expected:
        if instance_id in m.joined:
            yield f"  {instance_id}: joined."
        elif instance_id in m.unissued:
            yield f"  {instance_id}: not held, its pod runs without the id."
        elif instance_id in m.missing:
            yield f"  {instance_id}: MISSING. Its pod is Ready but nobody holds the id; restart the pod."
        else:
            yield f"  {instance_id}: away, its pod is restarting."
    for member in m.departed:
        yield f"  {member.instance_id}: DEPARTED, still held by member {member.member_id}."
        for incarnation in snapshot.chains.get(member.instance_id or "", ()):
            yield f"      {_incarnation(incarnation, now_s)}"
    if m.foreign:
        yield f"  {len(m.foreign)} static members are not ours: {', '.join(str(f.instance_id) for f in m.foreign[:5])}{' ...' if len(m.foreign) > 5 else ''}. Never touched."
    if m.dynamic:
        yield f"  {len(m.dynamic)} members have no group.instance.id. Never touched."
    for pod in decided.pods_without_id:
        yield f"  pod {pod.pod_name} runs without its id; kubectl -n {snapshot.namespace} delete pod {pod.pod_name} gives it one."


def _incarnation(i: Incarnation, now_s: float) -> str:
    evidence = f"{i.certificate.kind.value}: {i.certificate.statement}" if i.certificate else i.refusal
    return f"pod {i.pod_name} uid {i.uid}: {i.state.value} for {max(0, int(now_s - i.since_s))} s; {evidence}"


def _removals(spec: StaticGroupSpec, decided: Plan) -> Iterator[str]:
    for action in decided.actions:
        for r in action.removals:
            verb = "would be removed (mode Observe)" if spec.mode is Mode.OBSERVE else "is removed"
            yield f"Plan: {r.entry.instance_id} {verb}: {r.chain.message}."
    for h in decided.held:
        yield f"Held: {h.instance_id} by {h.guard.value}: {h.message}."
    for record in decided.history.removals:
        if record.settled_at_s is None:
            yield f"Verifying: {record.instance_id} was removed, attempt {record.attempts}; not yet seen to last."
    if not decided.actions and not decided.held:
        yield "Plan: nothing to remove."
