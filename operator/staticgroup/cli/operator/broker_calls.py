"""What brokers do not serve of what the operator asks, and what does not work for that reason.

Why: other makers' brokers speak parts of Kafka's protocol, and a call that is missing shows only when it is needed. One
idea: a table of calls, each with the version from which it does what is wanted. Source: KIP-345, KIP-800, KIP-848, KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...kafka.wire import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A call, the version from which it serves, what does not work without it, and what to do."""

    api: Api
    version: int
    without: str
    remedy: str
    is_fatal: bool = False


NEEDS = (
    Need(
        api=Api.LEAVE_GROUP, version=3, is_fatal=True,
        without="no member can be removed by both of its ids, so none is",
        remedy="use spec.mode Observe, or brokers like Kafka 2.4 or newer",
    ),
    Need(
        api=Api.JOIN_GROUP, version=5, is_fatal=True,
        without="consumers cannot be static members",
        remedy="use brokers like Kafka 2.3 or newer",
    ),
    Need(
        api=Api.DESCRIBE_GROUPS, version=4, is_fatal=True,
        without="the ids of members are not described, so nothing is known of a classic group",
        remedy="use brokers like Kafka 2.4 or newer",
    ),
    Need(
        api=Api.DESCRIBE_CONFIGS, version=1,
        without="the bounds of session timeouts are not known, TimeoutUnknown",
        remedy="choose sessionTimeout.maxSeconds within the bounds that the vendor documents",
    ),
    Need(
        api=Api.LEAVE_GROUP, version=5,
        without="the brokers' log does not say why a member was removed",
        remedy="nothing has to be done; the operator's audit log says it",
    ),
    Need(
        api=Api.CONSUMER_GROUP_DESCRIBE, version=0,
        without="groups of the protocol of KIP-848 are not served",
        remedy="leave group.protocol at classic in the consumers",
    ),
    Need(
        api=Api.CONSUMER_GROUP_HEARTBEAT, version=0,
        without="members of KIP-848 groups that crashed cannot be let go",
        remedy="leave group.protocol at classic in the consumers",
    ),
    Need(
        api=Api.STREAMS_GROUP_HEARTBEAT, version=0,
        without="groups of the streams protocol (KIP-1071) are not served",
        remedy="leave group.protocol at classic in applications of Kafka Streams",
    ),
)  # fmt: skip


def lacking(api_versions: Mapping[int, tuple[int, int]]) -> Iterator[Need]:
    """Yield what brokers lack, the gravest first; of one call only the first.

    Parameters
    ----------
    api_versions: API key → (lowest, highest) version that they serve.
    """
    named: set[Api] = set()
    for need in NEEDS:
        if need.api not in named and api_versions.get(need.api, (0, -1))[1] < need.version:
            named.add(need.api)
            yield need
