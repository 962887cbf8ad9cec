"""What a status remembers for the next process, both ways: `wire_…` writes it, `history_from` reads it.

Losing it must never remove a live member: then every member of the group may be of a pod that nobody saw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ...api.injection import resolve_injected
from ...api.ordinals import Ordinals
from ...api.protocols import GroupProtocol
from ...api.resources import absences as wire
from ...api.resources import memory as kept
from ...api.resources import status as api
from ...api.resources.injected import InjectedMethod, InjectedStatus
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX, TIMEOUT_MS_MAX
from ..absences.samples import Cause, Reservoir, samples_from, text_of
from ..members.carriers import UNATTRIBUTED, Attribution, Suspect, digest_of
from ..members.memory import Members
from ..snapshot import History, Injected, RemovalRecord, SeatMemory, UnreadTopics
from ..timeouts.desired import TimeoutHysteresis
from ..timeouts.group_config import GroupConfigRecord

SEAT_LENGTH: Final = 100
CARRIER_LENGTH: Final = 45
SUSPECT_LENGTH: Final = 900
"""Characters of an entry as it is stored, without its ids; of a suspect with the longest names."""


def history_from(status: api.StaticGroupStatus | None, namespace: str) -> History:
    """Read the memory of earlier rounds from a status of a namespace; an empty History when there is none."""
    if status is None:
        return History()
    memory = status.memory
    issued, timeout = memory.issued, memory.timeout
    return History(
        injected=_injected_from(status.injected),
        seats={s.instance_id: SeatMemory(removal=_record_from(s)) for s in memory.settling},
        issued_ordinals=Ordinals.parse(issued.ordinals) if issued else Ordinals(),
        templates=tuple(issued.templates) if issued else (),
        fleet_timeout_ms=_fleet_timeout_ms(status),
        absences=absences_from(memory.absences),
        measured=measured_from(memory.absences),
        group_config=GroupConfigRecord(written_ms=timeout.written_ms if timeout is not None else None),
        members=members_from(namespace, memory),
        unread=unread_from(memory.unread_topics),
        left_on_close=memory.left_on_close,
    )


def wire_history(namespace: str, history: History) -> dict[str, Any]:
    """Write what is remembered, as fields of `StatusMemory`; its timeouts and its writer are not among them."""
    return {
        "issued": wire_issued(history),
        "settling": wire_settling(history),
        "absences": wire_absences(history),
        "unread_topics": wire_unread(history.unread),
        "left_on_close": history.left_on_close,
        **wire_members(namespace, history.members),
    }


def with_memory(status: api.StaticGroupStatus, changes: Mapping[str, Any]) -> api.StaticGroupStatus:
    """Return a status with other fields of its `StatusMemory`, by name."""
    return status.model_copy(update={"memory": status.memory.model_copy(update=changes)})


def is_of(status: api.StaticGroupStatus, uid: str) -> bool:
    """True for a status written for the StaticGroup with this uid, not for one in a backup or in another cluster."""
    return status.memory.static_group_uid == uid


def _fleet_timeout_ms(status: api.StaticGroupStatus) -> int | None:
    """Return the fleet learner's value that the next pods get, or the group has; None for anybody else's value."""
    timeout = status.session_timeout
    if timeout is None or timeout.source is not api.TimeoutSource.FLEET:
        return None
    own_ms = status.injected.session_timeout_ms if status.injected is not None else None
    if own_ms is not None or status.protocol is GroupProtocol.CLASSIC:
        return own_ms
    # What the group has may be longer, because others want it to be, or wanted it lately.
    return status.memory.timeout.own_ms if status.memory.timeout is not None else None


def wire_injected(spec: StaticGroupSpec, injected: Injected | None) -> InjectedStatus | None:
    """Write what the admission policy reads; None while no id may be issued."""
    if injected is None:
        return None
    return resolve_injected(
        spec.client,
        method=InjectedMethod(injected.method),
        scope=injected.scope,
        id_template=injected.id_template,
        session_timeout_ms=injected.session_timeout_ms,
        container=injected.container,
        by_slot=spec.workload_ref.known_kind.has_slots,
    )


def wire_issued(history: History) -> kept.Issued | None:
    """Write every ordinal ever issued, compactly; None before the first."""
    if history.injected is None and not history.issued_ordinals and not history.templates:
        return None
    return kept.Issued(ordinals=history.issued_ordinals.text, templates=list(history.templates))


def wire_settling(history: History) -> list[kept.Settling]:
    """Write the acknowledged removals whose id has not been wanted again."""
    return [
        kept.Settling(
            instance_id=r.instance_id,
            member_id=r.member_id[:300],
            coordinator=r.coordinator[:300],
            acknowledged_at=wire_time(r.acknowledged_at_s),
            attempts=r.attempts,
            absent_since=None if r.absent_since_s is None else wire_time(r.absent_since_s),
            settled_at=None if r.settled_at_s is None else wire_time(r.settled_at_s),
        )
        for r in history.removals[: kept.SETTLING_MAX]
    ]


def wire_unread(unread: UnreadTopics | None) -> kept.UnreadTopicsMemory | None:
    """Write which topics nobody reads; None while there are none."""
    if unread is None:
        return None
    at_s = unread.rebalanced_at_s
    return kept.UnreadTopicsMemory(
        topics=list(unread.topics),
        since=wire_time(unread.since_s),
        rebalanced_for=list(unread.rebalanced_for),
        rebalanced_at=None if at_s is None else wire_time(at_s),
    )


def unread_from(written: kept.UnreadTopicsMemory | None) -> UnreadTopics | None:
    """Read the same; the group has to be at rest anew before it is rebalanced."""
    if written is None:
        return None
    return UnreadTopics(
        topics=tuple(written.topics),
        since_s=written.since.timestamp(),
        rebalanced_for=tuple(written.rebalanced_for),
        rebalanced_at_s=written.rebalanced_at.timestamp() if written.rebalanced_at is not None else None,
    )


def _injected_from(injected: InjectedStatus | None) -> Injected | None:
    if injected is None:
        return None
    return Injected(
        scope=injected.scope,
        method=injected.method.value,
        id_template=injected.id_template,
        session_timeout_ms=injected.session_timeout_ms,
        container=injected.container,
    )


def _record_from(settling: kept.Settling) -> RemovalRecord:
    return RemovalRecord(
        instance_id=settling.instance_id,
        member_id=settling.member_id,
        coordinator=settling.coordinator,
        acknowledged_at_s=settling.acknowledged_at.timestamp(),
        attempts=settling.attempts,
        absent_since_s=settling.absent_since.timestamp() if settling.absent_since else None,
        settled_at_s=settling.settled_at.timestamp() if settling.settled_at else None,
    )


def members_from(namespace: str, memory: kept.StatusMemory) -> Members:
    """Read what an earlier process remembered.

    Where somebody has edited any of it, or it had no room, the suspects alone are believed: they only hold back.
    """
    suspects = tuple(_suspect_from(namespace, s) for s in memory.suspects)
    if memory.seal != seal_of(memory.watch, memory.seats, memory.suspects):
        return Members(suspects=suspects)
    attributions = {
        s.id: Attribution(member=s.member, first_seen_s=s.first_seen.timestamp(), carriers=frozenset(s.carriers))
        for s in memory.seats
    }
    return Members(attributions=attributions, suspects=suspects, watch=memory.watch or "")


def wire_members(namespace: str, members: Members) -> dict[str, Any]:
    """Write what is remembered, as fields of `StatusMemory`.

    Where the status has no room for all of it, neither watch nor seal is written, and the next process begins without
    memory: it assumes that every member may be of an unseen pod. Plain seats need no room, because that process
    attributes their members to the same pods by itself.
    """
    fitting, lost = _seats(members), _suspects(members.suspects)
    left_out = members.attributions.keys() - fitting.keys()
    has_room = len(lost) == len(members.suspects) and all(_is_plain(members.attributions[i]) for i in left_out)
    watch = members.watch or None if has_room else None
    seats, suspects = [seat for _, seat in sorted(fitting.items())], [_suspect(namespace, s) for s in lost]
    seal = seal_of(watch, seats, suspects) if has_room and (watch or seats or suspects) else None
    return {"watch": watch, "seats": seats, "suspects": suspects, "seal": seal}


def remembers_the_same(one: kept.StatusMemory, other: kept.StatusMemory) -> bool:
    """Return True when both hold the same members, suspects and watch."""
    return all(getattr(one, field) == getattr(other, field) for field in ("watch", "seats", "suspects", "seal"))


def seal_of(watch: str | None, seats: Sequence[kept.SeatMember], suspects: Sequence[kept.SuspectStatus]) -> str:
    """Return the digest by which an edit of what is remembered shows, 16 hex digits."""
    lines = (watch or "", *(entry.model_dump_json() for entry in (*seats, *suspects)))
    return digest_of("\n".join(lines))


def _suspect(namespace: str, s: Suspect) -> kept.SuspectStatus:
    return kept.SuspectStatus(
        uid=s.uid,
        pod=s.pod_name,
        namespace="" if s.namespace == namespace else s.namespace,
        ids=sorted(s.instance_ids),
        since=wire_time(s.since_s),
        node=s.node_name,
        provider=s.provider,
        machine=s.machine,
        lost_run=s.has_lost_run,
        addresses=sorted(s.addresses),
    )


def _suspects(suspects: Iterable[Suspect]) -> list[Suspect]:
    """Return as many suspects as there is room for."""
    found: list[Suspect] = []
    room = kept.SUSPECTS_LENGTH_MAX
    for suspect in suspects:
        length = SUSPECT_LENGTH + sum(len(text) for text in (*suspect.instance_ids, *suspect.addresses))
        is_whole = len(suspect.instance_ids) <= kept.SUSPECT_IDS_MAX and len(suspect.addresses) <= kept.ADDRESSES_MAX
        if is_whole and length <= room and len(found) < kept.SUSPECTS_MAX:
            found.append(suspect)
            room -= length
    return found


def _seats(members: Members) -> dict[str, kept.SeatMember]:
    """Return as many members as there is room for, those first that are not plain."""
    found: dict[str, kept.SeatMember] = {}
    room = kept.SEATS_LENGTH_MAX
    for instance_id, a in sorted(members.attributions.items(), key=lambda item: (_is_plain(item[1]), item[0])):
        room -= SEAT_LENGTH + len(instance_id) + CARRIER_LENGTH * len(a.carriers)
        if room < 0 or len(found) == kept.SEATS_MAX:
            break
        found[instance_id] = _seat(instance_id, a)
    return found


def _is_plain(a: Attribution) -> bool:
    return len(a.carriers) == 1 and not a.is_guessed


def _seat(instance_id: str, a: Attribution) -> kept.SeatMember:
    carriers = sorted(a.carriers) if len(a.carriers) <= kept.CARRIERS_MAX else [UNATTRIBUTED]
    # In whole seconds, and not earlier than it was: an end is compared with it.
    first_seen = wire_time(math.ceil(a.first_seen_s))
    return kept.SeatMember(id=instance_id, member=a.member, first_seen=first_seen, carriers=carriers)


def _suspect_from(namespace: str, s: kept.SuspectStatus) -> Suspect:
    return Suspect(
        uid=s.uid,
        namespace=s.namespace or namespace,
        pod_name=s.pod,
        instance_ids=frozenset(s.ids),
        since_s=s.since.timestamp(),
        node_name=s.node,
        machine=s.machine,
        provider=s.provider,
        has_lost_run=s.lost_run,
        addresses=frozenset(s.addresses),
    )


def wire_absences(history: History) -> wire.Absences | None:
    """Write what is kept of absences; None before the first."""
    if not history.absences:
        return None
    held = history.measured
    is_lower = held is not None and held.lower_since_s is not None
    return wire.Absences(
        causes=[
            wire.CauseOfAbsences(
                cause=cause.value,
                seen=min(found.seen, INT32_MAX),
                unmeasured=min(found.unmeasured, INT32_MAX),
                longest_ms=found.longest_ms,
                samples=text_of(found.samples),
            )
            for cause in Cause
            if (found := history.absences.get(cause)) is not None
        ],
        timeout_ms=min(held.timeout_ms, TIMEOUT_MS_MAX) if held is not None else None,
        lower_since=wire_time(held.lower_since_s) if held is not None and held.lower_since_s is not None else None,
        lower_ms=min(held.lower_ms, TIMEOUT_MS_MAX) if held is not None and is_lower else None,
    )


def absences_from(written: wire.Absences | None) -> Mapping[Cause, Reservoir]:
    """Read what earlier rounds kept; a cause that this version does not know is left out."""
    known = {cause.value for cause in Cause}
    return {
        Cause(each.cause): Reservoir(samples=samples_from(each.samples), seen=each.seen, unmeasured=each.unmeasured)
        for each in (written.causes if written is not None else ())
        if each.cause in known
    }


def measured_from(written: wire.Absences | None) -> TimeoutHysteresis | None:
    """Read which session timeout the absences put in use; None while the structural estimate holds."""
    if written is None or written.timeout_ms is None:
        return None
    return TimeoutHysteresis(
        timeout_ms=written.timeout_ms,
        lower_since_s=written.lower_since.timestamp() if written.lower_since is not None else None,
        lower_ms=written.lower_ms or 0,
    )


def wire_time(seconds: float) -> datetime:
    """Write seconds since the Unix epoch as metav1.Time keeps them, whole."""
    return datetime.fromtimestamp(int(seconds), tz=UTC)
