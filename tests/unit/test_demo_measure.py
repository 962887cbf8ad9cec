"""What the demo says about standing still, on lines that real consumers printed, and against a plainer way to count.

The recordings are of one run: three pods rolled as dynamic members and with the operator, and pod 2 of each of two
groups scaled away. Times are milliseconds since ten seconds before the rolling restart; the scale-down was at 46.6 s.
"""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from support.demo import measure, report, view
from support.demo.chart import drawn
from support.demo.measure import Course, Line, Standstill, Stillness, Times, course
from support.demo.picture import GroupPicture, Picture, PodPicture, records_per_s, still
from support.demo.report import Figures, Roll, ScaleDown, differences
from support.demo.wording import CONNECT, CONSUMER, DEPLOYMENT, STREAMS, Wording
from support.workload.ranges import Ranges

RECORDED = Path(measure.__file__).parent / "recorded"
PARTITIONS = range(6)
ROLL_AT_MS = 10_000
SCALE_AT_MS = 46_592


def lines_of(name: str) -> list[Line]:
    return [json.loads(text) for text in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


def processes(lines: list[Line]) -> list[list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["process"], []).append(line)
    return list(found.values())


def by_ordinal(lines: list[Line]) -> dict[int, Times]:
    return {n: measure.received([x for x in lines if x["pod"].endswith(f"-{n}")]) for n in range(3)}


def consumed(partition: int, *received: tuple[int, int], at_ms: int = 0) -> Line:
    partitions = {str(partition): {"received": [list(each) for each in received], "offsets": [[0, 9]]}}
    return {"kind": "consumed", "at_ms": at_ms, "partitions": partitions}


def events(*kinds: tuple[str, int]) -> list[Line]:
    return [{"kind": kind, "at_ms": at_ms, "partitions": [0, 1]} for kind, at_ms in kinds]


def test_rolling_dynamic_members_interrupts_those_that_run_on_and_moves_partitions() -> None:
    lines = lines_of("rolling-restart-dynamic")
    pauses = [pause for each in processes(lines) for pause in measure.interruptions(each, ROLL_AT_MS)]
    until_ms = measure.steady_until(measure.received(lines), PARTITIONS, since_ms=ROLL_AT_MS)
    assert until_ms == 47_026
    assert len(pauses) == 12
    assert sum(pauses) == pytest.approx(6.209)
    assert measure.moves(by_ordinal(lines), since_ms=ROLL_AT_MS, until_ms=until_ms) == 15


def test_rolling_with_the_operator_interrupts_and_moves_nothing() -> None:
    """The same code on the other recording, in which three pods restarted just as well."""
    lines = lines_of("rolling-restart-managed")
    assert sum(line["kind"] == "closed" for line in lines) == 3
    assert [pause for each in processes(lines) for pause in measure.interruptions(each, ROLL_AT_MS)] == []
    assert measure.moves(by_ordinal(lines), since_ms=ROLL_AT_MS, until_ms=46_560) == 0


def test_each_partition_waits_once_for_its_own_pod_when_static_members_are_rolled() -> None:
    """One standstill for each partition; the seventh is a hiccup of one second after pod 2 came back."""
    times = measure.received(lines_of("rolling-restart-managed"))
    stops = measure.standstills(times, PARTITIONS, since_ms=ROLL_AT_MS, until_ms=46_560)
    assert [(stop.partition, stop.from_ms, stop.until_ms) for stop in stops] == [
        (0, 25101, 30011),
        (1, 25101, 30011),
        (2, 17666, 24768),
        (3, 17666, 24767),
        (4, 10850, 17159),
        (4, 26200, 27202),
        (5, 10850, 17159),
    ]
    assert measure.stillness(stops) == Stillness(longest_s=7.102, any_s=18.321, sum_s=37.643)


@pytest.mark.parametrize(("name", "takeover_s"), [("by-hand", 48.191), ("managed", 4.508)])
def test_takeover_is_from_the_last_record_of_the_departed_to_the_first_elsewhere(name: str, takeover_s: float) -> None:
    lines = lines_of(f"scale-down-{name}")
    departed = [line for line in lines if line["pod"].endswith("-2")]
    others = [line for line in lines if not line["pod"].endswith("-2")]
    found = measure.takeovers(departed, others, SCALE_AT_MS - 3000)
    assert list(found) == [4, 5]
    for partition, seconds in found.items():
        key = str(partition)
        last_ms = max(x["partitions"][key]["received"][-1][1] for x in departed if key in x.get("partitions", {}))
        first_ms = min(
            x["partitions"][key]["received"][0][0]
            for x in others
            if x["kind"] == "consumed" and key in x["partitions"] and x["partitions"][key]["received"][0][0] > last_ms
        )
        assert seconds == (first_ms - last_ms) / 1000
    assert max(seconds for seconds in found.values() if seconds is not None) == takeover_s


def test_partition_that_was_not_taken_over_yet_is_marked() -> None:
    lines = lines_of("scale-down-by-hand")
    departed = [line for line in lines if line["pod"].endswith("-2")]
    early = [line for line in lines if not line["pod"].endswith("-2") and line["at_ms"] < 90_000]
    assert measure.takeovers(departed, early, SCALE_AT_MS - 3000) == {4: None, 5: None}


def test_partition_that_the_departed_gave_away_before_is_not_its_own() -> None:
    lines = [consumed(3, (0, 2000), at_ms=2000), consumed(4, (0, 9000), at_ms=9000)]
    assert measure.departed_partitions(lines, 0) == {4: 9000}


def test_takeover_counts_from_the_first_record_elsewhere_after_the_departure() -> None:
    """Partition 4 was another pod's before it was the departed one's, and its taker paused once."""
    departed = [consumed(4, (5000, 9000), at_ms=9000)]
    others = [consumed(4, (100, 4000), at_ms=4000), consumed(4, (12_000, 13_000), (15_000, 16_000), at_ms=16_000)]
    assert measure.takeovers(departed, others, 0) == {4: 3.0}


ranges = st.lists(st.tuples(st.integers(-20, 140), st.integers(0, 30)), max_size=8).map(
    lambda pairs: [(first * 100, (first + length) * 100) for first, length in pairs]
)


@given(ranges)
def test_standstills_are_the_uncovered_stretches_between_receipts(received: Ranges) -> None:
    """Against the plain way: between neighbouring moments of interest, is there a range that spans both?"""
    since_ms, until_ms = 0, 12_000
    inside = [(max(a, since_ms), min(b, until_ms)) for a, b in received if b >= since_ms and a <= until_ms]
    moments = sorted({since_ms, until_ms, *(x for each in inside for x in each)})
    expected = [
        (before, after)
        for before, after in itertools.pairwise(moments)
        if after - before > measure.STILL_MS and not any(a <= before and after <= b for a, b in inside)
    ]
    stops = measure.standstills({7: received}, [7], since_ms=since_ms, until_ms=until_ms)
    assert [(stop.from_ms, stop.until_ms) for stop in stops] == expected


def test_partition_without_any_record_stands_still_for_the_whole_window() -> None:
    assert measure.standstills({}, [2], since_ms=5, until_ms=4005) == [
        Standstill(partition=2, from_ms=5, until_ms=4005)
    ]


def test_time_in_which_two_partitions_stand_still_counts_once_for_any_and_twice_for_the_sum() -> None:
    stops = [Standstill(partition=0, from_ms=0, until_ms=3000), Standstill(partition=1, from_ms=2000, until_ms=4000)]
    assert measure.stillness(stops) == Stillness(longest_s=3.0, any_s=4.0, sum_s=5.0)
    assert measure.stillness([]) == Stillness(longest_s=0.0, any_s=0.0, sum_s=0)


def test_short_pause_between_two_lines_of_a_consumer_is_none() -> None:
    lines = [consumed(0, (0, 900), at_ms=1000), consumed(0, (1400, 2000), (2501, 2600), at_ms=3000)]
    assert measure.received(lines) == {0: [(0, 2000), (2501, 2600)]}


def test_group_is_steady_only_when_every_partition_has_been_for_long_enough() -> None:
    times = {0: [(0, 9000)], 1: [(0, 1000), (5000, 8500)]}
    assert measure.steady_until(times, [0, 1], since_ms=0) == 8500
    assert measure.steady_until(times, [0, 1], since_ms=5600) is None
    assert measure.steady_until(times, [0, 1, 2], since_ms=0) is None


def test_revocation_at_the_end_of_a_process_is_no_interruption() -> None:
    assert measure.interruptions(events(("assigned", 0), ("revoked", 10), ("closed", 11)), 0) == []
    assert measure.interruptions(events(("assigned", 0), ("lost", 10), ("assigned", 260)), 0) == [0.25]
    assert measure.interruptions(events(("revoked", 10), ("assigned", 260)), 300) == []


def test_held_partitions_follow_the_process_own_lines() -> None:
    assert measure.held_partitions(events(("assigned", 0))) == (0, 1)
    assert measure.held_partitions(events(("assigned", 0), ("lost", 1))) == ()


def test_pod_that_comes_back_under_its_name_moves_nothing() -> None:
    times = {0: {3: [(0, 100), (900, 1000)]}, 1: {3: [(200, 300)]}}
    assert measure.moves(times, since_ms=0, until_ms=1000) == 2
    assert measure.moves({0: times[0]}, since_ms=0, until_ms=1000) == 0
    assert measure.moves(times, since_ms=250, until_ms=800) == 0


def test_record_that_was_acknowledged_and_not_consumed_is_counted() -> None:
    assert measure.unconsumed({0: [(0, 9)], 1: [(0, 4)]}, {0: [(0, 6), (8, 9)], 1: [(0, 4)]}) == 1
    assert measure.unconsumed({0: [(0, 9)]}, {}) == 10


def worked(offsets: list[list[int]], *, at_ms: int = 0, delays: dict[str, int] | None = None) -> Line:
    return {"kind": "consumed", "at_ms": at_ms, "partitions": {"0": {"offsets": offsets}}, "delays": delays or {}}


def test_records_worked_on_twice_are_counted_each_time_again() -> None:
    lines = [worked([[0, 9]]), worked([[5, 9], [10, 12]]), worked([[9, 9]]), *events(("assigned", 3))]
    assert measure.read_twice(lines) == 6
    assert measure.read_twice([worked([[0, 9]]), worked([[10, 12]])]) == 0


def test_delay_is_that_of_the_slowest_record_but_one_in_a_hundred() -> None:
    lines = [worked([], at_ms=1000, delays={"0": 98, "7": 1}), worked([], at_ms=2000, delays={"30": 1})]
    assert measure.delay_below_s(lines, since_ms=0, until_ms=3000, share=0.99) == 0.8
    assert measure.delay_below_s(lines, since_ms=0, until_ms=3000, share=1) == 3.1
    assert measure.delay_below_s(lines, since_ms=0, until_ms=1500, share=0.5) == 0.1
    assert measure.delay_below_s(lines, since_ms=2500, until_ms=3000, share=0.5) is None


QUIET = Roll(
    rebalances=0, interruptions=0, interrupted_s=0.0, moves=0,
    stillness=Stillness(longest_s=3.0, any_s=9.0, sum_s=18.0), duration_s=12.0,
)
TAKEN = ScaleDown(
    partitions=(4, 5), takeover_s=2.0, member_left_after_s=0.8, member_ended_by=report.OPERATOR, session_timeout_s=140.0
)
RESTORED = replace(QUIET, restored_records=0, rebuilds=0, twice=0, p99_delay_s=6.1)
REBUILT = replace(
    RESTORED, rebalances=4, rebuilds=14, restored_records=90_000,
    stillness=Stillness(longest_s=9.0, any_s=40.0, sum_s=160.0), p99_delay_s=14.2,
)
GOOD = Figures(
    roll_without=replace(QUIET, rebalances=6, interruptions=12, moves=15),
    roll_with=QUIET,
    scale_down_without=replace(
        TAKEN, takeover_s=47.0, member_left_after_s=45.0, member_ended_by=report.SESSION_EXPIRY, session_timeout_s=45.0
    ),
    scale_down_with=TAKEN,
    unconsumed_records={"dynamic": 0, "by-hand": 0, "managed": 0},
    state_without=REBUILT,
    state_with=RESTORED,
)
EXPIRED = replace(TAKEN, member_ended_by=report.SESSION_EXPIRY)
AS_STILL = replace(REBUILT, stillness=RESTORED.stillness)
LOST = {"stock": 0, "managed": 3}


def rolled(figures: Figures, **changes: int) -> Figures:
    return replace(figures, roll_with=replace(figures.roll_with, **changes))


STREAMS_GOOD = Figures(
    roll_without=replace(QUIET, rebalances=6, interruptions=3, interrupted_s=None, moves=4, restored_records=900),
    roll_with=replace(QUIET, rebalances=1, interrupted_s=None, restored_records=0),
    scale_down_without=replace(GOOD.scale_down_without, restored_records=300),
    scale_down_with=replace(TAKEN, restored_records=310),
    unconsumed_records={"stock": 0, "managed": 0},
)
CONNECT_GOOD = Figures(
    roll_without=replace(QUIET, rebalances=7, interruptions=4, interrupted_s=None, moves=6),
    roll_with=replace(QUIET, rebalances=1, interrupted_s=None),
    scale_down_without=replace(
        TAKEN, takeover_s=62.0, member_left_after_s=-0.4, member_ended_by=report.ITSELF, session_timeout_s=10.0
    ),
    scale_down_with=TAKEN,
    twice={"stock": 0, "managed": 0},
)
DEPLOYMENT_GOOD = replace(
    GOOD, scale_down_without=replace(TAKEN, takeover_s=1.5, member_ended_by=report.ITSELF),
    unconsumed_records={"dynamic": 0, "managed": 0}, state_without=None, state_with=None,
)  # fmt: skip
ROLES = [(GOOD, CONSUMER), (STREAMS_GOOD, STREAMS), (CONNECT_GOOD, CONNECT), (DEPLOYMENT_GOOD, DEPLOYMENT)]


@pytest.mark.parametrize(
    ("figures", "words", "said"),
    [
        (rolled(GOOD, rebalances=1), CONSUMER, "caused 1 rebalances"),
        (rolled(GOOD, interruptions=2), CONSUMER, "interrupted running consumers 2 times"),
        (rolled(GOOD, moves=2), CONSUMER, "moved partitions to other pods 2 times"),
        (replace(GOOD, scale_down_with=replace(TAKEN, takeover_s=10.0)), CONSUMER, "stood still for 10.0 s"),
        (replace(GOOD, scale_down_with=EXPIRED), CONSUMER, "not removed by the"),
        (replace(GOOD, unconsumed_records={"dynamic": 0, "by-hand": 0, "managed": 3}), CONSUMER, "did not receive 3"),
        (replace(GOOD, roll_without=QUIET), CONSUMER, "the measurement cannot be right"),
        (replace(GOOD, state_with=replace(RESTORED, rebalances=2)), CONSUMER, "caused 2 rebalances and 0 rebuilds"),
        (replace(GOOD, state_with=replace(RESTORED, rebuilds=1)), CONSUMER, "caused 0 rebalances and 1 rebuilds"),
        (replace(GOOD, state_without=replace(REBUILT, rebuilds=0)), CONSUMER, "dynamic members rebuilt nothing"),
        (replace(GOOD, state_without=AS_STILL), CONSUMER, "stood still no longer without"),
        (replace(GOOD, scale_down_without=replace(TAKEN, takeover_s=2.0)), CONSUMER, "no slower without the operator"),
        (rolled(DEPLOYMENT_GOOD, rebalances=1), DEPLOYMENT, "caused 1 rebalances"),
        (replace(DEPLOYMENT_GOOD, unconsumed_records=LOST), DEPLOYMENT, "managed did not receive 3 acknowledged"),
        (rolled(STREAMS_GOOD, rebalances=2), STREAMS, "more than 1"),
        (rolled(STREAMS_GOOD, restored_records=5), STREAMS, "restored 5 records"),
        (rolled(STREAMS_GOOD, interruptions=2), STREAMS, "took 2 partitions from running pods"),
        (replace(STREAMS_GOOD, unconsumed_records=LOST), STREAMS, "managed did not process 3 acknowledged records"),
        (rolled(CONNECT_GOOD, interruptions=4), CONNECT, "stopped 4 tasks elsewhere"),
        (replace(CONNECT_GOOD, twice={"stock": 0, "managed": 1}), CONNECT, "managed had 1 tasks running twice"),
        (replace(CONNECT_GOOD, scale_down_without=TAKEN), CONNECT, "no slower without the operator"),
    ],
)
def test_each_broken_promise_is_named_in_the_terms_of_the_role(figures: Figures, words: Wording, said: str) -> None:
    (found,) = differences(figures, words)
    assert said in found


@pytest.mark.parametrize(("figures", "words"), ROLES)
def test_run_that_is_as_promised_differs_in_nothing(figures: Figures, words: Wording) -> None:
    """One rebalance keeps the promise of a role whose leader returns with one."""
    assert differences(figures, words) == []
    assert words.rebalances_max == 0 or "at most 1 rebalance, which moved nothing" in words.promise


def test_rows_show_only_what_a_role_has() -> None:
    names = [[name for name, _, _ in report.rows(figures, words)] for figures, words in ROLES]
    assert [sum(name == "records restored" for name in each) for each in names] == [1, 2, 0, 0]
    assert [sum(name == "running consumers interrupted, sum" for name in each) for each in names] == [1, 0, 0, 1]
    assert [sum(name == "tasks stopped elsewhere" for name in each) for each in names] == [0, 0, 2, 0]
    assert [each[-1] for each in names] == [CONSUMER.lost, STREAMS.lost, CONNECT.lost, DEPLOYMENT.lost]


@pytest.mark.parametrize(("figures", "words"), ROLES)
def test_table_fits_eighty_columns_and_holds_both_values_of_every_row(figures: Figures, words: Wording) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(report.table(figures, words))
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in console.export_text().splitlines()]
    for row in report.rows(figures, words):
        assert [*row] in lines


def test_work_given_up_by_a_process_counts_until_it_is_asked_to_end() -> None:
    lines = events(("assigned", 0), ("revoked", 100), ("assigned", 200), ("lost", 300), ("revoked", 900))
    assert measure.given_up(lines, since_ms=50, until_ms=None) == 6
    assert measure.given_up(lines, since_ms=50, until_ms=900) == 4
    assert measure.given_up(lines, since_ms=150, until_ms=900) == 2


def picture() -> Picture:
    group = GroupPicture(
        name="managed",
        title="with StaticGroup",
        pods=tuple(
            PodPicture(ordinal=n, name=f"managed-{n}", state="Ready", partitions=(2 * n, 2 * n + 1)) for n in range(3)
        ),
        received={n: {2 * n: [(0, 60_000)], 2 * n + 1: [(0, 20_000)]} for n in range(3)},
        still_s={1: 41.0, 3: 41.0, 5: 41.0},
        records_per_s=120.0,
        rebalances=0,
    )
    return Picture(
        at_ms=61_250,
        started_at_ms=0,
        scene="1 of 2: rolling restart",
        words=CONSUMER,
        groups=(replace(group, name="dynamic"), group),
        events=("Reconciled: All is well.", "MemberRemoved: " + "a long story " * 40),
        columns={"expected": "3", "ready": "True"},
        lines=((1000, "first"), (2000, "second"), (3000, "third"), (61_000, "fourth")),
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_live_view_fits_the_terminal_and_shows_every_part(width: int, height: int) -> None:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(view.draw(picture(), width, height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for words in ("dynamic-0", "managed-2", "120 records/s", " 41 s", "MemberRemoved", "expected 3", "1:01 fourth"):
        assert words in text


def test_live_view_shows_the_four_pods_of_a_deployment_by_the_ends_of_their_names() -> None:
    moment, console = picture(), Console(width=80, height=24, record=True, file=io.StringIO())
    pods = [PodPicture(ordinal=n, name=f"managed-7d9f8-abc{n}", state="Ready", partitions=()) for n in range(7, 11)]
    console.print(view.draw(replace(moment, groups=(replace(moment.groups[1], pods=tuple(pods)),) * 2), 80, 24))
    lines = console.export_text().splitlines()
    assert len(lines) <= 24
    assert [sum(f"managed-abc{n}" in line for line in lines) for n in range(7, 11)] == [1, 1, 1, 1]
    assert any("rebalances in this scene" in line for line in lines)
    assert "fourth" in lines[-1]


def test_strip_shows_the_consumer_and_then_an_idle_partition() -> None:
    moment = picture()
    assert view.strip(moment.groups[1], 2, moment, 30).plain == view.SHADES[1] * 30
    drawn = view.strip(moment.groups[1], 3, moment, 30).plain
    assert drawn == view.SHADES[1] * 10 + view.STILL * 20


def test_cell_that_was_mostly_not_consumed_is_drawn_as_such() -> None:
    group = replace(picture().groups[0], received={0: {0: [(0, 400)]}, 1: {0: [(500, 1100)]}})
    assert view.owner(group, 0, 0, 1000) == 1
    assert view.owner(group, 0, 0, 500) == 0
    assert view.owner(group, 0, 700, 1700) is None


def test_plain_line_names_the_partitions_that_stand_still() -> None:
    line = view.plain(picture())
    assert line.startswith("1:01   dynamic: 120 records/s, 0 rebalances, standing still: p1 41 s, p3 41 s, p5 41 s | ")


def test_view_counts_tasks_where_tasks_are_the_work() -> None:
    moment = replace(picture(), words=CONNECT)
    assert "120 ticks/s, 0 rebalances, standing still: t1 41 s, t3 41 s, t5 41 s" in view.plain(moment)
    calm = replace(moment, groups=tuple(replace(group, still_s={}) for group in moment.groups))
    assert view.plain(calm).endswith("all running")


def test_partition_counts_as_still_only_after_reports_had_time_to_arrive() -> None:
    times = {0: [(0, 10_000)], 1: [(0, 7000)]}
    assert still(times, [0, 1, 2], 10_400) == {1: 3.4}


def test_rate_counts_the_records_of_the_last_three_seconds() -> None:
    lines = [consumed(0, (0, 1), at_ms=at_ms) for at_ms in (1000, 2500, 3500)]
    assert records_per_s(lines, 5000) == pytest.approx(20 / 3)


def test_the_picture_has_a_bar_for_each_standstill_and_says_the_figures() -> None:
    stops = [Standstill(partition=3, from_ms=12_000, until_ms=15_500), Standstill(partition=0, from_ms=20_000, until_ms=22_000)]
    found = course(stops, since_ms=10_000, until_ms=40_000)
    assert found == Course(length_s=30.0, stops=((3, 2.0, 5.5), (0, 10.0, 12.0)))
    roll = {"rebalances": 4, "rebuilds": 11, "stillness": {"sum_s": 5.5}, "course": asdict(found)}
    down = {"takeover_s": 47.5, "member_ended_by": "session expiry", "course": asdict(replace(found, stops=()))}
    names = ("state_without", "state_with"), ("scale_down_without", "scale_down_with")
    figures = dict.fromkeys(names[0], roll) | dict.fromkeys(names[1], down)
    root = ElementTree.fromstring(drawn(figures, partitions=6))
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("fill") not in ("#ffffff", "#f3f4f6")]
    assert len(bars) == 2 * len(stops)
    assert float(bars[0].get("width", "")) == pytest.approx(760 * 3.5 / 30, abs=0.1)
    said = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert said.count("4 rebalances, 11 states read again, 6 partition-seconds at a standstill") == 2
    assert said.count("its partitions stood still for 47.5 s; member ended by session expiry") == 2
