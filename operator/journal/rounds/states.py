"""States that last: departed, removed, held. Recorded once each; a restarted process gives them the same id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import GroupView, LeaveOutcome, ReleaseOutcome
from staticgroup.core.plan import Removal
from staticgroup.core.snapshot import RemovalRecord

from .. import records as api
from .recorder import Recorder

_State = tuple[str, type[api.GroupData], dict[str, Any]]


def record_states(recorder: Recorder, group: GroupView) -> None:
    """Record what is departed, removed, fenced or held and was not recorded yet."""
    states = [*_departed(recorder), *_removed(recorder, group), *_held(recorder)]
    for fact_id, data_type, fields in states:
        if fact_id not in recorder.remembered.recorded:
            recorder.record(fact_id, data_type, **fields)
    recorder.remembered = replace(recorder.remembered, recorded=frozenset(fact_id for fact_id, _, _ in states))
    executed = recorder.executed
    for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
        if outcome is LeaveOutcome.FENCED:
            member_id = api.short(removal.entry.member_id)
            recorder.record(
                f"{recorder.group_key}/{member_id}/fenced",
                api.MemberFenced,
                time_lo_ms=recorder.began_ms,
                time_hi_ms=recorder.ended_ms,
                instance_id=removal.entry.instance_id,
                member_id=member_id,
            )


def record_releases(recorder: Recorder) -> None:
    """Record whom the coordinator let go for a while in this round, or may have."""
    executed = recorder.executed
    for release, outcome in zip(executed.releases, executed.release_outcomes, strict=True):
        if outcome in (ReleaseOutcome.RELEASED, ReleaseOutcome.RETRY):
            member_id = api.short(release.entry.member_id)
            recorder.record(
                f"{recorder.group_key}/{member_id}/released",
                api.MemberReleased,
                time_lo_ms=recorder.began_ms,
                time_hi_ms=recorder.ended_ms,
                instance_id=release.entry.instance_id,
                member_id=member_id,
                pod_uid=release.pod.uid,
                outcome=outcome.value,
            )


def _departed(recorder: Recorder) -> Iterator[_State]:
    """List the newest end of each departed id whose pods have all ended."""
    table = recorder.plan.table
    for seat in table.departed if table is not None else ():
        i = seat.key
        carriers = [p for p in seat.chain if i in p.instance_ids]
        if not carriers or any(p.state is not PodState.DEAD for p in seat.chain):
            continue
        newest = max(carriers, key=lambda p: (p.resource_version, p.uid))
        if newest.certificate is not None:
            fields = {
                "instance_id": i,
                "pod_uid": newest.uid,
                "certificate": newest.certificate.kind.value,
                "time_hi_ms": int(newest.since_s * 1000),
            }
            yield f"{newest.uid}/{i}/departed", api.MemberDeparted, fields


def _removed(recorder: Recorder, group: GroupView) -> Iterator[_State]:
    """List the acknowledged removals, which the status remembers, and those that did not last."""
    sent = {r.entry.member_id: r for r in recorder.executed.removed}
    described = {m.member_id for m in group.members}
    for record in recorder.plan.history.removals:
        removal = sent.get(record.member_id)
        for attempt in range(max(1, record.attempts - 1), record.attempts + 1):
            is_last = attempt == record.attempts
            yield _removal(recorder, record, attempt, removal if is_last else None)
            # What is sent again was described again.
            if not is_last or (removal is None and record.member_id in described):
                outcome = api.RemovalOutcome.RESURRECTED
                yield _of_removal(recorder, record, attempt, outcome, time_hi_ms=recorder.ended_ms)


def _removal(recorder: Recorder, record: RemovalRecord, attempt: int, removal: Removal | None) -> _State:
    acknowledged_ms = int(record.acknowledged_at_s * 1000)
    proofs = removal.ended if removal is not None else ()
    certificates = [f"{p.uid} {p.certificate.kind.value}" for p in proofs if p.certificate is not None]
    return _of_removal(
        recorder,
        record,
        attempt,
        api.RemovalOutcome.REMOVED,
        time_lo_ms=acknowledged_ms if attempt == record.attempts else None,
        time_hi_ms=acknowledged_ms,
        certificates=certificates[: api.CERTIFICATES_MAX],
        reason=removal.entry.reason if removal is not None else "",
    )


def _of_removal(
    recorder: Recorder, record: RemovalRecord, attempt: int, outcome: api.RemovalOutcome, **fields: Any
) -> _State:
    member_id = api.short(record.member_id)
    common = {"instance_id": record.instance_id, "member_id": member_id, "attempt": attempt, "outcome": outcome.value}
    fact_id = f"{recorder.group_key}/{member_id}/{attempt}/{outcome.value.lower()}"
    return fact_id, api.MemberRemoved, common | fields


def _held(recorder: Recorder) -> Iterator[_State]:
    """List the departed members that a guard keeps."""
    for held in recorder.plan.held:
        member_id = api.short(held.subject.member_id)
        yield (
            f"{recorder.group_key}/{member_id}/{held.reason}/held",
            api.RemovalHeld,
            {
                "instance_id": held.subject.instance_id,
                "member_id": member_id,
                "guard": held.reason,
                "message": api.short(held.text),
                "time_lo_ms": recorder.group_seen_ms,
                "time_hi_ms": recorder.ended_ms,
            },
        )
