"""The membership protocols and the roles of members, one object each.

Whether a group has settled needs no protocol: one that has epochs has settled when they are equal
(`GroupView.is_settled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..api.protocols import GroupProtocol, ProtocolChoice, RoleChoice
from ..api.resources.client import ClientType
from ..api.resources.staticgroup import StaticGroupSpec
from .group import GroupType, GroupView, KafkaProblem, LeaveCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One membership protocol.

    Parameters
    ----------
    group_type: as ListGroups v5 names it.
    leaves_by: the call that removes its static members; None: none does (LeaveGroup refuses streams and share groups).
    released_by: the call by which a static member leaves for a while. Until it has left its successor is refused
        (UNRELEASED_INSTANCE_ID). None in a classic group, where the successor replaces it.
    reported_as: its name in statuses and journals; None: it has none.
    chosen_by: what `spec.groupProtocol` calls it; None: it cannot be asked for.
    prefix: of the brokers' settings `<prefix>min.session.timeout.ms` and `<prefix>max.session.timeout.ms`, or "".
    group_setting: the setting of the group that all its members hold; "" where each brings its own session.timeout.ms.
        Clients of protocols with such a setting refuse to start with one of their own.
    heartbeat_interval_s: default; the last heartbeat may be this old when a process stops.
    """

    group_type: GroupType
    leaves_by: LeaveCall | None = None
    released_by: LeaveCall | None = None
    reported_as: GroupProtocol | None = None
    chosen_by: ProtocolChoice | None = None
    prefix: str = ""
    group_setting: str = ""
    heartbeat_interval_s: int = 5


CLASSIC: Final = Protocol(
    group_type=GroupType.CLASSIC,
    leaves_by=LeaveCall.LEAVE_GROUP,
    reported_as=GroupProtocol.CLASSIC,
    chosen_by=ProtocolChoice.CLASSIC,
    prefix="group.",
    heartbeat_interval_s=3,
)
CONSUMER: Final = Protocol(
    group_type=GroupType.CONSUMER,
    leaves_by=LeaveCall.LEAVE_GROUP,
    released_by=LeaveCall.CONSUMER_HEARTBEAT,
    reported_as=GroupProtocol.CONSUMER,
    chosen_by=ProtocolChoice.CONSUMER,
    prefix="group.consumer.",
    group_setting="consumer.session.timeout.ms",
)
STREAMS: Final = Protocol(
    group_type=GroupType.STREAMS,
    leaves_by=LeaveCall.STREAMS_HEARTBEAT,
    released_by=LeaveCall.STREAMS_HEARTBEAT,
    reported_as=GroupProtocol.STREAMS,
    chosen_by=ProtocolChoice.STREAMS,
    prefix="group.streams.",
    group_setting="streams.session.timeout.ms",
)
SHARE: Final = Protocol(group_type=GroupType.SHARE)
_NONE: Final = Protocol(group_type=GroupType.ABSENT)

PROTOCOLS: Final[Mapping[GroupType, Protocol]] = {p.group_type: p for p in (CLASSIC, CONSUMER, STREAMS, SHARE)}


def protocol_in_force(choice: ProtocolChoice, group: GroupView | KafkaProblem) -> Protocol | None:
    """Return the protocol that decides where the session timeout goes; None while it is unknown.

    The group itself wins over `Auto`, except an empty classic one: a joiner of the other protocol converts it.
    """
    chosen = chosen_by(choice)
    if chosen is not None or not isinstance(group, GroupView) or not group.members:
        return chosen
    found = protocol_of(group)
    return found if found.prefix else None


def chosen_by(choice: ProtocolChoice) -> Protocol | None:
    """Return the protocol that a user asks for; None for Auto."""
    return next((p for p in PROTOCOLS.values() if p.chosen_by is choice), None)


def protocol_of(group: GroupView | KafkaProblem) -> Protocol:
    """Return the protocol of a group as described; one that is called nothing and serves no call where it has none."""
    return PROTOCOLS.get(group.group_type, _NONE) if isinstance(group, GroupView) else _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role.

    Parameters
    ----------
    plural: what its members are called in sentences.
    protocol_types: of the groups that its members join (JoinGroupRequest.protocolType).
    group_types: of the same.
    client: a type of client that has this role.
    singular: what one of them is called.
    protocol: the only one that its members speak; None: they may speak several.
    """

    plural: str
    protocol_types: frozenset[str]
    group_types: frozenset[GroupType]
    client: ClientType
    singular: str = "consumer"
    protocol: ProtocolChoice | None = None

    def may_be_in(self, group: GroupView) -> bool:
        """True when the members of a group may be of this role.

        A group without a protocol type may become one of any, and one without members one of another type.
        """
        is_of_type = not group.members or group.group_type in self.group_types
        return is_of_type and (group.protocol_type == "" or group.protocol_type in self.protocol_types)


CONSUMER_ROLE: Final = Role(
    plural="consumers",
    protocol_types=frozenset({"consumer"}),
    group_types=frozenset({GroupType.CLASSIC, GroupType.CONSUMER}),
    client=ClientType.GENERIC,
)
STREAMS_ROLE: Final = Role(
    plural="Kafka Streams instances",
    singular="Kafka Streams instance",
    protocol_types=frozenset({"consumer", "streams"}),
    group_types=frozenset({GroupType.CLASSIC, GroupType.STREAMS}),
    client=ClientType.KAFKA_STREAMS,
)
CONNECT_ROLE: Final = Role(
    plural="Connect workers",
    singular="Connect worker",
    protocol_types=frozenset({"connect"}),
    group_types=frozenset({GroupType.CLASSIC}),
    client=ClientType.CONNECT,
    protocol=ProtocolChoice.CLASSIC,
)

ROLES: Final[Mapping[RoleChoice, Role]] = {
    RoleChoice.CONSUMER: CONSUMER_ROLE, RoleChoice.STREAMS: STREAMS_ROLE, RoleChoice.CONNECT: CONNECT_ROLE
}  # fmt: skip


def role_of(spec: StaticGroupSpec) -> Role:
    """Return the role that a spec gives to its pods."""
    return ROLES[spec.role]


def protocol_asked_for(spec: StaticGroupSpec) -> ProtocolChoice:
    """Return the protocol that a spec asks for: what its role alone allows, or else what it says."""
    return role_of(spec).protocol or spec.group_protocol
