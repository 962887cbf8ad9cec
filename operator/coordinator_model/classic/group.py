"""A classic group: its members, its state and its vote on a protocol.

Source: ClassicGroup and ClassicGroupState of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..base.errors import ErrorCode, GroupError
from ..base.hash_order import bucket
from ..base.messages import JoinGroupResponseMember, Protocol
from ..base.records import Record, RecordType
from .member import ClassicMember, GroupMetadata, MemberMetadata

EMPTY = "Empty"
PREPARING_REBALANCE = "PreparingRebalance"
COMPLETING_REBALANCE = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

VALID_PREVIOUS_STATES: Mapping[str, frozenset[str]] = {
    EMPTY: frozenset({PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({STABLE, COMPLETING_REBALANCE, EMPTY}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE}),
    STABLE: frozenset({COMPLETING_REBALANCE}),
    DEAD: frozenset({STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE, EMPTY, DEAD}),
}


def illegal_state(message: str) -> GroupError:
    """Return the error of a state that no client can bring about; on the wire it is UNKNOWN_SERVER_ERROR."""
    return GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


@dataclass(slots=True)
class ClassicGroup:
    """One classic group.

    Parameters
    ----------
    static_members: group instance id → member id.
    pending_members: ids given out with MEMBER_ID_REQUIRED whose second JoinGroup has not come yet.
    pending_sync_members: members of this generation that have not sent SyncGroup yet.
    initial_delay: (delay, remaining) in milliseconds while the first rebalance of an empty group waits for more
        members; None otherwise.
    new_member_added: a member joined during the current initial delay, which may then be extended.
    standbys: members that wait for a place and are given no partitions; always empty in Kafka (see `future`).
    swapped: former standbys whose next answer will say that they have a place.
    """

    group_type: ClassVar[str] = "classic"

    group_id: str
    state: str = EMPTY
    previous_state: str = DEAD
    state_timestamp_ms: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation_id: int = 0
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: set[str] = field(default_factory=set)
    pending_sync_members: set[str] = field(default_factory=set)
    awaiting_join: int = 0
    initial_delay: tuple[int, int] | None = None
    new_member_added: bool = False
    standbys: set[str] = field(default_factory=set)
    swapped: set[str] = field(default_factory=set)
    _supported: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether the group is in state Empty; members that only wait for their id do not count."""
        return self.state == EMPTY

    @property
    def is_simple(self) -> bool:
        """Return whether the group only stores offsets (ClassicGroup.isSimpleGroup)."""
        return self.protocol_type is None and self.is_empty and not self.pending_members

    @property
    def has_all_members_joined(self) -> bool:
        """Return whether every member has a JoinGroup waiting and no given-out id is outstanding."""
        return len(self.members) == self.awaiting_join and not self.pending_members

    @property
    def can_rebalance(self) -> bool:
        """Return whether a rebalance may start from this state."""
        return self.state in VALID_PREVIOUS_STATES[PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def transition_to(self, state: str, now_ms: int) -> None:
        """Enter a state; refused when Kafka knows no such transition."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise illegal_state(f"Group {self.group_id} cannot move from {self.state} to {state}")
        self.previous_state, self.state, self.state_timestamp_ms = self.state, state, now_ms

    def add(self, member: ClassicMember, ticket: int | None = None) -> None:
        """Add a member whose JoinGroup waits under this ticket (None: nothing waits, as after a reload)."""
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise illegal_state(f"Static member {member.group_instance_id} is already a member")
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.protocol_type != member.protocol_type:
            raise illegal_state("The group and member's protocol type must be the same")
        if not self.supports_protocols(member.protocol_type, member.protocols):
            raise illegal_state("None of the member's protocols can be supported")
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.set_join_ticket(member, ticket)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member or a given-out id; when the leader goes, another member leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.set_join_ticket(member, None)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next((m for m in self.members if m not in self.standbys), next(iter(self.members), None))
        self.pending_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        self.standbys.discard(member_id)
        self.swapped.discard(member_id)

    def rename_static(self, group_instance_id: str, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member a new id, all else kept; the leader's id follows (ClassicGroup.replaceStaticMember).

        The caller answers the waiting requests of the old id before.
        """
        old = self.members.pop(old_member_id, None)
        if old is None:
            raise illegal_state(f"Cannot replace non-existing member id {old_member_id}")
        self.set_join_ticket(old, None)
        member = replace(old, member_id=new_member_id, is_new=False, join_ticket=None, sync_ticket=None)
        self.members[new_member_id] = member
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.standbys:
            self.standbys.remove(old_member_id)
            self.standbys.add(new_member_id)
        self.static_members[group_instance_id] = new_member_id
        return member

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        ticket: int | None,
    ) -> None:
        """Take over what a repeated JoinGroup says (KAFKA-14009: the timeouts too).

        A JoinGroup that waited already under another ticket is never answered: its client has given up on it.
        """
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.set_join_ticket(member, ticket)

    def set_join_ticket(self, member: ClassicMember, ticket: int | None) -> None:
        """Note which JoinGroup of a member waits, keeping the count of waiting members."""
        self.awaiting_join += (ticket is not None) - (member.join_ticket is not None)
        member.join_ticket = ticket

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Return the member that a request names.

        Raises UNKNOWN_MEMBER_ID when neither id is known and FENCED_INSTANCE_ID when the instance id belongs to
        another member; a static member may leave its instance id out. Source: ClassicGroup.validateMember (KIP-345).
        """
        if group_instance_id is not None:
            existing = self.static_members.get(group_instance_id)
            if existing is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if existing != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def supports_protocols(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Return whether a joiner with these protocols fits: one of them must be offered by every member."""
        if self.state == EMPTY:
            return bool(protocol_type) and bool(protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported.get(p.name, 0) == size for p in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members offer.

        Between equals the order of a Java hash map decides, which two brokers agree on (ClassicGroup.selectProtocol).
        """
        if not self.members:
            raise illegal_state("Cannot select protocol for empty group")
        size = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: (votes[name], -bucket(name)))

    def elect_joined_leader(self) -> bool:
        """Let a member lead that has rejoined, if the leader has not; returns False when none has rejoined."""
        if self.leader is None:
            return False
        leader = self.members.get(self.leader)
        if leader is not None and leader.join_ticket is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.join_ticket is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def init_next_generation(self, now_ms: int) -> None:
        """Begin the next generation: CompletingRebalance, or Empty when no member is left."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.transition_to(COMPLETING_REBALANCE if self.members else EMPTY, now_ms)
        self.pending_sync_members.clear()

    def current_members(self) -> tuple[JoinGroupResponseMember, ...]:
        """Return the members as JoinGroup lists them to the leader."""
        name = self.protocol_name
        return tuple(
            JoinGroupResponseMember(m.member_id, m.group_instance_id, m.metadata(name))
            for m in self.members.values()
            if m.member_id not in self.standbys
        )

    def metadata_record(self, assignments: Mapping[str, bytes] | None = None) -> Record:
        """Return the GroupMetadata record of the group as it is.

        Parameters
        ----------
        assignments: member id → assignment, where it differs from what the members hold.
        """
        given = assignments if assignments is not None else {}
        members = tuple(
            MemberMetadata(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.metadata(self.protocol_name),
                given.get(m.member_id, m.assignment),
            )
            for m in self.members.values()
        )
        value = GroupMetadata(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader,
            self.state_timestamp_ms,
            members,
        )
        return Record(RecordType.CLASSIC_GROUP_METADATA, (self.group_id,), value)

    def empty_record(self) -> Record:
        """Return the record that commits a newly created group; its members so far are not in it."""
        value = GroupMetadata("", 0, None, None, self.state_timestamp_ms)
        return Record(RecordType.CLASSIC_GROUP_METADATA, (self.group_id,), value)

    def tombstones(self) -> list[Record]:
        """Return the tombstone that deletes the group."""
        return [Record(RecordType.CLASSIC_GROUP_METADATA, (self.group_id,), None)]

    @classmethod
    def from_metadata(cls, group_id: str, value: GroupMetadata) -> ClassicGroup:
        """Return the group that a record describes: Stable with members, Empty without."""
        group = cls(
            group_id,
            STABLE if value.members else EMPTY,
            state_timestamp_ms=value.current_state_timestamp_ms,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol_name,
            generation_id=value.generation_id,
            leader=value.leader,
        )
        for m in value.members:
            rebalance_timeout_ms = m.session_timeout_ms if m.rebalance_timeout_ms == -1 else m.rebalance_timeout_ms
            member = ClassicMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                rebalance_timeout_ms,
                m.session_timeout_ms,
                value.protocol_type,
                (Protocol(value.protocol_name or "", m.subscription),),
                m.assignment,
            )
            group.add(member)
        return group

    def _count(self, protocols: Iterable[Protocol], delta: int) -> None:
        for protocol in protocols:
            self._supported[protocol.name] = self._supported.get(protocol.name, 0) + delta
