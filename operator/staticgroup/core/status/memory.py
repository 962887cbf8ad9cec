"""The durable part of the memory, to and from the StaticGroup's status.

Losing it must never remove a live member: then whoever is in the group may be of a pod that nobody saw (`members`).
"""

from __future__ import annotations

from ...api.injection import identity_of, resolve_injected
from ...api.ordinals import Ordinals
from ...api.protocols import GroupProtocol
from ...api.resources import durable
from ...api.resources import status as api
from ...api.resources.staticgroup import StaticGroupSpec
from ..snapshot import History, Injected, RemovalRecord, SeatMemory
from ..timeouts.group_config import GroupConfigRecord
from .absences import absences_from, measured_from
from .members import members_from
from .times import wire_time


def history_from(status: api.StaticGroupStatus | None, namespace: str) -> History:
    """Read the memory of earlier rounds from a status; an empty History when there is none.

    Parameters
    ----------
    namespace: of the StaticGroup.
    """
    if status is None:
        return History()
    issued = status.issued
    return History(
        injected=_injected_from(status.injected),
        seats={s.instance_id: SeatMemory(removal=_record_from(s)) for s in status.settling},
        issued_ordinals=Ordinals.parse(issued.ordinals) if issued else Ordinals(),
        templates=tuple(issued.templates) if issued else (),
        fleet_timeout_ms=_fleet_timeout_ms(status),
        absences=absences_from(status.absences),
        measured=measured_from(status.absences),
        group_config=GroupConfigRecord(written_ms=status.timeout.written_ms if status.timeout is not None else None),
        members=members_from(namespace, status),
    )


def is_of(status: api.StaticGroupStatus, uid: str) -> bool:
    """True for a status that was written for the StaticGroup with this uid, not for one in a backup or in another cluster."""
    return status.static_group_uid in (None, uid)


def _fleet_timeout_ms(status: api.StaticGroupStatus) -> int | None:
    """Return the fleet learner's value that the next pods get, or the group has; None when the value is somebody else's."""
    if status.timeout is None or status.timeout.source is not api.TimeoutSource.FLEET:
        return None
    own_ms = status.injected.session_timeout_ms if status.injected is not None else None
    if own_ms is not None or status.protocol is GroupProtocol.CLASSIC:
        return own_ms
    # What the group has may be longer, because others want it to be, or wanted it lately.
    return status.timeout.next_ms if status.timeout.own_ms is None else status.timeout.own_ms


def wire_injected(spec: StaticGroupSpec, injected: Injected | None) -> durable.Injected | None:
    """Write what the admission policy reads; None while no id may be issued."""
    if injected is None:
        return None
    return resolve_injected(
        identity_of(spec),
        method=durable.InjectedMethod(injected.method),
        scope=injected.scope,
        id_template=injected.id_template,
        session_timeout_ms=injected.session_timeout_ms,
        suffix_follows_preset=injected.suffix_follows_preset,
    )


def wire_issued(history: History) -> durable.Issued | None:
    """Write every ordinal ever issued, compactly; None before the first."""
    if history.injected is None and not history.issued_ordinals and not history.templates:
        return None
    return durable.Issued(ordinals=history.issued_ordinals.text, templates=list(history.templates))


def wire_settling(history: History) -> list[durable.Settling]:
    """Write the acknowledged removals whose id has not been wanted again."""
    return [
        durable.Settling(
            instance_id=r.instance_id,
            member_id=r.member_id[:300],
            coordinator=r.coordinator[:300],
            acknowledged_at=wire_time(r.acknowledged_at_s),
            attempts=r.attempts,
            absent_since=None if r.absent_since_s is None else wire_time(r.absent_since_s),
            settled_at=None if r.settled_at_s is None else wire_time(r.settled_at_s),
        )
        for r in history.removals[: durable.SETTLING_MAX]
    ]


def _injected_from(injected: durable.Injected | None) -> Injected | None:
    if injected is None:
        return None
    return Injected(
        scope=injected.scope,
        method=injected.method.value,
        id_template=injected.id_template,
        session_timeout_ms=injected.session_timeout_ms,
        suffix_follows_preset=bool(injected.suffix_follows_preset),
    )


def _record_from(settling: durable.Settling) -> RemovalRecord:
    return RemovalRecord(
        instance_id=settling.instance_id,
        member_id=settling.member_id,
        coordinator=settling.coordinator,
        acknowledged_at_s=settling.acknowledged_at.timestamp(),
        attempts=settling.attempts,
        absent_since_s=settling.absent_since.timestamp() if settling.absent_since else None,
        settled_at_s=settling.settled_at.timestamp() if settling.settled_at else None,
    )


