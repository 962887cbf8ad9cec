"""Settings of single groups: IncrementalAlterConfigs on a GROUP resource, its bounds, and what is read from it.

A stored value that lies outside the bounds of the broker (they change only by restart) is kept but read as clamped,
since 4.4. A changed timeout is read at a member's next heartbeat, so absent members keep the old one.
Source: GroupConfig, GroupConfigManager; KIP-848 "Group configurations".
"""

from __future__ import annotations

from collections.abc import Mapping

from .config_messages import AlterGroupConfigRequest, AlterGroupConfigResponse
from .errors import ErrorCode, GroupError
from .messages import Request, Response
from .result import Step
from .settings import BrokerSettings, require
from .shard import ErrorResponse, Handler, Shard, refusal

GROUP_TYPES = ("consumer", "streams", "share")
BOUNDED_KEYS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_FIELDS = {f"{kind}.{key}": f"{kind}.{key}".replace(".", "_") for kind in GROUP_TYPES for key in BOUNDED_KEYS} | {
    "streams.initial.rebalance.delay.ms": "streams_initial_rebalance_delay_ms",
    "streams.num.standby.replicas": "streams_num_standby_replicas",
}
"""Settings of a group → field of the broker's settings that holds where a group sets none."""
INT_MAX = 2_147_483_647


def bounds(settings: BrokerSettings, name: str) -> tuple[int, int] | None:
    """Return the lowest and highest value of a group setting; None: the model has no such setting."""
    if name == "streams.initial.rebalance.delay.ms":
        return 0, INT_MAX
    if name == "streams.num.standby.replicas":
        return 0, settings.streams_max_standby_replicas
    if name not in _FIELDS:
        return None
    kind, field = _FIELDS[name].split("_", 1)
    return getattr(settings, f"{kind}_min_{field}"), getattr(settings, f"{kind}_max_{field}")


def effective_ms(shard: Shard, group_id: str, name: str) -> int:
    """Return a group setting, nearly all are milliseconds, as the coordinator uses it now.

    Parameters
    ----------
    name: its full name, such as consumer.session.timeout.ms.
    """
    configs = shard.group_configs.get(group_id)
    if configs is None or name not in configs:
        broker_ms: int = getattr(shard.settings, _FIELDS[name])
        return broker_ms
    stored_ms, limits = int(configs[name]), bounds(shard.settings, name)
    return stored_ms if limits is None else min(max(stored_ms, limits[0]), limits[1])


def may_assign(shard: Shard, step: Step, kind: str, group_id: str, assigned_ms: int) -> bool:
    """Return whether the next target assignment may be computed now (canComputeNextTargetAssignment, KIP-1263).

    Parameters
    ----------
    kind: consumer, streams or share.
    assigned_ms: time of the last one; 0 before the first and after the last member left: there is none to wait for.
    """
    interval_ms = effective_ms(shard, group_id, f"{kind}.assignment.interval.ms")
    return 0 in (assigned_ms, interval_ms) or step.now_ms >= assigned_ms + interval_ms


def alter(shard: Shard, step: Step, request: AlterGroupConfigRequest) -> Response:
    """Carry out IncrementalAlterConfigs of one group, which need not exist yet: all of it or, if refused, nothing.

    What was stored before is validated again with the change, so a stored value that a broker's new bounds exclude
    refuses every change that does not repair it.
    """
    settings = shard.settings
    require(bool(request.group_id), ErrorCode.INVALID_REQUEST, "Group name can't be empty.")
    require(
        not settings.is_denied(request.principal, "ALTER_CONFIGS", request.group_id),
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )
    changed = dict(shard.group_configs.get(request.group_id, {}))
    for name, value in request.configs:
        require(bounds(settings, name) is not None, ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    numbers = {name: _validated(settings, name, value) for name, value in changed.items()}
    for kind in GROUP_TYPES:
        _require_session_over_heartbeat(settings, numbers, kind)
    if request.validate_only:
        return AlterGroupConfigResponse()
    if changed:
        shard.group_configs[request.group_id] = changed
    else:
        shard.group_configs.pop(request.group_id, None)
    return AlterGroupConfigResponse()


def _validated(settings: BrokerSettings, name: str, value: str) -> int:
    try:
        number = int(value.strip())
    except ValueError:
        raise GroupError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}") from None
    low, high = bounds(settings, name) or (number, number)
    require(low <= number <= high, ErrorCode.INVALID_CONFIG, f"{name} must be in the range {low} to {high} inclusive.")
    return number


def _require_session_over_heartbeat(settings: BrokerSettings, numbers: Mapping[str, int], kind: str) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in numbers and heartbeat not in numbers:
        return
    session_ms = numbers.get(session, getattr(settings, f"{kind}_session_timeout_ms"))
    heartbeat_ms = numbers.get(heartbeat, getattr(settings, f"{kind}_heartbeat_interval_ms"))
    require(session_ms > heartbeat_ms, ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


HANDLERS: dict[type[Request], Handler] = {AlterGroupConfigRequest: alter}
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {AlterGroupConfigRequest: refusal(AlterGroupConfigResponse)}
