"""Functions for templates: figures as text, and rows as cells.

The one idea: templates only place text; every decision about the fleet is a function here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .advice.carrier import bill_command, lasting_bill
from .model import BillRow, Counts, GroupKey, GroupRow, Money, Report, Saving, Verdict
from .units import HOUR_MS, WEEK_DAYS, amount, count, day, duration, minute, partition_span, partition_time, percent

FIRST: Final = 3
"""Blocks on the first screen."""
STEPS_MAX: Final = 24
"""Blocks in all; other groups are in the teams' tables."""
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_BUCKETS: Final = 10
_COVERAGE_FAIR: Final = 0.2


def span(report: Report) -> str:
    """Write the window with its first and its last day."""
    window = report.window
    return f"{day(window.start_ms)} to {day(window.end_ms - 1)} {minute(window.end_ms - 1)[:4]}"


def saving(saved: Saving) -> str:
    """Write a saving with its interval: `28 partition-h (19 to 35 partition-h)`."""
    return (
        f"{partition_time(saved.best_partition_ms)} ({partition_span(saved.low_partition_ms, saved.high_partition_ms)})"
    )


def lost_in_time(partition_ms: int | None) -> str:
    """Write the loss in watched time; None: no time was watched."""
    return "not watched" if partition_ms is None else partition_time(partition_ms)


def money(prices: Money | None, partition_ms: float) -> str:
    """Write the value of partition time; "" without a configured price."""
    if prices is None or prices.price_per_partition_hour is None:
        return ""
    return f"{amount(partition_ms / HOUR_MS * prices.price_per_partition_hour)} {prices.currency}"


def money_saved(prices: Money | None, saved: Saving) -> str:
    """Write the value of a saving, with its interval; "" without a configured price."""
    best = money(prices, saved.best_partition_ms)
    if not best or prices is None:
        return ""
    low, high = (money(prices, each).rsplit(" ", 1)[0] for each in (saved.low_partition_ms, saved.high_partition_ms))
    return f"{best} ({low} to {high})"


def money_delayed(prices: Money | None, records: int | None) -> str:
    """Write the value of delayed records; "" without a count or a configured price."""
    if prices is None or prices.price_per_delayed_message is None or records is None:
        return ""
    return f"{amount(records * prices.price_per_delayed_message)} {prices.currency}"


def timeouts(row: GroupRow) -> str:
    """Write the timeout in force and the advised one, `45 s → 2 min`, or the one to keep."""
    now = duration(row.session_timeout_ms) if row.session_timeout_ms is not None else "unknown"
    then_ms = row.advice.then_ms
    return now if then_ms is None else f"{now} → {duration(then_ms)}"


def detection(row: GroupRow) -> str:
    """Write how a change affects the time until a dead member is noticed."""
    advice = row.advice
    if advice.then_ms is None:
        return ""
    after = f"after {duration(advice.then_ms)} at the latest"
    if advice.later_ms is None:
        return f"A member that dies for good is noticed {after}."
    side = "later" if advice.later_ms > 0 else "sooner"
    return f"A member that dies for good is noticed {duration(abs(advice.later_ms))} {side}: {after}."


def price(row: GroupRow) -> str:
    """Write the source of the price behind a saving."""
    return {
        "measured": "by a price measured from its own offset commits",
        "stated": "by the price stated in the configuration",
    }.get(row.advice.price_source, "")


def chosen_range(row: GroupRow) -> str:
    """Write the range of the best timeout."""
    low_ms, high_ms = row.advice.goal_low_ms, row.advice.goal_high_ms
    if low_ms is None or high_ms is None or low_ms == high_ms:
        return ""
    return f"the best one lies between {duration(low_ms)} and {duration(high_ms)}"


def short_advice(row: GroupRow) -> str:
    """Write the advice for a cell of a table."""
    if row.advice.verdict is Verdict.NOT_KNOWN:
        return "Not enough is known."
    return row.advice.action if row.advice.is_action else row.advice.why


def spark(values: Sequence[int]) -> str:
    """Draw values as at most ten blocks of different heights, each the sum of as many neighbours."""
    every = -(-len(values) // _BUCKETS) or 1
    sums = [sum(values[i : i + every]) for i in range(0, len(values), every)]
    high = max(sums, default=0)
    return "".join(_BLOCKS[min(7, value * 8 // high)] for value in sums) if high > 0 else ""


def lost_words(counts: Counts) -> str:
    """Write the losses by cause, without causes that lost nothing."""
    kinds = (
        (counts.rebalance_cost_partition_ms, "by rebalances"),
        (counts.ghost_wanted_partition_ms, "waiting for members that were to return"),
        (counts.ghost_late_partition_ms, "waiting past the timeout"),
        (counts.ghost_fault_partition_ms, "waiting for members that never would"),
    )
    return ", ".join(f"{partition_time(lost)} {how}" for lost, how in kinds if lost) or "nothing"


def unknown(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """Return the rows with missing evidence, of groups that lost something."""
    return [row for row in rows if row.advice.verdict is Verdict.NOT_KNOWN and row.counts.lost_partition_ms > 0]


def steps(report: Report) -> list[tuple[str, object]]:
    """Return (kind, item) of everything to do, the most expensive first.

    First two groups, then obstacles of many groups: an unknown price ("measure", with the number of groups) and
    brokers' caps ("cluster"); then the other groups ("group").
    """
    acting: list[tuple[str, object]] = [("group", row) for row in report.rows if row.advice.is_action]
    unpriced = sum(row.advice.price_source == "assumed" for row in unknown(report.rows))
    clusters: list[tuple[str, object]] = [("cluster", each) for each in report.clusters]
    return [*acting[:2], *([("measure", unpriced)] if unpriced else []), *clusters, *acting[2:]]


def cards(report: Report) -> list[tuple[str, str, str]]:
    """Return (name, value, note) of the figures about the whole fleet."""
    counts, lost_ms = report.counts, report.lost_partition_ms_per_day
    share = counts.absorbed_share
    absorbed = "no restart was seen" if share is None else f"{percent(share)} absorbed without a rebalance"
    lost_week = None if lost_ms is None else lost_ms * WEEK_DAYS
    return [
        (
            "Groups",
            amount(report.groups),
            f"{amount(report.members)} members, {count(report.kafka_clusters, 'Kafka cluster')}",
        ),
        ("Restarts", amount(counts.restarts), absorbed),
        ("Rebalances", amount(counts.rebalances), _dynamic_note(counts)),
        (
            "Lost per week",
            lost_in_time(lost_week),
            _lost_note(report, lost_week),
        ),
        ("Can be saved per week", *_saved(report)),
        ("Watched", percent(report.coverage), _watched_note(report)),
    ]


def _saved(report: Report) -> tuple[str, str]:
    """Return the saving of all advice together, with its uncertainty."""
    savings = [row.advice.saving for row in report.rows if row.advice.saving is not None]
    if not savings:
        open_ = len(unknown(report.rows))
        return ("not known", f"in {count(open_, 'group')}") if open_ else ("nothing", "no change would surely save")
    best_ms = sum(each.best_partition_ms for each in savings)
    ends = partition_span(sum(s.low_partition_ms for s in savings), sum(s.high_partition_ms for s in savings))
    worth = money(report.money, best_ms)
    return partition_time(best_ms), f"in {count(len(savings), 'group')}, {ends}" + (f"; worth {worth}" if worth else "")


def _dynamic_note(counts: Counts) -> str:
    if counts.rebalances_if_dynamic is None:
        return "not compared with dynamic members"
    return f"with dynamic members: {amount(counts.rebalances_if_dynamic)}"


def _watched_note(report: Report) -> str:
    silent = sum(row.coverage == 0 for row in report.rows)
    return (
        f"of group-time; {count(silent, 'group')} not watched at all" if silent else "of group-time, by a live operator"
    )


def _lost_note(report: Report, lost_week_ms: int | None) -> str:
    counts = report.counts
    waiting = counts.lost_partition_ms - counts.rebalance_cost_partition_ms
    whole = max(counts.lost_partition_ms, 1)
    worth = money(report.money, lost_week_ms or 0)
    parts = f"{percent(counts.rebalance_cost_partition_ms / whole)} rebalances, whose length is {report.stop_source}; "
    return f"{parts}{percent(waiting / whole)} waiting" + (f"; worth {worth}" if worth and lost_week_ms else "")


def trend(report: Report) -> list[tuple[str, str, str, str]]:
    """Return (name, this window, the window before, change per watched time) of the comparable figures."""
    before = report.before
    if before is None:
        return []
    now, then = report.counts, before.counts
    shares = [("none" if s is None else percent(s)) for s in (now.absorbed_share, then.absorbed_share)]
    absorbed = "Restarts absorbed", shares[0], shares[1], _points(now.absorbed_share, then.absorbed_share)
    return [
        ("Rebalances", amount(now.rebalances), amount(then.rebalances),
         _change(report, now.rebalances, then.rebalances)),
        absorbed,
        ("Lost", partition_time(now.lost_partition_ms), partition_time(then.lost_partition_ms),
         _change(report, now.lost_partition_ms, then.lost_partition_ms)),
        ("Watched", percent(report.coverage), percent(before.coverage), _points(report.coverage, before.coverage)),
    ]  # fmt: skip


def _change(report: Report, now: int, then: int) -> str:
    """Compare figures per watched time: a fleet that is watched twice as long is not worse."""
    before = report.before
    if (
        before is None
        or min(report.coverage, before.coverage) < _COVERAGE_FAIR
        or not report.covered_ms
        or not before.covered_ms
    ):
        return "not comparable: hardly watched"
    if not then:
        return "the same" if not now else "none before"
    ratio = (now / report.covered_ms) / (then / before.covered_ms)
    if abs(ratio - 1) < 0.005:
        return "the same"
    return (
        f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"
        if ratio < 10
        else f"{amount(ratio)} times as much"
    )


def _points(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return "not comparable: no restarts"
    points = (now - then) * 100
    return "the same" if abs(points) < 0.05 else f"{points:+.1f} points".replace("-", "−")


def causes(row: BillRow) -> str:
    """Write the rebalances of a bill by cause, the most frequent first."""
    if not row.rebalances:
        return "not counted"
    found = sorted(row.rebalances.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{amount(number)} {cause}" for cause, number in found if number) or "none"


def silent(row: BillRow) -> str:
    """Write how long a bill's partitions stood still, with its interval."""
    if not row.is_measured:
        return "not known"
    ends = partition_span(row.low_silent_partition_ms, row.high_silent_partition_ms)
    return f"{partition_time(row.silent_partition_ms)} ({ends})"


def place(key: GroupKey) -> str:
    """Write the owner and the Kafka cluster of a group."""
    return f"{key.owner}, Kafka cluster {key.kafka_cluster_id}"


FUNCTIONS: Final = {
    each.__name__: each
    for each in (
        amount, bill_command, cards, causes, chosen_range, count, day, detection, duration, lasting_bill, lost_in_time,
        lost_words, minute, money, money_delayed, money_saved, partition_span, partition_time, percent, place, price,
        saving, short_advice, silent, span, spark, timeouts, trend,
    )
}  # fmt: skip
"""The functions that templates may call, by name."""
