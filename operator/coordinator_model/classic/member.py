"""A member of a classic group, and the record that remembers all of them.

Source: ClassicGroupMember; GroupMetadataValue.json (record key type 2).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..base.errors import ErrorCode, GroupError
from ..base.messages import JoinGroupRequest, Protocol

NO_MEMBER = ""
"""What a request or an answer carries where no member id is known (JoinGroupRequest.UNKNOWN_MEMBER_ID)."""


MAX_INSTANCE_ID_LENGTH = 249
_LEGAL_INSTANCE_ID = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_INSTANCE_ID_LENGTH}}}")


def is_legal_instance_id(group_instance_id: str) -> bool:
    """Return whether a client would send this group instance id; the coordinator itself takes any.

    Source: JoinGroupRequest.validateGroupInstanceId: the alphabet of topic names.
    """
    return _LEGAL_INSTANCE_ID.fullmatch(group_instance_id) is not None and group_instance_id not in (".", "..")


@dataclass(slots=True)
class ClassicMember:
    """One member of a classic group.

    Parameters
    ----------
    group_instance_id: None for a dynamic member.
    protocols: what the member offers, in its order of preference.
    is_new: the member has never completed a join; it may then expire while its JoinGroup waits.
    join_ticket, sync_ticket: the waiting JoinGroup and SyncGroup; None when none waits.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_ticket: int | None = None
    sync_ticket: int | None = None

    @property
    def is_static(self) -> bool:
        """Return whether the member has a group instance id."""
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Return whether the session cannot expire now: waiting members are alive, unless they never joined before."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member said about itself under one protocol; refused when it does not offer it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Member does not support protocol {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """Return the first of the member's protocols that is a candidate (KAFKA: ClassicGroupMember.vote)."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR, "Member does not support any of the candidate protocols")


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Return the rebalance timeout; version 0 has none and uses the session timeout."""
    if request.api_version == 0 or request.rebalance_timeout_ms == -1:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def new_member(request: JoinGroupRequest, group_instance_id: str | None, member_id: str) -> ClassicMember:
    """Return the member that a JoinGroup brings in."""
    return ClassicMember(
        member_id,
        group_instance_id,
        request.client_id,
        request.client_host,
        rebalance_timeout_ms(request),
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
        is_new=True,
    )


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """One member inside GroupMetadata."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Value of a CLASSIC_GROUP_METADATA record: one generation of a group.

    Written when a group is created, when a generation's assignment is accepted, when a group becomes empty, when a
    static member returns to a stable group, and at a conversion; never by JoinGroup, Heartbeat or LeaveGroup alone.
    """

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...] = ()
