"""Gauges of StaticGroups, as Prometheus reads them.

The client library keeps an object of 800 bytes for each series, and finds those of one StaticGroup by looking at all: with 10,000
StaticGroups 47 ms in every round, and 150 MB. Here the series of a StaticGroup are one small mapping, and their text is made when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import intern

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .work_queue import Key

OF_GROUP = ("namespace", "staticgroup")


class GroupGauge(Collector):
    """A gauge with the labels `namespace` and `staticgroup`, and perhaps more.

    Parameters
    ----------
    labels: those beside the two.
    """

    def __init__(self, name: str, documentation: str, labels: tuple[str, ...] = (), *, registry: CollectorRegistry) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._values: dict[Key, dict[tuple[str, ...], float]] = {}
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        registry.register(self)

    def show(self, key: Key, values: Mapping[tuple[str, ...], float]) -> None:
        """Let a StaticGroup have these series, by their further labels, and no others."""
        if values:
            self._values[key] = {self._one(labels): value for labels, value in values.items()}
        else:
            self._values.pop(key, None)

    def _one(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the same object for the same labels, of which there are few: kinds and reasons."""
        assert len(labels) == len(self._labels)
        return self._shared.setdefault(labels, tuple(intern(str(label)) for label in labels))

    def clear(self) -> None:
        """Let no StaticGroup have any."""
        self._values.clear()

    def describe(self) -> Iterator[Metric]:
        """Yield the gauge without series, so that two of one name are refused."""
        yield GaugeMetricFamily(self._name, self._documentation, labels=(*OF_GROUP, *self._labels))

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge with all series."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=(*OF_GROUP, *self._labels))
        for key, values in self._values.items():
            for labels, value in values.items():
                family.add_metric((*key, *labels), value)
        yield family
