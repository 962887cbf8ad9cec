"""What the pods of a StaticGroup are to Kafka: by which key a described member shows its seat, and in which groups it may be.

A role is one object. Whoever adds one says here what the key of a seat is; everything else works on seats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api.resources.staticgroup import StaticGroupSpec
from .group import GroupView, MemberView


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One role.

    Parameters
    ----------
    plural: what its members are called in sentences.
    protocol_types: of the classic groups that its members join (JoinGroupRequest.protocolType).
    """

    plural: str
    protocol_types: frozenset[str]

    def key_of(self, member: MemberView) -> str | None:
        """Return the key of the seat that a member holds, its group.instance.id (KIP-345); None for a dynamic member."""
        return member.instance_id

    def may_be_in(self, group: GroupView) -> bool:
        """True when the members of a group may be of this role; a group without a protocol type may become one of any."""
        return group.protocol_type == "" or group.protocol_type in self.protocol_types


CONSUMER: Final = Role(plural="consumers", protocol_types=frozenset({"consumer"}))


def role_of(spec: StaticGroupSpec) -> Role:
    """Return the role that a spec gives to its pods."""
    del spec  # every StaticGroup is one of consumers
    return CONSUMER
