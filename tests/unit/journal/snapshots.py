"""Snapshots of recommendations, and readers of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.recommendations.snapshot import write_snapshot
from journal import recommendations as api
from journal.recommendations.reader import MODEL_MAJOR, DirectorySource, Recommendations
from staticgroup.core.timeouts.desired import Advice
from staticgroup.runtime.process.metrics import Metrics
from support.recommendations import CLUSTER_ID, DAY_MS, NOW_MS, recommendation

FLEET = tuple(recommendation(group_id=name) for name in ("orders", "billing", "stock", "mail"))


def publish(root: Path, records: tuple[api.Recommendation, ...] = FLEET, **changes: Any) -> api.Manifest:
    values = {
        "run_id": "r1", "model_version": f"{MODEL_MAJOR}.0", "created_ms": NOW_MS - 1000, "expires_ms": NOW_MS + DAY_MS,
    }  # fmt: skip
    return write_snapshot(records, root, **(values | changes))


def shard_of(root: Path, manifest: api.Manifest, group_id: str) -> Path:
    shard = manifest.shard_for(CLUSTER_ID, group_id)
    return root / shard.path


class Clock:
    now_ms = NOW_MS

    def __call__(self) -> float:
        return self.now_ms / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reader_of(source: Any, now_s: Callable[[], float]) -> Recommendations:
    return Recommendations(source=source, poll_s=300, polls=Metrics().recommendation_polls, now_s=now_s)


@pytest.fixture
def reader(tmp_path: Path, clock: Clock) -> Recommendations:
    return reader_of(DirectorySource(tmp_path), clock)


async def asked(reader: Recommendations, group_id: str = "orders", cluster_id: str | None = CLUSTER_ID) -> Advice:
    """Ask, let it poll, ask again."""
    reader.advice(cluster_id, group_id)
    await reader.poll()
    return reader.advice(cluster_id, group_id)


def lengthen_shard(root: Path, manifest: api.Manifest) -> None:
    path = shard_of(root, manifest, "orders")
    path.write_bytes(path.read_bytes() + b"\n")
