"""`explain`: everything that the status of one StaticGroup says, in sentences; `plan` plans a round afresh."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from .api_server import Json
from .status_table import ASK_DOCTOR, age, is_stale, issue_lines

SHOWN_MAX: Final = 50
_NOBODY: Final = {
    "unseen": "a pod that nobody saw, because it joined before the pod watch was complete",
    "unattributed": "no pod that explains it",
}
"""What stands among the carriers for pods that are not known; see core/members/carriers.py."""


def explanation_of(body: Json, now: datetime) -> Iterator[str]:
    """Yield what is known of one StaticGroup, as lines."""
    spec, status, metadata = body.get("spec") or {}, body.get("status") or {}, body["metadata"]
    yield f"StaticGroup {metadata['namespace']}/{metadata['name']}: {spec.get('mode', 'Manage')}"
    if not status:
        yield f"No operator has written a status. Run: {ASK_DOCTOR}"
        return
    if is_stale(body):
        yield "The spec was edited since; what follows is about the spec before."
    yield from _world(spec, status)
    for each in status.get("conditions") or ():
        state = f"{each.get('status')} ({each.get('reason')}) for {age(str(each.get('lastTransitionTime')), now)}"
        yield f"{each.get('type')}: {state}. {each.get('message', '')}".rstrip()
    issues = status.get("issues") or []
    yield "Issues:" if issues else "Issues: none."
    yield from (f"  {line}" for line in issue_lines(issues, len(issues)))
    memory = status.get("memory") or {}
    for each in memory.get("settling") or ():
        if not each.get("settledAt"):
            attempt = f"attempt {each.get('attempts')}; not yet seen to last"
            yield f"Verifying: {each.get('instanceId')} was removed, {attempt}."
    last = status.get("lastRemoval")
    if last:
        why = f"{last.get('reason')}; {last.get('evidence') or 'no evidence was written'}"
        yield f"Last removal: {last.get('instanceId')} {age(str(last.get('at')), now)} ago: {why}."
    yield from _memory(memory, now)


def _world(spec: Json, status: Json) -> Iterator[str]:
    workload = spec.get("workloadRef") or {}
    yield f"Workload: {workload.get('kind', 'StatefulSet')} {workload.get('name')}."
    members = status.get("members") or {}
    counted = ", ".join(f"{count} {name}" for name, count in members.items() if count or name in ("expected", "joined"))
    state = f"{status.get('protocol', 'unknown')}, {status.get('groupState', 'unknown')}"
    yield f"Group {spec.get('groupId')}: {state}; {counted or 'not counted'}."
    injected = status.get("injected")
    if injected is None:
        yield "Identity: no id has been issued yet."
    else:
        yield f"Identity: {injected.get('idTemplate')}, {injected_by(injected.get('method'))}."
    timeout = status.get("sessionTimeout")
    if timeout:
        why = f": {timeout['why']}" if timeout.get("why") else ""
        yield f"Session timeout: {timeout.get('summary', 'unknown')}, from {timeout.get('source', 'unknown')}{why}."
    slots = status.get("slots")
    if slots:
        yield f"Slots: {slots.get('held')} held, {slots.get('kept')} kept for pods to come."
        yield from (f"  {each}" for each in (*(slots.get("pods") or ()), *(slots.get("waiting") or ())))


def injected_by(method: str) -> str:
    """Say who injects ids, by the word of status.injected.method."""
    return f"injected by {method}" if method != "None" else "not injected"


def _memory(memory: Json, now: datetime) -> Iterator[str]:
    """Say which pods may hold each member, those first whose end may be unseen, and which pods may live unseen."""
    suspects = {str(each.get("uid")): each for each in memory.get("suspects") or ()}

    def named(uid: str) -> str:
        if uid in suspects:
            return f"suspect {suspects[uid].get('pod')} (uid {uid})"
        return _NOBODY.get(uid) or f"pod uid {uid}"

    def is_certain(seat: Json) -> bool:
        return not any(uid in suspects or uid in _NOBODY for uid in seat.get("carriers") or ())

    seats = sorted(memory.get("seats") or (), key=is_certain)
    if seats:
        yield f"Members, {len(seats)}, each with those that were there when it joined and have not ended:"
    for seat in seats[:SHOWN_MAX]:
        left = ", ".join(named(str(uid)) for uid in seat.get("carriers") or ()) or "nobody; every one of them has ended"
        yield f"  {seat.get('id')}: first seen {age(str(seat.get('firstSeen')), now)} ago; {left}"
    yield from _more(len(seats))
    if suspects:
        held = "a member that joins an id of theirs is held until its session expires"
        yield f"Suspects, {len(suspects)} pods whose end was not seen; {held}:"
    for each in list(suspects.values())[:SHOWN_MAX]:
        where = f" on node {each['node']}" if each.get("node") else ""
        what = "a container of it was lost by its kubelet or runtime" if each.get("lostRun") else "its object is gone"
        since = age(str(each.get("since")), now)
        yield f"  pod {each.get('pod')} uid {each.get('uid')}{where}: for {since}; {what}"
    yield from _more(len(suspects))


def _more(count: int) -> Iterator[str]:
    if count > SHOWN_MAX:
        yield f"  ... and {count - SHOWN_MAX} more"
