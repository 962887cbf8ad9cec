"""The price of a rebalance from measured ones, and the page that shows it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.bill.account import Help
from fleet_learner.bill.page import LINES_MAX, dearest_first, document, help_words, lines
from fleet_learner.bill.prices import price
from fleet_learner.bill.schemas import BILL
from fleet_learner.cli import main
from fleet_learner.estimates.price import Price
from fleet_learner.report.gather import bill_row
from fleet_learner.report.views import causes
from journal.recommendations import PriceSource

measured = st.tuples(st.integers(0, 60_000), st.integers(1, 40), st.integers(0, 5_000))


@given(st.lists(measured, min_size=10, max_size=60), st.text(max_size=5))
def test_a_price_is_the_mean_per_partition_and_always_the_same(some: list[tuple[int, int, int]], name: str) -> None:
    found = price(some, name=name)
    assert found == price(some, name=name)
    assert found.source is PriceSource.MEASURED
    assert found.rebalances == len(some)
    mean_s = sum(total for total, _, _ in some) / sum(partitions for _, partitions, _ in some) / 1000
    assert found.seconds == pytest.approx(max(0.001, mean_s))
    assert 0 < found.lower_seconds <= found.upper_seconds


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Groups whose rebalances stop partitions for an exponential time of 4 s on average: 90 % of intervals hold 4 s."""
    draws = random.Random(7)
    held = 0
    for group in range(200):
        some = [(round(draws.expovariate(1 / 4_000)) * 6, 6, 0) for _ in range(40)]
        found = price(some, name=str(group))
        held += found.lower_seconds <= 4 <= found.upper_seconds
    assert 0.82 <= held / 200 <= 0.97


def test_where_work_stopped_between_two_commits_is_part_of_the_interval() -> None:
    assert price([(30_000, 6, 2_000)] * 10, name="g") == Price(
        seconds=5, lower_seconds=4, upper_seconds=6, source=PriceSource.MEASURED, rebalances=10
    )


def row(group_id: str, **values: Any) -> dict[str, Any]:
    blank: dict[str, Any] = {c.name: [] if c.type.startswith("array") else 0 for c in BILL.columns}
    return (
        blank
        | {"kafka_cluster_id": "k", "group_id": group_id, "help": Help.NOTHING.value, "interrupted_share": None}
        | values
    )


def test_the_dearest_group_comes_first_and_says_what_would_help() -> None:
    dear = row("dear", silent_partition_ms=90_000, margin_partition_ms=5_000, measured=6, not_known=2, rebalances=4,
               restart_rebalances=4, help=Help.STATIC_MEMBERSHIP.value, interrupted_share=0.5,
               covered_ms=7_200_000)  # fmt: skip
    dark = row("dark", not_known=5, rebalances=9, static_back=3, help=Help.LONGER_TIMEOUT.value)
    found = list(
        lines(dearest_first([row("calm"), dark, dear]), {("k", "dear"): price([(30_000, 6, 2_000)] * 10, name="g")})
    )
    names = [line.split()[0] for line in found[1:4]]
    assert names == ["dear", "dark", "calm"]
    assert "90 partition-s ± 5 s" in found[1]
    assert "5 s (4 s to 6 s)" in found[1]
    assert "4 of 4 rebalances are restarts" in found[1]
    assert "75 %" in found[1]
    assert "not known" in found[2]
    assert "3 times" in found[2]


def test_what_is_not_counted_is_no_zero() -> None:
    """Epochs of share groups (KIP-932) are not read, so 0 rebalances would be wrong."""
    share = row("share", group_type="Share", help=Help.SHARE_GROUP.value)
    (said,) = (line for line in lines([share], {}) if line.startswith("share"))
    assert said.split()[:4] == ["share", "0", "ms", "-"]  # covered, then rebalances
    assert "share groups have no static members, and their rebalances are not counted" in said
    (group,) = document([share], {}, from_ms=0, bad_records=0)["groups"]
    assert {
        group[name] for name in ("rebalances", "restart_rebalances", "restarts", "departures", "joins", "unchanged")
    } == {None}
    (counted,) = document([row("calm", group_type="Classic")], {}, from_ms=0, bad_records=0)["groups"]
    assert (counted["rebalances"], counted["restarts"]) == (0, 0)
    assert causes(bill_row(share, None, "")) == "not counted"
    assert causes(bill_row(row("calm"), None, "")) == "none"


def test_a_group_id_neither_begins_a_line_nor_moves_the_cursor() -> None:
    """Kafka allows any character in it: one that looks like a line of the bill, one that clears the screen."""
    ids = ["a\nbilling   9 partition-h", "x\x1b[2J", "y\u202ez"]
    found = list(lines([row(each) for each in ids], {}))
    assert len(found) == len(list(lines([row("a"), row("b"), row("c")], {})))
    assert [line.split("  ")[0] for line in found[1:4]] == ["a\\nbilling", "x\\x1b[2J", "y\\u202ez"]


def test_an_advice_comes_with_its_condition() -> None:
    """Static members of KIP-1071 need clients and brokers of Kafka 4.4; a scale-down and up looks like a restart."""
    streams = row(
        "s", group_type="Streams", rebalances=7, restart_rebalances=6, help=Help.STATIC_MEMBERSHIP_OF_STREAMS.value
    )
    assert help_words(streams).startswith(
        "static membership, if clients and brokers are of Kafka 4.4 or newer and it has state stores: 6 of 7"
    )
    back = row("c", static_back=2, help=Help.LONGER_TIMEOUT.value)
    assert help_words(back).startswith(
        "a longer session timeout, if they restarted and were not scaled down and up: 2 times"
    )


def test_a_long_bill_is_cut_on_the_terminal_only() -> None:
    rows = [row(f"g{n}") for n in range(LINES_MAX + 3)]
    assert sum(line.startswith("g") for line in lines(rows, {})) == LINES_MAX + 1  # the heading says group
    assert any(line.startswith("and 3 groups") for line in lines(rows, {}))
    assert len(document(rows, {}, from_ms=0, bad_records=0)["groups"]) == LINES_MAX + 3


@pytest.mark.parametrize("option", ["=x", "security.protocol"])
def test_an_option_without_name_or_value_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["bill", "--bootstrap", "localhost:1", "--options", option])
    assert refusal.value.code == 2
    assert "is not KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["bill"], ["audit", "--cluster", "k", "--root", "/nowhere"]])
def test_without_brokers_it_is_wrong_usage_and_says_what_to_give(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == "fleet-learner: name the brokers whose log is to be read: --bootstrap\n"


def test_nobody_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet_learner.bill.log._TIMEOUT_S", 1.0)
    assert main(["bill", "--bootstrap", "127.0.0.1:9", "--options", "log_level=0"]) == 1
    assert capsys.readouterr().err.startswith("fleet-learner: 127.0.0.1:9 does not answer: ")
