"""The membership protocols, one object each: how their session timeout is set, and by which call a static member is removed.

Whoever adds one says here what it is; how it is described stands in `kafka.describe`. What a group of a protocol looks like
needs no protocol: a group that has epochs is settled when they are equal, see `GroupView.is_settled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..api.protocols import GroupProtocol, ProtocolChoice
from .group import GroupType, GroupView, KafkaProblem, LeaveCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One membership protocol.

    Parameters
    ----------
    group_type: as ListGroups v5 names it.
    leaves_by: the call that removes its static members; None: there is none (LeaveGroup answers UNKNOWN_MEMBER_ID for streams
        and share groups).
    released_by: the call by which a static member leaves for a while. Until it has left its successor is refused
        (UNRELEASED_INSTANCE_ID). None in a classic group, where the successor replaces it.
    told_as: in statuses and journals; None: it is not told.
    chosen_by: what `spec.protocol` calls it; None: it cannot be asked for.
    prefix: of the brokers' settings `<prefix>min.session.timeout.ms` and `<prefix>max.session.timeout.ms`; "" without such.
    group_setting: the setting of the group that all its members hold; "" where each member brings its own session.timeout.ms.
        Clients of protocols with such a setting refuse to start with one of their own.
    heartbeat_interval_s: default; the last heartbeat may be this old when a process stops.
    """

    group_type: GroupType
    leaves_by: LeaveCall | None = None
    released_by: LeaveCall | None = None
    told_as: GroupProtocol | None = None
    chosen_by: ProtocolChoice | None = None
    prefix: str = ""
    group_setting: str = ""
    heartbeat_interval_s: int = 5


CLASSIC: Final = Protocol(
    group_type=GroupType.CLASSIC,
    leaves_by=LeaveCall.LEAVE_GROUP,
    told_as=GroupProtocol.CLASSIC,
    chosen_by=ProtocolChoice.CLASSIC,
    prefix="group.",
    heartbeat_interval_s=3,
)
CONSUMER: Final = Protocol(
    group_type=GroupType.CONSUMER,
    leaves_by=LeaveCall.LEAVE_GROUP,
    released_by=LeaveCall.CONSUMER_HEARTBEAT,
    told_as=GroupProtocol.CONSUMER,
    chosen_by=ProtocolChoice.CONSUMER,
    prefix="group.consumer.",
    group_setting="consumer.session.timeout.ms",
)
STREAMS: Final = Protocol(
    group_type=GroupType.STREAMS,
    leaves_by=LeaveCall.STREAMS_HEARTBEAT,
    released_by=LeaveCall.STREAMS_HEARTBEAT,
    told_as=GroupProtocol.STREAMS,
    chosen_by=ProtocolChoice.STREAMS,
    prefix="group.streams.",
    group_setting="streams.session.timeout.ms",
)
SHARE: Final = Protocol(group_type=GroupType.SHARE)

PROTOCOLS: Final[Mapping[GroupType, Protocol]] = MappingProxyType(
    {protocol.group_type: protocol for protocol in (CLASSIC, CONSUMER, STREAMS, SHARE)}
)


def protocol_in_force(choice: ProtocolChoice, group: GroupView | KafkaProblem) -> Protocol | None:
    """Return the protocol that decides where the session timeout goes; None while it is unknown.

    Notes
    -----
    The group itself wins over `Auto`; an empty classic group says nothing, because a joiner of the other protocol converts it.
    """
    chosen = chosen_by(choice)
    if chosen is not None or not isinstance(group, GroupView) or not group.members:
        return chosen
    found = PROTOCOLS.get(group.group_type)
    return found if found is not None and found.prefix else None


def chosen_by(choice: ProtocolChoice) -> Protocol | None:
    """Return the protocol that a user asks for; None for Auto."""
    return next((p for p in PROTOCOLS.values() if p.chosen_by is choice), None)


def leaves_by(group: GroupView | KafkaProblem) -> LeaveCall | None:
    """Return the call that removes static members of a group as described; None when none does."""
    protocol = PROTOCOLS.get(group.group_type) if isinstance(group, GroupView) else None
    return protocol.leaves_by if protocol is not None else None


def released_by(group: GroupView | KafkaProblem) -> LeaveCall | None:
    """Return the call by which a static member of a group as described leaves for a while; None when it need not or cannot."""
    protocol = PROTOCOLS.get(group.group_type) if isinstance(group, GroupView) else None
    return protocol.released_by if protocol is not None else None


def told_as(group: GroupView | KafkaProblem) -> GroupProtocol | None:
    """Return the protocol that a group as described has; None when it says nothing."""
    protocol = PROTOCOLS.get(group.group_type) if isinstance(group, GroupView) else None
    return protocol.told_as if protocol is not None else None
