"""Facts per group and day against a plain-Python reference over generated histories, and the rules case by case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fleet_learner import schemas
from fleet_learner.audit.accounts import Beat, seen_by, seen_spans
from fleet_learner.days import facts
from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.days.group_days import busy_days, group_day
from fleet_learner.days.rebalances import SLACK_MS, Trigger, rebalances
from fleet_learner.intake import sessions

pytest.importorskip("pyspark")

START_MS = 1_793_491_200_000  # a Sunday, 2026-11-01
Row = dict[str, Any]


def frame(spark: Any, table: schemas.Table, rows: Sequence[Row]) -> Any:
    """Make a table of rows that set only relevant columns."""
    usual: Row = {
        "kafka_cluster_id": "kafka", "group_id": "group", "group_key": 1, "namespace": "ns", "static_group": "sg",
        "workload": "web", "protocol": "Classic", "k8s_cluster_uid": "k8s", "instance_id": "i-0", "member_key": 1,
    }  # fmt: skip
    blank = {"string": "", "bigint": 0, "int": 0, "boolean": False}

    def value(row: Row, column: schemas.Column) -> Any:
        missing = usual.get(column.name, None if column.nullable else blank.get(column.type))
        return row.get(column.name, missing)

    filled = [tuple(value(row, column) for column in table.columns) for row in rows]
    return spark.createDataFrame(filled, table.spark)


def outage(down_ms: int, gap_ms: int, end_kind: str = "returned", **more: Any) -> Row:
    back_ms = down_ms + gap_ms if end_kind == "returned" else None
    return {
        "event_id": f"down-{more.get('member_key', 1)}-{down_ms}", "down_ms": down_ms, "gap_ms": gap_ms,
        "back_ms": back_ms, "back_lo_ms": back_ms, "absorbed": None if back_ms is None else gap_ms <= 45_000,
        "starts": 1,
        "end_kind": end_kind, "session_timeout_ms": 45_000,
    } | more  # fmt: skip


def event(kind: str, event_ms: int, **more: Any) -> Row:
    return {"event_id": f"{kind}-{more.get('group_key', 1)}-{event_ms}", "kind": kind, "event_ms": event_ms} | more


def ghosts_of(spark: Any, outages: list[Row]) -> dict[int, tuple[int, int, int]]:
    made = facts.ghost_times(frame(spark, schemas.OUTAGES, outages)).collect()
    assert len(made) == len(outages)
    return {r.down_ms: (r.ghost_wanted_ms, r.ghost_late_ms, r.ghost_operator_ms) for r in made}


def test_a_place_is_kept_until_the_member_returns_or_its_session_ends(spark: Any) -> None:
    """ClassicGroup, ConsumerGroup: the session timer expels a static member that stays away."""
    kept = ghosts_of(spark, [outage(0, 30_000), outage(100_000, 60_000), outage(300_000, 60_000, "open")])
    assert kept == {0: (30_000, 0, 0), 100_000: (45_000, 0, 0), 300_000: (45_000, 0, 0)}


def test_a_return_that_was_absorbed_after_the_timeout_shows_that_the_place_was_kept_too_long(spark: Any) -> None:
    assert ghosts_of(spark, [outage(0, 60_000, absorbed=True)]) == {0: (45_000, 15_000, 0)}


def test_a_member_that_was_removed_in_the_end_was_waited_for_in_vain(spark: Any) -> None:
    kept = ghosts_of(spark, [outage(0, 5_000, "removed"), outage(100_000, 50_000, "removed")])
    assert kept == {0: (0, 0, 5_000), 100_000: (0, 5_000, 45_000)}


def test_a_blind_outage_has_no_ghost_time_and_an_unknown_timeout_does_not_bound_it(spark: Any) -> None:
    kept = ghosts_of(spark, [outage(0, 5_000, "blind"), outage(100_000, 50_000, session_timeout_ms=None)])
    assert kept == {0: (0, 0, 0), 100_000: (50_000, 0, 0)}


@pytest.mark.parametrize(
    ("row", "durations", "expected"),
    [
        ({"protocol": "Classic", "partitions_total": 48, "partitions_moved": 4}, StopDurations(), 48 * 3_000),
        ({"protocol": "Classic", "partitions_total": 48, "partitions_moved": 4},
         StopDurations(classic_is_cooperative=True), 1_200),
        ({"protocol": "Consumer", "partitions_total": 48, "partitions_moved": 4},
         StopDurations(cooperative_ms=500), 2_000),
        ({"protocol": "Consumer", "partitions_total": 48}, StopDurations(), 48 * 300),
        ({"protocol": "Classic"}, StopDurations(), None),
    ],
)  # fmt: skip
def test_eager_groups_lose_all_partitions_and_the_others_the_moved_ones(
    spark: Any, row: Row, durations: StopDurations, expected: int | None
) -> None:
    """KIP-429 and KIP-848: consumption of partitions that do not move continues."""
    seen = frame(
        spark, schemas.REBALANCES, [{"event_id": "r", "start_lo_ms": 0, "start_hi_ms": 0, "trigger": "x"} | row]
    )
    assert [r.stopped_partition_ms for r in facts.rebalance_costs(seen, durations).collect()] == [expected]


def rebalances_of(spark: Any, groups: list[Row], members: Sequence[Row] = (), outages: Sequence[Row] = ()) -> Any:
    tables = (schemas.GROUP_EVENTS, groups), (schemas.MEMBER_EVENTS, members), (schemas.OUTAGES, outages)
    return rebalances(*(frame(spark, table, rows) for table, rows in tables))


def triggers(spark: Any, *facts: list[Row]) -> list[tuple[str, str | None]]:
    made = rebalances_of(spark, *facts).orderBy("start_hi_ms").collect()
    return [(r.trigger, r.rollout_id) for r in made]


def test_the_last_cause_before_a_rebalance_is_its_trigger(spark: Any) -> None:
    seen = [
        event("group.rebalanced", t, time_lo_ms=t - 5_000, time_hi_ms=t) for t in (50_000, 100_000, 200_000, 300_000)
    ]
    members = [event("member.removed", 98_000, outcome="Removed"), event("member.rejoined", 199_000, absorbed=False)]
    scaled = event("workload.scaled", 299_000, replicas_before=2, replicas_after=3)
    assert triggers(spark, [*seen, scaled], members, [outage(2_000, 90_000)]) == [
        (Trigger.EXPELLED, None), (Trigger.REMOVED, None), (Trigger.JOINED, None), (Trigger.SCALED, None),
    ]  # fmt: skip


def test_a_cause_that_is_too_old_or_comes_later_or_did_nothing_is_none(spark: Any) -> None:
    seen = event("group.rebalanced", 100_000, time_lo_ms=95_000, time_hi_ms=100_000)
    members = [
        event("member.removed", 95_000 - SLACK_MS - 1, outcome="Removed"),
        event("member.removed", 100_001, outcome="Removed"),
        event("member.removed", 99_000, outcome="Resurrected"),
        event("member.rejoined", 99_500, absorbed=True),
    ]
    assert triggers(spark, [seen], members, [outage(54_000, 45_000)]) == [(Trigger.UNKNOWN, None)]


def test_who_came_back_without_a_rebalance_was_not_expelled_whatever_the_timeout_says(spark: Any) -> None:
    seen = event("group.rebalanced", 50_000, time_lo_ms=45_000, time_hi_ms=50_000)
    assert triggers(spark, [seen], [], [outage(2_000, 90_000, absorbed=True)]) == [(Trigger.UNKNOWN, None)]


def test_a_rebalance_belongs_to_the_rollout_it_happened_in(spark: Any) -> None:
    seen = [event("group.rebalanced", t) for t in (50_000, 100_000, 200_000)]
    rollout = [
        event("rollout.started", 60_000, rollout_id="rev-2", replicas=3),
        event("rollout.finished", 150_000, rollout_id="rev-2", replicas=3),
    ]
    assert [rollout for _, rollout in triggers(spark, [*seen, *rollout], [], [])] == [None, "rev-2", None]


def test_a_rebalance_without_bounds_began_when_it_was_seen_and_two_groups_do_not_mix(spark: Any) -> None:
    seen = [event("group.rebalanced", 50_000, group_key=1), event("group.rebalanced", 50_000, group_key=2)]
    removed = event("member.removed", 49_000, outcome="Removed", group_key=2)
    rows = {r.group_key: r for r in rebalances_of(spark, seen, [removed]).collect()}
    assert (rows[1].start_lo_ms, rows[1].start_hi_ms, rows[1].end_ms) == (50_000, 50_000, None)
    assert (rows[1].trigger, rows[2].trigger) == (Trigger.UNKNOWN, Trigger.REMOVED)


def test_a_group_seen_from_two_kubernetes_clusters_rebalances_once(spark: Any) -> None:
    """Copies have the same epoch, or, in classic groups, overlapping bounds from two operators.

    The epochs of a recreated group begin again, and its own operator records them once more.
    """

    def rebalanced(uid: str, lo: int, hi: int, epoch: int | None = None, key: int = 1) -> Row:
        more: Row = {"time_lo_ms": lo, "time_hi_ms": hi, "group_epoch": epoch, "group_key": key, "k8s_cluster_uid": uid}
        return event("group.rebalanced", hi, **more) | {"event_id": f"{uid}/{hi}/{epoch}"}

    of_epochs = (
        ("a", 0, 10, 5), ("a", 10, 20, 6), ("b", 0, 25, 5), ("b", 25, 31, 6), ("a", 30, 40, 7), ("a", 500, 510, 5),
        ("a", 505, 515, 5),
    )  # fmt: skip
    of_classic = (("a", 50, 100), ("b", 60, 110), ("b", 111, 120), ("b", 119, 130), ("a", 131, 140))
    epochs = [rebalanced(*each) for each in of_epochs]
    classic = [rebalanced(*each, key=2) for each in of_classic]
    made = rebalances_of(spark, [*epochs, *classic]).collect()
    assert sorted(r.group_epoch for r in made if r.group_key == 1) == [5, 5, 6, 7]
    assert sorted(r.start_hi_ms for r in made if r.group_key == 2) == [100, 120, 130, 140]


def generated(seed: int, groups: int) -> dict[str, list[Row]]:
    """Generate six days of history for many groups in two Kubernetes clusters."""
    rng = random.Random(seed)
    made: dict[str, list[Row]] = {"outages": [], "members": [], "groups": [], "blind": [], "beats": []}
    for key in range(groups):
        own = {"group_key": key, "group_id": f"group-{key}", "k8s_cluster_uid": f"k8s-{key % 2}",
               "protocol": rng.choice(("Classic", "Consumer"))}  # fmt: skip
        for number in range(rng.randrange(12)):
            at = START_MS + rng.randrange(6 * DAY_MS)
            member = {"member_key": rng.randrange(3), "instance_id": f"i-{rng.randrange(3)}"}
            kind = rng.choice(("returned", "removed", "departed", "open", "blind"))
            if key % 4 == 0:
                own["k8s_cluster_uid"] = f"k8s-{rng.randrange(2)}"
            made["outages"].append(
                outage(at, rng.randrange(1, 200_000), kind, event_id=f"d-{key}-{number}", **own, **member)
            )
            absorbed, is_sized = rng.random() < 0.5, rng.random() < 0.5 and key % 3
            sizes = {"members": rng.randrange(1, 9), "partitions_total": 12} if is_sized else {}
            more = {"absorbed": absorbed, "event_id": f"m-{key}-{number}"} | sizes | own | member
            made["members"].append(event("member.rejoined", at + 300_000, **more))
        for number in range(rng.randrange(8)):
            what = rng.choice(("group.rebalanced", "rollout.started", "removal.held", "workload.scaled"))
            size = rng.randrange(9) if key % 3 else None  # some groups have no known members
            more = {}
            if what == "group.rebalanced":
                more = {"members": size, "partitions_total": 12 if size else size}
            elif what == "rollout.started":
                more = {"replicas": rng.randrange(3)}
            elif what == "workload.scaled":
                more = {"replicas_before": 2, "replicas_after": rng.randrange(3)}
            made["groups"].append(
                event(what, START_MS + rng.randrange(6 * DAY_MS), event_id=f"g-{key}-{number}", **more, **own)
            )
    for uid in ("k8s-0", "k8s-1"):
        at = START_MS + rng.randrange(2 * DAY_MS)
        made["beats"] += [
            {"k8s_cluster_uid": uid, "observed_at_ms": at + late, "event_id": str(late)} for late in (0, 9)
        ]
        for _ in range(6):
            at += rng.randrange(1, DAY_MS // 2)
            end = at + rng.randrange(1, 2 * DAY_MS)
            made["blind"].append({"k8s_cluster_uid": uid, "start_ms": at, "end_ms": end})
            at = end
    return made


def watched_ms(made: dict[str, list[Row]], uid: str, begin: int, end: int) -> int:
    """Return how long an operator of one Kubernetes cluster was watching within a time."""
    first = min(b["observed_at_ms"] for b in made["beats"] if b["k8s_cluster_uid"] == uid)
    watched_from = min(max(begin, first), end)
    blind = [b for b in made["blind"] if b["k8s_cluster_uid"] == uid]
    return end - watched_from - sum(max(0, min(b["end_ms"], end) - max(b["start_ms"], watched_from)) for b in blind)


def reference(made: dict[str, list[Row]], as_of_ms: int) -> dict[tuple[int, int], Row]:
    """Count the same in plain Python, one fact after the other."""
    days: dict[tuple[int, int], Row] = {}
    all_rows = [(o["down_ms"], o) for o in made["outages"]]
    all_rows += [(e["event_ms"], e) for e in [*made["members"], *made["groups"]]]
    for key in {row["group_key"] for at, row in all_rows if at < as_of_ms}:
        own = sorted(
            ((at, row) for at, row in all_rows if row["group_key"] == key and at < as_of_ms), key=lambda p: p[0]
        )
        uids = {row["k8s_cluster_uid"] for _, row in own}
        for day in range(own[0][0] // DAY_MS, (as_of_ms - 1) // DAY_MS + 1):
            begin, end = day * DAY_MS, min((day + 1) * DAY_MS, as_of_ms)
            today = [row for at, row in own if begin <= at < end]
            stops = [row for row in today if "down_ms" in row]
            kinds = [row.get("kind") for row in today]
            covered_ms = max(watched_ms(made, uid, begin, end) for uid in uids)
            counted: Row = {
                kind: sum(s["end_kind"] == kind for s in stops) for kind in ("returned", "removed", "open", "blind")
            }
            counted["open"] += sum(s["end_kind"] == "departed" for s in stops)
            counted |= {
                "downs": len(stops),
                "absorbed": sum(bool(s["absorbed"]) for s in stops),  # a rejoin without a stop is no absence
                "held": kinds.count("removal.held"),
                "rollouts": kinds.count("rollout.started"),
                "rebalances": kinds.count("group.rebalanced"),
                "covered_ms": covered_ms,
            }
            for name, ends in (("operator", {"removed", "departed"}), ("wanted", {"returned", "open"})):
                counted[f"ghost_{name}_ms"] = sum(min(s["gap_ms"], 45_000) for s in stops if s["end_kind"] in ends)
            known = [(at, row["members"]) for at, row in own if row.get("members")]
            pods = [(at, row.get("replicas") or row.get("replicas_after")) for at, row in own]
            # Pods are no members: their number counts only if members were never reported.
            known = known or [(at, number) for at, number in pods if number]
            counted["partitions"] = 12 if any(row.get("partitions_total") for _, row in own) else None
            # Before the first known size, take the last size of the first day with one.
            first_day = [m for at, m in known if at // DAY_MS == known[0][0] // DAY_MS]
            until = [m for at, m in known if at < end]
            seen = {row["instance_id"] for _, row in own if "instance_id" in row and "kind" in row}
            counted["members"] = (until or first_day or [len(seen)])[-1]
            days[(key, begin)] = counted
    return days


def day_table(spark: Any, made: dict[str, list[Row]], as_of_ms: int, dynamic: Any = None) -> Any:
    outages = frame(spark, schemas.OUTAGES, made["outages"])
    members = frame(spark, schemas.MEMBER_EVENTS, made["members"])
    groups = frame(spark, schemas.GROUP_EVENTS, made["groups"])
    costs = facts.rebalance_costs(rebalances(groups, members, outages), StopDurations())
    busy = busy_days(facts.ghost_times(outages), members, groups, costs, start_ms=START_MS, as_of_ms=as_of_ms)
    beats, blind = frame(spark, schemas.BEATS, made["beats"]), frame(spark, schemas.BLIND_WINDOWS, made["blind"])
    return group_day(busy, beats, blind, start_ms=START_MS, as_of_ms=as_of_ms, dynamic=dynamic)


def test_days_agree_with_the_reference_and_do_not_depend_on_order_or_partitions(spark: Any) -> None:
    """Metamorphic: rows in another order and number of partitions are the same history."""
    made, as_of_ms = generated(7, 40), START_MS + 5 * DAY_MS + 12_345_678
    rows = {(r.group_key, r.day_ms): r.asDict() for r in day_table(spark, made, as_of_ms).collect()}
    expected = reference(made, as_of_ms)
    assert rows.keys() == expected.keys()
    for key, counted in expected.items():
        assert (key, {name: rows[key][name] for name in counted}) == (key, counted)
    shuffled = {name: random.Random(1).sample(each, len(each)) for name, each in made.items()}
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        again = {(r.group_key, r.day_ms): r.asDict() for r in day_table(spark, shuffled, as_of_ms).collect()}
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert again == rows


def test_pods_are_not_taken_for_members_and_an_empty_night_is_no_size(spark: Any) -> None:
    """Nine threads in three pods that are scaled to zero at night; and a group without reported members."""
    at, night = START_MS + 3_600_000, START_MS + 20 * 3_600_000
    groups = [
        *(event("rollout.finished", at + 9, rollout_id="r", replicas=3, group_key=key) for key in (1, 2)),
        *(event("workload.scaled", night, replicas_before=3, replicas_after=0, group_key=key) for key in (1, 2)),
        event("group.rebalanced", night + 9, members=0, partitions_total=0),
    ]
    members = [event("member.rejoined", at, absorbed=True, members=9, partitions_total=36)]
    made = {"outages": [], "members": members, "groups": groups, "blind": [], "beats": []}
    rows = day_table(spark, made, START_MS + 2 * DAY_MS).collect()
    assert sorted((r.group_key, (r.day_ms - START_MS) // DAY_MS, r.members, r.partitions) for r in rows) == [
        (1, 0, 9, 36), (1, 1, 9, 36), (2, 0, 3, None), (2, 1, 3, None),
    ]  # fmt: skip


def test_time_in_which_a_group_could_not_be_read_is_not_watched(spark: Any) -> None:
    """As in the audit: between two beats of which one lists it, or has an incomplete list."""
    rng, hour_ms = random.Random(5), 3_600_000
    beats: list[Row] = [
        {"event_id": str(n), "observed_at_ms": START_MS - hour_ms + n * hour_ms, "interval_ms": hour_ms,
         "operator_id": "op", "unreachable_groups": ["ns/mute"] if rng.random() < 0.3 else [],
         "unreachable_total": 3 if n in {20, 21} else 0}
        for n in range(64) if n not in {9, 10, 11}
    ]  # fmt: skip
    as_of_ms = START_MS + 2 * DAY_MS + 14 * hour_ms
    rollouts = [
        event("rollout.started", START_MS + 9, group_key=k, static_group=name) for k, name in ((1, "mute"), (2, "well"))
    ]
    blind = [
        (r.start_ms, r.end_ms) for r in sessions.blind_windows(frame(spark, schemas.BEATS, beats), as_of_ms).collect()
    ]
    windows = [{"k8s_cluster_uid": "k8s", "start_ms": begin, "end_ms": end} for begin, end in blind]
    made = {"outages": [], "members": [], "groups": rollouts, "blind": windows, "beats": beats}
    spans = seen_spans(
        Beat(k8s_cluster_uid="k8s", operator=("op", ""), at_ms=b["observed_at_ms"], interval_ms=hour_ms,
             unreachable=frozenset(b["unreachable_groups"]),
             is_whole=b["unreachable_total"] <= len(b["unreachable_groups"]))
        for b in beats
    )["k8s"]  # fmt: skip
    seen = {key: seen_by(spans, f"ns/{name}") for key, name in ((1, "mute"), (2, "well"))}
    for row in day_table(spark, made, as_of_ms).collect():
        ends = row.day_ms, row.day_ms + DAY_MS
        expected = sum(max(0, min(to, ends[1]) - max(begin, ends[0])) for begin, to in seen[row.group_key])
        assert (row.group_key, row.day_ms, row.covered_ms) == (row.group_key, row.day_ms, expected)
    assert 0 < sum(to - begin for begin, to in seen[1]) < sum(to - begin for begin, to in seen[2]) - 10 * hour_ms


def test_the_columns_are_those_of_the_tables(spark: Any) -> None:
    rows = day_table(spark, generated(3, 3), START_MS + DAY_MS)
    assert [(f.name, f.dataType) for f in rows.schema] == [(f.name, f.dataType) for f in schemas.GROUP_DAY.spark]


def test_the_replayed_rebalances_join_in_and_are_unknown_without_a_replay(spark: Any) -> None:
    made = {"outages": [outage(START_MS, 9)], "members": [], "groups": [], "blind": [], "beats": []}
    assert [r.rebalances_dynamic for r in day_table(spark, made, START_MS + DAY_MS).collect()] == [None]
    dynamic = spark.createDataFrame([(1, START_MS, 2)], "group_key bigint, day_ms bigint, rebalances_dynamic bigint")
    days = day_table(spark, made, START_MS + 2 * DAY_MS, dynamic)
    assert sorted((r.day_ms, r.rebalances_dynamic) for r in days.collect()) == [(START_MS, 2), (START_MS + DAY_MS, 0)]


def exchanges(made: Any) -> int:
    plan: str = made._jdf.queryExecution().executedPlan().toString()
    return plan.count("Exchange hashpartitioning")


def test_each_table_is_shuffled_once(spark: Any) -> None:
    outages = frame(spark, schemas.OUTAGES, [outage(0, 1)])
    members, groups = frame(spark, schemas.MEMBER_EVENTS, []), frame(spark, schemas.GROUP_EVENTS, [])
    assert exchanges(rebalances(groups, members, outages)) == 2  # rebalances alone, and with their causes
    assert exchanges(facts.ghost_times(outages)) == 0
