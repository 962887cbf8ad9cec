"""Metrics for alerts on the daily run: a file for node_exporter's textfile collector, or a Pushgateway.

The one idea: a run ends before anybody could scrape it, so it leaves its figures behind. A failed run has few; metrics
that it does not set keep the values of the last good run, so that the time of the last success survives failures.
Labels name stages, fates and kinds, never groups or members: cardinality stays bounded, and no secret can appear.
Source: Prometheus' "Pushing metrics" (POST keeps what it does not name) and node_exporter's textfile collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

JOB: Final = "fleet_learner"
_PUSH_TIMEOUT_S: Final = 10.0
GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "fleet_learner_run_status": ("Exit status of the last run: 0 good, 4 good without a source, else failed.", ()),
    "fleet_learner_run_end_timestamp_seconds": ("When the last run ended.", ()),
    "fleet_learner_run_success_timestamp_seconds": ("When a run last published what it learned (status 0 or 4).", ()),
    "fleet_learner_stage_seconds": ("How long a stage of the last good run took.", ("stage",)),
    "fleet_learner_records": ("Records that the last good run took in, by what became of them.", ("fate",)),
    "fleet_learner_sources_left_out": ("Sources that the last good run could not read.", ()),
    "fleet_learner_groups": (
        "Groups of the window, by what the report says: act, keep, unknown, set_aside.",
        ("advice",),
    ),
    "fleet_learner_coverage_ratio": ("Share of the window's group-time in which an operator watched.", ()),
    "fleet_learner_recommendations_expiry_timestamp_seconds": ("Until when recommendations may be used.", ()),
    "fleet_learner_data_checks": ("Checks of the report's data quality, by their verdict.", ("verdict",)),
}
"""Every metric: its help text and its labels."""


class MetricsError(RuntimeError):
    """The figures could not be written where the configuration says; the run itself is unaffected."""


class RunMetrics:
    """Collect the figures of one run.

    Parameters
    ----------
    clock_s: Unix seconds, for when it ended.
    stopwatch_s: a monotonic clock, for how long stages took.
    """

    def __init__(
        self, clock_s: Callable[[], float] = time.time, stopwatch_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._stopwatch_s = stopwatch_s
        self._values: dict[str, dict[tuple[str, ...], float]] = {}

    def tell(self, name: str, value: float, *labels: str) -> None:
        """Set one figure.

        Raises
        ------
        KeyError
            When there is no such metric.
        """
        _, expected = GAUGES[name]
        assert len(labels) == len(expected), name
        self._values.setdefault(name, {})[labels] = value

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage; a failed stage leaves no figure."""
        began_s = self._stopwatch_s()
        yield
        self.tell("fleet_learner_stage_seconds", self._stopwatch_s() - began_s, name)

    def end(self, status: int, *, is_good: bool) -> None:
        """Record how the run ended; a failed run keeps nothing else, because partial figures would mislead."""
        if not is_good:
            self._values.clear()
        now_s = self._clock_s()
        self.tell("fleet_learner_run_status", status)
        self.tell("fleet_learner_run_end_timestamp_seconds", now_s)
        if is_good:
            self.tell("fleet_learner_run_success_timestamp_seconds", now_s)

    def write(self, path: Path) -> None:
        """Write the text format atomically; metrics that this run did not set stay as the file has them.

        Raises
        ------
        MetricsError
            When the file cannot be written.
        """
        from prometheus_client import write_to_textfile

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            for name, values in _read(path).items():
                self._values.setdefault(name, values)
            write_to_textfile(str(path), self._registry())
        except OSError as error:
            raise MetricsError(f"metrics were not written to {path}: {error.strerror or error}") from None

    def push(self, address: str) -> None:
        """Send to a Pushgateway; metrics that this run did not set stay there as they are.

        Parameters
        ----------
        address: its URL, without a user or a password.

        Raises
        ------
        MetricsError
            When the Pushgateway does not accept them.
        """
        from prometheus_client import pushadd_to_gateway

        try:
            pushadd_to_gateway(address, job=JOB, registry=self._registry(), timeout=_PUSH_TIMEOUT_S)
        except (OSError, ValueError, HTTPException) as error:
            raise MetricsError(f"metrics were not pushed: {type(error).__name__} at {address}") from None

    def _registry(self) -> CollectorRegistry:
        from prometheus_client import CollectorRegistry, Gauge

        registry = CollectorRegistry()
        for name, values in self._values.items():
            text, labels = GAUGES[name]
            gauge = Gauge(name, text, labels, registry=registry)
            for given, value in values.items():
                (gauge.labels(*given) if labels else gauge).set(value)
        return registry


def _read(path: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """Return what an earlier run left; nothing when there is no file, or a file with other metrics."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[tuple[str, ...], float]] = {}
    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}
    for family in families:
        if family.name in GAUGES:
            _, labels = GAUGES[family.name]
            for sample in family.samples:
                given = tuple(sample.labels.get(label, "") for label in labels)
                found.setdefault(family.name, {})[given] = sample.value
    return found
