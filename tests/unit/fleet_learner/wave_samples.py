"""Stops and changes of a group for tests of the canary's account."""

from __future__ import annotations

from typing import Any

from fleet_learner.days.facts import DAY_MS
from fleet_learner.recommendations.waves import Trial

Row = dict[str, Any]

SALT = "s"
TRIAL = Trial(campaign_ms=100 * DAY_MS, wave_ms=102 * DAY_MS, wave=10, as_of_ms=105 * DAY_MS, salt=SALT)
EARLIER = {
    "earlier_timeout_source": "Structural", "earlier_session_timeout_ms": 45_000, "earlier_recommended_ms": 90_000,
    "earlier_advised_ms": None, "earlier_model_version": "1.0",
}  # fmt: skip
UNKNOWN = dict.fromkeys(EARLIER)


def stop(
    day: float, gap_s: float, timeout_s: float = 45, end_kind: str = "returned", absorbed: bool | None = None
) -> Row:
    """Return an absence; the group absorbs it when it is no longer than the timeout, if nothing else is said."""
    is_returned = end_kind == "returned"
    return {"down_ms": round(day * DAY_MS), "gap_ms": round(1000 * gap_s), "end_kind": end_kind,
            "absorbed": (gap_s <= timeout_s if absorbed is None else absorbed) if is_returned else None,
            "session_timeout_ms": round(1000 * timeout_s)}  # fmt: skip


def change(day: float, timeout_s: float, source: str = "Fleet", before_s: float | None = None) -> Row:
    return {
        "event_ms": round(day * DAY_MS),
        "timeout_source": source,
        "session_timeout_ms_before": None if before_s is None else round(1000 * before_s),
        "session_timeout_ms_after": round(1000 * timeout_s),
    }
