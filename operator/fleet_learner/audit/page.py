"""Print an audit: a line for each group, its differences with their times, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fleet_learner.terminal import printable

from .compare import Fact, Finding, LogRebalance, MemberFact

_COLUMNS = (
    ("rebalances", ("journal", "log", "merged", "unseen", "missing", "extra")),
    ("removals", ("journal", "gone", "others", "unproven")),
    ("absorbed", ("journal", "log", "wrong")),
)
_NAME_WIDTH, _WIDTH = 44, 9


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the audit as text: two lines of heading, then a line for each group with its differences below."""
    yield " " * _NAME_WIDTH + "  ".join(f"{title:<{_WIDTH * len(names)}}" for title, names in _COLUMNS).rstrip()
    yield f"{'group':<{_NAME_WIDTH}}" + "  ".join("".join(f"{n:>{_WIDTH}}" for n in names) for _, names in _COLUMNS)
    for each in findings:
        cells = "  ".join("".join(f"{value:>{_WIDTH}}" for value in part) for part in _values(each))
        yield f"{printable(each.group_id):<{_NAME_WIDTH - 1}} {cells}{'' if each.agrees else '  differs'}"
        yield from (f"    {printable(text)}" for text in differences(each))


def _values(each: Finding) -> tuple[tuple[int, ...], ...]:
    r, m, a = each.rebalances, each.removals, each.absorbed
    return (
        (r.journal, r.log, r.merged, r.unseen, len(r.missing), len(r.extra)),
        (m.journal, m.log, m.others, len(m.unproven)),
        (a.journal, a.log, len(a.wrong)),
    )


def differences(finding: Finding) -> Iterator[str]:
    """Yield the differences of one group as text, with times in UTC."""
    if not finding.is_in_log:
        yield "Kafka's log does not know this group"
    for rebalance in finding.rebalances.missing:
        yield f"missing in the journal: {_named(rebalance)}"
    for fact in finding.rebalances.extra:
        yield f"not in the log: {_fact_text(fact)}"
    for removal in finding.removals.unproven:
        yield f"removed by the journal, not gone from the log: {_member(removal)}"
    for restart in finding.absorbed.wrong:
        yield f"absorbed by the journal, not by the log: {_member(restart)}"


def document(findings: Sequence[Finding], *, kafka_cluster_id: str, from_ms: int, tolerance_ms: int) -> dict[str, Any]:
    """Return the audit for programs; times are Unix milliseconds."""
    groups = [{**asdict(each), "agrees": each.agrees} for each in findings]
    return {
        "kafka_cluster_id": kafka_cluster_id,
        "from_ms": from_ms,
        "tolerance_ms": tolerance_ms,
        "differing": sum(not each.agrees for each in findings),
        "groups": groups,
    }


def _named(rebalance: LogRebalance) -> str:
    when = instant(rebalance.hi_ms)
    if rebalance.lo_ms != rebalance.hi_ms:
        when = f"between {instant(rebalance.lo_ms)} and {when}"
    return f"the rebalance to {rebalance.epoch}, {when}"


def _fact_text(fact: Fact) -> str:
    number = "a rebalance" if fact.epoch is None else f"the rebalance to {fact.epoch}"
    return f"{number} between {instant(fact.lo_ms)} and {instant(fact.hi_ms)} ({fact.event_id})"


def _member(fact: MemberFact) -> str:
    return f"{fact.instance_id}, member {fact.member_id}, {instant(fact.at_ms)}"


def instant(ms: int) -> str:
    """Return a time in UTC with milliseconds, as ISO 8601."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
