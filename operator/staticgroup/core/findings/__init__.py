"""A finding: one sentence on what is so with a StaticGroup, and one on what to do about it.

Status, exceptions, `explain`, Events and the journal show findings, and nothing else is worded. `core.guards` and `core.releases`
find what holds a removal or a release back; the modules here find the rest, one finding for each condition or exception.
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
    reason: a `Reason` of a condition, or the CamelCase name of one kind of exception, such as that of a guard.
    sentence, remedy: what is so, and what to do; "" when there is nothing to do. Never a secret, no time that ticks.
    is_transient: it passes by itself in the ordinary course of things, so nobody needs to act.
    status: of the condition.
    requeue_after_s: when another round can help; None when only an event can.
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


def counted(count: int, one: str, many: str) -> str:
    """Count things in words: `1 member is`, `2 members are`."""
    return f"{count} {one if count == 1 else many}"
