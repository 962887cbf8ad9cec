"""What is remembered of a group's setting at the brokers, and wanted of it, to and from the StaticGroup's status."""

from __future__ import annotations

from ...api.resources import status as api
from ...api.schema import INT32_MAX, TIMEOUT_MS_MAX
from ..next_pods.shared_setting import SharedSetting
from ..next_pods.timeouts import TimeoutPlan
from .times import wire_time


def wire_shared_setting(known: SharedSetting | None) -> api.SharedSetting | None:
    """Write what is remembered; None while the setting is not the operator's."""
    if known is None:
        return None
    since_s = known.lower_since_s
    return api.SharedSetting(
        held_ms=min(known.held_ms, TIMEOUT_MS_MAX),
        changes=min(known.changes, INT32_MAX),
        found_ms=min(known.found_ms, TIMEOUT_MS_MAX) if known.found_ms is not None else None,
        lower_since=wire_time(since_s) if since_s is not None else None,
        lower_ms=min(known.lower_ms, TIMEOUT_MS_MAX) if since_s is not None else None,
    )


def shared_setting_from(written: api.Timeout | None) -> SharedSetting | None:
    """Read what an earlier process remembered; None when it did not."""
    known = written.shared_setting if written is not None else None
    if known is None:
        return None
    return SharedSetting(
        held_ms=known.held_ms,
        changes=known.changes,
        found_ms=known.found_ms,
        lower_since_s=known.lower_since.timestamp() if known.lower_since is not None else None,
        lower_ms=known.lower_ms or 0,
    )


def own_ms(t: TimeoutPlan, previous: api.Timeout | None) -> int | None:
    """Return what this StaticGroup wants by itself; the last known while nobody can say which protocol the group has.

    Notes
    -----
    Others rely on it: who has said it once and has no member now may have some again.
    """
    if t.own_ms is not None or t.inject_ms is not None:
        return t.own_ms
    return previous.own_ms if previous is not None else None
