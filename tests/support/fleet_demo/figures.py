"""The demo's figures, their check, the table and build/pipeline-demo.json.

The one idea: a pure function checks the figures, so a step that did not happen cannot go unnoticed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from journal.recommendations import Recommendation

OUTPUT = Path(__file__).parents[3] / "build" / "pipeline-demo.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The simulated fleet and the learner's results.

    Parameters
    ----------
    produced, ingested, set_aside, copies: records written to the topic, ingested, in quarantine, and repeated.
    rebalances_if_dynamic: of the same stops, had the members been dynamic.
    start_ms, join_ms: medians of absences: until the container started, and from there until the member was back.
    """

    groups_simulated: int
    days: int
    produced: int
    ingested: int
    set_aside: int
    copies: int
    groups: int
    outages: int
    absorbed: int
    rebalances: int
    rebalances_if_dynamic: int
    start_ms: int
    join_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The real group in Kafka's own log, after its pods were restarted.

    Parameters
    ----------
    groups: number of groups in the log.
    absorbed: restarts of static members without a rebalance; rebalances: of the whole time, with those of the
        beginning.
    members_lost: members that a rebalance found gone.
    silent_partition_ms: standstill that could be measured; measured, not_known: silences.
    """

    groups: int
    members: int
    absorbed: int
    rebalances: int
    members_lost: int
    silent_partition_ms: int
    measured: int
    not_known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendations:
    """All recommendations of the run; `waves` counts groups by canary wave."""

    records: int
    changes: int
    released: int
    waves: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The results for the real group.

    Parameters
    ----------
    recommended_ms, goal_ms: of the record that the learner published for it.
    shown_ms, injected_ms: by the operator in the status of its StaticGroup.
    before_ms, next_pod_ms, rolled_ms: by pod: the session timeout that the coordinator holds for its member at the
        start, after one pod was replaced, and after all were.
    started_with_ms: in the environment of the next pod's process.
    """

    group_id: str
    kafka_cluster_id: str
    pods: tuple[str, ...]
    structural_ms: int
    recommended_ms: int | None
    goal_ms: int | None
    wave: int
    message: str
    shown_ms: int
    in_force_source: str
    injected_ms: int
    shown_after_s: float
    condition: str
    next_pod: str
    before_ms: dict[str, int]
    next_pod_ms: dict[str, int]
    started_with_ms: int
    rolled_ms: dict[str, int]
    rebalances_next_pod: int
    rebalances_roll: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything of one run; `stages_s` in the order of execution, `took_s` including the time between stages."""

    fleet: Fleet
    recommendations: Recommendations
    orders: Orders
    bill: Bill
    stages_s: dict[str, float]
    took_s: float


def counted(records: Iterable[Recommendation]) -> Recommendations:
    """Count recommendations; a change is one to another value than the one in force."""
    found = list(records)
    waves = Counter(int(each.wave) for each in found)
    return Recommendations(
        records=len(found),
        changes=sum(each.recommended_ms not in (None, each.current_ms) for each in found),
        released=sum(each.released for each in found),
        waves=dict(sorted(waves.items())),
    )


def differences(figures: Figures) -> list[str]:
    """Return the differences from the expected story as text."""
    return [
        *_of_fleet(figures.fleet, figures.recommendations),
        *_of_orders(figures.orders),
        *_of_bill(figures.bill, figures.orders),
    ]


def _of_bill(bill: Bill, orders: Orders) -> list[str]:
    restarts = len(orders.pods) + 1
    if bill.absorbed != restarts or bill.members_lost or bill.members != len(orders.pods):
        return [
            f"{restarts} restarts, and by the log {bill.absorbed} absorbed and {bill.members_lost} members lost; "
            f"{bill.members} members of {len(orders.pods)}"
        ]
    return []


def _of_fleet(fleet: Fleet, recommendations: Recommendations) -> list[str]:
    found = []
    if fleet.ingested != fleet.produced or fleet.set_aside or fleet.copies:
        found.append(
            f"{fleet.produced} records were produced, {fleet.ingested} taken in, {fleet.set_aside} set aside, "
            f"{fleet.copies} met twice"
        )
    if not fleet.groups == recommendations.records == fleet.groups_simulated:
        found.append(
            f"of {fleet.groups_simulated} groups {fleet.groups} are in the report and {recommendations.records} have a "
            "recommendation"
        )
    if min(fleet.start_ms, fleet.join_ms) <= 0:
        found.append(f"absences are made of {fleet.start_ms} ms and {fleet.join_ms} ms: a part is missing")
    if not 0 < fleet.rebalances < fleet.rebalances_if_dynamic:
        found.append(
            f"{fleet.rebalances} rebalances, {fleet.rebalances_if_dynamic} with dynamic members: nothing was saved"
        )
    return found


def _of_orders(orders: Orders) -> list[str]:
    found = []
    wanted, pods = orders.recommended_ms, orders.pods
    if wanted is None or wanted == orders.structural_ms:
        return [f"the recommendation is to keep {orders.structural_ms} ms, so nothing could be shown: {orders.message}"]
    if orders.shown_ms != wanted or orders.injected_ms != wanted:
        found.append(
            f"{wanted} ms are recommended; the StaticGroup shows {orders.shown_ms} ms and "
            f"injects {orders.injected_ms} ms"
        )
    if orders.in_force_source != "Fleet":
        found.append(f"the session timeout comes from {orders.in_force_source}, not from the fleet")
    at_first = dict.fromkeys(pods, orders.structural_ms)
    steps = (
        ("at the start", orders.before_ms, at_first),
        (f"after {orders.next_pod} was replaced", orders.next_pod_ms, at_first | {orders.next_pod: wanted}),
        ("after all were replaced", orders.rolled_ms, dict.fromkeys(pods, wanted)),
    )
    found += [f"{when} the broker holds {held}, not {due}" for when, held, due in steps if held != due]
    if orders.started_with_ms != wanted:
        found.append(f"the process of {orders.next_pod} was started with {orders.started_with_ms} ms, not {wanted} ms")
    if orders.rebalances_next_pod or orders.rebalances_roll:
        found.append(
            f"{orders.rebalances_next_pod} rebalances when one pod was replaced, {orders.rebalances_roll} in the "
            "rollout"
        )
    return found


def table(figures: Figures) -> Table:
    """Return the table for the terminal."""
    fleet, made, orders, stages = figures.fleet, figures.recommendations, figures.orders, figures.stages_s
    shown = Table(title="Measured in this run", title_justify="left", show_header=False)
    shown.add_column("")
    shown.add_column("", justify="right")

    def section(title: str, *rows: tuple[str, str]) -> None:
        shown.add_section()
        shown.add_row(title, "", style="bold")
        for name, value in rows:
            shown.add_row(f"  {name}", value)

    absent = f"{_seconds(fleet.start_ms)}, {_seconds(fleet.join_ms)} more"
    section(
        f"Simulated: {fleet.groups_simulated} groups, {fleet.days} days",
        ("records in the topic", f"{fleet.produced:,}"),
        ("taken in", f"{fleet.ingested:,}, {fleet.ingested / stages['ingest']:,.0f} per second"),
        ("outages", f"{fleet.outages:,}, of which absorbed {fleet.absorbed:,}"),
        ("until the container ran, until the member was back", absent),
        ("rebalances seen", f"{fleet.rebalances:,}"),
        ("with dynamic members", f"{fleet.rebalances_if_dynamic:,}"),
        ("recommendations", f"{made.records:,}, of which changes {made.changes:,}, released {made.released:,}"),
    )
    section(
        f"Real: group {orders.group_id}",
        ("session timeout before", _timeouts(orders.before_ms)),
        ("recommended now, and in the end", f"{_seconds(orders.recommended_ms)}, {_seconds(orders.goal_ms)}"),
        ("in status.sessionTimeout.recommendedSeconds", _seconds(orders.shown_ms)),
        (f"after {orders.next_pod} was replaced", _timeouts(orders.next_pod_ms)),
        ("after a rolling restart", _timeouts(orders.rolled_ms)),
        ("rebalances in both", str(orders.rebalances_next_pod + orders.rebalances_roll)),
    )
    bill = figures.bill
    section(
        "Its bill, from __consumer_offsets",
        ("restarts absorbed, rebalances", f"{bill.absorbed}, {bill.rebalances} (when it began)"),
        ("stood still", f"{bill.silent_partition_ms / 1000:.1f} partition-s in {bill.measured} silences"),
        ("not known", f"{bill.not_known} silences"),
    )
    section("Took", *((name, f"{value:.1f} s") for name, value in (stages | {"in all": figures.took_s}).items()))
    return shown


def _seconds(value_ms: int | None) -> str:
    return "-" if value_ms is None else f"{value_ms / 1000:g} s"


def _timeouts(held: dict[str, int]) -> str:
    """Write one number when all are alike."""
    values = set(held.values())
    if len(values) == 1:
        return f"{_seconds(values.pop())} of each member"
    return ", ".join(f"{pod} {_seconds(value)}" for pod, value in sorted(held.items()))


def write(figures: Figures, found: list[str], **run: Any) -> None:
    """Write build/pipeline-demo.json: the figures, what differs, and about the run itself."""
    OUTPUT.parent.mkdir(exist_ok=True)
    content = {**run, "figures": asdict(figures), "differences": found, "is_as_expected": not found}
    OUTPUT.write_text(json.dumps(content, indent=2) + "\n")
