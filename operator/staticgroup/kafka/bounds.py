"""Read the bounds of session timeouts and a group's own settings, and set these.

Why: a timeout outside the broker's bounds is refused or silently clamped. One idea: ask the coordinator itself, whose
clamping is the one that counts, and keep what could be read when a right is missing. Setting a value again changes nothing, so a
lost answer is asked again like a read, and only reading the setting back tells what holds.
Source: GroupCoordinatorConfig, GroupConfigManager (clamping since Kafka 4.4), ConfigHelper (rights); IncrementalAlterConfigs (KIP-339)
on resources of type GROUP (KIP-848), which needs ALTER_CONFIGS on the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ..core.group import BrokerBounds, SessionBounds
from ..core.protocols import PROTOCOLS, Protocol
from .answers import BrokerNode, ConfigAnswer
from .calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, alter_group_config, describe_configs
from .connection import BrokerConnection
from .errors import Code, Refusal, problem_of, verdict_of
from .pool import ClusterPool
from .wire import Api

_SERVED = tuple(protocol for protocol in PROTOCOLS.values() if protocol.prefix)
_BOUNDED = tuple(
    f"{kind}.{key}.ms"
    for kind in ("consumer", "streams", "share")
    for key in ("session.timeout", "heartbeat.interval", "assignment.interval")
)
"""Settings of a group that brokers keep within group.<kind>.min.<key> and group.<kind>.max.<key>."""
_ENDS_OF_SESSIONS = tuple(f"{p.prefix}{end}.session.timeout.ms" for p in _SERVED for end in ("min", "max"))
_ENDS_OF_SETTINGS = tuple(f"group.{key.replace('.', f'.{end}.', 1)}" for key in _BOUNDED for end in ("min", "max"))
BROKER_KEYS = tuple(dict.fromkeys((*_ENDS_OF_SESSIONS, *_ENDS_OF_SETTINGS)))
GROUP_KEYS = _BOUNDED


async def read_bounds(
    connection: BrokerConnection, node: BrokerNode, group_id: str, principal: str, deadline_s: float
) -> BrokerBounds:
    """Read the bounds; None where the broker does not serve or show them, with the missing rights in `problems`."""
    wanted: dict[tuple[int, str], Sequence[str]] = {(BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS}
    if Api.CONSUMER_GROUP_DESCRIBE in connection.versions:  # older brokers do not know resources of type GROUP
        wanted[(GROUP_RESOURCE, group_id)] = GROUP_KEYS
    answers = await connection.call(describe_configs(wanted), deadline_s)
    problems = tuple(
        problem_of(Api.DESCRIBE_CONFIGS, a.error_code, group_id=group_id, principal=principal)
        for a in answers
        if a.error_code != Code.NONE
    )
    return BrokerBounds(
        sessions={p.group_type: _session_bounds(p, answers) for p in _SERVED},
        problems=problems,
        stored=_stored(answers),
        limits=_limits(answers),
    )


def _session_bounds(protocol: Protocol, answers: Sequence[ConfigAnswer]) -> SessionBounds:
    min_ms, max_ms = (_number(answers, f"{protocol.prefix}{end}.session.timeout.ms") for end in ("min", "max"))
    if not protocol.group_setting:
        return SessionBounds(min_ms=min_ms, max_ms=max_ms)
    beat = protocol.group_setting.replace("session.timeout", "heartbeat.interval")
    return SessionBounds(
        min_ms=min_ms,
        max_ms=max_ms,
        group_ms=_clamped(_number(answers, protocol.group_setting), min_ms, max_ms),
        heartbeat_ms=_clamped(_number(answers, beat), *_ends(answers, beat)),
    )


def _stored(answers: Sequence[ConfigAnswer]) -> Mapping[str, int]:
    """Return what is set on the group itself; a group that nothing is set on shows the brokers' defaults."""
    own = {key for a in answers if a.resource_type == GROUP_RESOURCE for key in a.own if key in GROUP_KEYS}
    numbers = ((key, _number(answers, key)) for key in GROUP_KEYS if key in own)
    return {key: number for key, number in numbers if number is not None}


def _limits(answers: Sequence[ConfigAnswer]) -> Mapping[str, tuple[int, int]]:
    ends = {key: _ends(answers, key) for key in _BOUNDED}
    return {key: (low, high) for key, (low, high) in ends.items() if low is not None and high is not None}


def _ends(answers: Sequence[ConfigAnswer], key: str) -> tuple[int | None, int | None]:
    kind, _, rest = key.partition(".")
    return _number(answers, f"group.{kind}.min.{rest}"), _number(answers, f"group.{kind}.max.{rest}")


def _number(answers: Sequence[ConfigAnswer], key: str) -> int | None:
    text = next((a.values[key] for a in answers if key in a.values), None)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _clamped(session_ms: int | None, min_ms: int | None, max_ms: int | None) -> int | None:
    """Clamp as the coordinator does when it reads the setting (4.4); DescribeConfigs shows the stored value."""
    if session_ms is None:
        return None
    at_least_ms = session_ms if min_ms is None else max(session_ms, min_ms)
    return at_least_ms if max_ms is None else min(at_least_ms, max_ms)


def set_config(group_id: str, values: Mapping[str, int]) -> Callable[[ClusterPool, float], Awaitable[None]]:
    """Return the attempt to set all of the values in one request, for `KioGateway`.

    Raises
    ------
    ValueError: there is nothing to set. Refusal, from the attempt: the brokers did not take them.
    """
    if not values:
        raise ValueError("a change of nothing is refused")
    call = alter_group_config(group_id, {key: str(value) for key, value in values.items()})

    async def attempt(pool: ClusterPool, deadline_s: float) -> None:
        node = await pool.coordinator(group_id, deadline_s)
        connection = await pool.connection_to(node, deadline_s)
        code = await connection.call(call, deadline_s)
        if code != Code.NONE:
            problem = problem_of(Api.INCREMENTAL_ALTER_CONFIGS, code, group_id=group_id, principal=pool.settings.principal)
            raise Refusal(problem, recovery=verdict_of(Api.INCREMENTAL_ALTER_CONFIGS, code).recovery)

    return attempt
