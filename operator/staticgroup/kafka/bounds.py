"""Read the bounds of session timeouts and a group's own setting.

Why: a timeout outside the broker's bounds is refused or silently clamped. One idea: ask the coordinator itself, whose
clamping is the one that counts, and keep what could be read when a right is missing.
Source: GroupCoordinatorConfig, GroupConfigManager (clamping since Kafka 4.4), ConfigHelper (rights).
"""

from __future__ import annotations

from collections.abc import Sequence

from staticgroup.core.group import BrokerBounds
from staticgroup.kafka import wire
from staticgroup.kafka.answers import BrokerNode, ConfigAnswer
from staticgroup.kafka.connection import BrokerConnection
from staticgroup.kafka.errors import Code, problem_of
from staticgroup.kafka.wire import Api

_CLASSIC_MIN, _CLASSIC_MAX = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
_CONSUMER_MIN, _CONSUMER_MAX = "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"
_STREAMS_MIN, _STREAMS_MAX = "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"
BROKER_KEYS = (_CLASSIC_MIN, _CLASSIC_MAX, _CONSUMER_MIN, _CONSUMER_MAX, _STREAMS_MIN, _STREAMS_MAX)
GROUP_KEY = "consumer.session.timeout.ms"
_STREAMS_KEY = "streams.session.timeout.ms"


async def read_bounds(
    connection: BrokerConnection, node: BrokerNode, group_id: str, principal: str, deadline_s: float
) -> BrokerBounds:
    """Read the bounds; None where the broker does not serve or show them, with the missing rights in `problems`."""
    wanted: dict[tuple[int, str], Sequence[str]] = {(wire.BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS}
    if Api.CONSUMER_GROUP_DESCRIBE in connection.versions:  # older brokers do not know resources of type GROUP
        wanted[(wire.GROUP_RESOURCE, group_id)] = (GROUP_KEY, _STREAMS_KEY)
    answers = await connection.call(wire.describe_configs(wanted), deadline_s)
    problems = tuple(
        problem_of(Api.DESCRIBE_CONFIGS, a.error_code, group_id=group_id, principal=principal)
        for a in answers
        if a.error_code != Code.NONE
    )
    consumer_min_ms, consumer_max_ms = _number(answers, _CONSUMER_MIN), _number(answers, _CONSUMER_MAX)
    streams_min_ms, streams_max_ms = _number(answers, _STREAMS_MIN), _number(answers, _STREAMS_MAX)
    return BrokerBounds(
        classic_min_ms=_number(answers, _CLASSIC_MIN),
        classic_max_ms=_number(answers, _CLASSIC_MAX),
        consumer_min_ms=consumer_min_ms,
        consumer_max_ms=consumer_max_ms,
        consumer_session_ms=_clamped(_number(answers, GROUP_KEY), consumer_min_ms, consumer_max_ms),
        streams_min_ms=streams_min_ms,
        streams_max_ms=streams_max_ms,
        streams_session_ms=_clamped(_number(answers, _STREAMS_KEY), streams_min_ms, streams_max_ms),
        problems=problems,
    )


def _number(answers: Sequence[ConfigAnswer], key: str) -> int | None:
    text = next((a.values[key] for a in answers if key in a.values), None)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _clamped(session_ms: int | None, min_ms: int | None, max_ms: int | None) -> int | None:
    """Clamp as the coordinator does when it reads the setting (4.4); DescribeConfigs shows the stored value."""
    if session_ms is None:
        return None
    at_least_ms = session_ms if min_ms is None else max(session_ms, min_ms)
    return at_least_ms if max_ms is None else min(at_least_ms, max_ms)
