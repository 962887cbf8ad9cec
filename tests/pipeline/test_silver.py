"""Raw records become facts: quarantine and its reasons, copies, and the times that count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet_learner import schemas
from fleet_learner.days.facts import DAY_MS
from fleet_learner.intake import quality, sessions, silver
from fleet_learner.recommendations.features import group_state
from journal import records as journal
from journal.recommendations import Recommendation
from pipeline import timelines
from pipeline.timelines import T0_MS

INT64_MAX = 2**63 - 1
DOWN = timelines.change("down", "g", 0, 0, T0_MS)


def with_envelope(line: str, **changes: Any) -> str:
    """Return a record with another envelope; a value of `...` removes the field."""
    record = json.loads(line) | changes
    return json.dumps({name: value for name, value in record.items() if value is not ...})


def with_data(line: str, **changes: Any) -> str:
    """Return a record with other data; a value of `...` removes the field."""
    data = json.loads(line)["data"] | changes
    return with_envelope(line, data={name: value for name, value in data.items() if value is not ...})


def facts_of(spark: Any, lines: list[Any], **more: int) -> Any:
    return silver.facts(silver.parsed(timelines.events_frame(spark, lines, **more)))


GOOD = [
    DOWN,
    timelines.change("up", "g", 0, 1, T0_MS + 5_000),
    timelines.removed("g", 1, T0_MS),
    timelines.rebalanced("g", 3, T0_MS),
    timelines.beat(T0_MS),
    with_data(DOWN, colour="blue", nested={"a": [1]}),
    with_envelope(DOWN, traceparent="00-1"),
    with_data(DOWN, kafka_cluster_id="", node_name="", image_digest="", time_lo_ms=None),
    with_data(timelines.beat(T0_MS), unreachable_groups=["shop/g"], unreachable_total=7),
]
BAD = {
    "Empty": [None, b""],
    "NotUtf8": [b'{"specversion":"1.0\xff"}'],
    "NotJson": ["{", "nothing", '{"specversion":"1.0",}'],
    "NotAnEvent": ["[1]", "5", "{}", '"x"', with_envelope(DOWN, specversion="0.3"), with_envelope(DOWN, type=...)],
    "UnknownType": [
        with_envelope(DOWN, type="io.staticgroup.member.down.v2"),
        with_envelope(DOWN, type="com.example.thing"),
    ],
    "Invalid": [
        with_data(DOWN, instance_id=...),
        with_data(DOWN, instance_id=None),
        with_data(DOWN, group_id=""),
        with_data(DOWN, seq="many"),
        with_data(DOWN, seq=-1),
        with_data(DOWN, observed_at_ms=10**15),
        with_data(DOWN, group_id="g" * 1001),
        with_data(DOWN, node_name="n" * 1001),
        with_data(timelines.rebalanced("g", 3, T0_MS), members=-1),
        with_data(timelines.beat(T0_MS), unreachable_total=-1),
        with_data(DOWN, restart_count=1.5),
        with_data(DOWN, session_timeout_ms="45 s"),
        with_envelope(DOWN, id=...),
        with_envelope(DOWN, id=""),
        with_envelope(DOWN, time="2026-11-21 10:00"),
        with_envelope(DOWN, dataschema="urn:staticgroup:journal:member.up:1"),
        with_envelope(DOWN, data=None),
        with_data(timelines.removed("g", 1, T0_MS), outcome=...),
        with_data(timelines.beat(T0_MS), static_groups=None),
    ],
}


def reasons(spark: Any, lines: list[Any]) -> list[str | None]:
    """Return the verdict on every line, in order."""
    rows = silver.parsed(timelines.events_frame(spark, lines)).select("offset", "reason").collect()
    return [row["reason"] for row in sorted(rows, key=lambda row: row["offset"])]


def test_every_record_that_the_product_reads_is_read_here(spark: Any) -> None:
    """Silver accepts exactly the records that `journal.read` accepts, for any change of a known or unknown field."""
    for line in GOOD:
        journal.read(line)
    assert reasons(spark, list(GOOD)) == [None] * len(GOOD)


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_record_is_refused_with_the_reason_that_the_product_gives(spark: Any, reason: str) -> None:
    lines = BAD[reason]
    assert reasons(spark, list(lines)) == [reason] * len(lines)
    for line in lines:
        if line:
            with pytest.raises((journal.JournalError, UnicodeDecodeError)) as refusal:
                journal.read(line.decode() if isinstance(line, bytes) else line)
            if isinstance(refusal.value, journal.JournalError):
                assert refusal.value.defect.value == reason


def test_what_is_required_is_what_the_product_requires() -> None:
    """The two lists of required fields are equal."""
    for data_type in journal.DATA_TYPES:
        fields = {name for name, field in data_type.model_fields.items() if field.is_required()}
        base = {"operator_id", "seq", "observed_at_ms"}
        about_a_group = issubclass(data_type, journal.GroupData)
        group = set(silver._GROUP_FIELDS) if about_a_group else set()
        assert fields == base | group | set(silver.REQUIRED[data_type.noun]), data_type.noun
    assert set(silver.REQUIRED) == {data_type.noun for data_type in journal.DATA_TYPES}


def test_every_field_of_the_journal_has_a_column() -> None:
    known = {name for data_type in journal.DATA_TYPES for name in data_type.model_fields}
    columns = {n for t in (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS) for n in t.names}
    # One goes into the list of certificates, one into who tells.
    assert known - columns == {"certificate", "watch_scope"}


def test_two_operators_of_one_cluster_that_serve_different_namespaces_are_two_tellers(spark: Any) -> None:
    """Neither beat covers the other's namespaces; a group that never reached its brokers is still a group."""
    scoped = with_data(DOWN, watch_scope="pay,shop", kafka_cluster_id="")
    lines = [DOWN, scoped, timelines.beat(T0_MS), timelines.beat(T0_MS + 1, operator_id="op-2", watch_scope="pay,shop")]
    facts = facts_of(spark, lines)
    assert {b["operator_id"]: b["k8s_cluster_uid"] for b in silver.beats(facts).collect()} == {
        "op-1": timelines.CLUSTER, "op-2": f"{timelines.CLUSTER}/pay,shop",
    }  # fmt: skip
    assert {(r["k8s_cluster_uid"], r["kafka_cluster_id"]) for r in silver.member_events(facts).collect()} == {
        (timelines.CLUSTER, "kafka-1"), (f"{timelines.CLUSTER}/pay,shop", f"?{timelines.CLUSTER}/shop/g"),
    }  # fmt: skip


def test_the_fields_arrive_unchanged(spark: Any) -> None:
    facts = facts_of(spark, GOOD)
    member = {r["event_id"]: r.asDict() for r in silver.member_events(facts).collect()}
    down = member["g-0/0/down"]
    said = json.loads(DOWN)
    assert down["source"] == said["source"]
    assert down["k8s_cluster_uid"] == timelines.CLUSTER
    for name in ("pod_uid", "instance_id", "restart_count", "session_timeout_ms", "observed_at_ms", "seq", "protocol"):
        assert down[name] == said["data"][name], name
    assert member["g-1-0/removed"]["certificates"] == ["uid E1"]
    (group,) = silver.group_events(facts).collect()
    assert (group["kind"], group["group_epoch"], group["partitions_total"]) == ("group.rebalanced", 3, 12)
    beats = {(b["interval_ms"], b["unreachable_total"]) for b in silver.beats(facts).collect()}
    assert beats == {(30_000, 0), (30_000, 7)}


def test_the_time_that_counts_is_the_sources_or_the_bound_of_the_longer_absence(spark: Any) -> None:
    lines = [
        timelines.change("down", "g", 0, 0, T0_MS, bounds=(1, 2)),
        timelines.change("down", "g", 1, 0, T0_MS, source=False, bounds=(T0_MS - 7, T0_MS + 9)),
        timelines.change("up", "g", 1, 1, T0_MS, source=False, bounds=(T0_MS - 7, T0_MS + 9)),
        timelines.change("up", "g", 2, 1, T0_MS, source=False),
    ]
    rows = silver.member_events(facts_of(spark, lines)).collect()
    assert {r["event_id"]: r["event_ms"] - T0_MS for r in rows} == {
        "g-0/0/down": 0, "g-1/0/down": -7, "g-1/1/up": 9, "g-2/1/up": 100,
    }  # fmt: skip


def test_of_copies_the_first_observed_counts_whatever_the_order_and_number(spark: Any) -> None:
    early, late = DOWN, with_data(DOWN, observed_at_ms=T0_MS + 999, operator_id="op-2", seq=4)
    other_source = with_envelope(DOWN, source="/k8s/k8s-2/ns/shop/staticgroup/g")
    for lines in ([early, late, late, other_source], [other_source, late, early, late]):
        rows = facts_of(spark, lines, partitions=3)
        kept = silver.member_events(silver.originals(rows, silver.copies(rows)))
        kept = kept.select("source", "operator_id", "event_id").collect()
        assert rows.count() == 4
        assert sorted(map(tuple, kept)) == [
            ("/k8s/k8s-1/ns/shop/staticgroup/g", "op-1", "g-0/0/down"),
            ("/k8s/k8s-2/ns/shop/staticgroup/g", "op-1", "g-0/0/down"),
        ]


def test_records_of_two_kafka_clusters_may_lie_at_the_same_offset_of_topics_of_one_name(spark: Any) -> None:
    """A mirrored topic, or one cluster configured twice: the position is no identity of a record."""
    one, other = timelines.change("down", "g", 1, 0, T0_MS), timelines.change("down", "g", 2, 0, T0_MS)
    frames = [timelines.events_frame(spark, lines) for lines in ([DOWN, one], [DOWN, DOWN, other])]
    facts = silver.facts(silver.parsed(frames[0].unionAll(frames[1])))
    copies = silver.copies(facts)
    assert copies.count() == 2
    kept = silver.member_events(silver.originals(facts, copies)).collect()
    assert sorted(row["event_id"] for row in kept) == ["g-0/0/down", "g-1/0/down", "g-2/0/down"]


def test_a_lost_record_is_found_by_its_number(spark: Any) -> None:
    lines = [timelines.change("down", "g", n, 0, T0_MS, seq=n) for n in (0, 1, 4)] + [timelines.beat(T0_MS, seq=2)]
    parsed = facts_of(spark, lines)
    holes = quality.lost_records(silver.member_events(parsed), silver.group_events(parsed), silver.beats(parsed))
    assert [(r["operator_id"], r["last_seq"], r["missing"]) for r in holes.collect()] == [("op-1", 4, 1)]


def test_numbers_are_compared_with_other_records_of_the_window_only(spark: Any) -> None:
    """Earlier observations are not read, even on the first day: a run never reads all of history."""
    lines = [timelines.change("down", "g", n, 0, T0_MS + n * 1000, seq=n) for n in (0, 5, 70, 71, 200)]
    parsed = facts_of(spark, lines)
    tables = (silver.member_events(parsed), silver.group_events(parsed), silver.beats(parsed))
    observed = {row["seq"]: row["observed_at_ms"] for row in tables[0].collect()}
    for first, missing in ((0, 196), (70, 128), (200, 0)):
        found = quality.lost_records(*tables, since_ms=observed[first]).collect()
        assert [(r["first_seq"], r["last_seq"], r["missing"]) for r in found] == [(first, 200, missing)]


def test_the_largest_numbers_that_the_journal_allows_stop_nothing(spark: Any) -> None:
    """With ANSI errors a sum that overflows ends a run, so an impossible size becomes null."""
    largest = {"members": INT64_MAX, "partitions_total": INT64_MAX, "partitions_moved": INT64_MAX}
    lines = [
        with_data(timelines.rebalanced("g", 1, T0_MS), seq=0, **largest),
        with_data(timelines.rebalanced("g", 2, T0_MS), seq=INT64_MAX, **largest),
        with_data(timelines.beat(T0_MS), interval_ms=INT64_MAX, operator_id="op-2"),
    ]
    for line in lines:
        journal.read(line)
    facts = facts_of(spark, lines)
    members, groups, beats = silver.member_events(facts), silver.group_events(facts), silver.beats(facts)
    assert {row["members"] for row in groups.collect()} == {None}
    outages = sessions.outages(members, sessions.blind_windows(beats, T0_MS), T0_MS)
    assert group_state(groups, members, outages).count() == 0
    assert [row.asDict() for row in sessions.blind_windows(beats, T0_MS + DAY_MS).collect()] == []
    missing = {row["operator_id"]: row["missing"] for row in quality.lost_records(members, groups, beats).collect()}
    assert missing == {"op-1": quality.LOST_MAX, "op-2": 0}


def test_an_identity_fits_into_a_recommendation_and_is_nobody_elses(spark: Any) -> None:
    """Names in Kubernetes may together exceed the maximum length of a Kafka cluster's id."""
    name = "s" * 252
    lines = [with_data(DOWN, kafka_cluster_id="", namespace="n" * 63, static_group=name + end) for end in "ab"]
    lines.append(with_data(DOWN, kafka_cluster_id="k" * 1000))
    facts = facts_of(spark, lines).collect()
    ids = {row["kafka_cluster_id"] for row in facts}
    assert len(ids) == 3
    assert {len(each) for each in ids} == {silver.CLUSTER_ID_MAX}
    limit = Recommendation.model_fields["kafka_cluster_id"].metadata
    assert any(getattr(each, "max_length", None) == silver.CLUSTER_ID_MAX for each in limit)


def test_odd_clocks_are_counted(spark: Any) -> None:
    lines = [
        DOWN,
        with_data(timelines.change("down", "g", 1, 0, T0_MS), observed_at_ms=T0_MS - 61_000),
        with_data(timelines.change("down", "g", 2, 0, T0_MS), observed_at_ms=T0_MS + 61_000),
        timelines.change("down", "g", 3, 0, T0_MS, source=False, bounds=(9, 8)),
    ]
    rows = silver.member_events(facts_of(spark, lines))
    assert quality.member_event_findings(rows) == {"bounds_reversed": 1, "clock_skew": 2, "observed_before_source": 1}


def test_a_record_without_a_fate_stops_the_run() -> None:
    rows = {"bronze/events": 5, "bronze/quarantine": 1, "silver/member_events": 2, "silver/group_events": 0}
    quality.assert_conserved({**rows, "silver/beats": 1}, duplicates=1)
    with pytest.raises(quality.ConservationError, match="bronze 5 ≠"):
        quality.assert_conserved({**rows, "silver/beats": 1}, duplicates=0)
