"""The demo's phases: real consumers first, then a month of a fleet around them, then the learner's changes.

The one idea: the real group is one of the fleet. Its pods run before anything is learned, with the session timeout of
their template; its past is simulated with that timeout, its Kafka cluster's id and its own name. A first run of the
learner releases its first canary wave only, so the group's name is chosen such that it is in that wave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fleet_learner.configuration import KafkaJournal
from fleet_learner.progress import Progress
from fleet_learner.schemas import OUTAGES
from fleet_learner.simulated.journal import produce
from fleet_learner.simulated.truth import DAY_MS, FleetSettings, Group, RealGroup, draw_groups
from journal.recommendations import Recommendation
from support.devcluster.kafka_log import now_ms
from support.fleet_demo import learner
from support.fleet_demo.figures import Bill, Figures, Fleet, Orders, Recommendations, counted
from support.fleet_demo.ground import FOLDER, RECOMMENDATIONS, REPORT, Ground
from support.fleet_demo.group import PARTITIONS, REPLICAS, OrdersGroup, first_wave_name

SEED = 2
TOPIC = "staticgroup-journal"
TOPIC_PARTITIONS = 6
ROOT = FOLDER / "fleet"
ROLLOUTS_PER_DAY = 2.0
NEW_IMAGE_SHARE = 0.1
"""An image without seen restarts freezes decreases; most rollouts of this group only restart it."""
RESTART_MEDIAN_MS = 8_000.0


@dataclass(slots=True, kw_only=True)
class Show:
    """One run.

    Parameters
    ----------
    began_s: on the monotonic clock.
    tell: receives each line for people.
    """

    ground: Ground
    groups: int
    days: int
    began_s: float
    tell: Callable[[str], None]
    stages_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage; the same name again adds to it."""
        began_s = time.monotonic()
        yield
        self.stages_s[name] = round(self.stages_s.get(name, 0.0) + time.monotonic() - began_s, 1)


def perform(show: Show) -> Figures:
    """Run everything and return the figures.

    Raises
    ------
    AssertionError, RuntimeError
        When something did not happen in time, or the learner failed; the text says what.
    """
    kafka_cluster_id = show.ground.stage.brokers.state.cluster_id
    others = [(each.kafka_cluster_id, each.group_id) for each in invented(show.groups, show.days)]
    with show.stage("consumers"):
        group = OrdersGroup.started(show.ground.stage, first_wave_name(kafka_cluster_id, others))
        structural_ms, before = group.injected_ms(), group.timeouts_ms()
    show.tell(
        f"{REPLICAS} consumers of group {group.play.name} run with session.timeout.ms={structural_ms}, "
        f"from their pod template; {group.condition().get('reason')}: nothing was recommended yet."
    )
    fleet = _learned(show, group.play.name, structural_ms)
    published_s = time.monotonic()
    records = learner.recommended(RECOMMENDATIONS, now_ms=now_ms())
    made = counted(records.values())
    record = records[kafka_cluster_id, group.play.name]
    _tell_recommendation(show, record, made)
    orders = _applied(show, group, record, structural_ms, before, published_s)
    bill = _billed(show, group)
    return Figures(
        fleet=fleet, recommendations=made, orders=orders, bill=bill, stages_s=dict(show.stages_s),
        took_s=round(time.monotonic() - show.began_s, 1),
    )  # fmt: skip


def invented(groups: int, days: int) -> list[Group]:
    """Return the other groups of the fleet, which do not depend on the time."""
    return draw_groups(FleetSettings(seed=SEED, groups=groups, days=days))[1:]


def settings_of(
    groups: int, days: int, *, kafka_cluster_id: str, group_id: str, structural_ms: int, end_ms: int
) -> FleetSettings:
    """Return a fleet that ends now and contains the real group.

    Parameters
    ----------
    structural_ms: the session timeout with which the real group runs, and did before.
    end_ms: Unix milliseconds.
    """
    real = RealGroup(
        kafka_cluster_id=kafka_cluster_id, namespace=group_id, name=group_id, group_id=group_id, members=REPLICAS,
        partitions=PARTITIONS, session_timeout_ms=structural_ms, timeout_source="Structural",
        rollouts_per_day=ROLLOUTS_PER_DAY, new_image_share=NEW_IMAGE_SHARE, median_ms=RESTART_MEDIAN_MS,
    )  # fmt: skip
    return FleetSettings(seed=SEED, groups=groups, days=days, start_ms=end_ms - days * DAY_MS, real_group=real)


def _learned(show: Show, group_id: str, structural_ms: int) -> Fleet:
    """Write the fleet's journal to the topic, and run the learner."""
    brokers = show.ground.stage.brokers
    settings = settings_of(
        show.groups, show.days, kafka_cluster_id=brokers.state.cluster_id, group_id=group_id,
        structural_ms=structural_ms, end_ms=now_ms(),
    )  # fmt: skip
    show.ground.stage.admin.create_topic(TOPIC, partitions=TOPIC_PARTITIONS)
    with show.stage("produce"):
        produced = produce(KafkaJournal(bootstrap_servers=brokers.bootstrap, topic=TOPIC), settings, Progress())
    show.tell(f"{produced:,} records of {show.groups} groups and {show.days} days are in the topic {TOPIC}.")
    show.stages_s |= learner.run(
        ROOT, bootstrap=brokers.bootstrap, topic=TOPIC, as_of_ms=settings.end_ms, days=show.days + 1,
        log=FOLDER / "learner.log", tell=lambda line: show.tell(f"  {line}"),
    )  # fmt: skip
    show.tell(f"The report is {REPORT}.")
    published, document = learner.ingested(ROOT), learner.reported(ROOT)
    counts, (start_ms, join_ms) = document["counts"], learner.parts_ms(ROOT, published)
    show.tell(
        f"Half of all absences took less than {start_ms / 1000:.1f} s until the container ran, and from there "
        f"{join_ms / 1000:.1f} s until the group had its member back."
    )
    return Fleet(
        groups_simulated=show.groups, days=show.days, produced=produced,
        ingested=published.counts["bronze/events_rows"], set_aside=published.counts["bronze/quarantine_rows"],
        copies=published.counts["duplicates"], groups=document["groups"], outages=published.rows(OUTAGES.name),
        absorbed=counts["absorbed_restarts"], rebalances=counts["rebalances"],
        rebalances_if_dynamic=counts["rebalances_if_dynamic"], start_ms=start_ms, join_ms=join_ms,
    )  # fmt: skip


def _billed(show: Show, group: OrdersGroup) -> Bill:
    """Compute the bill of the real cluster from its own log, which contains the real group's recent restarts."""
    bootstrap = show.ground.stage.brokers.bootstrap
    with show.stage("bill"):
        rows = learner.bill(
            bootstrap=bootstrap, page=FOLDER / "bill.json", log=FOLDER / "bill.log",
            tell=lambda line: show.tell(f"  {line}"),
        )  # fmt: skip
    row = rows[group.play.name]
    return Bill(
        groups=len(rows), members=row["members"], absorbed=row["absorbed"], rebalances=row["rebalances"],
        members_lost=row["static_gone"], silent_partition_ms=row["silent_partition_ms"], measured=row["measured"],
        not_known=row["not_known"],
    )  # fmt: skip


def _tell_recommendation(show: Show, record: Recommendation, made: Recommendations) -> None:
    words = ", ".join(reason.value for reason in record.reasons)
    show.tell(f"For group {record.group_id}: {record.message} ({words}; from {record.evidence.stops} stops).")
    may = "may act on it" if record.released else "has to wait"
    show.tell(f"It is of canary wave {record.wave} and {may}; so far {made.released} of {made.records} groups may act.")


def _applied(
    show: Show, group: OrdersGroup, record: Recommendation, structural_ms: int, before: dict[str, int],
    published_s: float,
) -> Orders:  # fmt: skip
    """Wait for the operator, then replace one pod, then all."""
    with show.stage("operator reads"):
        group.await_fleet()
    shown_after_s = round(time.monotonic() - published_s, 1)
    timeout, condition, injected_ms = group.timeout(), group.condition(), group.injected_ms()
    show.tell(f"The operator read it over HTTP: {condition.get('reason')}: {condition.get('message')}")
    pod = group.pods[-1]
    with show.stage("next pod"):
        show.tell(f"kubectl delete pod {pod}: the next one gets {injected_ms} ms, the others keep theirs.")
        replaced = group.replace(pod)
        next_pod_ms, started_with_ms = group.timeouts_ms(), group.started_with_ms(pod)
    show.tell(f"The broker holds for its members: {next_pod_ms}.")
    with show.stage("rolling restart"):
        rolled = group.roll()
        rolled_ms = group.timeouts_ms()
    show.tell(f"After a rolling restart: {rolled_ms}; {rolled + replaced} rebalances.")
    return Orders(
        group_id=record.group_id, kafka_cluster_id=record.kafka_cluster_id, pods=group.pods,
        structural_ms=structural_ms, recommended_ms=record.recommended_ms, goal_ms=record.goal_ms, wave=record.wave,
        message=record.message, shown_ms=1000 * timeout["recommendedSeconds"],
        in_force_source=timeout["source"], injected_ms=injected_ms,
        shown_after_s=shown_after_s, condition=condition.get("reason", ""), next_pod=pod, before_ms=before,
        next_pod_ms=next_pod_ms, started_with_ms=started_with_ms, rolled_ms=rolled_ms, rebalances_next_pod=replaced,
        rebalances_roll=rolled,
    )  # fmt: skip
