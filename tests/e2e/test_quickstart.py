"""The quickstart page, step by step: applied, restarted with a rebalance and without one, scaled down.

What counts are the lines that the page lets a newcomer count: those of the broker's own log.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from support.devcluster.progress import say
from support.quickstart.image import OVERLAY, load
from support.scene.figures import record
from support.scene.stage import Stage
from support.scene.witnesses import PodWatch
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(400)]

NAMESPACE, NAME = "quickstart", "orders"


class Newcomer:
    """Somebody with kubectl and the page."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def kubectl(self, *arguments: str) -> str:
        return self.stage.kubectl("-n", NAMESPACE, *arguments)

    def broker_log(self) -> list[str]:
        return self.kubectl("logs", "kafka-0").splitlines()

    def rebalances(self) -> int:
        """Count as the page counts: `grep -c 'Stabilized group orders'`."""
        return sum(f"Stabilized group {NAME} " in line for line in self.broker_log())

    def static_group(self) -> dict[str, Any]:
        return self.stage.get("ksg", NAME, NAMESPACE) or {}

    def members(self) -> dict[str, int]:
        found: dict[str, int] = self.static_group().get("status", {}).get("members", {})
        return found

    def condition(self, kind: str) -> str:
        conditions = self.static_group().get("status", {}).get("conditions", [])
        return next((c["reason"] for c in conditions if c["type"] == kind), "")

    def restart(self) -> None:
        self.kubectl("rollout", "restart", f"statefulset/{NAME}")
        self.kubectl("rollout", "status", f"statefulset/{NAME}", "--timeout=120s")

    def is_well(self, members: int) -> bool:
        seen = self.members()
        return seen.get("joined") == members and seen.get("departed") == 0 and self.condition("Ready") == "Reconciled"


@pytest.fixture
def newcomer(request: pytest.FixtureRequest, installed: Stage) -> Iterator[Newcomer]:
    load(installed.cluster)
    began_s = time.monotonic()
    newcomer = Newcomer(installed)
    yield newcomer
    record("quickstart, from apply to scaled down", seconds=round(time.monotonic() - began_s, 1))
    if request.session.testsfailed:
        say(json.dumps(newcomer.static_group().get("status"), indent=1))
        say(newcomer.kubectl("get", "pods", "-o", "wide"))
        for pod in ("kafka-0", "orders-0", "orders-1", "orders-2"):
            with suppress(RuntimeError):
                say(f"== {pod}\n{newcomer.kubectl('logs', pod, '--tail=60')}")
    installed.kubectl("delete", "-k", str(OVERLAY), "--ignore-not-found", "--timeout=60s")


def test_quickstart_from_apply_to_a_quiet_roll_and_a_scale_down(newcomer: Newcomer) -> None:
    newcomer.stage.kubectl("apply", "-k", str(OVERLAY))
    newcomer.kubectl("rollout", "status", "statefulset/kafka", "--timeout=120s")
    until(
        lambda: newcomer.members().get("joined", 0) + newcomer.members().get("dynamic", 0) == 3,
        deadline_s=120, what="three members",
    )  # fmt: skip
    dynamic = newcomer.members()["dynamic"]
    assert dynamic > 0, "the pods were there before the ids were"
    assert newcomer.condition("Injected") == "PodsWithoutId"

    before = newcomer.rebalances()
    newcomer.restart()
    until(lambda: newcomer.is_well(3), deadline_s=90, what="three static members")
    loud = newcomer.rebalances() - before
    assert loud > 0

    before = newcomer.rebalances()
    watch = PodWatch(newcomer.stage.cluster.client, NAMESPACE).start()
    try:
        newcomer.restart()
        until(lambda: newcomer.is_well(3), deadline_s=90, what="three static members again")
    finally:
        watch.stop()
    assert newcomer.rebalances() == before
    restarted = [pod for pod in watch.pods.values() if pod.name.startswith(f"{NAME}-") and pod.deleted_at_ms]
    assert sorted(pod.name for pod in restarted) == [f"{NAME}-{n}" for n in range(3)]
    # A process that ignores SIGTERM is killed after 30 s.
    ends_s = [
        (p.deleted_at_ms - p.deletion_asked_at_ms) / 1000
        for p in restarted
        if p.deleted_at_ms and p.deletion_asked_at_ms
    ]
    assert max(ends_s) < 15

    numbers = [
        int(n) for o in range(3) for n in re.findall(r"^\d+$", newcomer.kubectl("logs", f"{NAME}-{o}"), re.MULTILINE)
    ]
    assert len(set(numbers)) == len(numbers) > 0, "the producer counts, so every record has its own number"
    table = newcomer.kubectl("exec", "kafka-0", "--", "/opt/kafka/bin/kafka-consumer-groups.sh", "--bootstrap-server",
                             "localhost:9092", "--describe", "--group", NAME)  # fmt: skip
    rows = [line.split() for line in table.splitlines() if line.startswith(f"{NAME} ")]
    assert sorted(int(row[2]) for row in rows) == list(range(6))
    assert all(int(row[4]) > 0 for row in rows), "the producer writes to every partition"

    began_s = time.monotonic()
    newcomer.kubectl("scale", f"statefulset/{NAME}", "--replicas=2")
    until(lambda: newcomer.is_well(2), deadline_s=60, what="the departed member is removed")
    removed_s = time.monotonic() - began_s
    until(lambda: newcomer.condition("RemovalSettled") == "Removed", deadline_s=30, what="the removal is seen to last")
    assert newcomer.rebalances() == before + 1
    assert any("staticgroup " in line and f"{NAME}-2" in line for line in newcomer.broker_log())
    record(
        "quickstart", rebalances_dynamic=loud, rebalances_static=0, longest_end_s=max(ends_s),
        removed_s=round(removed_s, 1),
    )  # fmt: skip
