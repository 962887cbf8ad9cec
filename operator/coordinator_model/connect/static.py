"""Static membership for Connect workers, as the agent in `operator/connect_agent` implements it.

A static member that comes back while its group is stable gets its stored assignment, and no round happens. Connect's
leader stores increments, so the agent turns them into whole allocations, marked by trailing bytes that Connect ignores.
A leader may be a new process, so each member sends the last allocations of all in JoinGroup, also in trailing bytes.
It mirrors the agent's Membership, Assignment, Whole and LastGeneration; both read `connect_vectors/static.json`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    Reader,
    SchemaError,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    encode_string,
    encode_work,
    read_assignment,
    read_metadata,
)
from .work import NOTHING, ConnectorsAndTasks

MARK = b"SGwhole1"
LAST_GENERATION_MARK = b"SGgiven1"
GIVEN_MAX_BYTES = 128 * 1024
"""Limit of the allocations of all members, summed over all copies: above it only the leader gets one, or no member.

They are stored twice, in assignments and in JoinGroup metadata, in one record of at most `message.max.bytes`.
"""
FIRST_GENERATION = 1
HELD_BACK_ROUNDS = 3
"""How often the leader asks for a round because of the same doubt; after that only the members in doubt end it."""
NOT_KNOWN = -1
"""In place of a count."""
INCREMENTAL_VERSIONS = (ConnectProtocolCompatibility.COMPATIBLE.version, ConnectProtocolCompatibility.SESSIONED.version)
UUID_LENGTH = 36
Given = Mapping[str, ConnectorsAndTasks]


@dataclass(frozen=True, slots=True)
class Whole:
    """The trailing bytes of an assignment that holds a member's whole allocation, not an increment.

    Parameters
    ----------
    leader_instance_id: of the leader that wrote it, by which a returning leader recognizes its former member id.
    url: the member's own REST address as the leader knows it.
    given: the work of each static member in this generation, by instance id; None: not known, or too large.
    """

    leader_instance_id: str
    url: str
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class LastGeneration:
    """The trailing bytes of a worker's JoinGroup metadata: its last generation, and the `Whole.given` of it.

    A process that has had no assignment yet sends none.
    """

    generation_id: int
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class RoundMember:
    """One member of a round as JoinGroup shows it to the leader; the instance id of a dynamic one is None."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """An assignment as Connect expects it, and whether a round should follow."""

    shown: bytes
    round_wanted: bool


def encode_whole(whole: Whole) -> bytes:
    """Encode the trailing bytes."""
    return MARK + encode_string(whole.leader_instance_id) + encode_string(whole.url) + _encode_given(whole.given)


def encode_last_generation(last: LastGeneration) -> bytes:
    """Encode the trailing bytes of metadata."""
    return LAST_GENERATION_MARK + struct.pack(">i", last.generation_id) + _encode_given(last.given)


def _encode_given(given: Given | None) -> bytes:
    if given is None:
        return struct.pack(">i", NOT_KNOWN)
    entries = (encode_string(name) + encode_work(given[name].sorted()) for name in sorted(given))
    return struct.pack(">i", len(given)) + b"".join(entries)


def _read_given(reader: Reader) -> Given | None:
    count = reader.number("i")
    return None if count == NOT_KNOWN else {reader.string(): reader.work() for _ in range(count)}


def encode_stored(assignment: Assignment, whole: Whole | None) -> bytes:
    """Encode an assignment with or without trailing bytes; ValueError where its version has no room for them."""
    if whole is not None and assignment.version not in INCREMENTAL_VERSIONS:
        raise ValueError(f"version {assignment.version} has no room for trailing bytes")
    bare = replace(assignment, assigned=assignment.assigned.sorted(), revoked=assignment.revoked.sorted())
    return encode_assignment(bare) + (b"" if whole is None else encode_whole(whole))


def decode_stored(data: bytes) -> tuple[Assignment, Whole | None]:
    """Decode an assignment; Whole is None when it is an increment or when what trails is something else."""
    reader = Reader(data)
    assignment = read_assignment(reader)
    if assignment.version not in INCREMENTAL_VERSIONS:
        return assignment, None
    try:
        if reader.take(len(MARK)) != MARK:
            return assignment, None
        whole = Whole(reader.string(), reader.string(), _read_given(reader))
    except SchemaError:
        return assignment, None
    return assignment, whole if reader.done() else None


def decode_last_generation(metadata: bytes) -> LastGeneration | None:
    """Decode the trailing bytes of metadata; None when there are none, or others."""
    if _mode(metadata).version not in INCREMENTAL_VERSIONS:
        return None
    reader = Reader(metadata)
    read_metadata(reader)
    try:
        if reader.take(len(LAST_GENERATION_MARK)) != LAST_GENERATION_MARK:
            return None
        last = LastGeneration(reader.number("i"), _read_given(reader))
    except SchemaError:
        return None
    return last if reader.done() else None


@dataclass(frozen=True, slots=True)
class _Seat:
    instance_id: str | None
    mode: ConnectProtocolCompatibility
    state: WorkerState
    claimed: ConnectorsAndTasks
    is_doubtful: bool
    """It may not have joined this round, and may run, or get back, other work than it reports."""

    @property
    def reported(self) -> ConnectorsAndTasks:
        return self.state.allocation.assigned if self.state.allocation else NOTHING


@dataclass(slots=True)
class StaticMembership:
    """What one worker knows of its static membership; a new process knows nothing."""

    instance_id: str
    member_id: str = ""
    last_generation: LastGeneration | None = None
    """What it sends when it joins; None: it has had no assignment yet."""
    _seats: dict[str, _Seat] = field(default_factory=dict)
    _revokes_idle: bool = False
    _holds_back: bool = False
    _doubts: dict[str, bytes] = field(default_factory=dict)
    """Metadata of the members in doubt in the last round that this worker led, by member id."""
    _rounds_in_doubt: int = 0

    def with_last_generation(self, metadata: bytes) -> bytes:
        """Return the metadata of one protocol with what this worker knows; the eager one has no room for it."""
        if self.last_generation is None or _mode(metadata).version not in INCREMENTAL_VERSIONS:
            return metadata
        return metadata + encode_last_generation(self.last_generation)

    def view(self, members: Sequence[RoundMember], generation_id: int, leader_member_id: str) -> dict[str, bytes]:
        """Return the metadata of a round with what absent members own, by member id.

        A member that is away, or whose process is new, owns its work of the last generation besides what it
        reports; but never what another member reports, because a member runs what it reports.

        Parameters
        ----------
        generation_id: of this round. leader_member_id: of this worker, which leads it.
        """
        states = {m.member_id: decode_metadata(m.metadata) for m in members}
        lasts = {m.member_id: decode_last_generation(m.metadata) for m in members}
        last = generation_id - 1
        given = _given_in(lasts.values(), last)
        every_report = ConnectorsAndTasks.union(
            state.allocation.assigned for state in states.values() if state.allocation
        )
        self._seats = {}
        seen: dict[str, bytes] = {}
        for member in members:
            mode, mine = _mode(member.metadata), lasts[member.member_id]
            seen[member.member_id] = member.metadata
            if mode.version not in INCREMENTAL_VERSIONS:
                continue
            has_joined = member.member_id == leader_member_id or (mine is not None and mine.generation_id == last)
            seat = self._seats[member.member_id] = _Seat(
                member.instance_id,
                mode,
                states[member.member_id],
                claimed=(given or {}).get(member.instance_id or "", NOTHING).minus(every_report),
                is_doubtful=given is None and member.instance_id is not None and not has_joined,
            )
            if seat.claimed:
                seen[member.member_id] = encode_metadata(
                    _owning(seat.state, mode, seat.reported.plus(seat.claimed)), mode
                )
        doubts = {m.member_id: m.metadata for m in members if self._is_doubtful(m.member_id)}
        self._rounds_in_doubt = self._rounds_in_doubt + 1 if doubts == self._doubts else 1
        self._holds_back, self._doubts = bool(doubts), doubts
        return seen

    def _is_doubtful(self, member_id: str) -> bool:
        return member_id in self._seats and self._seats[member_id].is_doubtful

    def held_back(self, leader_member_id: str) -> dict[str, bytes] | None:
        """Return what to store while the last work of a member that may be away is not known; None: let Connect assign.

        Every member goes on with what it runs, and no work moves. A member in doubt gets an empty increment, so that
        its next process asks for a round instead of starting work that others may have by now.
        """
        if not self._holds_back:
            return None
        newest = max(seat.state.config_offset for seat in self._seats.values())
        stored: dict[str, bytes] = {}
        for member_id, seat in self._seats.items():
            is_sure = seat.instance_id is not None and not seat.is_doubtful
            assignment = Assignment(
                version=seat.mode.version,
                error=AssignmentError.NO_ERROR,
                leader=leader_member_id,
                leader_url=self._seats[leader_member_id].state.url,
                config_offset=newest,
                assigned=seat.reported if is_sure else NOTHING,
            )
            stored[member_id] = encode_stored(assignment, Whole(self.instance_id, seat.state.url) if is_sure else None)
        return stored

    def stored(self, increments: Mapping[str, bytes], leader_member_id: str) -> dict[str, bytes]:
        """Return the leader's increments of the last `view` as whole allocations; dynamic members keep theirs.

        A member keeps claimed work that is revoked from it: it may be away, or run it and not have joined this round,
        so it first has to report it. Work that is revoked before any member had it is free at once; the leader asks for
        the round that assigns it, because no other member does.
        """
        wholes: dict[str, Assignment] = {}
        given: dict[str, ConnectorsAndTasks] = {}
        self._revokes_idle = False
        for member_id, data in increments.items():
            seat, assignment = self._seats.get(member_id), decode_assignment(data)
            if seat is not None and seat.instance_id is not None and assignment.version in INCREMENTAL_VERSIONS:
                owned = seat.reported.plus(assignment.assigned).minus(assignment.revoked).plus(seat.claimed)
                wholes[member_id] = replace(assignment, assigned=owned)
                self._revokes_idle |= bool(assignment.revoked.minus(seat.reported, seat.claimed))
                given[seat.instance_id] = owned
        size = len(_encode_given(given))

        def whole(member_id: str) -> Whole:
            copies = 1 if member_id == leader_member_id else len(wholes)
            fits = copies * size <= GIVEN_MAX_BYTES
            return Whole(self.instance_id, self._seats[member_id].state.url, given if fits else None)

        return dict(increments) | {m: encode_stored(assignment, whole(m)) for m, assignment in wholes.items()}

    def received(
        self,
        data: bytes,
        generation_id: int,
        member_id: str,
        url: str,
        config_offset: int,
        running: ConnectorsAndTasks,
    ) -> Received:
        """Return the stored assignment as Connect expects it: an increment, or everything for a new process.

        Parameters
        ----------
        data: the answer to SyncGroup.
        generation_id, member_id: of this worker, in the generation that has just begun or gone on.
        url: its advertised REST address.
        config_offset: of its own snapshot of the config topic.
        running: what it holds now.
        """
        returned, self.member_id = member_id != self.member_id, member_id
        round_wanted = self._revokes_idle or (self._holds_back and self._rounds_in_doubt <= HELD_BACK_ROUNDS)
        self._revokes_idle = self._holds_back = False
        assignment, whole = decode_stored(data)
        self.last_generation = LastGeneration(generation_id, whole.given if whole else None)
        if assignment.version != 0 and whole is None:
            return Received(data, returned or round_wanted)
        if whole is not None:
            # Connect joins again after a revocation. If it stops nothing, that is the same JoinGroup, answered by the
            # same assignment, without end: only a leader, or a member with other metadata, causes a round.
            idle = assignment.revoked.minus(running)
            round_wanted |= bool(idle) if returned else bool(idle.common(assignment.assigned))
            stopped = assignment.revoked.common(running).minus(assignment.assigned)
            assignment = replace(assignment, assigned=assignment.assigned.minus(running), revoked=stopped)
        if assignment.error is AssignmentError.NO_ERROR and assignment.config_offset < config_offset:
            assignment = replace(assignment, config_offset=config_offset)
        if returned:
            assignment, has_news = self._come_back(assignment, whole, url)
            round_wanted |= has_news
        return Received(encode_stored(assignment, None), round_wanted)

    def _come_back(self, assignment: Assignment, whole: Whole | None, url: str) -> tuple[Assignment, bool]:
        led = whole.leader_instance_id == self.instance_id if whole else self._is_mine(assignment.leader)
        round_wanted = False
        if led and assignment.leader != self.member_id:
            assignment = replace(assignment, leader=self.member_id)
            round_wanted = whole is not None
        known = whole.url if whole else assignment.leader_url if led else url
        return assignment, round_wanted or known != url

    def _is_mine(self, member_id: str) -> bool:
        """Whether the coordinator made this member id for this identity: instance id, `-`, a UUID."""
        prefix = f"{self.instance_id}-"
        return member_id.startswith(prefix) and len(member_id) == len(prefix) + UUID_LENGTH


def _given_in(lasts: Iterable[LastGeneration | None], last: int) -> Given | None:
    """Return the work of each member in the last generation; None when no member knows it."""
    if last < FIRST_GENERATION:
        return {}
    return next((t.given for t in lasts if t is not None and t.generation_id == last and t.given is not None), None)


def _mode(metadata: bytes) -> ConnectProtocolCompatibility:
    version = Reader(metadata).version()
    return next(mode for mode in ConnectProtocolCompatibility if mode.version == version)


def _owning(state: WorkerState, mode: ConnectProtocolCompatibility, work: ConnectorsAndTasks) -> WorkerState:
    was = state.allocation
    allocation = Assignment(
        version=mode.version,
        error=AssignmentError.NO_ERROR,
        leader=was.leader if was else "",
        leader_url=was.leader_url if was else "",
        config_offset=was.config_offset if was else state.config_offset,
        assigned=work.sorted(),
    )
    return replace(state, allocation=allocation)
