"""The list of what is not as it should be: one row for each finding about an id or a pod, most urgent first, bounded.

`since` survives as long as the row does, so that a user sees how old it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

from ...api.resources import status as api
from ..findings import Finding

MESSAGE_MAX = 300
WORD_MAX = 40
INSTANCE_ID_MAX = 249
POD_NAME_MAX = 253


def exceptions_of(
    findings: Iterable[Finding], before: Sequence[api.MemberException], now: datetime
) -> list[api.MemberException]:
    """Return at most 50 rows for `findings_of_seats`; a row that was there before keeps its `since`."""
    since = {(e.kind, e.instance_id, e.pod_name, e.reason): e.since for e in before}
    rows = (_row(finding, now.replace(microsecond=0)) for finding in islice(findings, api.EXCEPTIONS_MAX))
    return [
        row.model_copy(update={"since": since.get((row.kind, row.instance_id, row.pod_name, row.reason), row.since)})
        for row in rows
    ]


def _row(finding: Finding, since: datetime) -> api.MemberException:
    subject, sentence = finding.subject, finding.sentence
    remedy = finding.text[len(sentence) :]  # what to do is not what is cut off
    text = _cut(sentence, max(0, MESSAGE_MAX - len(remedy))) + remedy
    return api.MemberException(
        kind=api.ExceptionKind(finding.kind),
        instance_id=subject.instance_id[:INSTANCE_ID_MAX] if subject.instance_id else None,
        # An id may hold an ordinal of two hundred digits; no pod has such a name.
        pod_name=subject.pod_name if len(subject.pod_name or "") <= POD_NAME_MAX else None,
        reason=finding.reason,
        message=text[:MESSAGE_MAX],
        since=since,
    )


def _cut(text: str, length: int) -> str:
    """Return a text, or what of it there is room for and a sign that there was more; words stay whole, but for very long ones."""
    if len(text) <= length:
        return text
    kept = text[: max(0, length - 1)]
    words = kept.rpartition(" ")[0]
    return (words if len(kept) - len(words) <= WORD_MAX else kept) + "…"[:length]
