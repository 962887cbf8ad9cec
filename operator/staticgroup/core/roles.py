"""What the pods of a StaticGroup are to Kafka: by which key a described member shows its seat, and in which groups it may be.

A role is one object. Whoever adds one says here what the key of a seat is; everything else works on seats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..api.protocols import ProtocolChoice
from ..api.resources.staticgroup import StaticGroupSpec
from ..api.roles import RoleChoice
from .group import GroupType, GroupView, MemberView


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role.

    Parameters
    ----------
    plural: what its members are called in sentences.
    protocol_types: of the groups that its members join (JoinGroupRequest.protocolType).
    group_types: of the same.
    singular: what one of them is called.
    protocol: the only one that its members speak; None: they may speak several.
    """

    plural: str
    protocol_types: frozenset[str]
    group_types: frozenset[GroupType]
    singular: str = "consumer"
    protocol: ProtocolChoice | None = None

    def key_of(self, member: MemberView) -> str | None:
        """Return the key of the seat that a member holds, its group.instance.id (KIP-345); None for a dynamic member."""
        return member.instance_id

    def may_be_in(self, group: GroupView) -> bool:
        """True when the members of a group may be of this role.

        Notes
        -----
        A group without a protocol type may become one of any, and one without members one of another type.
        """
        is_of_type = not group.members or group.group_type in self.group_types
        return is_of_type and (group.protocol_type == "" or group.protocol_type in self.protocol_types)


CONSUMER: Final = Role(
    plural="consumers",
    protocol_types=frozenset({"consumer"}),
    group_types=frozenset({GroupType.CLASSIC, GroupType.CONSUMER}),
)
STREAMS: Final = Role(
    plural="Kafka Streams instances",
    singular="Kafka Streams instance",
    protocol_types=frozenset({"consumer", "streams"}),
    group_types=frozenset({GroupType.CLASSIC, GroupType.STREAMS}),
)
CONNECT: Final = Role(
    plural="Connect workers",
    singular="Connect worker",
    protocol_types=frozenset({"connect"}),
    group_types=frozenset({GroupType.CLASSIC}),
    protocol=ProtocolChoice.CLASSIC,
)

ROLES: Final[Mapping[RoleChoice, Role]] = MappingProxyType(
    {RoleChoice.CONSUMER: CONSUMER, RoleChoice.STREAMS: STREAMS, RoleChoice.CONNECT: CONNECT}
)


def role_of(spec: StaticGroupSpec) -> Role:
    """Return the role that a spec gives to its pods."""
    return ROLES[spec.role]


def protocol_asked_for(spec: StaticGroupSpec) -> ProtocolChoice:
    """Return the protocol that a spec asks for: what its role alone allows, or else what it says."""
    return role_of(spec).protocol or spec.protocol
