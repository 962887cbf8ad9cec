"""Print a bill: a line for each group, the most expensive first, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from fleet_learner.estimates.price import Price
from fleet_learner.offsets.codec import GroupType
from fleet_learner.report.units import count, duration, partition_time, percent
from fleet_learner.terminal import printable

from .account import OF_REBALANCES, Help

LINES_MAX: Final = 40
_NAME_WIDTH: Final = 36
_HELP: Final[Mapping[str, str]] = {
    Help.LONGER_TIMEOUT: "a longer session timeout, if they restarted and were not scaled down and up: {static_back} "
    "times a static "
    "member was given up and came back",
    Help.STATIC_MEMBERSHIP: "static membership: {restart_rebalances} of {rebalances} rebalances are restarts of "
    "dynamic members",
    Help.STATIC_MEMBERSHIP_OF_STREAMS: "static membership, if clients and brokers are of Kafka 4.4 or newer and it has "
    "state stores: "
    "{restart_rebalances} of {rebalances} rebalances are restarts of dynamic members",
    Help.SHARE_GROUP: "nothing: share groups have no static members, and their rebalances are not counted",
    Help.NOTHING: "nothing that membership could change",
    Help.NOT_ENOUGH_KNOWN: "not enough is known: read again when the log has grown",
    Help.NO_MEMBERS: "nothing: offsets without members never rebalance",
}
Row = Mapping[str, Any]
Prices = Mapping[tuple[str, str], Price]


def dearest_first(rows: Sequence[Row]) -> list[Row]:
    """Return the bills in order, the most expensive first."""
    return sorted(
        rows, key=lambda r: (-r["silent_partition_ms"], -r["rebalances"], r["kafka_cluster_id"], r["group_id"])
    )


def lines(rows: Sequence[Row], prices: Prices) -> Iterator[str]:
    """Yield the bills as text.

    Parameters
    ----------
    rows: of gold/bill, the most expensive first.
    prices: measured ones.
    """
    heading = f"{'group':<{_NAME_WIDTH}}{'covered':>10}{'rebalances':>11}{'stood still':>26}"
    heading += f"{'known':>7}{'hit':>6}{'a rebalance':>24}"
    yield f"{heading}  what would help"
    for row in rows[:LINES_MAX]:
        price = prices.get((row["kafka_cluster_id"], row["group_id"]))
        yield (
            f"{printable(row['group_id']):<{_NAME_WIDTH - 1}} "
            f"{duration(row['covered_ms']):>10}{_rebalances(row):>11}{_silent(row):>26}"
            f"{_known(row):>7}{_share(row['interrupted_share']):>6}{_priced(price):>24} "
            f" {help_words(row)}"
        )
    if len(rows) > LINES_MAX:
        yield f"and {count(len(rows) - LINES_MAX, 'group')} that cost less: --json has them all"
    total_ms = sum(row["silent_partition_ms"] for row in rows)
    rebalances = count(sum(row["rebalances"] for row in rows), "rebalance")
    yield f"{count(len(rows), 'group')}: {partition_time(total_ms)} without a consumer, {rebalances}"
    yield "stood still: all partitions, each to ± its usual commit interval; known: share of silences that could be"
    yield "measured; hit: interrupted partitions of members that were not the cause; a rebalance: how long it stops"
    yield "a partition, with a 90 % interval, once ten were measured; -: not counted, or none"


def help_words(row: Row) -> str:
    """Return what would help a group of gold/bill, in words."""
    return _HELP[row["help"]].format(**row)


def is_counted(row: Row) -> bool:
    """Return whether rebalances of this group are counted at all; if not, 0 is no figure."""
    return bool(row["group_type"] != GroupType.SHARE.value)


def _rebalances(row: Row) -> str:
    return f"{row['rebalances']:,}" if is_counted(row) else "-"


def _silent(row: Row) -> str:
    if row["measured"] == 0:
        return "not known" if row["not_known"] else "-"
    return f"{partition_time(row['silent_partition_ms'])} ± {duration(row['margin_partition_ms'])}"


def _known(row: Row) -> str:
    all_of_them = row["measured"] + row["not_known"]
    return percent(row["measured"] / all_of_them) if all_of_them else "-"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _priced(price: Price | None) -> str:
    if price is None:
        return "not measured"
    low, best, high = (duration(1000 * s) for s in (price.lower_seconds, price.seconds, price.upper_seconds))
    return f"{best} ({low} to {high})"


def document(rows: Sequence[Row], prices: Prices, *, from_ms: int, bad_records: int) -> dict[str, Any]:
    """Return the bills for programs; times are Unix milliseconds, and uncounted figures are null."""
    return {
        "from_ms": from_ms,
        "bad_records": bad_records,
        "groups": [
            {**row, **_uncounted(row), "price": _document(prices.get((row["kafka_cluster_id"], row["group_id"])))}
            for row in rows
        ],
    }


def _uncounted(row: Row) -> dict[str, None]:
    return {} if is_counted(row) else dict.fromkeys(OF_REBALANCES)


def _document(price: Price | None) -> dict[str, Any] | None:
    return None if price is None else asdict(price)
