"""What becomes of the fleet learner's recommendation for one group.

One idea: a recommendation is a number among bounds and nothing else. It can replace the structural estimate of mode
Auto, inside its bounds; whatever is wrong with it leaves the present value
as it is. Nothing here names a member, and nothing that decides about members reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ...api.reasons import Reason
from ...api.recommendation import Recommendation, RecommendationReason, Setting
from ...api.resources.staticgroup import SessionTimeout, TimeoutMode
from .bounds import Bounds

STEP_MS = 5_000
MOMENT_MS_MAX = 253_402_300_799_000
"""The last second of the year 9999, which datetime and metav1.Time end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the recommendations say of one group now; verified, and valid at the moment of the snapshot.

    Parameters
    ----------
    record: None when there is none to use; `reason` and `cause` then say why.
    valid_until_ms: Unix milliseconds; 0 without a record.
    cause: with a record, what is wrong with a newer snapshot; "" when nothing is.
    """

    record: Recommendation | None = None
    valid_until_ms: int = 0
    reason: Reason = Reason.RECOMMENDATION_USED
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceVerdict:
    """What was made of it.

    Parameters
    ----------
    fleet_ms: the timeout that mode Auto takes, inside all bounds: the recommended one, or the one that was taken
        before and is kept. None: the structural estimate holds.
    recommended_ms: what the record recommends, inside all bounds, whether or not it is taken; None when nothing.
    asked_ms: what the record asks for before this operator's own bounds; None without a record.
    reason, cause: of the condition RecommendationCurrent.
    """

    fleet_ms: int | None
    recommended_ms: int | None = None
    asked_ms: int | None = None
    record: Recommendation | None = None
    valid_until_ms: int = 0
    reason: Reason
    cause: str = ""


def quantised(value_ms: int) -> int:
    """Round up to the step of 5 s, so that small changes of an estimate do not become a new value of every pod."""
    return -(-value_ms // STEP_MS) * STEP_MS


def judge_advice(
    advice: Advice, spec: SessionTimeout, setting: Setting, bounds: Bounds, kept_ms: int | None
) -> AdviceVerdict:
    """Decide what becomes of a recommendation.

    Parameters
    ----------
    setting: the one that the group's protocol reads; a record for another one is not about this group as it is.
    kept_ms: the fleet's value that is in use; None: the structural estimate is.

    Returns
    -------
    `fleet_ms` lies within `bounds`, or is None; it is None in mode Fixed.
    """
    is_auto = spec.mode is TimeoutMode.AUTO
    present_ms = bounds.clamped_ms(kept_ms) if is_auto and kept_ms is not None else None
    record = advice.record
    if record is None:
        return AdviceVerdict(fleet_ms=present_ms, reason=advice.reason, cause=advice.cause)
    if record.setting is not setting:
        text = f"the record is for {record.setting.value}, the group's protocol reads {setting.value}"
        return AdviceVerdict(fleet_ms=present_ms, reason=Reason.RECOMMENDATION_ABSENT, cause=text)
    recommended_ms = None if record.recommended_ms is None else bounds.clamped_ms(quantised(record.recommended_ms))
    why_not = _why_not(record, recommended_ms, is_auto=is_auto)
    is_rolled_back = not record.released and RecommendationReason.CANARY_ROLLED_BACK in record.reasons
    kept_or_none = None if is_rolled_back else present_ms
    reason = Reason.RECOMMENDATION_SHOWN if why_not else Reason.RECOMMENDATION_USED
    return AdviceVerdict(
        fleet_ms=kept_or_none if why_not else recommended_ms,
        recommended_ms=recommended_ms,
        asked_ms=record.recommended_ms,
        record=record,
        valid_until_ms=advice.valid_until_ms,
        reason=reason,
        cause=(why_not or _what(record, recommended_ms, advice)) + _beside(advice),
    )


def moment(unix_ms: int) -> datetime:
    """Return an aware time, kept to the second as metav1.Time does; what is beyond the year 9999 ends there."""
    return datetime.fromtimestamp(min(unix_ms, MOMENT_MS_MAX) // 1000, tz=UTC)


def _why_not(record: Recommendation, recommended_ms: int | None, *, is_auto: bool) -> str:
    """Say why a record is shown and not taken; "" when it is taken. First match wins."""
    if recommended_ms is None:
        return f"it is to keep the present value ({_words(record)})"
    if not is_auto:
        return f"{recommended_ms} ms are recommended, and spec.sessionTimeout.mode is Fixed; set it to Auto to use them"
    if not record.released and RecommendationReason.CANARY_ROLLED_BACK in record.reasons:
        return "its canary wave was rolled back, so the structural estimate holds"
    if not record.released:
        return f"{recommended_ms} ms wait for this group's canary wave"
    return ""


def _what(record: Recommendation, recommended_ms: int | None, advice: Advice) -> str:
    until = moment(advice.valid_until_ms).isoformat().replace("+00:00", "Z")
    is_capped = RecommendationReason.BROKER_CAP in record.reasons and record.uncapped_ms is not None
    beyond = f"; without the brokers' maximum it would be {record.uncapped_ms} ms" if is_capped else ""
    return f"{recommended_ms} ms from {record.evidence.stops} stops ({_words(record)}), valid until {until}{beyond}"


def _words(record: Recommendation) -> str:
    return ", ".join(reason.value for reason in record.reasons) or record.evidence.method.value


def _beside(advice: Advice) -> str:
    return f"; a newer snapshot is not used: {advice.cause}" if advice.cause else ""
