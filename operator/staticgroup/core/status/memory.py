"""The durable part of the memory, to and from the StaticGroup's status.

Losing it must never remove a live member, so an absent memory is no innocence: beside pods or members that carry the ids
it is ignorance about all of them (`injection._is_carried`), and departed members wait for their session to expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...api.injection import identity_of, resolve_injected
from ...api.ordinals import Ordinals
from ...api.protocols import GroupProtocol
from ...api.resources import durable
from ...api.resources import status as api
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX
from ..evidence.certificate import Certificate, CertificateKind
from ..evidence.chain import Incarnation, IncarnationState
from ..ids.naming import Naming
from ..snapshot import History, Injected, RemovalRecord, SeatMemory
from .absences import absences_from, measured_from
from .checkpoints import LISTED, checkpoint_from, is_sealed, seated, wire_time
from .shared_settings import shared_setting_from

EVIDENCE_MAX = 300
LONGEST_SESSION_S = 1800.0
"""Default of the broker's group.max.session.timeout.ms: by then the session of a dead process has expired by itself."""


def history_from(status: api.StaticGroupStatus | None, uid: str) -> History:
    """Read the memory of earlier rounds from a status; an empty History when there is none, so that ids are issued anew.

    Parameters
    ----------
    uid: of the StaticGroup; what a status remembers of another one (a backup, a copy) is no memory of its pods.
    """
    if status is None or not is_of(status, uid):
        return History()
    issued = status.issued
    return History(
        injected=_injected_from(status.injected),
        seats={s.instance_id: SeatMemory(removal=_record_from(s)) for s in status.settling},
        issued_ordinals=Ordinals.parse(issued.ordinals) if issued else Ordinals(),
        templates=tuple(issued.templates) if issued else (),
        continuity=checkpoint_from(status.continuity) if is_sealed(status, uid) else None,
        fleet_timeout_ms=_fleet_timeout_ms(status),
        absences=absences_from(status.absences),
        measured=measured_from(status.absences),
        shared_setting=shared_setting_from(status.timeout),
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


def ledger_from(
    namespace: str, status: api.StaticGroupStatus | None, uid: str = "", *, timeline: str = ""
) -> tuple[Incarnation, ...]:
    """Read the incarnations that an earlier process remembered; their objects count as gone until seen.

    Parameters
    ----------
    uid: of the StaticGroup. timeline: of the pod watch now; "" for whichever it is.

    Notes
    -----
    Besides the ledger these are the objects that had the names of seats: one of them that no LIST shows any more has
    ended unseen, and is a suspect.
    """
    if status is None:
        return ()
    entries = status.ledger.incarnations if status.ledger is not None else []
    seats = {seat.uid: seat for seat in seated(namespace, status)}
    remembered = tuple(_as_seated(_incarnation_from(namespace, e), seats.get(e.uid)) for e in entries)
    continuity = status.continuity
    is_other_timeline = bool(timeline) and continuity is not None and continuity.timeline != timeline
    if (uid and not is_sealed(status, uid)) or is_other_timeline:
        # Perhaps of another cluster, whose resourceVersions say nothing here; suspects they are all the same.
        remembered = tuple(_of_no_version(i) for i in remembered)
    known = {i.uid for i in remembered}
    return (*remembered, *(i for i in seats.values() if i.uid not in known))


def _as_seated(i: Incarnation, seat: Incarnation | None) -> Incarnation:
    """Return a live incarnation with what only its seat tells, so that its pod is known again as the same."""
    if seat is None or i.state is not IncarnationState.LIVE:
        return i
    return replace(i, restarts=seat.restarts, ids_are_fixed=seat.ids_are_fixed)


def _of_no_version(i: Incarnation) -> Incarnation:
    """Return it older than everything that is seen here."""
    proof = i.certificate and replace(i.certificate, resource_version=0)
    return replace(i, resource_version=min(i.resource_version, LISTED), certificate=proof)


def wire_injected(spec: StaticGroupSpec, injected: Injected | None) -> durable.Injected | None:
    """Write what the admission policy reads; None while no id may be issued."""
    if injected is None:
        return None
    return resolve_injected(
        identity_of(spec),
        method=durable.InjectedMethod(injected.method),
        scope=injected.scope,
        watch_epoch=injected.watch_epoch,
        id_template=injected.id_template,
        session_timeout_ms=injected.session_timeout_ms,
        suffix_follows_preset=injected.suffix_follows_preset,
    )


def wire_issued(history: History) -> durable.Issued | None:
    """Write every ordinal ever issued, compactly; None before the first.

    Notes
    -----
    From the acknowledgement on it is never empty: an earlier operator, to which somebody rolls back, moves the beginning of
    a history in which nothing was issued.
    """
    if history.injected is None and not history.issued_ordinals and not history.templates:
        return None
    ordinals = history.issued_ordinals or Ordinals.of(range(1))
    return durable.Issued(ordinals=ordinals.text, templates=list(history.templates))


def wire_ledger(
    ledger: Sequence[Incarnation], *, needed: frozenset[str] = frozenset(), namespace: str = ""
) -> durable.Ledger | None:
    """Write the incarnations to remember, suspects before the living before the dead; says so when they do not fit.

    Parameters
    ----------
    namespace: of the StaticGroup; "" where all are of it.
    needed: uids of the dead that a removal still needs; they win over other dead when not all fit.
    """
    if not ledger:
        return None
    chosen = _with_room_for(sorted(ledger, key=lambda i: (_RANKS[i.state], i.uid not in needed, i.since_s, i.uid)))
    # The order does not depend on the need, which changes more often than what is remembered.
    ranked = sorted(chosen, key=_rank)
    return durable.Ledger(overflow=bool(without_room(ledger)), incarnations=[_entry(i, namespace) for i in ranked])


def without_room(ledger: Iterable[Incarnation]) -> tuple[Incarnation, ...]:
    """Return those not proven dead that a ledger has no room for, or not for all their ids: the living, then the youngest."""
    unproven = sorted((i for i in ledger if i.state is not IncarnationState.DEAD), key=_rank)
    written = _with_room_for(unproven)
    return (*(i for i in written if len(i.instance_ids) > durable.INSTANCE_IDS_MAX), *unproven[len(written) :])


def _with_room_for(ordered: Sequence[Incarnation]) -> Sequence[Incarnation]:
    """Return as many of the first as a ledger has room for: by their number, and by the length of their ids."""
    room = durable.LEDGER_IDS_LENGTH_MAX
    for n, i in enumerate(ordered[: durable.INCARNATIONS_MAX]):
        room -= sum(len(each) for each in sorted(i.instance_ids)[: durable.INSTANCE_IDS_MAX])
        if room < 0:
            return ordered[:n]
    return ordered[: durable.INCARNATIONS_MAX]


def unwritten(
    incarnations: Iterable[Incarnation], ledger: durable.Ledger | None, now_s: float, naming: Naming | None = None,
    namespace: str = "",
) -> frozenset[str]:
    """Return the uids that a restart must not forget and that a ledger does not hold, or not with all their ids.

    Parameters
    ----------
    incarnations: all that are known of the workload. naming, namespace: see `to_remember`. ledger: as it was written; None for an empty one.
    now_s: seconds since the Unix epoch.

    Notes
    -----
    The stored position of the watch, which all StaticGroups share, waits for them, so this must end: for the dead when
    no member of theirs can be left to remove, for suspects without room at once, because the names are blind for the time in
    which they ended.
    """
    if ledger is not None and ledger.overflow:
        return frozenset()
    written = {i.uid: i.instance_ids for i in ledger.incarnations} if ledger is not None else {}
    return frozenset(
        i.uid
        for i in to_remember(incarnations, naming, namespace)
        if i.uid not in written
        or (i.state is not IncarnationState.DEAD and not i.instance_ids.issubset(written[i.uid]))
        if i.state is not IncarnationState.DEAD or now_s - i.since_s < LONGEST_SESSION_S
    )


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
            pod_uids=sorted(r.pod_uids)[: durable.POD_UIDS_MAX],
        )
        for r in history.removals[: durable.SETTLING_MAX]
    ]


def to_remember(
    incarnations: Iterable[Incarnation], naming: Naming | None = None, namespace: str = ""
) -> tuple[Incarnation, ...]:
    """Choose what a restart must not forget.

    Parameters
    ----------
    naming, namespace: of the StaticGroup; no naming before its first injection, when there is no id of its own.

    Returns
    -------
    Every suspect; every live one with ids that its name does not explain (`Naming.strange_ids`), because what its object
    says now may be less than what its process holds; and the newest dead incarnation of each pod name that has no live one: without it the chain of a
    departed id would be empty after a restart, and an empty chain proves nothing. So do those that are dead by a person's
    word, or by what became of their node, whoever came after them, until nobody needs them: what a removal rests on is to be seen.
    """
    by_name: dict[tuple[str, str], list[Incarnation]] = {}
    for i in incarnations:
        by_name.setdefault((i.namespace, i.pod_name), []).append(i)
    kept: list[Incarnation] = []
    for versions in by_name.values():
        kept.extend(i for i in versions if i.state is IncarnationState.SUSPECT)
        if naming is not None:
            kept.extend(i for i in versions if i.state is IncarnationState.LIVE and naming.strange_ids(i, namespace))
        if not any(i.state is IncarnationState.LIVE for i in versions):
            dead = [i for i in versions if i.state is IncarnationState.DEAD]
            if dead:
                newest = max(dead, key=lambda i: i.resource_version)
                kept.append(newest)
                kept.extend(i for i in dead if i is not newest and i.certificate is not None and i.certificate.is_of_gone)
    return tuple(_with_room(i, naming) for i in kept)


def _with_room(i: Incarnation, naming: Naming | None) -> Incarnation:
    """Leave out the ids that cannot be ours where a ledger has no room for all."""
    is_too_long = naming is not None and len(i.instance_ids) > durable.INSTANCE_IDS_MAX
    return replace(i, instance_ids=naming.own_ids(i)) if is_too_long and naming is not None else i


_RANKS = {IncarnationState.SUSPECT: 0, IncarnationState.LIVE: 1, IncarnationState.DEAD: 2}


def _rank(i: Incarnation) -> tuple[int, float, str]:
    return _RANKS[i.state], i.since_s, i.uid


def _entry(i: Incarnation, namespace: str) -> durable.Incarnation:
    is_live = i.state is IncarnationState.LIVE
    evidence = i.certificate.statement if i.certificate else i.refusal
    proof = i.certificate
    is_word = proof is not None and proof.is_word
    is_of_gone = proof is not None and proof.is_of_gone
    is_suspect = is_of_gone or i.state is IncarnationState.SUSPECT
    is_owed = i.state is IncarnationState.SUSPECT and bool(i.owed)
    return durable.Incarnation(
        pod_name=i.pod_name,
        namespace=i.namespace if namespace and i.namespace != namespace else None,
        uid=i.uid,
        instance_ids=sorted(i.instance_ids)[: durable.INSTANCE_IDS_MAX],
        node_name=i.node_name,
        # An operator that knows no words, or no nodes, reads a suspect, and would refuse the whole status for an unknown certificate.
        state=durable.IncarnationState.SUSPECT if is_of_gone else durable.IncarnationState(i.state.value),
        certificate=durable.Certificate(proof.kind.value) if proof and not is_of_gone else None,
        confirmed_by=proof.said_by if proof and is_word else None,
        node_certificate=durable.NodeCertificate(proof.kind.value) if proof and proof.is_of_node else None,
        created=wire_time(i.created_at_s) if is_suspect and i.created_at_s else None,
        grace_seconds=i.grace_s if is_suspect and (i.grace_s or 0) <= INT32_MAX else None,
        reap_doubt=durable.ReapDoubt(i.reap_doubt) if is_suspect and i.reap_doubt else None,
        owed=i.owed[:EVIDENCE_MAX] if is_owed else None,
        bound=wire_time(i.bound_at_s) if is_suspect and i.bound_at_s else None,
        node_uid=i.node_uid if is_suspect and i.node_uid else None,
        # Of the living nothing is written that each version of the object changes.
        evidence="" if is_live else evidence[:EVIDENCE_MAX],
        since=wire_time(i.since_s),
        resource_version="" if is_live else str(i.resource_version),
    )


def _incarnation_from(namespace: str, entry: durable.Incarnation) -> Incarnation:
    text = entry.resource_version
    resource_version = int(text) if text.isascii() and text.isdigit() else 0
    certificate = _certificate_from(entry, resource_version)
    is_dead = certificate is not None
    if entry.state is durable.IncarnationState.LIVE:
        state, resource_version = IncarnationState.LIVE, LISTED
    else:
        state = IncarnationState.DEAD if is_dead else IncarnationState.SUSPECT
    return Incarnation(
        namespace=entry.namespace or namespace,
        pod_name=entry.pod_name,
        uid=entry.uid,
        instance_ids=frozenset(entry.instance_ids),
        node_name=entry.node_name,
        state=state,
        since_s=entry.since.timestamp(),
        resource_version=resource_version,
        certificate=certificate,
        refusal="" if is_dead else entry.evidence,
        object_present=state is IncarnationState.LIVE,
        created_at_s=entry.created.timestamp() if entry.created is not None else 0.0,
        grace_s=entry.grace_seconds,
        reap_doubt=entry.reap_doubt.value if entry.reap_doubt is not None else "",
        owed="" if is_dead else entry.owed or "",
        bound_at_s=entry.bound.timestamp() if entry.bound is not None else 0.0,
        node_uid=entry.node_uid or "",
    )


def _certificate_from(entry: durable.Incarnation, resource_version: int) -> Certificate | None:
    """Read the proof of an entry, None for a suspect; a word, or what became of a node, stands in an entry that is a suspect's otherwise."""
    kind = None
    if entry.state is durable.IncarnationState.DEAD and entry.certificate is not None:
        kind = CertificateKind(entry.certificate.value)
    elif entry.state is durable.IncarnationState.SUSPECT and entry.confirmed_by is not None:
        kind = CertificateKind.CONFIRMED
    elif entry.state is durable.IncarnationState.SUSPECT and entry.node_certificate is not None:
        kind = CertificateKind(entry.node_certificate.value)
    if kind is None:
        return None
    return Certificate(
        kind=kind, resource_version=resource_version, statement=entry.evidence, said_by=entry.confirmed_by or ""
    )


def _injected_from(injected: durable.Injected | None) -> Injected | None:
    if injected is None:
        return None
    return Injected(
        scope=injected.scope,
        watch_epoch=injected.watch_epoch,
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
        pod_uids=frozenset(settling.pod_uids),
    )
