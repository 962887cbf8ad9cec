"""Join a classic group as a temporary dynamic member, and leave it again: what makes the coordinator rebalance it once.

The one idea: only a member id that the coordinator drew for this very join can be sent in this leave. Nobody else's
member is ever named by it, so the rule that a leave of somebody's member names both ids stands beside it.
Source: KIP-394 (MEMBER_ID_REQUIRED), GroupMetadataManager.classicGroupJoinNewDynamicMember and classicGroupLeave.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.static.primitive import i32Timedelta

from ..wire import Api, Call, element_type, fill

SESSION_TIMEOUT_S: Final = 6
"""group.min.session.timeout.ms of a stock broker; where the operator dies before it leaves, the member is gone then."""
NO_SUBSCRIPTION: Final = struct.pack(">hii", 0, 0, -1)
"""A ConsumerProtocolSubscription v0 of no topics, without user data."""


@dataclass(frozen=True, slots=True)
class TemporaryMember:
    """A member id that the coordinator drew for a join of ours, see `join`."""

    group_id: str
    member_id: str


def join(group_id: str, protocol: str, drawn: TemporaryMember | None = None) -> Call[tuple[int, TemporaryMember]]:
    """Ask for a member id; the answer is MEMBER_ID_REQUIRED with it, or another error code and an empty one.

    Parameters
    ----------
    protocol: the assignor that the group has chosen, which every member of it supports.
    drawn: joins by the id that was drawn; the coordinator begins a rebalance, and answers when it is over or we leave.
    """

    def build(cls: Any, _version: int) -> Any:
        timeout = i32Timedelta.parse(timedelta(seconds=SESSION_TIMEOUT_S))
        return fill(
            cls,
            group_id=group_id,
            session_timeout=timeout,
            rebalance_timeout=timeout,
            member_id=drawn.member_id if drawn else "",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(element_type(cls, "protocols")(name=protocol, metadata=NO_SUBSCRIPTION),),
        )

    def read(response: Any, _version: int) -> tuple[int, TemporaryMember]:
        return int(response.error_code), TemporaryMember(group_id, response.member_id)

    return Call(api=Api.JOIN_GROUP, build=build, read=read)


def leave_as(member: TemporaryMember) -> Call[int]:
    """Take the temporary member away again; the answer is an error code. ValueError without a member id."""
    if not member.member_id:
        raise ValueError("a leave of nobody is refused")

    def build(cls: Any, _version: int) -> Any:
        identity = fill(element_type(cls, "members"), member_id=member.member_id, group_instance_id=None, reason=None)
        return cls(group_id=member.group_id, members=(identity,))

    def read(response: Any, _version: int) -> int:
        return int(response.error_code) or next((int(each.error_code) for each in response.members), 0)

    return Call(api=Api.LEAVE_GROUP, build=build, read=read)
