"""`explain`: everything that the status of one StaticGroup tells, in sentences.

The operator's own `explain` plans a round afresh, with its rights and its credentials; this one tells what the operator wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from .summary import Json, age, exception_lines, is_stale

LEDGER_SHOWN_MAX = 50


def account_of(body: Json, now: datetime) -> Iterator[str]:
    """Yield what is known of one StaticGroup, as lines."""
    spec, status, metadata = body.get("spec") or {}, body.get("status") or {}, body["metadata"]
    suspended = ", suspended" if spec.get("suspend") else ""
    yield f"StaticGroup {metadata['namespace']}/{metadata['name']}: {spec.get('mode', 'Manage')}{suspended}"
    if not status:
        yield "No operator has written a status. See: kubectl staticgroup doctor"
        return
    if is_stale(body):
        yield "The spec was edited since; what follows is about the spec before."
    yield from _world(spec, status)
    yield from _conditions(status, now)
    exceptions = status.get("exceptions") or []
    yield "Exceptions:" if exceptions else "Exceptions: none."
    yield from (f"  {line}" for line in exception_lines(exceptions, len(exceptions)))
    yield from _removals(status, now)
    yield from _memory(status, now)


def _world(spec: Json, status: Json) -> Iterator[str]:
    workload = spec.get("workloadRef") or {}
    yield f"Workload: {workload.get('kind', 'StatefulSet')} {workload.get('name')}."
    members = status.get("members") or {}
    counted = ", ".join(f"{count} {name}" for name, count in members.items() if count or name in ("expected", "joined"))
    yield f"Group {spec.get('groupId')}: {status.get('protocol', 'unknown')}, {status.get('groupState', 'unknown')}; {counted or 'not counted'}."
    injected = status.get("injected")
    if injected is None:
        yield "Identity: no id has been issued yet."
    else:
        yield f"Identity: {injected.get('idTemplate')}, injected by {injected.get('method')}."
    timeout = status.get("timeout")
    if timeout:
        yield f"Session timeout: {(status.get('columns') or {}).get('timeout', 'unknown')}, from {timeout.get('source', 'unknown')}{_why(timeout)}."


def _why(timeout: Json) -> str:
    """Say what a session timeout rests on; nothing where an operator of before wrote the status."""
    return f" ({timeout['basis']}): {timeout.get('why', '')}" if timeout.get("basis") else ""


def _conditions(status: Json, now: datetime) -> Iterator[str]:
    for each in status.get("conditions") or ():
        since = age(str(each.get("lastTransitionTime")), now)
        yield f"{each.get('type')}: {each.get('status')} ({each.get('reason')}) for {since}. {each.get('message', '')}".rstrip()


def _removals(status: Json, now: datetime) -> Iterator[str]:
    for each in status.get("settling") or ():
        if not each.get("settledAt"):
            yield f"Verifying: {each.get('instanceId')} was removed, attempt {each.get('attempts')}; not yet seen to last."
    last = status.get("lastRemoval")
    if last:
        yield f"Last removal: {last.get('instanceId')} {age(str(last.get('at')), now)} ago, by {last.get('certificate')}: {last.get('reason')}."


def _memory(status: Json, now: datetime) -> Iterator[str]:
    blind = (status.get("continuity") or {}).get("blind") or ()
    for span in blind:
        yield (
            f"Unseen: which pods had the ids of ordinals {span.get('ordinals')} from {span.get('since')} to {span.get('until')} is not "
            f"known ({span.get('reason')}); their departures wait for their sessions, or for `kubectl staticgroup confirm-gap`."
        )
    entries = (status.get("ledger") or {}).get("incarnations") or []
    if entries:
        yield f"Ledger, {len(entries)} pods whose end must be remembered:"
    for each in entries[:LEDGER_SHOWN_MAX]:
        proof = f"{each['certificate']}: {each.get('evidence')}" if each.get("certificate") else each.get("evidence")
        word = f"; confirmed by {each['confirmedBy']}" if each.get("confirmedBy") else ""
        word += f"; closed by its node ({each['nodeCertificate']})" if each.get("nodeCertificate") else ""
        word += f"; {each['owed']}" if each.get("owed") else ""
        yield f"  pod {each.get('podName')} uid {each.get('uid')}: {each.get('state')} for {age(str(each.get('since')), now)}; {proof}{word}"
    if len(entries) > LEDGER_SHOWN_MAX:
        yield f"  ... and {len(entries) - LEDGER_SHOWN_MAX} more"
