"""What the lines of Kafka Streams pods say of their stores, read from files as a kubelet writes them.

The lines are the application's own form; a partition goes from one pod to the other, as it does when a third one is
scaled away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.devcluster.cluster import Cluster
from support.scene.pod_lines import PodLines, collected_lines
from support.streams import deployment

NAMESPACE = "orders"
PARTITION = 7


class Pod:
    """A pod's log file, in the container runtime's form."""

    def __init__(self, logs: Path, name: str) -> None:
        self._file = logs / f"{NAMESPACE}_{name}_uid-of-{name}" / "app" / "0.log"
        self._file.parent.mkdir(parents=True)

    def say(self, at_ms: int, kind: str, **content: Any) -> None:
        text = json.dumps({"kind": kind, "at_ms": at_ms, **content})
        with self._file.open("a") as file:
            file.write(f"2026-11-24T18:45:24.000000000Z stdout F {text}\n")

    def opened(self, at_ms: int, count: int) -> None:
        self.say(at_ms, "opened", partition=PARTITION, count=count, next=count)

    def counted(self, at_ms: int, count: int) -> None:
        self.say(at_ms, "counted", partitions={str(PARTITION): [count, count]})

    def revoked(self, at_ms: int) -> None:
        self.say(at_ms, "revoked", partitions=[PARTITION])


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[PodLines]:
    cluster = SimpleNamespace(nodes=[SimpleNamespace(record=SimpleNamespace(directory=tmp_path))])
    with collected_lines(cast(Cluster, cluster), NAMESPACE) as lines:
        yield lines


@pytest.fixture
def pods(tmp_path: Path) -> tuple[Pod, Pod]:
    return Pod(tmp_path / "pod-logs", "orders-0"), Pod(tmp_path / "pod-logs", "orders-1")


def test_what_a_store_held_when_it_was_opened_last_is_its_count(lines: PodLines, pods: tuple[Pod, Pod]) -> None:
    """Without a record since then nothing else would show that it holds less than it did elsewhere."""
    before, after = pods
    before.opened(1000, 0)
    before.counted(2000, 710)
    assert deployment.counts(lines) == {PARTITION: (710, 710)}
    after.opened(2500, 300)
    assert deployment.counts(lines) == {PARTITION: (300, 300)}
    after.counted(3000, 723)
    assert deployment.counts(lines) == {PARTITION: (723, 723)}
    assert [(each["pod_name"], each["count"]) for each in deployment.store_lines(lines)[PARTITION]] == [
        ("orders-0", 0),
        ("orders-0", 710),
        ("orders-1", 300),
        ("orders-1", 723),
    ]


def test_a_count_that_is_reported_after_its_partition_was_given_up_is_found(
    lines: PodLines, pods: tuple[Pod, Pod]
) -> None:
    before, after = pods
    before.opened(1000, 0)
    before.counted(2000, 710)
    before.revoked(2001)
    after.opened(2400, 710)
    after.counted(2489, 723)
    after.revoked(2700)
    after.opened(2800, 723)
    after.counted(3489, 740)
    assert deployment.counted_too_late(lines) == []
    before.counted(3570, 715)
    assert [(pod, partition, line["at_ms"]) for pod, partition, line in deployment.counted_too_late(lines)] == [
        ("orders-0", PARTITION, 3570)
    ]
