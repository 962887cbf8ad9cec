"""The process table is the ground truth of what lives, freezes, crashes and is cut off."""

from __future__ import annotations

import asyncio

import pytest

from .kafka_world import PARTITIONS, KafkaWorld
from .virtual_time import simulated

PROTOCOLS = ("classic", "consumer")


@simulated
async def test_a_frozen_process_is_silent_but_alive_and_gets_its_signal_after_the_thaw() -> None:
    world = await KafkaWorld.running(2)
    frozen = await world.member_of("web-1")
    world.table.freeze("node-1")
    assert world.owner("uid-1") == 0
    await asyncio.sleep(120)
    assert not await world.member_of("web-1"), "its session expired"
    assert world.table.alive(frozen)
    assert world.table.is_running("uid-1", "app")
    world.table.thaw("node-1")
    await asyncio.sleep(30)
    assert await world.member_of("web-1") not in ("", frozen)
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS


@simulated
async def test_processes_crash_as_their_settings_say() -> None:
    world = KafkaWorld(container={"crash_mean_s": 30.0, "crash_exit_code": 3})
    for number in range(6):
        world.start(number)
    await asyncio.sleep(600)
    assert sorted(world.exits) == [(f"uid-{n}", 3) for n in range(6)]


@simulated
async def test_a_process_that_ignores_sigterm_goes_on() -> None:
    world = await KafkaWorld.running(1, after_s=30.0, container={"ignores_term": True})
    world.terminate("uid-0")
    await asyncio.sleep(30)
    assert world.owner("uid-0") == PARTITIONS
    world.kill("uid-0")
    assert world.owner("uid-0") == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_a_node_without_network_loses_its_seat_and_gets_it_back(protocol: str) -> None:
    world = await KafkaWorld.running(2, protocol=protocol)
    world.table.cut_off("node-1")
    await asyncio.sleep(150)
    assert not await world.member_of("web-1")
    assert world.owner("uid-1") > 0, "it goes on with what it has"
    assert world.meter.double_s > 0
    world.table.reconnect("node-1")
    await asyncio.sleep(90)
    assert await world.member_of("web-1")
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS


@simulated
async def test_a_pod_that_two_nodes_run_has_a_process_on_each_and_its_member_lives_while_one_does() -> None:
    """A restored etcd forgets a binding, and the pod is bound to another node; the kubelet of the first may not know
    for long."""
    world = KafkaWorld(protocol="classic")
    world.start(0, node="n1")
    await asyncio.sleep(20)
    first = await world.member_of("web-0")
    world.start(0, node="n2")
    with pytest.raises(ValueError, match="runs already on n2"):
        world.start(0, node="n2")
    await asyncio.sleep(20)
    assert await world.member_of("web-0") not in ("", first)
    assert not world.table.alive(first), "fenced by the other"
    assert world.table.pod_alive(first)
    world.kill("uid-0")
    assert not world.table.pod_alive(first)


@simulated
async def test_a_kubelet_ends_only_what_runs_on_its_own_node() -> None:
    world, exits = KafkaWorld(protocol="classic"), []
    world.configure(container={"startup_s": (9000.0, 9000.0)})
    world.table.on_exit = lambda node, uid, container, code: exits.append((node, uid, code))
    for node in ("n1", "n2"):
        world.start(0, node=node)
    world.table.signal("uid-0", "app", "KILL", node="n2")
    await asyncio.sleep(1)
    assert exits == [("n2", "uid-0", 137)]
    assert not world.table.is_running("uid-0", "app", node="n2")
    assert world.table.is_running("uid-0", "app", node="n1")
    assert world.table.is_running("uid-0", "app")
