"""What becomes of the fleet learner's recommendation for one group.

One idea: a recommendation is a number among bounds and nothing else. It can replace the structural estimate of mode
Auto, inside its bounds; whatever is wrong with it leaves the present value
as it is. Nothing here names a member, and nothing that decides about members reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ...api.reasons import Reason
from ...api.resources.staticgroup import SessionTimeout, TimeoutMode
from .bounds import Bounds

SESSION_TIMEOUT = "session.timeout.ms"
"""The setting that each member of a classic group brings itself."""
STEP_MS = 5_000
MOMENT_MS_MAX = 253_402_300_799_000
"""The last second of the year 9999, which datetime and metav1.Time end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTimeout:
    """What the fleet learner recommends for one group.

    Parameters
    ----------
    setting: of Kafka, that the number is for.
    recommended_ms: None: the present value is to stay.
    lower_ms, upper_ms, uncapped_ms: the interval of the number, and what it would be without any bound; None: not known.
    stops, method, reasons: what it rests on, and what shaped it, for people.
    is_released: the fleet's canary lets this group act on it now. is_rolled_back: the canary was rolled back.
    is_capped: the brokers' maximum shortened it.
    """

    setting: str
    recommended_ms: int | None
    lower_ms: int | None = None
    upper_ms: int | None = None
    uncapped_ms: int | None = None
    stops: int
    method: str
    reasons: tuple[str, ...] = ()
    is_released: bool
    is_rolled_back: bool = False
    is_capped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the recommendations say of one group now; verified, and valid at the moment of the snapshot.

    Parameters
    ----------
    record: None when there is none to use; `reason` and `cause` then say why.
    valid_until_ms: Unix milliseconds; 0 without a record.
    cause: with a record, what is wrong with a newer snapshot; "" when nothing is.
    """

    record: FleetTimeout | None = None
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
    record: FleetTimeout | None = None
    valid_until_ms: int = 0
    reason: Reason
    cause: str = ""


def quantised(value_ms: int) -> int:
    """Round up to the step of 5 s, so that small changes of an estimate do not become a new value of every pod."""
    return -(-value_ms // STEP_MS) * STEP_MS


def judge_advice(
    advice: Advice, spec: SessionTimeout, setting: str, bounds: Bounds, kept_ms: int | None
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
    if record.setting != setting:
        text = f"the record is for {record.setting}, the group's protocol reads {setting}"
        return AdviceVerdict(fleet_ms=present_ms, reason=Reason.RECOMMENDATION_ABSENT, cause=text)
    recommended_ms = None if record.recommended_ms is None else bounds.clamped_ms(quantised(record.recommended_ms))
    why_not = _why_not(record, recommended_ms, is_auto=is_auto)
    kept_or_none = None if record.is_rolled_back and not record.is_released else present_ms
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


def _why_not(record: FleetTimeout, recommended_ms: int | None, *, is_auto: bool) -> str:
    """Say why a record is shown and not taken; "" when it is taken. First match wins."""
    if recommended_ms is None:
        return f"it is to keep the present value ({_words(record)})"
    if not is_auto:
        return f"{recommended_ms} ms are recommended, and spec.sessionTimeout.mode is Fixed; set it to Auto to use them"
    if record.is_rolled_back and not record.is_released:
        return "its canary wave was rolled back, so the structural estimate holds"
    if not record.is_released:
        return f"{recommended_ms} ms wait for this group's canary wave"
    return ""


def _what(record: FleetTimeout, recommended_ms: int | None, advice: Advice) -> str:
    until = moment(advice.valid_until_ms).isoformat().replace("+00:00", "Z")
    is_capped = record.is_capped and record.uncapped_ms is not None
    beyond = f"; without the brokers' maximum it would be {record.uncapped_ms} ms" if is_capped else ""
    return f"{recommended_ms} ms from {record.stops} stops ({_words(record)}), valid until {until}{beyond}"


def _words(record: FleetTimeout) -> str:
    return ", ".join(record.reasons) or record.method


def _beside(advice: Advice) -> str:
    return f"; a newer snapshot is not used: {advice.cause}" if advice.cause else ""
