"""The processes of the operator: which of them acts, and their sudden ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from support.devcluster.kafka_log import now_ms
from support.devcluster.process import signal_each
from support.scene.stage import Stage
from support.waiting import until


def renewed_at_ms(stage: Stage) -> int:
    text = stage.lease().get("spec", {}).get("renewTime", "1970-01-01T00:00:00.000000Z")
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def await_active(stage: Stage, since_ms: int) -> list[int]:
    """Return the processes of the replica that has renewed the Lease since then."""

    def active() -> list[int] | None:
        return stage.operator_processes().get(stage.lease_holder()) if renewed_at_ms(stage) > since_ms else None

    return until(active, deadline_s=90, what="an active replica")


def kill(pids: Iterable[int]) -> int:
    """End processes of the operator at once; returns when."""
    signal_each(pids)
    return now_ms()


@contextmanager
def standing_still(pids: Iterable[int]) -> Iterator[None]:
    """Let processes of the operator stand still meanwhile, wherever they are."""
    stopped = list(pids)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        signal_each(stopped, signal.SIGCONT)
