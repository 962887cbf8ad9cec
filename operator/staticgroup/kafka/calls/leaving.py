"""Say that a member leaves, for good or for a while: always with both ids, which the coordinator compares first.

Source: KIP-345 (LeaveGroup v3), KIP-800 (reason), KIP-848 (ConsumerGroupHeartbeat), KIP-1071 (StreamsGroupHeartbeat).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.group import LEAVE_EPOCH, STATIC_MEMBER_AWAY_EPOCH, LeaveCall, LeaveEntry
from ..wire import Api, Call, element_type, fill

REASON_MAX_CHARS = 255
"""The Java client cuts the reason here (KIP-800, JoinGroupRequest.maybeTruncateReason)."""
_HEARTBEATS: Mapping[LeaveCall, Api] = {
    LeaveCall.CONSUMER_HEARTBEAT: Api.CONSUMER_GROUP_HEARTBEAT,
    LeaveCall.STREAMS_HEARTBEAT: Api.STREAMS_GROUP_HEARTBEAT,
}
_UNCHANGED = (
    *("topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks"),
    *("client_tags", "task_offsets", "task_end_offsets"),
)
"""Fields of a heartbeat about its sender that have no default; null: as it was."""

LeaveAnswer = tuple[int, tuple[tuple[str | None, int], ...]]
"""The error code of the request, and (instance id, error code) of each entry; no entries unless the former is 0."""


def leave_group(group_id: str, entries: Sequence[LeaveEntry]) -> Call[LeaveAnswer]:
    """Remove static members, each by compare-and-set (KIP-345; GroupMetadataManager.classicGroupLeaveToClassicGroup).

    Raises
    ------
    ValueError: on an empty list or an entry without both ids; the codec has no way to write one.
    """
    _require_both_ids(entries)

    def build(cls: Any, _version: int) -> Any:
        _require_both_ids(entries)
        identity: Any = element_type(cls, "members")
        members = []
        for e in entries:
            reason = e.reason[:REASON_MAX_CHARS] or None  # before v5 there is no field for it
            members.append(fill(identity, member_id=e.member_id, group_instance_id=e.instance_id, reason=reason))
        return cls(group_id=group_id, members=tuple(members))

    def read(response: Any, _version: int) -> LeaveAnswer:
        return int(response.error_code), tuple((m.group_instance_id, int(m.error_code)) for m in response.members)

    return Call(api=Api.LEAVE_GROUP, build=build, read=read)


def streams_leave(group_id: str, entry: LeaveEntry) -> Call[int]:
    """Remove a static member of a streams group, by compare-and-set (GroupMetadataManager.streamsGroupLeave of 4.4).

    Raises
    ------
    ValueError: on an entry without both ids: with one of them alone the coordinator would not compare.
    """
    return _leaving(Api.STREAMS_GROUP_HEARTBEAT, group_id, entry, LEAVE_EPOCH)


def temporary_leave(group_id: str, entry: LeaveEntry, by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT) -> Call[int]:
    """Let a static member leave for a while, by compare-and-set (consumerGroupLeave and streamsGroupLeave of 4.4).

    Its seat, its partitions and its session's timer stay as they are.

    Raises
    ------
    ValueError: on an entry without both ids, or a call that lets nobody leave for a while.
    """
    if by not in _HEARTBEATS:
        raise ValueError(f"a temporary leave by {by.value} is refused")
    return _leaving(_HEARTBEATS[by], group_id, entry, STATIC_MEMBER_AWAY_EPOCH)


def _leaving(api: Api, group_id: str, entry: LeaveEntry, epoch: int) -> Call[int]:
    """Say in a heartbeat that a member leaves, and nothing else; the answer is its error code."""
    _require_both_ids((entry,))

    def build(cls: Any, _version: int) -> Any:
        _require_both_ids((entry,))
        return fill(
            cls,
            group_id=group_id,
            member_id=entry.member_id,
            member_epoch=epoch,
            instance_id=entry.instance_id,
            endpoint_information_epoch=-1,
            shutdown_application=False,
            **dict.fromkeys(_UNCHANGED),
        )

    return Call(api=api, build=build, read=lambda response, _version: int(response.error_code))


def _require_both_ids(entries: Sequence[LeaveEntry]) -> None:
    if not entries:
        raise ValueError("a leave of nobody is refused")
    for entry in entries:
        if not (entry.member_id and entry.instance_id):
            raise ValueError("a leave without both member.id and group.instance.id is refused")
