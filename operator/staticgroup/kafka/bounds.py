"""Read the bounds of session timeouts and a group's own settings, and set these.

Why: a timeout outside the broker's bounds is refused or silently clamped. One idea: ask the coordinator itself, whose
clamping is the one that counts, and keep what could be read when a right is missing. Setting a value again changes
nothing, so a lost answer is asked again like a read, and only reading the setting back shows what holds.
Source: GroupCoordinatorConfig, GroupConfigManager (clamping since Kafka 4.4), ConfigHelper (rights);
IncrementalAlterConfigs (KIP-339) on resources of type GROUP (KIP-848), which needs ALTER_CONFIGS on the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.group import BrokerBounds, SessionBounds
from ..core.protocols import PROTOCOLS
from .calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, alter_group_config, describe_configs
from .errors import Code, refusal_by
from .pool import Attempt, ClusterPool
from .wire import Api

_SERVED = tuple(protocol for protocol in PROTOCOLS.values() if protocol.prefix)
GROUP_KEYS = tuple(
    f"{kind}.{key}.ms"
    for kind in ("consumer", "streams", "share")
    for key in ("session.timeout", "heartbeat.interval", "assignment.interval")
)
"""Settings of a group that brokers keep within group.<kind>.min.<key> and group.<kind>.max.<key>."""
_ENDS = {key: [f"group.{key.replace('.', f'.{end}.', 1)}" for end in ("min", "max")] for key in GROUP_KEYS}
_ENDS_OF_SESSIONS = {p: [f"{p.prefix}{end}.session.timeout.ms" for end in ("min", "max")] for p in _SERVED}
BROKER_KEYS = tuple(dict.fromkeys(k for ends in (*_ENDS_OF_SESSIONS.values(), *_ENDS.values()) for k in ends))


def bounds_of(group_id: str) -> Attempt[BrokerBounds]:
    """Return the attempt to read the bounds; None where none is shown."""

    async def attempt(pool: ClusterPool, deadline_s: float) -> BrokerBounds:
        node, connection = await pool.coordinator(group_id, deadline_s)
        wanted: dict[tuple[int, str], Sequence[str]] = {(BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS}
        if Api.CONSUMER_GROUP_DESCRIBE in connection.versions:  # older brokers do not know resources of type GROUP
            wanted[(GROUP_RESOURCE, group_id)] = GROUP_KEYS
        answers = await connection.call(describe_configs(wanted), deadline_s)
        texts = {key: text for a in reversed(answers) for key, text in a.values.items()}

        def number(key: str) -> int | None:
            text = texts.get(key)
            return int(text) if text is not None and text.isascii() and text.isdigit() else None

        ends = {key: (number(least), number(most)) for key, (least, most) in _ENDS.items()}
        sessions = {}
        for protocol, (least, most) in _ENDS_OF_SESSIONS.items():
            min_ms, max_ms = number(least), number(most)
            group_ms = heartbeat_ms = None
            if protocol.group_setting:
                beat = protocol.group_setting.replace("session.timeout", "heartbeat.interval")
                group_ms = _clamped(number(protocol.group_setting), min_ms, max_ms)
                heartbeat_ms = _clamped(number(beat), *ends[beat])
            sessions[protocol.group_type] = SessionBounds(
                min_ms=min_ms, max_ms=max_ms, group_ms=group_ms, heartbeat_ms=heartbeat_ms
            )
        # A group that nothing is set on shows the brokers' defaults; `own` is what is set on it.
        own = {key for a in answers if a.resource_type == GROUP_RESOURCE for key in a.own}
        stored = {key: number(key) for key in GROUP_KEYS if key in own}
        return BrokerBounds(
            sessions=sessions,
            stored={key: value for key, value in stored.items() if value is not None},
            limits={key: (low, high) for key, (low, high) in ends.items() if low is not None and high is not None},
        )

    return attempt


def _clamped(stored_ms: int | None, min_ms: int | None, max_ms: int | None) -> int | None:
    """Clamp as the coordinator does when it reads the setting (4.4); DescribeConfigs shows the stored value."""
    if stored_ms is None:
        return None
    at_least_ms = stored_ms if min_ms is None else max(stored_ms, min_ms)
    return at_least_ms if max_ms is None else min(at_least_ms, max_ms)


def set_config(group_id: str, values: Mapping[str, int]) -> Attempt[None]:
    """Return the attempt to set all of the values in one request.

    Raises
    ------
    ValueError: there is nothing to set. Refusal, from the attempt: the brokers did not take them.
    """
    if not values:
        raise ValueError("a change of nothing is refused")
    call = alter_group_config(group_id, {key: str(value) for key, value in values.items()})

    async def attempt(pool: ClusterPool, deadline_s: float) -> None:
        _, connection = await pool.coordinator(group_id, deadline_s)
        code = await connection.call(call, deadline_s)
        if code != Code.none:
            raise refusal_by(call.api, code, group_id, pool.settings.principal)

    return attempt
