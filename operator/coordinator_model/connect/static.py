"""Static membership for Connect workers, as the agent in `operator/connect_agent` brings it about.

A static member that comes back while its group is stable gets what is stored for it, and no round happens. Connect's
leader stores increments, so the agent makes whole allocations of them, marked by trailing bytes that Connect ignores.
A leader may be a new process, so what everybody was given is told to it in JoinGroup, again in trailing bytes.
This is the twin of the agent's Membership, Assignment, Whole and Told; both read `connect_vectors/static.json`.
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
TOLD_MARK = b"SGgiven1"
GIVEN_MAX_BYTES = 128 * 1024
"""Above this, over all members, what everybody was given goes to the leader only, and to nobody if it is as large alone.

It is stored twice, in assignments and in what members say when they join, in one record of at most `message.max.bytes`.
"""
FIRST_GENERATION = 1
HELD_BACK_ROUNDS = 3
"""How often the leader asks for a round because of the same doubt; later only who is in doubt can end it, and does."""
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
    leader_instance_id: who wrote it; tells a returning leader that the member id of before means itself.
    url: the member's own REST address as the leader knows it.
    given: what every static member was given in this generation, by instance id; None when nobody knows, or it is too large.
    """

    leader_instance_id: str
    url: str
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """The trailing bytes of a worker's JoinGroup metadata: of which generation its last assignment was, and `Whole.given` of it.

    A process that has had no assignment yet says nothing.
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
    """An assignment as Connect is to see it, and whether a round should follow."""

    shown: bytes
    round_wanted: bool


def encode_whole(whole: Whole) -> bytes:
    """Encode the trailing bytes."""
    return MARK + encode_string(whole.leader_instance_id) + encode_string(whole.url) + _encode_given(whole.given)


def encode_told(told: Told) -> bytes:
    """Encode the trailing bytes of metadata."""
    return TOLD_MARK + struct.pack(">i", told.generation_id) + _encode_given(told.given)


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


def decode_told(metadata: bytes) -> Told | None:
    """Decode what trails metadata; None when nothing does, or something else."""
    if _mode(metadata).version not in INCREMENTAL_VERSIONS:
        return None
    reader = Reader(metadata)
    read_metadata(reader)
    try:
        if reader.take(len(TOLD_MARK)) != TOLD_MARK:
            return None
        told = Told(reader.number("i"), _read_given(reader))
    except SchemaError:
        return None
    return told if reader.done() else None


@dataclass(frozen=True, slots=True)
class _Seat:
    instance_id: str | None
    mode: ConnectProtocolCompatibility
    state: WorkerState
    claimed: ConnectorsAndTasks
    is_doubtful: bool
    """It may not have joined this round, and may run, or be given back, another thing than it reports."""

    @property
    def reported(self) -> ConnectorsAndTasks:
        return self.state.allocation.assigned if self.state.allocation else NOTHING


@dataclass(slots=True)
class StaticMembership:
    """What one worker knows of its static membership; a new process knows nothing."""

    instance_id: str
    member_id: str = ""
    told: Told | None = None
    """What it says when it joins; None: it has had no assignment yet."""
    _seats: dict[str, _Seat] = field(default_factory=dict)
    _revokes_idle: bool = False
    _holds_back: bool = False
    _doubts: dict[str, bytes] = field(default_factory=dict)
    """Of the last round that this worker led: what the members in doubt said, by member id."""
    _rounds_in_doubt: int = 0

    def telling(self, metadata: bytes) -> bytes:
        """Return the metadata of one protocol with what this worker knows; the eager one has no room for it."""
        if self.told is None or _mode(metadata).version not in INCREMENTAL_VERSIONS:
            return metadata
        return metadata + encode_told(self.told)

    def view(self, members: Sequence[RoundMember], generation_id: int, leader_member_id: str) -> dict[str, bytes]:
        """Return the metadata of a round as the leader is to see it, by member id.

        A member that is away, or whose process is new, owns what it was given in the last generation besides what it
        reports; but never what another member reports, because who reports a task runs it.

        Parameters
        ----------
        generation_id: of this round. leader_member_id: of this worker, who leads it.
        """
        states = {m.member_id: decode_metadata(m.metadata) for m in members}
        told = {m.member_id: decode_told(m.metadata) for m in members}
        last = generation_id - 1
        given = _given_in(told.values(), last)
        every_report = ConnectorsAndTasks.union(
            state.allocation.assigned for state in states.values() if state.allocation
        )
        self._seats = {}
        seen: dict[str, bytes] = {}
        for member in members:
            mode, mine = _mode(member.metadata), told[member.member_id]
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
        """Return what to store while nobody knows what a member was given that may be away; None: let Connect assign.

        Everybody goes on with what it runs, and nobody is given or loses anything. A member in doubt finds an increment of
        nothing, so that its next process asks for a round instead of starting what others may have by now.
        """
        if not self._holds_back:
            return None
        newest = max(seat.state.config_offset for seat in self._seats.values())
        stored: dict[str, bytes] = {}
        for member_id, seat in self._seats.items():
            is_sure = seat.instance_id is not None and not seat.is_doubtful
            told = Assignment(
                version=seat.mode.version,
                error=AssignmentError.NO_ERROR,
                leader=leader_member_id,
                leader_url=self._seats[leader_member_id].state.url,
                config_offset=newest,
                assigned=seat.reported if is_sure else NOTHING,
            )
            stored[member_id] = encode_stored(told, Whole(self.instance_id, seat.state.url) if is_sure else None)
        return stored

    def stored(self, increments: Mapping[str, bytes], leader_member_id: str) -> dict[str, bytes]:
        """Return the leader's increments of the last `view` as whole allocations; dynamic members keep theirs.

        A member keeps what is revoked from it and only claimed: it may be away, or run it and not have joined this
        round, so it first has to come and report it. What is revoked before anybody had it is free at once; the leader
        asks for the round that gives it away, because nobody else will.
        """
        wholes: dict[str, Assignment] = {}
        given: dict[str, ConnectorsAndTasks] = {}
        self._revokes_idle = False
        for member_id, data in increments.items():
            seat, told = self._seats.get(member_id), decode_assignment(data)
            if seat is not None and seat.instance_id is not None and told.version in INCREMENTAL_VERSIONS:
                owned = seat.reported.plus(told.assigned).minus(told.revoked).plus(seat.claimed)
                wholes[member_id] = replace(told, assigned=owned)
                self._revokes_idle |= bool(told.revoked.minus(seat.reported, seat.claimed))
                given[seat.instance_id] = owned
        size = len(_encode_given(given))

        def whole(member_id: str) -> Whole:
            copies = 1 if member_id == leader_member_id else len(wholes)
            fits = copies * size <= GIVEN_MAX_BYTES
            return Whole(self.instance_id, self._seats[member_id].state.url, given if fits else None)

        return dict(increments) | {m: encode_stored(told, whole(m)) for m, told in wholes.items()}

    def received(
        self,
        data: bytes,
        generation_id: int,
        member_id: str,
        url: str,
        config_offset: int,
        running: ConnectorsAndTasks,
    ) -> Received:
        """Return what is stored as Connect expects it: an increment for a live worker, everything for a new process.

        Parameters
        ----------
        data: the answer of SyncGroup.
        generation_id, member_id: of this worker, in the generation that has just begun or gone on.
        url: its advertised REST address.
        config_offset: of its own snapshot of the config topic.
        running: what it holds now.
        """
        returned, self.member_id = member_id != self.member_id, member_id
        round_wanted = self._revokes_idle or (self._holds_back and self._rounds_in_doubt <= HELD_BACK_ROUNDS)
        self._revokes_idle = self._holds_back = False
        told, whole = decode_stored(data)
        self.told = Told(generation_id, whole.given if whole else None)
        if told.version != 0 and whole is None:
            return Received(data, returned or round_wanted)
        if whole is not None:
            # Connect joins again after a revocation; of nothing that would be the same JoinGroup, answered by the same
            # assignment, without end. Only a leader or a member with news gets a round.
            idle = told.revoked.minus(running)
            round_wanted |= bool(idle) if returned else bool(idle.common(told.assigned))
            stopped = told.revoked.common(running).minus(told.assigned)
            told = replace(told, assigned=told.assigned.minus(running), revoked=stopped)
        if told.error is AssignmentError.NO_ERROR and told.config_offset < config_offset:
            told = replace(told, config_offset=config_offset)
        if returned:
            told, has_news = self._come_back(told, whole, url)
            round_wanted |= has_news
        return Received(encode_stored(told, None), round_wanted)

    def _come_back(self, told: Assignment, whole: Whole | None, url: str) -> tuple[Assignment, bool]:
        led = whole.leader_instance_id == self.instance_id if whole else self._is_mine(told.leader)
        round_wanted = False
        if led and told.leader != self.member_id:
            told = replace(told, leader=self.member_id)
            round_wanted = whole is not None
        known = whole.url if whole else told.leader_url if led else url
        return told, round_wanted or known != url

    def _is_mine(self, member_id: str) -> bool:
        """Whether the coordinator made this member id for this identity: instance id, `-`, a UUID."""
        prefix = f"{self.instance_id}-"
        return member_id.startswith(prefix) and len(member_id) == len(prefix) + UUID_LENGTH


def _given_in(told: Iterable[Told | None], last: int) -> Given | None:
    """Return what everybody was given in the last generation; None when nobody says so."""
    if last < FIRST_GENERATION:
        return {}
    return next((t.given for t in told if t is not None and t.generation_id == last and t.given is not None), None)


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
