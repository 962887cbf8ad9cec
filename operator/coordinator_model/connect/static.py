"""Static membership for Connect workers, as the agent in `operator/connect_agent` brings it about.

A static member that comes back while its group is stable gets what is stored for it, and no round happens. Connect's
leader stores increments, so the agent makes whole allocations of them, marked by trailing bytes that Connect ignores.
This is the twin of the agent's Membership, Assignment and Whole; both read `vectors/static.json`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
)
from .work import NOTHING, ConnectorsAndTasks

MARK = b"SGwhole1"
GIVEN_MAX_BYTES = 256 * 1024
"""Above this, over all members, what everybody was given is stored for the leader only."""
INCREMENTAL_VERSIONS = (ConnectProtocolCompatibility.COMPATIBLE.version, ConnectProtocolCompatibility.SESSIONED.version)
UUID_LENGTH = 36


@dataclass(frozen=True, slots=True)
class Whole:
    """The trailing bytes of an assignment that holds a member's whole allocation, not an increment.

    Parameters
    ----------
    leader_instance_id: who wrote it; tells a returning leader that the member id of before means itself.
    url: the member's own REST address as the leader knows it.
    given: what every static member was given in this generation, by instance id; empty when it would be too large.
    """

    leader_instance_id: str
    url: str
    given: Mapping[str, ConnectorsAndTasks] = field(default_factory=dict)


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
    return (
        MARK
        + encode_string(whole.leader_instance_id)
        + encode_string(whole.url)
        + struct.pack(">i", len(whole.given))
        + b"".join(encode_string(name) + encode_work(whole.given[name].sorted()) for name in sorted(whole.given))
    )


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
        leader, url = reader.string(), reader.string()
        given = {reader.string(): reader.work() for _ in range(reader.number("i"))}
    except SchemaError:
        return assignment, None
    return assignment, Whole(leader, url, given) if reader.done() else None


@dataclass(frozen=True, slots=True)
class _Seat:
    instance_id: str | None
    url: str
    reported: ConnectorsAndTasks
    claimed: ConnectorsAndTasks


@dataclass(slots=True)
class StaticMembership:
    """What one worker knows of its static membership; a new process knows nothing."""

    instance_id: str
    member_id: str = ""
    given: Mapping[str, ConnectorsAndTasks] = field(default_factory=dict)
    _seats: dict[str, _Seat] = field(default_factory=dict)
    _revokes_idle: bool = False

    def view(self, members: Sequence[RoundMember]) -> dict[str, bytes]:
        """Return the metadata of a round as the leader is to see it, by member id.

        A member that is away, or whose process is new, owns what it was given in the last generation besides what it
        reports; but never what another member reports, because who reports a task runs it.
        """
        states = {m.member_id: decode_metadata(m.metadata) for m in members}
        reported = {m: s.allocation.assigned if s.allocation else NOTHING for m, s in states.items()}
        every_report = ConnectorsAndTasks.union(reported.values())
        self._seats = {}
        seen: dict[str, bytes] = {}
        for member in members:
            state, mode = states[member.member_id], _mode(member.metadata)
            seen[member.member_id] = member.metadata
            if mode.version not in INCREMENTAL_VERSIONS:
                continue
            claimed = self.given.get(member.instance_id or "", NOTHING).minus(every_report)
            runs = reported[member.member_id]
            if claimed:
                seen[member.member_id] = encode_metadata(_owning(state, mode, runs.plus(claimed)), mode)
            self._seats[member.member_id] = _Seat(member.instance_id, state.url, runs, claimed)
        return seen

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
        fits = len(wholes) * len(encode_whole(Whole("", "", given))) <= GIVEN_MAX_BYTES
        return dict(increments) | {
            member_id: encode_stored(
                told,
                Whole(
                    self.instance_id, self._seats[member_id].url, given if fits or member_id == leader_member_id else {}
                ),
            )
            for member_id, told in wholes.items()
        }

    def received(
        self, data: bytes, member_id: str, url: str, config_offset: int, running: ConnectorsAndTasks
    ) -> Received:
        """Return what is stored as Connect expects it: an increment for a live worker, everything for a new process.

        Parameters
        ----------
        data: the answer of SyncGroup.
        member_id: this worker's, of the generation that has just begun or gone on.
        url: its advertised REST address.
        config_offset: of its own snapshot of the config topic.
        running: what it holds now.
        """
        returned, self.member_id = member_id != self.member_id, member_id
        round_wanted, self._revokes_idle = self._revokes_idle, False
        self.given = {}
        told, whole = decode_stored(data)
        if told.version != 0 and whole is None:
            return Received(data, returned or round_wanted)
        if whole is not None:
            # Connect joins again after a revocation; of nothing that would be the same JoinGroup, answered by the same
            # assignment, without end. Only a leader or a member with news gets a round.
            idle = told.revoked.minus(running)
            round_wanted |= bool(idle) if returned else bool(idle.common(told.assigned))
            self.given = whole.given
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
