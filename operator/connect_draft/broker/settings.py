"""Settings of a coordinator of the Connect draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SESSION_TIMEOUT_CONFIG = "connect.session.timeout.ms"
HEARTBEAT_INTERVAL_CONFIG = "connect.heartbeat.interval.ms"
GROUP_CONFIGS = (SESSION_TIMEOUT_CONFIG, HEARTBEAT_INTERVAL_CONFIG)
"""The names a group's own configuration may hold (record key 8); ours, after KIP-848's group configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """Switches and times.

    Parameters
    ----------
    enabled: the draft's feature flag; off, every request is answered UNSUPPORTED_VERSION (item 62).
    static_workers: our extension: a worker with an instance id may leave with epoch -2 and come back to its work.
    sticky_assignor_worker: keep choosing the worker that assigned last while it can (item 70, an open question there).
    fenced_member_is_removed: as drafted, a heartbeat with a wrong epoch also removes the member it names. A late copy
        of an old request then removes a live worker, so False keeps the member.
    is_denied: (principal, operation, group id) → True to answer GROUP_AUTHORIZATION_FAILED.
    """

    enabled: bool = True
    static_workers: bool = False
    sticky_assignor_worker: bool = True
    fenced_member_is_removed: bool = True
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    is_denied: Callable[[str, str, str], bool] = field(default=lambda principal, operation, group_id: False)
