"""What brokers say of session timeouts, said as they name their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from staticgroup.core.group import BrokerBounds, GroupType, SessionBounds


def broker_bounds(
    *,
    classic_min_ms: int | None = None,
    classic_max_ms: int | None = None,
    consumer_min_ms: int | None = None,
    consumer_max_ms: int | None = None,
    consumer_session_ms: int | None = None,
    consumer_heartbeat_ms: int | None = None,
    streams_min_ms: int | None = None,
    streams_max_ms: int | None = None,
    streams_session_ms: int | None = None,
    streams_heartbeat_ms: int | None = None,
    stored: Mapping[str, int] | None = None,
    limits: Mapping[str, tuple[int, int]] | None = None,
) -> BrokerBounds:
    """Return them by protocol; None where nothing could be read."""
    return BrokerBounds(
        sessions={
            GroupType.CLASSIC: SessionBounds(min_ms=classic_min_ms, max_ms=classic_max_ms),
            GroupType.CONSUMER: SessionBounds(
                min_ms=consumer_min_ms, max_ms=consumer_max_ms, group_ms=consumer_session_ms,
                heartbeat_ms=consumer_heartbeat_ms,
            ),
            GroupType.STREAMS: SessionBounds(
                min_ms=streams_min_ms, max_ms=streams_max_ms, group_ms=streams_session_ms,
                heartbeat_ms=streams_heartbeat_ms,
            ),
        },
        stored=stored or {}, limits=limits or {},
    )  # fmt: skip


def altered(bounds: BrokerBounds, values: Mapping[str, int]) -> BrokerBounds:
    """Return what is read after settings of the group were set."""
    sessions = dict(bounds.sessions)
    for group_type, prefix in ((GroupType.CONSUMER, "consumer"), (GroupType.STREAMS, "streams")):
        if f"{prefix}.session.timeout.ms" in values:
            known = sessions.get(group_type, SessionBounds())
            sessions[group_type] = replace(known, group_ms=values[f"{prefix}.session.timeout.ms"])
    return replace(bounds, sessions=sessions, stored={**bounds.stored, **values})
