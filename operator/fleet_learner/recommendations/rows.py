"""Write recommendations as rows of gold/recommendation."""

from __future__ import annotations

from collections.abc import Iterable

from journal import recommendations as api

from . import policy
from .recommend import MODEL_VERSION

ADVISED_MAX = 32


def gold_row(record: api.Recommendation, state: policy.GroupState) -> dict[str, object]:
    """Write a recommendation as a row of gold/recommendation, without the columns that name the group.

    Parameters
    ----------
    state: of the timeout at that time; the next run continues from it if the journal has nothing new.
    """
    before, after = record.before, record.after
    return {
        "session_timeout_ms": record.current_ms,
        "timeout_source": state.source,
        "changed_ms": state.changed_ms,
        "recommended_ms": record.recommended_ms,
        "advised_ms": advised_values(state.advised_ms, record.recommended_ms),
        "price_source": None if record.price_source is None else record.price_source.value,
        "goal_ms": record.goal_ms,
        "low_ms": record.lower_ms,
        "high_ms": record.upper_ms,
        "method": record.evidence.method.value,
        "outages": record.evidence.stops,
        "outages_effective": record.evidence.stops_effective,
        "censored": record.evidence.censored,
        "coverage": record.evidence.coverage,
        "evictions_per_day_before": None if before is None else before.evictions_per_day.value,
        "evictions_per_day_after": None if after is None else after.evictions_per_day.value,
        "ghost_s_per_day_before": None if before is None else before.ghost_seconds_per_day.value,
        "ghost_s_per_day_after": None if after is None else after.ghost_seconds_per_day.value,
        "reason_codes": [reason.value for reason in record.reasons],
        "wave": record.wave,
        "released": record.released,
        "model_version": MODEL_VERSION,
        "valid_until_ms": record.valid_until_ms,
    }


def advised_values(before: Iterable[int], recommended_ms: int | None) -> list[int]:
    """Append this recommendation to the earlier ones; only the newest `ADVISED_MAX` are kept."""
    kept = [each for each in before if each != recommended_ms]
    return [*kept, *([] if recommended_ms is None else [recommended_ms])][-ADVISED_MAX:]
