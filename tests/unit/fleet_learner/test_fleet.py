"""The simulated fleet: the same bytes, real records, and a story that holds together."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleet_learner.simulated.fleet import draw_operator, group_facts, journal_lines, kafka_outcome, planted_slow_images
from fleet_learner.simulated.raw import member_events
from fleet_learner.simulated.truth import (
    CAUSES,
    DAY_MS,
    Cause,
    FleetSettings,
    GroupKind,
    RealGroup,
    draw_groups,
    draw_stops,
)
from journal import records as journal
from staticgroup.api.absences import EndKind
from support import absences as stories
from support.absence_definition import absences

SMALL = FleetSettings(seed=3, groups=30, days=8, k8s_clusters=2, outages_per_operator=6)


@pytest.fixture(scope="module")
def lines() -> list[tuple[str, str]]:
    return list(journal_lines(SMALL))


@pytest.fixture(scope="module")
def events(lines: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [json.loads(line) for _, line in lines]


def test_the_same_seed_gives_the_same_bytes() -> None:
    """And another seed others."""

    def digest(settings: FleetSettings) -> str:
        return hashlib.sha256("\n".join(line for _, line in journal_lines(settings)).encode()).hexdigest()

    tiny = replace(SMALL, groups=6, days=2)
    assert digest(tiny) == digest(tiny)
    assert digest(replace(tiny, seed=4)) != digest(tiny)


def test_every_line_is_a_record_as_the_operator_writes_it(lines: list[tuple[str, str]]) -> None:
    """Read by the journal's own model and written again: the same text, keyed by its partition key."""
    for key, line in lines[:: max(len(lines) // 3_000, 1)]:
        record = journal.read(line)
        assert journal.write(record) == line
        assert record.partitionkey == key


def test_the_fleet_records_all_kinds_of_facts(events: list[dict[str, Any]]) -> None:
    """Except those that need a living zombie, a blocked operator or a crash release."""
    types = {event["type"] for event in events}
    missing = {journal.type_of(each) for each in journal.DATA_TYPES} - types
    rare = ("member.fenced", "member.released", "removal.held")
    assert missing == {f"io.staticgroup.{noun}.v1" for noun in rare}
    assert {event["data"].get("protocol") for event in events} == {"Classic", "Consumer", None}


def test_an_id_is_recorded_once(events: list[dict[str, Any]]) -> None:
    """No operator records a fact twice here; tests add duplicates themselves."""
    assert max(Counter((event["source"], event["id"]) for event in events).values()) == 1


def test_every_process_counts_its_records_from_zero(events: list[dict[str, Any]]) -> None:
    by_operator = defaultdict(list)
    for event in events:
        by_operator[event["data"]["operator_id"]].append(event["data"])
    assert len(by_operator) > 4
    for records in by_operator.values():
        assert [each["seq"] for each in records] == list(range(len(records)))
        times = [each["observed_at_ms"] for each in records]
        assert times == sorted(times)


def test_nothing_is_seen_in_a_blind_time(events: list[dict[str, Any]]) -> None:
    """Neither beats nor facts, and the time is inside the fleet's."""
    operators = [draw_operator(SMALL, index) for index in range(SMALL.k8s_clusters)]
    blind = {each.k8s_cluster_uid: list(zip(each.blind_from_ms, each.blind_to_ms, strict=True)) for each in operators}
    assert all(blind.values())
    for event in events:
        seen = event["data"]["observed_at_ms"]
        assert SMALL.start_ms <= seen < SMALL.end_ms
        windows = blind[event["source"].split("/")[2]]
        assert not any(begin <= seen < end for begin, end in windows), event


def test_beats_tell_the_blind_times(events: list[dict[str, Any]]) -> None:
    """Every 30 s, except in unwatched times."""
    beats = defaultdict(list)
    for event in events:
        if event["type"] == "io.staticgroup.coverage.beat.v1":
            beats[event["source"].split("/")[2]].append(event["data"]["observed_at_ms"])
    for index in range(SMALL.k8s_clusters):
        operator = draw_operator(SMALL, index)
        times = np.array(beats[operator.k8s_cluster_uid])
        holes = times[:-1][np.diff(times) > 30_000]
        assert len(holes) == len(operator.blind_from_ms)


def test_a_rollout_takes_every_pod_to_its_revision(events: list[dict[str, Any]]) -> None:
    """The stop carries the old pod's controller-revision-hash, the start the new one's; a crash changes neither."""
    downs = {event["id"]: event["data"] for event in events if event["type"] == "io.staticgroup.member.down.v1"}
    before: dict[tuple[str, str], dict[str, Any]] = {}
    changed = Counter()
    for event in sorted(events, key=lambda each: each["data"]["observed_at_ms"]):
        data = event["data"]
        if event["id"] in downs:
            before[data["group_id"], data["instance_id"]] = data
        elif event["type"] == "io.staticgroup.member.up.v1":
            stop = before.pop((data["group_id"], data["instance_id"]), None)
            # Seen late, at the end of a blind time, a start may follow a stop that was never seen.
            if stop is not None and data["observed_at_ms"] - data["source_time_ms"] < 1_500:
                changed[stop["reason"], stop["rollout_id"] != data["rollout_id"]] += 1
    assert changed["Deleted", True] > 100
    assert {reason for reason, is_changed in changed if is_changed} == {"Deleted"}
    assert ("Error", False) in changed


def test_both_clocks_agree_to_a_second(events: list[dict[str, Any]]) -> None:
    """The kubelet writes whole seconds, the watch tells within half a second; later only after a blind time."""
    late = 0
    for event in events:
        data = event["data"]
        if data["source_time_ms"] is None:
            assert (
                event["type"].endswith("beat.v1") or data["time_lo_ms"] <= data["time_hi_ms"] == data["observed_at_ms"]
            )
            continue
        assert data["source_time_ms"] % 1000 == 0
        lag = data["observed_at_ms"] - data["source_time_ms"]
        assert lag >= 0
        late += lag > 1_400
    assert 0 < late < 0.02 * len(events)


def test_a_group_is_the_same_in_any_fleet() -> None:
    few, many = draw_groups(SMALL), draw_groups(replace(SMALL, groups=60))
    assert many[: len(few)] == few
    alone = draw_stops(SMALL, few[7])[0]
    draw_stops(SMALL, few[3])
    again = draw_stops(SMALL, many[7])[0]
    assert all(np.array_equal(getattr(alone, name), getattr(again, name)) for name in alone.__slots__)


def test_a_real_group_has_its_own_names_and_changes_no_other() -> None:
    """It is an eager group under its Kafka cluster's id, and all other groups stay the same."""
    real = RealGroup(
        kafka_cluster_id="5L6g3nShT-eMCtK--X86sw", namespace="shop", name="orders", group_id="orders", members=3,
        partitions=6, session_timeout_ms=140_000, timeout_source="Structural", rollouts_per_day=2.0,
        new_image_share=0.1, median_ms=8_000.0,
    )  # fmt: skip
    settings = replace(SMALL, groups=6, real_group=real)
    groups = draw_groups(settings)
    assert groups[1:] == draw_groups(replace(SMALL, groups=6))[1:]
    assert (groups[0].kind, groups[0].protocol, groups[0].heartbeat_interval_ms) == (GroupKind.EAGER, "Classic", 3_000)
    records = [journal.read(line) for key, line in journal_lines(settings) if key == "5L6g3nShT-eMCtK--X86sw/orders"]
    (timeout,) = [each.data for each in records if isinstance(each.data, journal.TimeoutChanged)]
    assert (timeout.session_timeout_ms_after, timeout.timeout_source) == (140_000, "Structural")
    assert {(each.data.namespace, each.data.static_group) for each in records} == {("shop", "orders")}
    downs = [each.data.instance_id for each in records if isinstance(each.data, journal.MemberDown)]
    assert {name.partition(".")[0] for name in downs} == {"orders-0", "orders-1", "orders-2"}


def test_no_member_stops_while_it_is_away() -> None:
    for group in draw_groups(SMALL):
        stops, rollouts = draw_stops(SMALL, group)
        for member in range(group.members):
            own = stops.take(stops.member == member)
            assert np.all(own.down_ms[1:] >= own.back_ms[:-1] + 15_000)
        assert np.all(rollouts.start_ms[1:] >= rollouts.end_ms[:-1])


def test_absorbed_expelled_and_removed_are_what_the_timeout_says() -> None:
    """Within the session less one heartbeat: absorbed; beyond it: expelled; in between it depends on the heartbeat."""
    for group in draw_groups(SMALL):
        stops, _ = draw_stops(SMALL, group)
        outcome = kafka_outcome(SMALL, group, stops)
        gap = stops.back_ms - stops.down_ms
        stays = stops.cause != CAUSES.index(Cause.SCALE_DOWN)
        surely = stays & (gap <= group.session_timeout_ms - group.heartbeat_interval_ms)
        assert np.all(outcome.is_absorbed[surely])
        assert not np.any(outcome.is_absorbed[gap > group.session_timeout_ms])
        assert np.array_equal(outcome.is_removed, ~stays)
        assert np.all(np.diff(outcome.rebalance_ms) >= group.rebalance_ms)
        assert outcome.rebalance_ms.size <= 2 * np.count_nonzero(~outcome.is_absorbed)


def test_a_container_that_runs_is_not_a_member_yet() -> None:
    """A JVM joins 10 to 60 s after its start, librdkafka after 0.2 to 3 s; both are in a fleet."""
    medians = []
    for group in draw_groups(SMALL):
        stops, _ = draw_stops(SMALL, group)
        joins = stops.back_ms - stops.up_ms
        assert joins.size == 0 or np.median(joins) == pytest.approx(group.join_ms, rel=0.5)
        medians.append(group.join_ms)
    quick, slow = [m for m in medians if m <= 3_000], [m for m in medians if m >= 10_000]
    assert len(quick) + len(slow) == len(medians)
    assert min(len(quick), len(slow)) >= 4


def test_the_journal_tells_the_absences_that_were() -> None:
    """By the definition that its readers use; a return is known to within two reads."""
    fleet = replace(SMALL, outages_per_operator=0)
    facts_by_id: dict[tuple[str, str], list[journal.GroupData]] = {}
    for _, line in journal_lines(fleet):
        data = journal.read(line).data
        if isinstance(data, journal.GroupData) and hasattr(data, "instance_id"):
            facts_by_id.setdefault((data.group_id, data.instance_id), []).append(data)
    compared = 0
    for group in draw_groups(fleet):
        stops, _ = draw_stops(fleet, group)
        outcome = kafka_outcome(fleet, group, stops)
        for member in range(group.members):
            mine = stops.member == member
            facts = facts_by_id.get((group.group_id, f"{group.name}-{member}.{group.scope}"), [])
            found = absences(stories.events(facts), as_of_ms=fleet.end_ms)
            known = [each for each in found if each.end is EndKind.RETURNED]
            gaps = (stops.back_ms - stops.down_ms)[mine & ~outcome.is_removed].tolist()
            absorbed = outcome.is_absorbed[mine & ~outcome.is_removed].tolist()
            for each, gap_ms, was_absorbed in zip(known, gaps, absorbed, strict=False):
                assert 0 <= each.gap_ms - gap_ms <= 6_000 + (5_000 if each.down.source_time_ms is None else 0)
                assert each.absorbed == was_absorbed
                compared += 1
    assert compared > 500


def test_rollouts_are_alike_inside() -> None:
    """The planted correlation of ln gap is there to be found (analysis of variance, 60 groups)."""
    from fleet_learner.estimates.dependence import intraclass_correlation, spread

    parts, planted = [], []
    for group in draw_groups(FleetSettings(groups=60, days=30)):
        stops, _ = draw_stops(FleetSettings(groups=60, days=30), group)
        rolled = stops.take((stops.rollout >= 0) & (stops.down_ms < group.slow_image_ms))
        gaps = np.log((rolled.up_ms - rolled.down_ms) / group.median_ms) / group.deviation
        usual = np.abs(gaps) < 3
        parts.append(spread(gaps[usual], rolled.rollout[usual]))
        planted.append((group.correlation, int(usual.sum())))
    expected = sum(rho * number for rho, number in planted) / sum(number for _, number in planted)
    assert intraclass_correlation(parts) == pytest.approx(expected, abs=0.08)


def test_slow_images_are_planted_and_recorded() -> None:
    """The planted images are the truth for tests of readers."""
    fleet = FleetSettings(groups=200, days=20)
    planted = planted_slow_images(fleet)
    assert 4 <= len(planted) <= 24
    assert all(fleet.start_ms < since < fleet.end_ms and factor == 2.0 for _, _, since, factor in planted)


def test_facts_of_a_consumer_group_count_its_epochs() -> None:
    """One record for each epoch, in order; a classic group has none."""
    groups = draw_groups(SMALL)
    for kind in (GroupKind.CONSUMER, GroupKind.EAGER):
        group = next(each for each in groups if each.kind is kind)
        facts = sorted(group_facts(replace(SMALL, outages_per_operator=0), group, draw_operator(SMALL, 0)))
        epochs = [fact[5]["group_epoch"] for fact in facts if fact[2] == "group.rebalanced"]
        assert epochs
        assert all(epoch is None for epoch in epochs) if kind is GroupKind.EAGER else epochs == sorted(epochs)


class TestRaw:
    def test_the_same_chunks_make_the_same_tables(self) -> None:
        first, again = (list(member_events(30_000, chunk_rows=10_000)) for _ in range(2))
        assert [table.num_rows for table in first] == [10_000] * 3
        assert all(a.equals(b) for a, b in zip(first, again, strict=True))
        assert not first[0].equals(next(member_events(10_000, seed=2, chunk_rows=10_000)))

    def test_names_and_keys_are_one_to_one_and_outages_whole(self) -> None:
        tables = list(member_events(40_000, chunk_rows=20_000))
        rows = [row for table in tables for row in table.to_pylist()]
        for name, key in (("instance_id", "member_key"), ("group_id", "group_key")):
            pairs = {(row[name], row[key]) for row in rows}
            assert len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})
        once = {row["event_id"]: row for row in rows}
        assert 0.005 < 1 - len(once) / len(rows) < 0.02
        downs = {name.removesuffix("/member.down"): row for name, row in once.items() if name.endswith("down")}
        ups = {name.removesuffix("/member.up"): row for name, row in once.items() if name.endswith("up")}
        assert downs.keys() == ups.keys()
        assert all(ups[name]["event_ms"] >= row["event_ms"] + 500 for name, row in downs.items())
        assert max(row["event_ms"] for row in rows) < SMALL.start_ms + 31 * DAY_MS
