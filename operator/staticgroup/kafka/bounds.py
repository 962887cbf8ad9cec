"""Read the bounds of session timeouts and a group's own setting.

Why: a timeout outside the broker's bounds is refused or silently clamped. One idea: ask the coordinator itself, whose
clamping is the one that counts, and keep what could be read when a right is missing.
Source: GroupCoordinatorConfig, GroupConfigManager (clamping since Kafka 4.4), ConfigHelper (rights).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.group import BrokerBounds, SessionBounds
from ..core.protocols import PROTOCOLS, Protocol
from . import wire
from .answers import BrokerNode, ConfigAnswer
from .connection import BrokerConnection
from .errors import Code, problem_of
from .wire import Api

_SERVED = tuple(protocol for protocol in PROTOCOLS.values() if protocol.prefix)
BROKER_KEYS = tuple(f"{p.prefix}{end}.session.timeout.ms" for p in _SERVED for end in ("min", "max"))
GROUP_KEYS = tuple(p.group_setting for p in _SERVED if p.group_setting)


async def read_bounds(
    connection: BrokerConnection, node: BrokerNode, group_id: str, principal: str, deadline_s: float
) -> BrokerBounds:
    """Read the bounds; None where the broker does not serve or show them, with the missing rights in `problems`."""
    wanted: dict[tuple[int, str], Sequence[str]] = {(wire.BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS}
    if Api.CONSUMER_GROUP_DESCRIBE in connection.versions:  # older brokers do not know resources of type GROUP
        wanted[(wire.GROUP_RESOURCE, group_id)] = GROUP_KEYS
    answers = await connection.call(wire.describe_configs(wanted), deadline_s)
    problems = tuple(
        problem_of(Api.DESCRIBE_CONFIGS, a.error_code, group_id=group_id, principal=principal)
        for a in answers
        if a.error_code != Code.NONE
    )
    return BrokerBounds(sessions={p.group_type: _session_bounds(p, answers) for p in _SERVED}, problems=problems)


def _session_bounds(protocol: Protocol, answers: Sequence[ConfigAnswer]) -> SessionBounds:
    min_ms, max_ms = (_number(answers, f"{protocol.prefix}{end}.session.timeout.ms") for end in ("min", "max"))
    group_ms = _number(answers, protocol.group_setting) if protocol.group_setting else None
    return SessionBounds(min_ms=min_ms, max_ms=max_ms, group_ms=_clamped(group_ms, min_ms, max_ms))


def _number(answers: Sequence[ConfigAnswer], key: str) -> int | None:
    text = next((a.values[key] for a in answers if key in a.values), None)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _clamped(session_ms: int | None, min_ms: int | None, max_ms: int | None) -> int | None:
    """Clamp as the coordinator does when it reads the setting (4.4); DescribeConfigs shows the stored value."""
    if session_ms is None:
        return None
    at_least_ms = session_ms if min_ms is None else max(session_ms, min_ms)
    return at_least_ms if max_ms is None else min(at_least_ms, max_ms)
