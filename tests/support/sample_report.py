"""A made-up report for tests of the page: long, odd and hostile names, missing figures, crowded and empty charts."""

from __future__ import annotations

import math
import random

from fleet_learner.report.curves import CostPoint, HazardPoint, Span, SurvivalPoint, Timeline, WhatIf, Window
from fleet_learner.report.model import (
    Advice,
    Before,
    BillRow,
    ClusterAdvice,
    Counts,
    DayCost,
    GroupKey,
    GroupPage,
    GroupRow,
    ImageDrift,
    Method,
    Money,
    QualityCheck,
    Report,
    Saving,
    Verdict,
)

DAY_MS = 86_400_000
START_MS = 1_793_491_200_000  # 2026-11-01
HOSTILE = "<script>alert('x')</script>&\"quoted\""
_NAMES = ("payments", "orders.enriched", "x" * 120, HOSTILE, "Bestellungen-für-Österreich", "日本語のグループ")
_GRID_MS = tuple(6_000 * 300 ** (i / 24) for i in range(25))


def sample_report(*, groups: int = 500, pages: int = 20, days: int = 30) -> Report:
    """Make a report of so many groups, always the same."""
    rng = random.Random(1)
    window = Window(start_ms=START_MS, end_ms=START_MS + days * DAY_MS)
    rows = tuple(_row(rng, index, groups, days) for index in range(groups))
    return Report(
        created_ms=window.end_ms, run_id="20261201T000000Z-1", window=window,
        counts=Counts(
            restarts=41_234, absorbed_restarts=39_001, removals=310, rebalances=3_210, rebalances_if_dynamic=80_400,
            rebalance_cost_partition_ms=9_400_000_000, ghost_wanted_partition_ms=31_000_000_000,
            ghost_late_partition_ms=1_000_000, ghost_fault_partition_ms=3_000_000_000,
        ),
        groups=groups, kafka_clusters=12, members=6_100, coverage=0.9974, covered_ms=groups * days * DAY_MS,
        lost_partition_ms_per_day=930_000_000,
        days=tuple(
            DayCost(
                day_ms=START_MS + d * DAY_MS, rebalance_partition_ms=rng.randrange(200_000_000, 400_000_000),
                waiting_partition_ms=rng.randrange(700_000_000, 1_200_000_000),
            )
            for d in range(days)
        ),
        clusters=(
            ClusterAdvice(
                kafka_cluster_id="cluster-" + "a" * 22, groups=14,
                advice=Advice(
                    verdict=Verdict.CHANGE,
                    action=f"Raise group.consumer.max.session.timeout.ms to 120000 on cluster {'a' * 22}.",
                    why="14 groups would be best with up to 2 min; the cap in force is 1 min.",
                    who="The team that runs the brokers: it is a static setting, in every broker's file, and needs "
                    "their restart.",
                    command="group.consumer.max.session.timeout.ms=120000",
                ),
            ),
        ),
        rows=rows, pages=tuple(_page(rng, row, window) for row in rows[:pages]),
        drift=(
            ImageDrift(
                key=rows[1].key, image_digest="sha256:" + "0f" * 32, since_ms=START_MS + 20 * DAY_MS,
                median_before_ms=21_000, median_after_ms=64_000,
            ),
        ),
        quality=(
            QualityCheck(name="Conservation", value="0 rows", verdict="good", meaning="Every record is accounted for."),
            QualityCheck(name="Lost records", value="12", verdict="warning", meaning="Holes in an operator's seq."),
            QualityCheck(name="Clock skew", value="61 s", verdict="bad", meaning="Kubelet against operator. " * 5),
        ),
        methods=(Method(name="Survival", text="Kaplan and Meier 1958, log-log band."), Method(name=HOSTILE, text="x")),
        before=Before(
            window=Window(start_ms=START_MS - days * DAY_MS, end_ms=START_MS),
            counts=Counts(
                restarts=38_004, absorbed_restarts=30_120, rebalances=9_870, rebalance_cost_partition_ms=12_000_000_000
            ),
            coverage=0.85, covered_ms=round(0.85 * groups * days * DAY_MS),
        ),
        bill=tuple(_bill(rng, row) for row in rows[:40]),
        money=Money(currency="EUR", price_per_partition_hour=0.4, price_per_delayed_message=0.000_2),
    )  # fmt: skip


def _row(rng: random.Random, index: int, groups: int, days: int) -> GroupRow:
    name = _NAMES[index] if index < len(_NAMES) else f"team-{index % 17}.service-{index}"
    key = GroupKey(
        kafka_cluster_id=f"kafka-{index % 12}", group_id=name, namespace=f"team-{index % 17}", static_group="consumers",
        workload=f"service-{index}",
    )  # fmt: skip
    now_ms = rng.choice((45_000, 10_000) if index < groups // 8 else (None, 45_000, 10_000))
    coverage = rng.random()
    return GroupRow(
        key=key, protocol=rng.choice(("Classic", "Consumer")), members=rng.randrange(1, 60),
        partitions=rng.randrange(1, 400), session_timeout_ms=now_ms, coverage=coverage,
        covered_ms=round(coverage * days * DAY_MS),
        counts=Counts(
            restarts=rng.randrange(900), absorbed_restarts=rng.randrange(300), rebalances=rng.randrange(99),
            rebalance_cost_partition_ms=rng.randrange(10**9), ghost_wanted_partition_ms=rng.randrange(10**9),
        ),
        advice=_advice(rng, key, index, groups, now_ms),
        lost_partition_ms_by_day=tuple(rng.randrange(10**8) for _ in range(days)) if index % 5 else (),
    )  # fmt: skip


def _advice(rng: random.Random, key: GroupKey, index: int, groups: int, now_ms: int | None) -> Advice:
    """Make each kind of advice, in the order of a report: to do, not known, to keep."""
    name, then_ms = key.group_id, rng.choice((60_000, 107_000, 1_080_000))
    if index >= groups // 4:
        return Advice(
            verdict=Verdict.KEEP, action="Leave it.", why="The best one is too close to it to be worth a change."
        )
    if index >= groups // 8:
        return Advice(
            verdict=Verdict.NOT_KNOWN, action=f"Not enough is known of {name}: leave it.", now_ms=now_ms,
            why="1 min 15 s may be better than the 45 s in force, or not. 34 times a week a member that would have "
                "come back loses its place; it would be 4 times.",
            would_tell=(f"What one rebalance costs it: fleet-learner bill --bootstrap \"$BOOTSTRAP\" --group {name}, "
                        "by somebody with the right READ on the topic __consumer_offsets.",
                        "About 120 more restarts, if they are like those that were seen."),
            price_source="assumed",
        )  # fmt: skip
    best = int(6e8 / (index + 1))
    return Advice(
        verdict=Verdict.CHANGE,
        action=f"Set session.timeout.ms of {name} to {then_ms}.",
        why="34 times a week a member that would have come back loses its place; it would be 4 times.",
        setting="session.timeout.ms",
        now_ms=now_ms,
        then_ms=then_ms,
        goal_ms=2 * then_ms if index % 3 == 0 else None,
        goal_low_ms=then_ms,
        goal_high_ms=3 * then_ms,
        saving=Saving(low_partition_ms=best // 2, best_partition_ms=best, high_partition_ms=best * 2),
        later_ms=None if now_ms is None else then_ms - now_ms,
        who="The owner of the StaticGroup; each pod gets it with its next restart.",
        command=f"kubectl -n {key.namespace} patch ksg {key.static_group} --type merge -p "
        '\'{"spec":{"sessionTimeout":{"seconds":60}}}\'',
        price_source="measured",
    )


def _bill(rng: random.Random, row: GroupRow) -> BillRow:
    silent = rng.randrange(10**9)
    return BillRow(
        key=row.key,
        covered_days=rng.uniform(1, 30),
        rebalances={"a member left": rng.randrange(99), "a session expired": rng.randrange(9), "not known": 2},
        low_silent_partition_ms=silent // 2,
        silent_partition_ms=silent,
        high_silent_partition_ms=silent * 2,
        interrupted_members=rng.randrange(60),
        is_measured=rng.random() < 0.9,
        delayed_records=rng.choice((None, 81_400)),
        help="static membership: 41 of 57 rebalances are restarts of dynamic members",
    )


def _page(rng: random.Random, row: GroupRow, window: Window) -> GroupPage:
    median_ms, many = rng.uniform(5_000, 60_000), rng.random() < 0.5

    def survives(t: float) -> float:
        return 0.5 * math.erfc(math.log(t / median_ms) / 0.5 / math.sqrt(2))

    ages = [median_ms * 10 ** (i / 40 - 1) for i in range(100)]
    instants = sorted(rng.randrange(window.start_ms, window.end_ms) for _ in range(900 if many else 0))
    return GroupPage(
        row=row,
        survival=tuple(
            SurvivalPoint(gap_ms=round(t), survival=s, lower=s * 0.9, upper=min(1, s * 1.1 + 0.01))
            for t in ages
            if (s := survives(t)) is not None
        ),
        cost=tuple(
            CostPoint(
                timeout_ms=round(t), eviction_partition_ms=round(4e8 * survives(t)),
                waiting_partition_ms=round(t * 300), evictions_per_day=36 * survives(t),
            )
            for t in _GRID_MS
        ),
        hazard=tuple(HazardPoint(gap_ms=round(t), per_second=0.05 / (1 + t / 30_000)) for t in ages),
        waiting_partitions=4, eviction_partition_ms=384_000,
        timeline=Timeline(
            window=window, rollouts=tuple(Span(start_ms=i, end_ms=i + 900_000, label="r") for i in instants[::10]),
            generations=tuple((at, 100 + n) for n, at in enumerate(instants[::9])), absorbed_ms=tuple(instants),
            evicted_ms=tuple(instants[::50]), removed_ms=tuple(instants[::200]),
            timeout_changes=tuple((at, 45_000) for at in instants[:2]),
        ),
        what_if=tuple(
            WhatIf(
                label=label, timeout_ms=t, evictions_per_day=3.2, rebalances_per_day=7.1,
                lost_partition_ms_per_day=5_777_000,
            )
            for label, t in (
                ("now, 45 s", 45_000),
                ("advised", row.advice.then_ms),
                ("dynamic members", None),
            )
        ),
        samples=1080, censored=12, method="Order statistic at 95 %, capped by the pod's own deadlines.",
    )  # fmt: skip
