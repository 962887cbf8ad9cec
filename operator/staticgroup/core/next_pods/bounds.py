"""Within which bounds a session timeout is chosen, and which setting to raise where one of them is too low.

The stronger one wins: the brokers' bounds, without which a member is refused; what the pod template shows that the client needs to start;
the user's minSeconds and maxSeconds; the defaults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ...api.injection import env_entries, identity_of
from ...api.resources.identity import JAVA_PRESETS
from ...api.resources.staticgroup import SESSION_TIMEOUT_SECONDS_MAX, SessionTimeout, StaticGroupSpec
from ...api.roles import RoleChoice
from ...api.schema import HEARTBEATS_PER_TIMEOUT_MIN, TIMEOUT_MS_MAX
from ..workload import WorkloadView

DEFAULT_MS: Final = 45_000
"""session.timeout.ms of Java clients (KIP-735) and of librdkafka, and group.consumer.session.timeout.ms of the brokers."""
MAX_POLL_INTERVAL_MS: Final = 300_000
"""max.poll.interval.ms where nothing else is set; librdkafka starts with no longer session (rd_kafka_conf_finalize)."""
REQUEST_TIMEOUT_MS: Final = 90_000
"""broker_request_timeout of Faust, which starts with no longer session either (transport/drivers/aiokafka.py)."""
FAUST_INSTANCE_ID: Final = "CONSUMER_GROUP_INSTANCE_ID"
FAUST_REQUEST_TIMEOUT: Final = "BROKER_REQUEST_TIMEOUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
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


UNKNOWN_CLIENT: Final = Client()
FAUST: Final = Client(
    limit_ms=REQUEST_TIMEOUT_MS, limit_setting="broker_request_timeout of Faust, which does not start with a longer session,", limit_unit_ms=1000
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of mode Auto.

    Parameters
    ----------
    lower_ms, upper_ms: at least and at most, both inclusive; lower_ms <= upper_ms.
    broker_min_ms, broker_max_ms: the brokers' alone, which bind mode Fixed too.
    max_ms: the user's maxSeconds, or what stands for it.
    client: for which they are.
    """

    lower_ms: int
    upper_ms: int
    broker_min_ms: int
    broker_max_ms: int
    max_ms: int
    client: Client

    def clamped_ms(self, value_ms: int) -> int:
        """Return the value inside the bounds that is nearest."""
        return max(self.lower_ms, min(value_ms, self.upper_ms))

    def way_to(self, need_ms: int, *, fixed_ms: int | None = None) -> str:
        """Say which settings to raise, so that the session timeout can be `need_ms`.

        Parameters
        ----------
        fixed_ms: spec.sessionTimeout.seconds in mode Fixed.
        """
        field, own_ms = ("maxSeconds", self.max_ms) if fixed_ms is None else ("seconds", fixed_ms)
        ways = []
        if self.broker_max_ms < need_ms:
            ways.append(f"raise group.max.session.timeout.ms on the brokers to at least {need_ms}")
        client = self.client
        if client.limit_ms is not None and client.limit_ms < need_ms and (client.shows_limit or own_ms < need_ms):
            ways.append(f"raise {client.limit_setting} to at least {-(-need_ms // client.limit_unit_ms)}")
        if own_ms < need_ms:
            ways.append(f"raise spec.sessionTimeout.{field} to at least {-(-need_ms // 1000)}")
        return ", and ".join(ways)


def bounds_of(spec: SessionTimeout, client: Client, heartbeat_ms: int, broker_min_ms: int, broker_max_ms: int) -> Bounds:
    """Return the bounds of a session timeout.

    Parameters
    ----------
    heartbeat_ms: the heartbeat interval, of the client or by default.
    """
    shown_ms = client.limit_ms if client.shows_limit else None
    assumed_ms = client.limit_ms if not client.shows_limit else None
    min_ms = 1000 * (spec.min_seconds or 0)
    max_ms = 1000 * spec.max_seconds if spec.max_seconds is not None else assumed_ms or 1000 * SESSION_TIMEOUT_SECONDS_MAX
    lower_ms, upper_ms = min_ms or DEFAULT_MS, max_ms
    for least_ms, most_ms in (
        (min_ms, max_ms),
        (HEARTBEATS_PER_TIMEOUT_MIN * heartbeat_ms, TIMEOUT_MS_MAX),
        (0, shown_ms or TIMEOUT_MS_MAX),
        (broker_min_ms, broker_max_ms),
    ):
        lower_ms, upper_ms = max(least_ms, min(lower_ms, most_ms)), max(least_ms, min(upper_ms, most_ms))
    return Bounds(
        lower_ms=lower_ms, upper_ms=upper_ms, broker_min_ms=broker_min_ms, broker_max_ms=broker_max_ms, max_ms=max_ms, client=client
    )


def client_of(spec: StaticGroupSpec, workload: WorkloadView | None) -> Client:
    """Return what the spec and the pod template show of the client; what it reads from files or sets in its code is not seen.

    Notes
    -----
    Java clients start with any session above their heartbeat interval (AbstractCoordinator).
    """
    identity = identity_of(spec)
    heartbeat_ms = max((ms for _, ms in _shown(workload, "HEARTBEAT_INTERVAL_MS")), default=None)
    if spec.role is not RoleChoice.CONSUMER or identity.preset in JAVA_PRESETS:
        return Client(heartbeat_ms=heartbeat_ms, limit_ms=None)
    is_faust = any(entry.instance_id_name == FAUST_INSTANCE_ID for entry in env_entries(identity))
    client, named = (FAUST, FAUST_REQUEST_TIMEOUT) if is_faust else (UNKNOWN_CLIENT, "MAX_POLL_INTERVAL_MS")
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
        (name, int(text)) for name, text in values
        if named in re.sub(r"[.-]", "_", name.upper()) and re.fullmatch(r"0*[1-9][0-9]{0,8}", text)
    ]
