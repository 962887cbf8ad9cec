"""A finding: one sentence on what is so with a StaticGroup, and one on what to do about it.

Status, issues, `explain`, Events and the journal show findings and word nothing else. `core.guards` and
`core.releases` find what holds a removal or a release back; the modules here find the rest, one finding for each
condition or exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from ...api.identifiers import INSTANCE_ID_LENGTH_MAX
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.status import ISSUES_MAX, IssueKind, MemberIssue
from ...api.schema import Condition, with_conditions

MESSAGE_MAX: Final = 300
WORD_MAX: Final = 40
POD_NAME_MAX: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding is about; None where it concerns no id or no pod. The whole StaticGroup when all are empty."""

    instance_id: str | None = None
    member_id: str = ""
    pod_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is so.

    Parameters
    ----------
    kind: the condition that it is, or the kind of the exception.
    reason: a `Reason` of a condition, or the CamelCase name of one kind of exception, such as that of a guard.
    sentence, remedy: what is so, and what to do; "" when there is nothing to do. Never a secret, no time that ticks.
    is_transient: it passes by itself in the ordinary course of things, so nobody needs to act.
    requeue_after_s: when another round can help; None when only an event can.
    """

    kind: ConditionType | IssueKind
    reason: str
    sentence: str
    remedy: str = ""
    subject: Subject = Subject()
    is_transient: bool = False
    requeue_after_s: float | None = None

    @property
    def status(self) -> ConditionStatus:
        """Of the condition, for which its reason stands."""
        return Reason(self.reason).status

    @property
    def text(self) -> str:
        """Sentence and remedy as one."""
        if not self.remedy:
            return self.sentence
        return f"{self.sentence}{' ' if self.sentence.endswith('.') else '; '}{self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why pods do not get what they should: a reason of Injected, a sentence and what to do, without a full stop."""

    reason: Reason
    sentence: str
    remedy: str


def ended(text: str) -> str:
    """End a text with a full stop."""
    return text if text.endswith(".") else f"{text}."


def as_sentence(clause: str) -> str:
    """Write a clause as a sentence of its own."""
    return f"{clause[0].upper()}{clause[1:]}."


def counted(count: int, one: str, many: str) -> str:
    """Count things in words: `1 member is`, `2 members are`."""
    return f"{count} {one if count == 1 else many}"


def conditions_of(
    findings: Iterable[Finding], before: Sequence[Condition], *, observed_generation: int, now: datetime, docs_url: str
) -> tuple[Condition, ...]:
    """Return the conditions with those that the findings are, as `with_conditions` does; others are kept."""
    found = [(ConditionType(f.kind), f.status, Reason(f.reason), f.text) for f in findings]
    return with_conditions(before, found, observed_generation=observed_generation, now=now, docs_url=docs_url)


def issues_of(findings: Iterable[Finding], before: Sequence[MemberIssue], now: datetime) -> list[MemberIssue]:
    """Return at most 50 rows for findings about an id or a pod, most urgent first; an earlier one keeps its `since`."""
    since = {(e.kind, e.instance_id, e.pod_name, e.reason): e.since for e in before}
    rows = (_row(finding, now.replace(microsecond=0)) for finding in islice(findings, ISSUES_MAX))
    return [
        row.model_copy(update={"since": since.get((row.kind, row.instance_id, row.pod_name, row.reason), row.since)})
        for row in rows
    ]


def _row(finding: Finding, since: datetime) -> MemberIssue:
    subject, sentence = finding.subject, finding.sentence
    remedy = finding.text[len(sentence) :]  # what to do is not what is cut off
    text = _cut(sentence, max(0, MESSAGE_MAX - len(remedy))) + remedy
    return MemberIssue(
        kind=IssueKind(finding.kind),
        instance_id=subject.instance_id[:INSTANCE_ID_LENGTH_MAX] if subject.instance_id else None,
        # An id may hold an ordinal of two hundred digits; no pod has such a name.
        pod_name=subject.pod_name if len(subject.pod_name or "") <= POD_NAME_MAX else None,
        reason=finding.reason,
        message=text[:MESSAGE_MAX],
        since=since,
    )


def _cut(text: str, length: int) -> str:
    """Return a text that fits, with a sign where it was cut; words stay whole, but for very long ones."""
    if len(text) <= length:
        return text
    kept = text[: max(0, length - 1)]
    words = kept.rpartition(" ")[0]
    return (words if len(kept) - len(words) <= WORD_MAX else kept) + "…"[:length]
