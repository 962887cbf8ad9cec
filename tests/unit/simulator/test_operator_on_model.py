"""The real operator on the model cluster: it becomes active, injects, and removes only after the kubelet reported the
end."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from simulator.kubernetes.objects import STATEFULSETS, STATIC_GROUPS, is_true, uid_of
from simulator.kubernetes.objects import Json as Object
from simulator.kubernetes.users import stateful_set
from simulator.operators.transport import ModelTransport
from staticgroup.api import names
from staticgroup.runtime.process.health import WATCH_AGE_MAX_S

from .plain_world import PlainWorld, static_group
from .virtual_time import simulate, simulated


async def populated(world: PlainWorld, replicas: int = 3) -> None:
    """Let ids be issued, then let the workload start with them and join."""
    world.create_group()
    await world.until(lambda: "injected" in world.status)
    await asyncio.sleep(1)
    world.create_workload(replicas)
    await world.until(lambda: (world.status.get("members") or {}).get("joined") == replicas)


@simulated
async def test_pods_receive_what_the_operator_decided() -> None:
    world = PlainWorld()
    world.start_operator()
    await populated(world)
    for n, pod in enumerate(world.pods):
        assert pod["metadata"]["annotations"][names.INSTANCE_ID_ANNOTATION] == world.id_of(n)
        environment = world.processes.running[uid_of(pod), "app"][1]
        assert environment["KAFKA_GROUP_INSTANCE_ID"] == world.id_of(n)
        assert environment["KAFKA_SESSION_TIMEOUT_MS"] == str(world.status["injected"]["sessionTimeoutMs"])


@pytest.mark.parametrize(
    ("template", "leaves"), [("{podName}.x.{scope}", True), ("{workloadName}-{ordinal}.x.{scope}", False)]
)
@simulated
async def test_old_ids_leave_after_a_change_of_template_when_the_new_ones_are_composed_of_the_pods_name(
    template: str, leaves: bool
) -> None:
    """The new pods can never hold the old ids then; where they read an annotation, the old sessions have to expire.

    Removal is off during the roll, which keeps the moments out in which a seat has no pod at all.
    """
    world = PlainWorld()
    world.start_operator()
    await populated(world)
    old_ids = {world.id_of(n) for n in range(3)}
    new_ids = {i.replace(".", ".x.", 1) for i in old_ids}
    world.users.edit_group("shop", "orders", {"idTemplate": template, "removal": "Never"})
    await world.until(lambda: ".x." in world.status["injected"]["idTemplate"])
    await asyncio.sleep(5)
    assert world.left == []
    world.users.roll("shop", "web")
    await world.until(lambda: new_ids <= set(world.kafka.members))
    await asyncio.sleep(100)
    assert world.left == []
    world.users.edit_group("shop", "orders", {"removal": "Departed"})
    await asyncio.sleep(300)
    assert set(world.left) == (old_ids if leaves else set())
    assert set(world.kafka.members) == (new_ids if leaves else old_ids | new_ids)


@pytest.mark.parametrize(
    ("is_gap", "is_new", "count"), [(False, False, 1), (False, True, 1), (True, False, 1), (True, True, 0)]
)
@simulated
async def test_watch_gap_holds_members_that_joined_meanwhile_and_a_resumed_watch_holds_none(
    is_gap: bool, is_new: bool, count: int
) -> None:
    """A break is harmless, and so is a 410 for a member that was described before it."""
    world = PlainWorld()
    _, _, transport = world.start_operator()
    await populated(world)
    transport.faults.is_refusing = True
    transport.link.break_watches()
    world.users.label_pod("shop", "web-0", {"x": "1"})
    if is_new:
        world.users.scale("shop", "web", 4)
    await asyncio.sleep(30)
    if is_gap:
        world.server.compact("pods")
    await asyncio.sleep(5)
    transport.link.heal()
    await asyncio.sleep(90)
    world.users.scale("shop", "web", 3 if is_new else 2)
    await asyncio.sleep(120)
    assert len(world.left) == count


@simulated
async def test_second_operator_takes_over_when_the_first_is_killed_and_not_before() -> None:
    """The Lease: 5 s by the standby's own clock; what ended meanwhile is in the watch it kept warm."""
    world = PlainWorld()
    first, _, _ = world.start_operator("operator-a")
    await populated(world)
    _, second, _ = world.start_operator("operator-b")
    await asyncio.sleep(20)
    assert not second.lease.holds()
    first.kill()
    killed_s = world.loop.time()
    world.users.scale("shop", "web", 2)
    await world.until(second.lease.holds)
    assert 3 < world.loop.time() - killed_s < 8
    await world.until(lambda: world.left)
    assert world.left == [world.id_of(2)]


@pytest.mark.parametrize("at", range(1, 36))
@simulated
async def test_crash_anywhere_in_a_removal_ends_in_the_same_state(at: int) -> None:
    """The leave is sent at the 13th resumption after the scale-down: killed at one, started again from what is stored,
    the departed member goes once."""
    world = PlainWorld()
    process, _, _ = world.start_operator("operator-a")
    await populated(world)
    process.crash_at_resumption = process.resumptions + at
    world.users.scale("shop", "web", 2)
    await world.until(lambda: process.is_dead)
    await asyncio.sleep(20)
    world.start_operator("operator-a")
    await asyncio.sleep(60)
    assert set(world.left) == {world.id_of(2)}
    assert [outcome.value for _, outcome in world.kafka.leaves].count("Removed") == 1
    assert world.status["members"]["joined"] == 2


async def busy(seed: object) -> str:
    """Let two operators follow four StaticGroups through changes and faults; return the digest of the trace."""
    world = PlainWorld(seed)
    _, _, transport = world.start_operator("operator-a")
    await populated(world)
    for name in ("api", "mail", "stock"):
        group = static_group(workloadRef={"name": name}, groupId=name)
        world.users.create(STATIC_GROUPS, group | {"metadata": {"namespace": "shop", "name": name}})
        world.users.create(STATEFULSETS, stateful_set("shop", name, 2))
    world.start_operator("operator-b")
    for n in range(3):
        world.users.roll("shop", "web")
        await asyncio.sleep(30)
        for name in ("web", "api", "mail", "stock"):
            world.users.scale("shop", name, 2 + n % 2)
        transport.link.break_watches()
        transport.faults.latency_s = (0.0, 0.5)
        await asyncio.sleep(20)
        world.cluster.nodes["n2"].reboot()
        await asyncio.sleep(30)
    for entry in world.kafka.journal:
        world.trace.add(0.0, "kafka", " ".join(entry))
    world.trace.add(0.0, "api", "version", value=world.server.resource_version)
    return world.trace.digest()


def test_same_seed_same_history_in_any_process() -> None:
    """Twice here, and in processes whose strings hash differently."""
    program = "from unit.simulator.test_operator_on_model import busy, simulate; print(simulate(lambda: busy(7), 7))"
    elsewhere = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    digests: list[Any] = [simulate(lambda: busy(7), 7), simulate(lambda: busy(7), 7)]
    digests += [process.communicate(timeout=100)[0].strip().splitlines()[-1] for process in elsewhere]
    assert len(set(digests)) == 1
    assert simulate(lambda: busy(8), 8) != digests[0]


@simulated
async def test_ready_pods_are_ready_for_the_operator_too() -> None:
    world = PlainWorld()
    _, operator, _ = world.start_operator()
    await populated(world)
    await asyncio.sleep(10)
    pods = operator.pods.of_workload("shop", "web")
    assert len(pods) == 3
    assert all(p.ready_since_s is not None and p.runs and p.from_birth for p in pods)
    assert all(is_true(p, "Ready") for p in world.pods)


def is_ready(status: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


@pytest.mark.parametrize("away_s", [20, 180, 3600])
@pytest.mark.parametrize("fault", ["refused", "unavailable"])
def test_api_server_that_was_away_ends_no_process_and_the_removal_follows_within_seconds(
    away_s: int, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod ends during the outage; the same process logs the outage twice, begins another term and removes."""

    async def main() -> None:
        world = PlainWorld()
        process, operator, transport = world.start_operator()
        await populated(world)
        watch = operator.pods.names()
        world.users.scale("shop", "web", 2)
        await world.until(lambda: (world.pod(2) or {"metadata": {}})["metadata"].get("deletionTimestamp"))
        away(transport, fault)
        await asyncio.sleep(away_s)
        assert not world.left
        assert not operator.lease.holds()
        assert operator.watch_age_s() == 0, "no restart helps"
        transport.faults.is_refusing, transport.faults.failing_status = False, 0
        back_s = world.loop.time()
        await world.until(lambda: world.left, 30)
        assert world.loop.time() - back_s < 5
        assert not process.is_dead
        assert world.left == [world.id_of(2)]
        assert operator.pods.names() == watch
        await world.until(lambda: is_ready(world.status), 60)
        for _ in range(30):
            await asyncio.sleep(10)
            assert (operator.watch_age_s() or 0) < WATCH_AGE_MAX_S

    caplog.set_level(logging.INFO)
    simulate(main)
    warnings = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    # a round may have been about to write when the API server went
    assert [message for message in warnings if message != "status not written"] == [
        "lease lost, standing by", "the API server is away; nothing is done until it answers",
        "the API server answers again",
    ]


def test_single_replica_without_election_waits_in_an_outage_and_reconciles_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing has changed, so no event is due; the end of the outage itself starts a round."""

    async def main() -> None:
        world = PlainWorld()
        _, operator, transport = world.start_operator(leader_election=False)
        await populated(world)
        await asyncio.sleep(60)
        away(transport, "refused")
        await asyncio.sleep(600)
        assert operator.lease.holds()
        assert not operator.reconciler.may_write()
        done = operator.metrics.rounds.labels("done")._value
        before = done.get()
        transport.faults.is_refusing = False
        back_s = world.loop.time()
        await world.until(lambda: done.get() > before, 90)
        assert world.loop.time() - back_s < 5

    simulate(main)
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) <= 10


@simulated
async def test_pod_watch_that_is_silent_while_the_api_server_answers_is_unhealthy() -> None:
    world = PlainWorld()
    _, operator, transport = world.start_operator()
    await populated(world)
    transport.faults.watch_delay_s = 10_000.0
    await asyncio.sleep(2 * WATCH_AGE_MAX_S)
    assert operator.lease.holds()
    assert (operator.watch_age_s() or 0) > WATCH_AGE_MAX_S


def away(transport: ModelTransport, fault: str) -> None:
    """Let one process's API server refuse every connection, or answer everything with 503."""
    transport.faults.is_refusing = fault == "refused"
    transport.faults.failing_status = 503 if fault == "unavailable" else 0
    transport.link.break_watches()


@simulated
async def test_replica_cut_off_while_another_one_leads_writes_nothing_and_becomes_its_standby() -> None:
    """What the other one wrote meanwhile is read before anything is written: its members and its removals stay."""
    world = PlainWorld()
    _, first, first_wire = world.start_operator("operator-a")
    await populated(world)
    second_process, second, _ = world.start_operator("operator-b")
    await asyncio.sleep(5)
    away(first_wire, "refused")
    await world.until(second.lease.holds, 40)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: world.left, 60)
    await asyncio.sleep(20)
    injected = world.status["injected"]
    asked: list[tuple[str, str]] = []
    first_wire.link.on_request.append(lambda verb, label: asked.append((verb, label)))
    first_wire.faults.is_refusing = False
    await asyncio.sleep(30)
    assert (first.lease.holds(), second.lease.holds()) == (False, True)
    assert first.is_ready()
    assert {verb for verb, _ in asked} == {"get", "list", "watch"}
    second_process.kill()
    world.users.scale("shop", "web", 1)
    await world.until(first.lease.holds, 60)
    await world.until(lambda: len(world.left) == 2, 60)
    assert world.left == [world.id_of(2), world.id_of(1)]
    assert world.status["injected"] == injected
