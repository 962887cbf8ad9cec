"""Within which bounds a session timeout is chosen, and which setting to raise where one of them is too low.

The stronger one wins: the brokers' bounds, outside which a member is refused (INVALID_SESSION_TIMEOUT); what the pod
template shows that the client needs to start; the user's minSeconds and maxSeconds; the defaults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ...api.injection import env_entries
from ...api.protocols import RoleChoice
from ...api.resources.client import JAVA_TYPES
from ...api.resources.staticgroup import SESSION_TIMEOUT_SECONDS_MAX, SessionTimeout, StaticGroupSpec
from ...api.schema import HEARTBEATS_PER_TIMEOUT_MIN, TIMEOUT_MS_MAX
from ..group import SessionBounds
from ..protocols import Protocol
from ..workload import WorkloadView

DEFAULT_MS: Final = 45_000
"""session.timeout.ms of Java clients (KIP-735) and librdkafka, and group.consumer.session.timeout.ms of the brokers."""
MAX_POLL_INTERVAL_MS: Final = 300_000
"""max.poll.interval.ms where nothing else is set; librdkafka starts with no longer session (rd_kafka_conf_finalize)."""
REQUEST_TIMEOUT_MS: Final = 90_000
"""broker_request_timeout of Faust, which starts with no longer session either (transport/drivers/aiokafka.py)."""
ASSUMED_MIN_MS: Final = 6_000
ASSUMED_MAX_MS: Final = 300_000
"""Assumed of a classic group while the brokers' bounds are not known: the default minimum, and the maximum that vendors
often set. A group's own setting is not written meanwhile, so nothing is assumed of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """What is known of the client of the next pods.

    Parameters
    ----------
    heartbeat_ms: its heartbeat interval, from 1; None: the default of its protocol.
    limit_ms: it does not start with a longer session; None: whatever the session.
    limit_setting: the setting that makes it, as a sentence names it. limit_unit_ms: its unit, 1 or 1000.
    shows_limit: the pod template shows the limit, which is a default otherwise.
    """

    heartbeat_ms: int | None = None
    limit_ms: int | None = MAX_POLL_INTERVAL_MS
    limit_setting: str = "max.poll.interval.ms of librdkafka clients, which do not start with a longer session,"
    limit_unit_ms: int = 1
    shows_limit: bool = False


FAUST: Final = ClientLimits(
    limit_ms=REQUEST_TIMEOUT_MS,
    limit_setting="broker_request_timeout of Faust, which does not start with a longer session,",
    limit_unit_ms=1000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of what is chosen.

    Parameters
    ----------
    lower_ms, upper_ms: at least and at most, both inclusive; lower_ms <= upper_ms.
    broker_min_ms, broker_max_ms: the brokers' alone, which bind `sessionTimeout.seconds` too.
    is_assumed: one of these could not be read.
    max_ms: the user's maxSeconds, or what stands for it.
    heartbeat_ms: how often the members beat.
    client, prefix: for which client, and of which settings of the brokers.
    """

    lower_ms: int
    upper_ms: int
    broker_min_ms: int
    broker_max_ms: int
    is_assumed: bool
    max_ms: int
    heartbeat_ms: int
    client: ClientLimits
    prefix: str

    def clamped_ms(self, value_ms: int) -> int:
        """Return the value inside the bounds that is nearest."""
        return max(self.lower_ms, min(value_ms, self.upper_ms))

    def raise_brokers(self, need_ms: int) -> str:
        """Say which setting of the brokers to raise, so that the session timeout can be `need_ms`."""
        return f"raise {self.prefix}max.session.timeout.ms on the brokers to at least {need_ms} (needs their restart)"

    def way_to(self, need_ms: int, *, fixed_ms: int | None = None) -> str:
        """Say which settings to raise, so that the session timeout can be `need_ms`.

        Parameters
        ----------
        fixed_ms: spec.sessionTimeout.seconds; None where it is not set.
        """
        field, own_ms = ("maxSeconds", self.max_ms) if fixed_ms is None else ("seconds", fixed_ms)
        ways = []
        if self.broker_max_ms < need_ms:
            ways.append(self.raise_brokers(need_ms))
        client = self.client
        if client.limit_ms is not None and client.limit_ms < need_ms and (client.shows_limit or own_ms < need_ms):
            ways.append(f"raise {client.limit_setting} to at least {-(-need_ms // client.limit_unit_ms)}")
        if own_ms < need_ms:
            ways.append(f"raise spec.sessionTimeout.{field} to at least {-(-need_ms // 1000)}")
        return ", and ".join(ways)


def bounds_of(spec: SessionTimeout, client: ClientLimits, protocol: Protocol, brokers: SessionBounds) -> Bounds:
    """Return the bounds of a session timeout; nothing outside the brokers' is ever chosen."""
    heartbeat_ms = client.heartbeat_ms or brokers.heartbeat_ms or 1000 * protocol.heartbeat_interval_s
    assumed_min_ms, assumed_max_ms = (0, TIMEOUT_MS_MAX) if protocol.group_setting else (ASSUMED_MIN_MS, ASSUMED_MAX_MS)
    broker_min_ms = assumed_min_ms if brokers.min_ms is None else brokers.min_ms
    broker_max_ms = assumed_max_ms if brokers.max_ms is None else brokers.max_ms
    shown_ms = client.limit_ms if client.shows_limit else None
    default_ms = (client.limit_ms if not client.shows_limit else None) or 1000 * SESSION_TIMEOUT_SECONDS_MAX
    min_ms = 1000 * (spec.min_seconds or 0)
    max_ms = 1000 * spec.max_seconds if spec.max_seconds is not None else default_ms
    lower_ms, upper_ms = min_ms or DEFAULT_MS, max_ms
    for least_ms, most_ms in (  # the later one wins
        (min_ms, max_ms),
        (HEARTBEATS_PER_TIMEOUT_MIN * heartbeat_ms, TIMEOUT_MS_MAX),
        (0, shown_ms or TIMEOUT_MS_MAX),
        (broker_min_ms, broker_max_ms),
    ):
        lower_ms, upper_ms = max(least_ms, min(lower_ms, most_ms)), max(least_ms, min(upper_ms, most_ms))
    return Bounds(
        lower_ms=lower_ms,
        upper_ms=upper_ms,
        broker_min_ms=broker_min_ms,
        broker_max_ms=broker_max_ms,
        is_assumed=brokers.min_ms is None or brokers.max_ms is None,
        max_ms=max_ms,
        heartbeat_ms=heartbeat_ms,
        client=client,
        prefix=protocol.prefix,
    )


def client_of(spec: StaticGroupSpec, workload: WorkloadView | None, protocol: Protocol) -> ClientLimits:
    """Return what the spec and the pod template show of the client; what it reads from files or its code is not seen.

    Java clients start with any session above their heartbeat interval (AbstractCoordinator); clients of a group with a
    setting of its own have no session timeout that they could refuse.
    """
    if protocol.group_setting:
        return ClientLimits(limit_ms=None)
    heartbeat_ms = max((ms for _, ms in _shown(workload, "HEARTBEAT_INTERVAL_MS")), default=None)
    if spec.role is not RoleChoice.CONSUMER or spec.client.type in JAVA_TYPES:
        return ClientLimits(heartbeat_ms=heartbeat_ms, limit_ms=None)
    is_faust = any(entry.instance_id_name == "CONSUMER_GROUP_INSTANCE_ID" for entry in env_entries(spec.client))
    client, named = (FAUST, "BROKER_REQUEST_TIMEOUT") if is_faust else (ClientLimits(), "MAX_POLL_INTERVAL_MS")
    client = replace(client, heartbeat_ms=heartbeat_ms)
    if not (shown := _shown(workload, named)):
        return client
    name, value = min(shown, key=lambda pair: pair[1])
    limit_ms = min(client.limit_unit_ms * value, TIMEOUT_MS_MAX)
    return replace(client, limit_ms=limit_ms, limit_setting=f"{name} in the pod template", shows_limit=True)


def _shown(workload: WorkloadView | None, named: str) -> list[tuple[str, int]]:
    """Return the variables of the pod template that set what is named so, each with its number."""
    values = [pair for c in workload.containers for pair in c.env_values] if workload is not None else []
    return [
        (name, int(text))
        for name, text in values
        if named in re.sub(r"[.-]", "_", name.upper()) and re.fullmatch(r"0*[1-9][0-9]{0,8}", text)
    ]
