"""Benchmarks with a budget: `make bench`.

Seconds depend on the machine, so the budgets of the operator are ratios to work of the same kind done in the same run
by the standard library (decoding or encoding the same JSON), or sizes in bytes. The coordinator model and the
simulation have budgets in microseconds and seconds of one core, because they say what a proof costs. What tar pits cost
others is a ratio of waits in virtual time, which no machine changes; the writes of a roll and the age of the stored
position are of virtual time too. The best of several repetitions counts, because noise only ever adds.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from coordinator_model.coordinator import GroupCoordinator
from simulator.schedules import schedule
from staticgroup.api.ordinals import Ordinals
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.status.projection import project
from staticgroup.kube.pods.book import PodBook
from staticgroup.kube.pods.store import REPLAYED_S
from staticgroup.kube.translate import pod_version
from staticgroup.runtime.memory.pace import WAIT_MAX_S
from support import roll
from support.tar_pits import SCENES, p99, play
from unit.core import builders as make

REPETITIONS = 5
MEMBERS = 100
PODS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured quantity and its budget, both in `unit`."""

    what: str
    measured: float
    budget: float
    unit: str
    detail: str = ""

    @property
    def is_kept(self) -> bool:
        """True when the budget is kept."""
        return self.measured <= self.budget


def best_s(work: Callable[[], Any]) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(REPETITIONS):
        gc.collect()
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def pod(number: int) -> dict[str, Any]:
    """Return a pod as the API server sends it, about 3 KB."""
    name = f"web-{number}"
    return {
        "metadata": {
            "name": name, "namespace": "shop", "uid": f"uid-{number:08d}", "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": {"apps.kubernetes.io/pod-index": str(number), "app": "web"},
            "annotations": {"staticgroup.io/instance-id": make.id_of(number)},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "w1", "controller": True}
            ],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "app", "image": "shop/web:1", "env": [{"name": f"V{n}", "value": "x" * 20} for n in range(40)]}
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:05Z"}],
            "containerStatuses": [
                {
                    "name": "app", "containerID": "containerd://x",
                    "state": {"running": {"startedAt": "2026-11-21T10:00:01Z"}},
                }
            ],
        },
    }  # fmt: skip


def new_book() -> PodBook:
    """Return an empty book that knows the one node."""
    return PodBook(node_of=lambda name: make.NODE, now_s=lambda: make.NOW_S, is_managed=lambda ns, name: True)


def fill(book: PodBook, texts: list[str]) -> None:
    """Decode, translate and fold every pod."""
    for text in texts:
        version = pod_version(json.loads(text))
        book.take(version, is_deleted=False, in_order=False)  # type: ignore[arg-type]


def pod_ingest() -> list[Row]:
    """Measure what a LIST costs beyond decoding it, and what a known pod weighs."""
    texts = [json.dumps(pod(n)) for n in range(PODS)]
    decode_s = best_s(lambda: [json.loads(t) for t in texts])
    ingest_s = best_s(lambda: fill(new_book(), texts))
    gc.collect()
    tracemalloc.start()
    book = new_book()
    fill(book, texts)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return [
        Row(
            what="fold a LIST / decode it", measured=ingest_s / decode_s, budget=3.5, unit="x",
            detail=f"{PODS / ingest_s:,.0f} pods/s",
        ),
        Row(what="memory of a known pod", measured=size / PODS, budget=600, unit="B", detail=f"{PODS} pods"),
    ]  # fmt: skip


def rounds() -> list[Row]:
    """Measure plan and projection of a group of 100 members against encoding its status."""
    half = MEMBERS // 2
    dead = {make.id_of(n): (make.known_pod(n, f"u{n}", PodState.DEAD),) for n in range(half, MEMBERS)}
    live = tuple(make.known_pod(n, f"u{n}") for n in range(half))
    members = [make.member(n) for n in range(MEMBERS)]
    random.Random(7).shuffle(members)
    world = make.departure(
        workload=make.workload(half), pods=live, group=make.group(*members), chains=dead,
        sight=make.sight(ended=frozenset(f"u{n}" for n in range(half, MEMBERS))),
    )  # fmt: skip
    seats = {make.id_of(n): make.attributed(f"m{n}", f"u{n}") for n in range(MEMBERS)}
    known = make.members(attributions=seats)
    spec, history = make.spec(), make.history(issued_ordinals=Ordinals.of(range(MEMBERS)), members=known)
    decided = plan(spec, world, history, make.NOW_S)
    assert sum(len(a.removals) for a in decided.actions) == half
    now = datetime.fromtimestamp(make.NOW_S, tz=UTC)
    status = project(spec, world, decided, Executed(), None, now)
    encode_s = best_s(lambda: [json.dumps(status.to_wire()) for _ in range(20)]) / 20
    plan_s = best_s(lambda: [plan(spec, world, history, make.NOW_S) for _ in range(20)]) / 20
    project_s = best_s(lambda: [project(spec, world, decided, Executed(), status, now) for _ in range(20)]) / 20
    return [
        Row(
            what="plan 100 members / encode their status", measured=plan_s / encode_s, budget=12.0, unit="x",
            detail=f"{plan_s * 1e3:.2f} ms",
        ),
        Row(
            what="project 100 members / encode their status", measured=project_s / encode_s, budget=12.0, unit="x",
            detail=f"{project_s * 1e3:.2f} ms",
        ),
    ]  # fmt: skip


def stable_coordinator() -> tuple[GroupCoordinator, dict[str, str]]:
    """Return a coordinator with one stable classic group of three static members: instance id to member id."""
    coordinator = GroupCoordinator()
    ids = [f"web-{n}" for n in range(3)]
    tickets = {coordinator.handle(JoinGroupRequest(group_id="g", group_instance_id=i), 0).ticket: i for i in ids}
    members = {}
    for completed in coordinator.expire(10_000).completed:
        assert isinstance(completed.response, JoinGroupResponse)
        members[tickets[completed.ticket]] = completed.response.member_id
    for i, member_id in sorted(members.items(), reverse=True):
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, group_instance_id=i)
        coordinator.handle(sync, 10_000)
    assert coordinator.groups["g"].state == "Stable"
    return coordinator, members


def coordinator_model() -> list[Row]:
    """Measure requests through `handle`: steady heartbeats of both protocols, and static members that come back."""
    calls = 5_000
    coordinator, members = stable_coordinator()
    instance_id, member_id = next(iter(members.items()))
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id, group_instance_id=instance_id)
    beats_s = best_s(lambda: [coordinator.handle(beat, 10_000) for _ in range(calls)]) / calls
    assert coordinator.handle(beat, 10_000).response.error_code == 0  # type: ignore[union-attr]
    join = JoinGroupRequest(group_id="g", group_instance_id=instance_id)
    joins_s = best_s(lambda: [coordinator.handle(join, 10_000) for _ in range(calls)]) / calls
    modern = GroupCoordinator(image=TopicImage({"orders": 12}))
    hello = ConsumerGroupHeartbeatRequest(
        group_id="m", member_id="m-1", subscribed_topic_names=("orders",), topic_partitions=(),
        rebalance_timeout_ms=1000,
    )  # fmt: skip
    joined = modern.handle(hello, 0).response
    assert isinstance(joined, ConsumerGroupHeartbeatResponse)
    steady = ConsumerGroupHeartbeatRequest(group_id="m", member_id="m-1", member_epoch=joined.member_epoch)
    modern_s = best_s(lambda: [modern.handle(steady, 1_000) for _ in range(calls)]) / calls
    assert modern.handle(steady, 1_000).response.error_code == 0  # type: ignore[union-attr]
    figures = [
        ("Heartbeat", beats_s, 10.0),
        ("ConsumerGroupHeartbeat", modern_s, 10.0),
        ("static rejoin", joins_s, 50.0),
    ]
    return [
        Row(
            what=f"coordinator model: {name}", measured=s * 1e6, budget=budget, unit="us",
            detail=f"{1 / s:,.0f} a second",
        )
        for name, s, budget in figures
    ]  # fmt: skip


def simulation() -> list[Row]:
    """Measure schedules: ten busy virtual minutes with faults, and the rest after them."""
    seeds = range(12)
    gc.collect()
    started = time.perf_counter()
    verdicts = [schedule.run(seed) for seed in seeds]
    each_s = (time.perf_counter() - started) / len(seeds)
    assert not any(v.violations for v in verdicts)
    hours = sum(v.virtual_s for v in verdicts) / 3600
    return [
        Row(
            what="one schedule of the simulation", measured=each_s, budget=1.0, unit="s",
            detail=f"{1 / each_s:.2f} schedules a second, {hours:.1f} virtual hours",
        )
    ]  # fmt: skip


def tar_pits() -> list[Row]:
    """Measure the cost of silent brokers for others in virtual time: p99 from event to end of round."""
    rows = []
    for name, scene in SCENES.items():
        began = time.perf_counter()
        without, beside = (play(scene, are_pits_silent=silent) for silent in (False, True))
        assert without.never == beside.never == 0
        ratio = p99(beside.ended_s) / p99(without.ended_s)
        seconds = time.perf_counter() - began
        rows.append(
            Row(
                what=f"tar pits, {name}", measured=ratio, budget=1.1, unit="x",
                detail=f"p99 {p99(beside.ended_s):.3f} s of {len(beside.ended_s)} events, played in {seconds:.1f} s",
            )
        )  # fmt: skip
    return rows


def stored_position() -> list[Row]:
    """Measure a roll in virtual time: writes to the API server, and the age of the stored position of the watch."""
    began = time.perf_counter()
    scene = roll.Scene()
    figures = roll.play(scene)
    seconds = time.perf_counter() - began
    return [
        Row(
            what="API writes under a roll", measured=figures.writes_per_s, budget=2.0, unit="/s",
            detail=f"{scene.pods:,} pods of {scene.groups} groups in {scene.lasts_s:.0f} s: {figures.lease_writes} of "
            "the Lease, "
            f"{figures.status_writes} of statuses, at most {figures.busiest_s:.1f} a second for 10 s",
        ),
        Row(
            what="age of the stored position, same roll", measured=figures.oldest_s,
            budget=REPLAYED_S + WAIT_MAX_S + 5.0, unit="s",
            detail=f"{figures.remembered} members remembered with their one pod, played in {seconds:.0f} s",
        ),
    ]  # fmt: skip


def main() -> int:
    """Print the table; 1 when a budget is broken."""
    rows = [*pod_ingest(), *rounds(), *coordinator_model(), *simulation(), *tar_pits(), *stored_position()]
    for row in rows:
        print(
            f"{row.what:45} {row.measured:8.1f} {row.unit:2} budget {row.budget:6.1f}  "
            f"{'kept' if row.is_kept else 'BROKEN':6} {row.detail}"
        )
    return 0 if all(row.is_kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
