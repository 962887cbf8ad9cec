"""Broker settings of the group coordinator and the settings of single groups.

Source: GroupCoordinatorConfig and GroupConfig of Kafka 4.4; defaults are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import ErrorCode, GroupError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What `server.properties` says.

    Parameters
    ----------
    migration_policy: bidirectional, upgrade, downgrade or disabled (group.consumer.migration.policy).
    static_self_rejoin: refuse (every released Kafka: UNRELEASED_INSTANCE_ID also for the holder itself) or in_place
        (a proposed change of Kafka: a join with the holder's own member id is handled like a dynamic rejoin).
    first_consumer_epoch: 2 since 4.3 (KAFKA-20268), 1 before.
    streams_static_membership: since 4.4; False: any instance id is refused with INVALID_REQUEST, as in 4.1-4.3.
    pre_registration: announced instance ids change the group in one rebalance; hot_standby: a group may have a target
        size, beyond which members stand by. Both are future work of KIP-345, in no Kafka: off.
    is_denied: (principal, operation, group id) → True to answer GROUP_AUTHORIZATION_FAILED.
    """

    node_id: int = 1
    host: str = "127.0.0.1"
    port: int = 9092
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    new_member_join_timeout_ms: int = 300_000
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_assignment_interval_ms: int = 1_000
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_regex_refresh_interval_ms: int = 600_000
    migration_policy: str = "bidirectional"
    static_self_rejoin: str = "refuse"
    first_consumer_epoch: int = 2
    streams_session_timeout_ms: int = 45_000
    streams_min_session_timeout_ms: int = 45_000
    streams_max_session_timeout_ms: int = 60_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_min_heartbeat_interval_ms: int = 5_000
    streams_max_heartbeat_interval_ms: int = 15_000
    streams_assignment_interval_ms: int = 1_000
    streams_min_assignment_interval_ms: int = 0
    streams_max_assignment_interval_ms: int = 15_000
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_num_standby_replicas: int = 0
    streams_max_standby_replicas: int = 2
    streams_static_membership: bool = True
    streams_max_size: int = 2_147_483_647
    share_session_timeout_ms: int = 45_000
    share_min_session_timeout_ms: int = 45_000
    share_max_session_timeout_ms: int = 60_000
    share_heartbeat_interval_ms: int = 5_000
    share_min_heartbeat_interval_ms: int = 5_000
    share_max_heartbeat_interval_ms: int = 15_000
    share_assignment_interval_ms: int = 1_000
    share_min_assignment_interval_ms: int = 0
    share_max_assignment_interval_ms: int = 15_000
    share_max_size: int = 200
    pre_registration: bool = False
    hot_standby: bool = False
    is_denied: Callable[[str, str, str], bool] = field(default=lambda principal, operation, group_id: False)


def require_text(value: str | None, name: str) -> None:
    """Raise INVALID_REQUEST for a text of nothing but blanks; None passes (Utils.throwIfEmptyString, String.trim)."""
    blank = value is not None and all(letter <= " " for letter in value)
    require(not blank, ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def require(condition: bool, code: ErrorCode, message: str = "") -> None:
    """Raise GroupError unless the condition holds."""
    if not condition:
        raise GroupError(code, message)
