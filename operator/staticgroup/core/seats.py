"""The table of seats: who should be in the group, who is, and what is known of both.

A seat is one place in the group that this StaticGroup has issued an id for. It is wanted (its ordinal is one of the
workload's) or departed (a member holds it though nobody wants it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .evidence.chain import KnownPod, PodState
from .group import GroupType, GroupView, MemberView
from .ids.naming import Naming, seat_name
from .protocols import CONSUMER_ROLE, Role
from .snapshot import (
    NOTHING_REMEMBERED,
    Evidence,
    FreshRead,
    History,
    ReleaseRecord,
    RemovalRecord,
    SeatMemory,
    Snapshot,
)

MISSING_AFTER_READY_S = 30.0
"""A Ready pod gets this long to join before its member counts as missing: librdkafka joins within 1-3 s, and a
KIP-848 join may wait one heartbeat of every other member."""
OVERDUE_AFTER_S = 300.0
"""A member that is away for longer is not merely restarting: its pod is unschedulable, crash-looping or missing."""
SAME_MEMBER_READY_S = 60.0
"""A pod that is Ready this long has mostly joined; a member seen beside two such pods is not known to be of either."""
COORDINATOR_CHANGE_SETTLE_S = 2.0
"""Just after a fail-over a describe may show the state before the last write; believe two, this far apart."""
REPLACED_TOLD_S = 900.0
"""How long the status says that another member took the place of that of a pod which stayed Ready."""
SIGHTINGS_MAX = 4


class Standing(StrEnum):
    """How a seat stands, each in exactly one way."""

    JOINED = "Joined"
    AWAY = "Away"
    """Its pod restarts, which is what sessions are for."""
    OVERDUE = "Overdue"
    """Away for so long that no restart explains it, beside a pod."""
    WITHOUT_POD = "WithoutPod"
    """Away likewise, and there is no pod of its name."""
    MISSING = "Missing"
    """Its pod has been Ready for a while and nobody holds the id, because its client was fenced, for example."""
    LOCKED_OUT = "LockedOut"
    """Its holder has crashed, and until that one has left nobody else is let in."""
    UNISSUED = "Unissued"
    """Its pod runs without the id, so that nobody can hold it yet; whatever other ids it has."""
    DEPARTED = "Departed"
    VACATED = "Vacated"
    """Nobody wants it and its member was removed, which is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One place in the group.

    Parameters
    ----------
    key: the id that its holder shows. ordinal: -1 for the memory of an id that no template makes any more.
    pod_name: of the pod that would carry the id, or of its slot while no pod has that; "" likewise.
    pod_names: of a departed or crashed seat, all pods that may hold the id by any template; `pod_name` is the first.
    holders: described members that hold it; the broker allows one, more is a reading on which nothing is decided.
    memory: as of this reading.
    """

    key: str
    ordinal: int
    pod_name: str
    standing: Standing
    holders: tuple[MemberView, ...] = ()
    memory: SeatMemory = NOTHING_REMEMBERED
    evidence: Evidence | None = None
    pod_names: tuple[str, ...] = ()

    @property
    def is_wanted(self) -> bool:
        """True while the workload calls for it."""
        return self.standing not in (Standing.DEPARTED, Standing.VACATED)

    @property
    def fresh(self) -> FreshRead | None:
        """The reads made after the describe; None when this seat was not read this round."""
        return self.evidence.fresh if self.evidence is not None else None

    @property
    def chain(self) -> tuple[KnownPod, ...]:
        """Every known pod that may hold the id, as taken this round."""
        return self.evidence.chain if self.evidence is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatTable:
    """Every seat of one StaticGroup, as one complete reading of the group shows it.

    Parameters
    ----------
    seats: wanted ones by ordinal, then departed and vacated ones by key.
    foreign: static members whose id this StaticGroup never issued. dynamic: members without an id.
    role: of the members.
    """

    seats: tuple[Seat, ...] = ()
    foreign: tuple[MemberView, ...] = ()
    dynamic: tuple[MemberView, ...] = ()
    role: Role = CONSUMER_ROLE

    def of(self, *standings: Standing) -> tuple[Seat, ...]:
        """Return the seats that stand in one of these ways."""
        return tuple(seat for seat in self.seats if seat.standing in standings)

    @property
    def wanted(self) -> tuple[Seat, ...]:
        """The seats that the workload calls for."""
        return tuple(seat for seat in self.seats if seat.is_wanted)

    @property
    def departed(self) -> tuple[Seat, ...]:
        """The seats that somebody holds and nobody wants."""
        return self.of(Standing.DEPARTED)

    @property
    def duplicates(self) -> frozenset[str]:
        """Keys that more than one described member holds."""
        return frozenset(seat.key for seat in self.seats if len(seat.holders) > 1)

    def with_evidence(self, evidence: Mapping[str, Evidence]) -> SeatTable:
        """Return the table with what was gathered of its departed seats after the group was described."""
        seats = (replace(s, evidence=evidence.get(s.key)) if s.standing is Standing.DEPARTED else s for s in self.seats)
        return replace(self, seats=tuple(seats))

    def with_locked_out(self, keys: Collection[str]) -> SeatTable:
        """Return the table in which the holders of these seats are known to have crashed."""
        seats = (replace(seat, standing=Standing.LOCKED_OUT) if seat.key in keys else seat for seat in self.seats)
        return replace(self, seats=tuple(seats))

    def memories(self) -> Mapping[str, SeatMemory]:
        """Return what is to be remembered of the seats."""
        return {seat.key: seat.memory for seat in self.seats if seat.memory != NOTHING_REMEMBERED}


def build_seat_table(
    role: Role, naming: Naming, expected: Mapping[str, int], snapshot: Snapshot, group: GroupView, history: History,
    now_s: float,
) -> SeatTable:
    """Return every seat as one description of the group shows it."""
    held = holders_of(group)
    reading = _Reading(group, snapshot, history, now_s)
    seats = [
        reading.wanted(key, ordinal, f"{naming.schemes[0].workload_name}-{ordinal}", held.get(key, ()))
        for key, ordinal in expected.items()
    ]
    foreign: list[MemberView] = []
    for key in sorted(held.keys() - expected.keys()):
        if naming.ordinal_of(key) is None:
            foreign += _sorted(held[key])
        else:
            seats.append(reading.departed(key, naming, held[key]))
    seats += reading.vacated(naming, expected, held)
    dynamic = sorted((m for m in group.members if m.instance_id is None), key=lambda m: m.member_id)
    return SeatTable(seats=tuple(seats), foreign=tuple(foreign), dynamic=tuple(dynamic), role=role)


def holders_of(group: GroupView) -> dict[str, list[MemberView]]:
    """Return who holds each id, its group.instance.id (KIP-345), in the order of the reading."""
    held: dict[str, list[MemberView]] = {}
    for member in group.members:
        if member.instance_id is not None:
            held.setdefault(member.instance_id, []).append(member)
    return held


def pods_without_id(naming: Naming, expected: Mapping[str, int], pods: Sequence[KnownPod]) -> tuple[KnownPod, ...]:
    """Return the live pods of wanted ordinals that lack an id which the present scheme gives to their name.

    Where the application brings the ids, its members tell whether they have them; but a pod may show another one's.
    """
    wanted: dict[str, set[str]] = {}
    for key, ordinal in expected.items():
        wanted.setdefault(f"{naming.schemes[0].workload_name}-{ordinal}", set()).add(key)
    live = ((seat_name(p, naming.scope), p) for p in pods if p.state is PodState.LIVE and not p.is_deleting)
    lacking = ((name, p) for name, p in live if not wanted.get(name, set()) <= p.instance_ids)
    lacking = ((name, p) for name, p in lacking if not naming.is_brought or any(map(naming.is_own, p.instance_ids)))
    found = tuple(p for name, p in lacking if not wanted[name] <= naming.expand(p).instance_ids)
    return (*found, *(p for p in pods if p.slots and _began_without_slot(p, naming.scope)))


def _began_without_slot(pod: KnownPod, scope: str) -> bool:
    """Return True for a pod of a Deployment that waited in vain, and runs as a dynamic member."""
    slot = pod.slot_of(scope)
    is_live = pod.state is PodState.LIVE and not pod.is_deleting
    return is_live and slot is not None and slot.has_started and not slot.given


class _Reading:
    """One reading of the group, asked seat by seat."""

    def __init__(self, group: GroupView, snapshot: Snapshot, history: History, now_s: float) -> None:
        self.group, self.snapshot, self.history, self.now_s = group, snapshot, history, now_s
        self._member_ids = {m.member_id for m in group.members}
        live = [pod for pod in snapshot.pods if pod.state is PodState.LIVE]
        self._by_name = {seat_name(pod, snapshot.scope): pod for pod in live}
        moments = (moment for pod in live for moment in (pod.created_at_s, pod.ready_since_s))
        self._news_s = max((moment for moment in moments if moment is not None), default=0.0)
        self._settled_uids = {
            i: pod.uid
            for pod in snapshot.pods
            if pod.ready_since_s is not None and now_s - pod.ready_since_s >= SAME_MEMBER_READY_S
            for i in pod.instance_ids
        }

    def wanted(self, key: str, ordinal: int, name: str, holders: Sequence[MemberView]) -> Seat:
        """Return a seat that the workload calls for, by its pod's name or slot; a removal of before is forgotten."""
        pod, before = self._by_name.get(name), self.history.seats.get(key, NOTHING_REMEMBERED)
        sightings = self._sightings(key, before, holders)
        absent_since_s = None if holders else self.now_s if before.absent_since_s is None else before.absent_since_s
        memory = SeatMemory(
            sightings=sightings,
            absent_since_s=absent_since_s,
            release=self._settled(before.release, holders),
            crash=next((before.crash for m in holders if before.crash and before.crash.member_id == m.member_id), None),
            replaced=self._replaced(key, pod, before, holders),
        )
        standing = self._standing(key, pod, holders, memory)
        holding, pod_name = tuple(holders), pod.pod_name if pod is not None else name
        return Seat(key=key, ordinal=ordinal, pod_name=pod_name, standing=standing, holders=holding, memory=memory)

    def _standing(
        self, key: str, pod: KnownPod | None, holders: Sequence[MemberView], memory: SeatMemory
    ) -> Standing:
        """Tell how a wanted seat stands.

        Where pods are made one after the other, a seat waits for its pod as long as others become Ready. A client that
        was refused before its predecessor was released may never ask again (librdkafka).
        """
        absent_since_s = memory.absent_since_s
        if holders:
            is_refused = memory.release is not None and memory.release.member_id == holders[0].member_id
            is_late = pod is not None and self._ready_for_s(pod) >= MISSING_AFTER_READY_S
            if holders[0].is_away and is_refused and is_late:
                return Standing.MISSING
            return Standing.AWAY if holders[0].is_away else Standing.JOINED
        absent_for_s = self.now_s - (self.now_s if absent_since_s is None else absent_since_s)
        if pod is None:
            is_stuck = min(absent_for_s, self.now_s - self._news_s) >= OVERDUE_AFTER_S
            return Standing.WITHOUT_POD if is_stuck else Standing.AWAY
        if key not in pod.instance_ids and not pod.is_deleting:
            return Standing.UNISSUED
        if self._ready_for_s(pod) >= MISSING_AFTER_READY_S:
            return Standing.MISSING
        return Standing.OVERDUE if absent_for_s >= OVERDUE_AFTER_S else Standing.AWAY

    def _ready_for_s(self, pod: KnownPod) -> float:
        """Return how long a pod has been Ready without being deleted; a negative number when it is not."""
        if pod.ready_since_s is None or pod.is_deleting:
            return -1.0
        return self.now_s - pod.ready_since_s

    def departed(self, key: str, naming: Naming, holders: Sequence[MemberView]) -> Seat:
        """Return a seat that somebody holds and nobody wants."""
        before, pod_names = self.history.seats.get(key, NOTHING_REMEMBERED), naming.pod_names_of(key)
        return Seat(
            key=key,
            ordinal=naming.ordinals_of(key)[0],
            pod_name=pod_names[0],
            pod_names=pod_names,
            standing=Standing.DEPARTED,
            holders=tuple(_sorted(holders)),
            memory=SeatMemory(
                departed_since_s=self.now_s if before.departed_since_s is None else before.departed_since_s,
                sightings=self._sightings(key, before, holders),
                removal=self._verified(before.removal),
            ),
        )

    def vacated(self, naming: Naming, keys: Collection[str], held: Collection[str]) -> Iterable[Seat]:
        """Yield the seats that were removed and that neither the workload (`keys`) nor a member has again."""
        for key, memory in sorted(self.history.seats.items()):
            ordinal = naming.ordinal_of(key)
            if memory.removal is not None and key not in keys and (key not in held or ordinal is None):
                yield Seat(
                    key=key,
                    ordinal=int(ordinal) if ordinal is not None else -1,
                    pod_name=naming.pod_names_of(key)[0] if ordinal is not None else "",
                    standing=Standing.VACATED,
                    memory=SeatMemory(removal=self._verified(memory.removal)),
                )

    def _settled(self, record: ReleaseRecord | None, holders: Iterable[MemberView]) -> ReleaseRecord | None:
        """Advance the verification of a release by one reading: the member has left, or another one holds the seat."""
        if record is None or record.settled_at_s is not None:
            return record
        is_there = any(m.member_id == record.member_id and not m.is_away for m in holders)
        return record if is_there else replace(record, settled_at_s=self.now_s)

    def _sightings(
        self, key: str, before: SeatMemory, holders: Iterable[MemberView]
    ) -> tuple[tuple[str, str, float], ...]:
        """Note which member was described while which pod had been Ready for long."""
        sightings, uid = before.sightings, self._settled_uids.get(key)
        for member in holders if uid is not None else ():
            seen = tuple(s for s in sightings if s[0] == member.member_id)
            if uid is not None and not any(s[1] == uid for s in seen):
                sightings = (*seen, (member.member_id, uid, self.now_s))[-SIGHTINGS_MAX:]
        return sightings

    def _replaced(
        self, key: str, pod: KnownPod | None, before: SeatMemory, holders: Sequence[MemberView]
    ) -> tuple[str, float, int] | None:
        """Note that another member replaced the one that was seen, beside a pod that was Ready before that already."""
        uid = self._settled_uids.get(key)
        if not holders or pod is None or pod.uid != uid or pod.ready_since_s is None:
            return None
        member_ids = [m.member_id for m in holders]
        if before.replaced is not None and before.replaced[0] in member_ids:
            return before.replaced if self.now_s - before.replaced[1] < REPLACED_TOLD_S else None
        beside = [(member_id, since_s) for member_id, seen_uid, since_s in before.sightings if seen_uid == uid]
        is_other = bool(beside) and not any(member_id in member_ids for member_id, _ in beside)
        is_after = any(since_s > pod.ready_since_s for _, since_s in beside)
        times = before.replaced[2] if before.replaced is not None else 0
        return (member_ids[0], self.now_s, times + 1) if is_other and is_after else None

    def _verified(self, record: RemovalRecord | None) -> RemovalRecord | None:
        """Advance the verification of an acknowledged removal by one reading (step 7 of the chain).

        Settled means: described as gone, nothing in flight, under the coordinator that acknowledged it, or twice at
        least two seconds apart under another one. A classic removal is acknowledged before it is durable. A group that
        expired needs no rest, but a coordinator that has only just loaded may not show a group that exists, so its
        absence, too, is believed at the second reading.
        """
        group, now_s = self.group, self.now_s
        if record is None:
            return None
        if record.member_id in self._member_ids:
            return replace(record, absent_since_s=None, settled_at_s=None)
        if record.settled_at_s is not None and record.coordinator == group.coordinator:
            return record
        if record.coordinator != group.coordinator:
            return replace(record, coordinator=group.coordinator, absent_since_s=now_s, settled_at_s=None)
        is_expired = group.group_type is GroupType.ABSENT
        if not group.is_settled and not is_expired:
            return record
        if is_expired and record.absent_since_s is None:
            return replace(record, absent_since_s=now_s)
        if record.absent_since_s is not None and now_s - record.absent_since_s < COORDINATOR_CHANGE_SETTLE_S:
            return record
        return replace(record, settled_at_s=now_s)


def _sorted(members: Iterable[MemberView]) -> list[MemberView]:
    return sorted(members, key=lambda m: m.member_id)
