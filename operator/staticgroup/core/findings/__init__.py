"""What is so with a StaticGroup, in words: whoever tells (status, exceptions, explain, Events, journal) tells findings.

A finding says what is so and what a person can do about it; nothing else words either. `guards` finds why a removal is held
back, `seats` what is out of order with one id or pod, the other modules how the whole stands, one finding for each condition.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...api.reasons import ConditionStatus, ConditionType
from ...api.resources.status import ExceptionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding is about; None where it concerns no id or no pod. The whole StaticGroup when all are empty."""

    instance_id: str | None = None
    member_id: str = ""
    pod_name: str | None = None


WHOLE = Subject()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is so.

    Parameters
    ----------
    kind: the condition that it is, or the kind of the exception.
    reason: a `Reason` of a condition, or the stable word for one exception, such as the name of a guard.
    sentence, remedy: what is so, and what to do; "" when there is nothing to do. Never a secret, nothing that ticks.
    is_transient: it passes by itself in the ordinary course of things, so nobody needs to be told to act.
    status: of the condition.
    requeue_after_s: when looking again can help; None when only an event can.
    """

    kind: ConditionType | ExceptionKind
    reason: str
    sentence: str
    remedy: str = ""
    subject: Subject = WHOLE
    is_transient: bool = False
    status: ConditionStatus = ConditionStatus.FALSE
    requeue_after_s: float | None = None

    @property
    def text(self) -> str:
        """Sentence and remedy as one."""
        if not self.remedy:
            return self.sentence
        return f"{self.sentence}{' ' if self.sentence.endswith('.') else '; '}{self.remedy}"


def ended(text: str) -> str:
    """End a text with a full stop."""
    return text if text.endswith(".") else f"{text}."
