"""What one operator process counts, in Prometheus' form.

Labels name namespaces and StaticGroups, never ids, members or addresses: cardinality stays bounded and nothing
secret can get in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ... import __version__
from ..work_queue import Key

OF_GROUP: Final = ("namespace", "staticgroup")
_GAUGES_OF_GROUPS: Final = ("members", "held", "suspects", "slot_wait", "ready", "condition")


def new_registry() -> CollectorRegistry:
    """Return an empty registry.

    Its counters and histograms have no `_created` series: those would be one more for each of
    them, and nothing reads them.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


def export_process(registry: CollectorRegistry) -> None:
    """Let a registry tell memory, processor time and open files of this process, as `process_…`, where it can (Linux).

    Only the programs call it: a page of a simulated operator must be the same whenever it is simulated.
    """
    ProcessCollector(registry=registry)


class GroupGauge(Collector):
    """A gauge with the labels `namespace` and `staticgroup`, and perhaps more.

    The client library keeps an object of 800 bytes for each series and scans all of them for those of one StaticGroup:
    with 10,000 StaticGroups 47 ms in every round, and 150 MB. Here the series of a StaticGroup are one small mapping,
    whose text is made when it is read.

    Parameters
    ----------
    labels: those beside the two.
    """

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = (), *, registry: CollectorRegistry) -> None:
        self._name, self._documentation = name, text
        self._labelnames = (*OF_GROUP, *labels)  # called as the client library's own metrics call it
        self._values: dict[Key, dict[tuple[str, ...], float]] = {}
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        registry.register(self)

    def show(self, key: Key, values: Mapping[tuple[str, ...], float]) -> None:
        """Let a StaticGroup have these series, by their further labels, and no others."""
        if values:
            one = self._shared.setdefault  # the same object for equal labels, which are few: kinds and reasons
            self._values[key] = {one(labels, labels): value for labels, value in values.items()}
        else:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Let no StaticGroup have any."""
        self._values.clear()

    def describe(self) -> Iterator[Metric]:
        """Yield the gauge without series, so that two of one name are refused."""
        yield GaugeMetricFamily(self._name, self._documentation, labels=self._labelnames)

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge with all series."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labelnames)
        for key, values in self._values.items():
            for labels, value in values.items():
                family.add_metric((*key, *labels), value)
        yield family


class Metrics:
    """The metrics of one process on a registry of its own, so that several can live in one test process.

    Parameters
    ----------
    lease: `<namespace>/<name>` of its Lease, which distinguishes releases: several may be scraped as one job.
    """

    def __init__(self, *, lease: str = "") -> None:
        self.registry = new_registry()
        self._lease = lease
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        of_groups = partial(GroupGauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        group = OF_GROUP
        # rounds
        self.rounds = counter("staticgroup_rounds_total", "Rounds by result.", ("result",))
        self.round_seconds = histogram(
            "staticgroup_round_seconds",
            "Duration of one round.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        # groups and their members
        self.removed = counter("staticgroup_members_removed_total", "Members removed by LeaveGroup.", group)
        self.leave_outcomes = counter(
            "staticgroup_leave_outcomes_total", "Answers to LeaveGroup entries.", ("outcome",)
        )
        self.certificate_to_leave_seconds = histogram(
            "staticgroup_certificate_to_leave_seconds",
            "From the last certificate of a pod of the seat to the acknowledged leave.",
            buckets=(0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60),
        )
        self.released = counter(
            "staticgroup_members_released_total", "Crashed members that were let go for a while.", group
        )
        self.rebalances = counter(
            "staticgroup_rebalances_total", "Rebalances that were asked for, because nobody read a topic.", ("outcome",)
        )
        self.release_outcomes = counter(
            "staticgroup_release_outcomes_total", "Answers to temporary leaves of crashed members.", ("outcome",)
        )
        self.end_to_release_seconds = histogram(
            "staticgroup_end_to_release_seconds",
            "From the report of the end of a crashed process to its acknowledged release.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30),
        )
        self.slot_wait_seconds = histogram(
            "staticgroup_slot_wait_seconds",
            "How long a Deployment's pod waited for its slot, which passed on to it or is its own.",
            ("outcome",),
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
        )
        self.static_rejoins = counter(
            "staticgroup_static_rejoins_total",
            "Wanted ids that were seen under a new member without a rebalance since the one before.",
            group,
        )
        self.members = of_groups("staticgroup_members", "Members by class.", ("class",))
        self.held = of_groups("staticgroup_removals_held", "Departed members that a guard holds back.", ("guard",))
        self.suspects = of_groups(
            "staticgroup_suspects",
            "Pods whose processes may live unseen, which hold the removal of members that joined beside them.",
        )
        self.slot_wait = of_groups(
            "staticgroup_slot_longest_wait_seconds", "How long a pod of a Deployment has waited for its slot, at most."
        )
        self.ready = of_groups("staticgroup_ready", "1 when the Ready condition is True.")
        self.condition = of_groups(
            "staticgroup_condition", "1 for the status and the reason that each condition has now.",
            ("type", "status", "reason"),
        )  # fmt: skip
        # Kafka and the API server
        self.kafka_problems = counter(
            "staticgroup_kafka_problems_total", "Failed readings or writes of Kafka.", ("reason",)
        )
        self.status_writes = counter("staticgroup_status_writes_total", "Status applies sent to the API server.")
        self.watch_gaps = counter(
            "staticgroup_watch_gaps_total", "Interruptions of the pod watch that may have hidden events."
        )
        self.status_refused = counter(
            "staticgroup_status_refused_total",
            "Status applies that the API server refused for good, by why.",
            ("lease", "reason"),
        )
        self.certificate_refusals = counter(
            "staticgroup_certificate_refusals_total",
            "Pods that vanished without an end that was seen, by what stood against it.",
            ("reason",),
        )
        self.watch_age = gauge(
            "staticgroup_watch_age_seconds", "Time since the pod watch last received anything from the API server.",
            ("lease",),
        ).labels(lease)  # fmt: skip
        # what others read and write
        self.journal_records = counter(
            "staticgroup_journal_records_total", "Journal records handed to a sink.", ("sink",)
        )
        self.journal_dropped = counter(
            "staticgroup_journal_dropped_total", "Journal records that were lost.", ("sink", "reason")
        )
        self.recommendation_polls = counter(
            "staticgroup_recommendation_polls_total", "Polls of the fleet learner's recommendations.", ("result",)
        )
        # this process
        self.build_info = gauge("staticgroup_build_info", "1, for the version of this process.", ("version",))
        self.build_info.labels(__version__).set(1)
        self.leader = gauge("staticgroup_lease_held", "1 while this replica may write.", ("lease",)).labels(lease)
        self.queue_length = gauge("staticgroup_queue_length", "StaticGroups that wait or are being worked on.")
        self.rounds_late = gauge(
            "staticgroup_rounds_late", "Rounds under way for longer than a second, which left their place to others."
        )

    def show(self, key: Key, **series: Mapping[tuple[str, ...], float]) -> None:
        """Let a StaticGroup have these series of the gauges, each by its name here, and no others."""
        for name in _GAUGES_OF_GROUPS:
            gauge: GroupGauge = getattr(self, name)
            gauge.show(key, series.get(name, {}))

    def refused(self, reason: str) -> None:
        """Count a status that the API server refused."""
        self.status_refused.labels(self._lease, reason).inc()

    def forget(self, namespace: str, name: str) -> None:
        """Drop the series of a StaticGroup that is gone."""
        self.show((namespace, name))
        for counter in (self.removed, self.released, self.static_rejoins):
            counter.remove(namespace, name)

    def forget_all(self) -> None:
        """Drop the series of every StaticGroup."""
        for each in (*(getattr(self, n) for n in _GAUGES_OF_GROUPS), self.removed, self.released, self.static_rejoins):
            each.clear()
