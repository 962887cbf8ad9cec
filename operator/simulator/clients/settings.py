"""How a consumer is configured and how its library reacts when the group no longer wants it.

Source: Java's AbstractCoordinator, ConsumerCoordinator, ConsumerHeartbeatRequestManager and ConsumerMembershipManager;
librdkafka's rdkafka_cgrp.c, and what librdkafka 2.16 and Java 4.4 did against a 4.4.0 broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Reaction(StrEnum):
    """What a library does after an error that it calls fatal."""

    EXIT = "exit"
    """The error reaches the application, which ends; the container is restarted."""
    KEEP_FETCHING = "keep fetching"
    """Out of the group for good without exit; goes on with the partitions it had."""
    FALL_SILENT = "fall silent"
    """Out of the group for good without exit and without partitions."""
    JOIN_AGAIN = "join again"
    """Joins again with an empty member id, and so fences the holder of the instance id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """One client library.

    Parameters
    ----------
    join_version: highest JoinGroup it sends; below 9 a returning static leader is answered as a follower (KIP-814).
    when_fenced: after FENCED_INSTANCE_ID in a classic group.
    when_refused: after UNRELEASED_INSTANCE_ID or FENCED_INSTANCE_ID in a KIP-848 group.
    when_rejected: after an error that no retry heals, such as INCONSISTENT_GROUP_PROTOCOL.
    rejoin_pause_s: before it joins again after a fatal error.
    join_slack_s: it waits so much longer for a JoinGroup than the rebalance timeout.
    """

    name: str
    join_version: int
    when_fenced: Reaction
    when_refused: Reaction
    when_rejected: Reaction
    rejoin_pause_s: float = 0.0
    join_slack_s: float = 5.0


JAVA = Library(
    name="java", join_version=9, when_fenced=Reaction.EXIT, when_refused=Reaction.EXIT, when_rejected=Reaction.EXIT
)
LIBRDKAFKA = Library(
    name="librdkafka",
    join_version=5,
    when_fenced=Reaction.KEEP_FETCHING,
    when_refused=Reaction.FALL_SILENT,
    when_rejected=Reaction.FALL_SILENT,
    join_slack_s=3.0,
)
SARAMA = Library(
    name="sarama",
    join_version=5,
    when_fenced=Reaction.JOIN_AGAIN,
    when_refused=Reaction.JOIN_AGAIN,
    when_rejected=Reaction.JOIN_AGAIN,
    rejoin_pause_s=2.0,
)
LIBRARIES = {library.name: library for library in (JAVA, LIBRDKAFKA, SARAMA)}


PROTOCOL_VARIABLE = "ORDERS_GROUP_PROTOCOL"
"""Variable of a pod template whose client uses another protocol than its settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """One consumer of a container; several threads of it take the same settings.

    Parameters
    ----------
    protocol: group.protocol, unless `PROTOCOL_VARIABLE` says otherwise.
    protocol_type: of the classic group that it joins; a worker of a Connect cluster is one of "connect" to its
        coordinator.
    instance_id: group.instance.id; None: the value of the environment variable, and dynamic when that is not set.
    threads: 1: the id as it is, unless `always_numbers`; more: `{id}-{n}` for n from `first_thread` (Streams 1, Spring
        0).
    session_timeout_ms: classic only, unless the environment variable says otherwise.
    heartbeat_s: classic only; None: a third of the session timeout.
    close: what a static member does when it is closed. default: nothing (classic) or epoch -2 (KIP-848); leave: it
        leaves for good; remain: as default. A dynamic member leaves unless it is to remain (KIP-1092).
    poll_s: longest time between two polls; a classic member joins a rebalance, and a KIP-848 member takes its new
        assignment, at the next one.
    """

    group_id: str
    topics: tuple[str, ...]
    protocol: Literal["classic", "consumer"] = "classic"
    protocol_type: Literal["consumer", "connect"] = "consumer"
    library: Library = JAVA
    instance_id: str | None = None
    instance_id_variable: str = "KAFKA_GROUP_INSTANCE_ID"
    session_timeout_variable: str = "KAFKA_SESSION_TIMEOUT_MS"
    threads: int = 1
    first_thread: int = 1
    always_numbers: bool = False
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_s: float | None = None
    close: Literal["default", "leave", "remain"] = "default"
    poll_s: float = 0.0
    assignor: str = "range"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """What a container runs.

    Parameters
    ----------
    startup_s: (least, most) seconds from process start to the first join.
    close_s: seconds from SIGTERM to the end of the last consumer's close, without the network.
    ignores_term: goes on as if no SIGTERM had come.
    crash_mean_s: mean of the exponentially distributed time after which the process crashes; None: never.
    crash_exit_code: of such a crash.
    """

    consumers: tuple[ConsumerSettings, ...]
    startup_s: tuple[float, float] = (1.0, 3.0)
    close_s: float = 0.2
    ignores_term: bool = False
    crash_mean_s: float | None = None
    crash_exit_code: int = 1
