"""What one operator process counts, in Prometheus' form.

Labels name namespaces and StaticGroups, never ids, members or addresses: cardinality stays bounded and nothing
secret can get in.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The metrics of one process on a registry of its own, so that several can live in one test process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        group = ("namespace", "staticgroup")
        self.rounds = Counter("staticgroup_rounds_total", "Rounds by result.", ("result",), registry=self.registry)
        self.round_seconds = Histogram(
            "staticgroup_round_seconds",
            "Duration of one round.",
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.removed = Counter(
            "staticgroup_members_removed_total", "Members removed by LeaveGroup.", group, registry=self.registry
        )
        self.leave_outcomes = Counter(
            "staticgroup_leave_outcomes_total", "Answers to LeaveGroup entries.", ("outcome",), registry=self.registry
        )
        self.certificate_to_leave_seconds = Histogram(
            "staticgroup_certificate_to_leave_seconds",
            "From the last death certificate of a chain to the acknowledged leave.",
            registry=self.registry,
            buckets=(0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60),
        )
        self.members = Gauge("staticgroup_members", "Members by class.", (*group, "class"), registry=self.registry)
        self.held = Gauge(
            "staticgroup_removals_held",
            "Departed members that a guard holds back.",
            (*group, "guard"),
            registry=self.registry,
        )
        self.ready = Gauge("staticgroup_ready", "1 when the Ready condition is True.", group, registry=self.registry)
        self.kafka_problems = Counter(
            "staticgroup_kafka_problems_total",
            "Failed readings or writes of Kafka.",
            ("reason",),
            registry=self.registry,
        )
        self.status_writes = Counter(
            "staticgroup_status_writes_total", "Status applies sent to the API server.", registry=self.registry
        )
        self.status_refused = Counter(
            "staticgroup_status_refused_total",
            "Status applies that the API server refused for good, by why.",
            ("reason",),
            registry=self.registry,
        )
        self.watch_gaps = Counter(
            "staticgroup_watch_gaps_total",
            "Interruptions of the pod watch that may have hidden events.",
            registry=self.registry,
        )
        self.certificate_refusals = Counter(
            "staticgroup_certificate_refusals_total",
            "Pods that vanished without proof of their end, by what stood against it.",
            ("reason",),
            registry=self.registry,
        )
        self.watch_age = Gauge(
            "staticgroup_watch_age_seconds",
            "Time since the pod watch last heard from the API server.",
            registry=self.registry,
        )
        self.journal_records = Counter(
            "staticgroup_journal_records_total", "Journal records handed to a sink.", ("sink",), registry=self.registry
        )
        self.journal_dropped = Counter(
            "staticgroup_journal_dropped_total",
            "Journal records that were lost.",
            ("sink", "reason"),
            registry=self.registry,
        )
        self.recommendation_polls = Counter(
            "staticgroup_recommendation_polls_total",
            "Looks at the fleet learner's recommendations.",
            ("result",),
            registry=self.registry,
        )
        self.leader = Gauge("staticgroup_lease_held", "1 while this replica may write.", registry=self.registry)
        self.queue_length = Gauge(
            "staticgroup_queue_length", "StaticGroups that wait or are being worked on.", registry=self.registry
        )
        self.rounds_late = Gauge(
            "staticgroup_rounds_late",
            "Rounds under way for longer than a second, which left their place to others.",
            registry=self.registry,
        )

    def forget(self, namespace: str, name: str) -> None:
        """Drop the series of a StaticGroup that is gone."""
        for metric in (self.members, self.held):
            for labels in list(metric._metrics):
                if labels[:2] == (namespace, name):
                    metric.remove(*labels)
        for single in (self.ready, self.removed):
            if (namespace, name) in single._metrics:
                single.remove(namespace, name)
