"""What became of the fleet learner's recommendation. Ready does not depend on it."""

from __future__ import annotations

from typing import Final

from ...api.reasons import MEANINGS, ConditionType, Reason
from ..plan import Plan
from . import Finding

_KEPT = "The session timeout stays as it is."
_WORDS: Final[dict[Reason, tuple[str, str]]] = {
    Reason.RECOMMENDATION_USED: ("The session timeout is the one that the fleet learner recommends: {cause}.", ""),
    Reason.RECOMMENDATION_SHOWN: (
        "There is a recommendation of the fleet learner, and it is not in force: {cause}.", ""
    ),
    Reason.NOT_OBSERVED_YET: (
        "Not observed yet since the operator started.",
        "If this stays for more than a minute, read the operator's log.",
    ),
    Reason.RECOMMENDATION_ABSENT: (
        "There is no recommendation for this group: {cause}. " + _KEPT,
        "It appears once the fleet learner has read enough of the journal of this group.",
    ),
    Reason.RECOMMENDATION_UNREACHABLE: (
        "The recommendations cannot be read: {cause}. " + _KEPT,
        "Check the operator's setting STATICGROUP_RECOMMENDATIONS_SOURCE and that the fleet learner has published there.",
    ),
    Reason.RECOMMENDATION_CORRUPT: (
        "The recommendations are refused as a whole: {cause}. " + _KEPT,
        "Publish them again and check that every file arrives; while a copy is under way this passes by itself.",
    ),
    Reason.RECOMMENDATION_UNSUPPORTED: (
        "The recommendations are of a version that this operator does not read: {cause}. " + _KEPT,
        "Upgrade the older of the two, operator or fleet learner.",
    ),
    Reason.RECOMMENDATION_STALE: (
        "The recommendations are out of date: {cause}. " + _KEPT,
        "Run the fleet learner again and see that it publishes.",
    ),
    Reason.RECOMMENDATION_FROM_THE_FUTURE: (
        "The recommendations are newer than the operator's clock: {cause}. " + _KEPT,
        "Set the clocks of both machines.",
    ),
}


def recommendation_current(plan: Plan) -> tuple[Finding, ...]:
    """Return the finding; none while no recommendations are read."""
    verdict = plan.timeout.desired.advice if plan.timeout is not None else None
    if verdict is None:
        return ()
    sentence, remedy = _WORDS[verdict.reason]
    return (
        Finding(
            kind=ConditionType.RECOMMENDATION_CURRENT,
            reason=verdict.reason,
            status=MEANINGS[verdict.reason].status,
            sentence=sentence.format(cause=verdict.cause),
            remedy=remedy,
        ),
    )
