"""What brokers answered, as plain values: the language between the codec and everything above it.

Why: kio's classes differ by API version and exist only in `wire`; nothing above should know that. One idea: one
frozen class per answer, error codes still as numbers, judged in `errors`.
Source: the message definitions of Kafka (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.group import MemberView


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """One broker as the cluster advertises it.

    Parameters
    ----------
    node_id: broker id, >= 0.
    host, port: the advertised address of the listener that was asked.
    """

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAnswer:
    """Metadata: who the cluster is; `cluster_id` is None on brokers that do not tell."""

    cluster_id: str | None
    brokers: tuple[BrokerNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAnswer:
    """FindCoordinator for one group; `node` is None when `error_code` is not 0."""

    group_id: str
    error_code: int
    node: BrokerNode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsAnswer:
    """ListGroups: the groups that this broker coordinates and the principal may describe.

    Parameters
    ----------
    types: group id to type, lower-case as the broker writes it; "" before v5.
    """

    error_code: int
    version: int
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group of DescribeGroups (epochs None), ConsumerGroupDescribe or StreamsGroupDescribe (epochs set)."""

    group_id: str
    error_code: int
    state: str
    protocol_type: str = ""
    members: tuple[MemberView, ...] = ()
    group_epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMemberAnswer:
    """One entry of a LeaveGroup answer, at the position of the request's entry."""

    instance_id: str | None
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """LeaveGroup v3+: a top-level error leaves `members` empty."""

    error_code: int
    members: tuple[LeaveMemberAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAnswer:
    """DescribeConfigs for one resource.

    Parameters
    ----------
    own: the keys that are set on a resource of type GROUP itself; the others show the broker's defaults.
    """

    resource_type: int
    resource_name: str
    error_code: int
    values: Mapping[str, str | None] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
