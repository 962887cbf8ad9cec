"""Another machine has the name of a node while pods are bound to it: its kubelet starts them again, the first one runs them on."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from staticgroup.core.evidence.pod import NodeView
from staticgroup.kube.nodes.ledger import NodeLedger
from staticgroup.kube.nodes.store import NodeStore
from support.clock import Clock
from unit.core.builders import NODE
from unit.core.crashes import crashed, over, runs
from unit.core.test_machines import view

from .operator_world import OperatorWorld, guards
from .test_crash_release import consuming, released, shows


def takes_over(world: OperatorWorld, how: str) -> None:
    """Have another machine register under the name, with a Node of its own or under the one that is there."""
    changes: dict[str, Any] = {"uid": "node-2", "created_at_s": world.now_s} if how == "anew" else {"other_until_s": world.now_s}
    world.pods.nodes["n1"] = replace(NODE, **changes)


@pytest.mark.parametrize("how", ["anew", "in place"])
async def test_the_end_that_the_later_machine_tells_is_not_that_of_the_process_on_the_first_one(how: str) -> None:
    """The member is the first one's: a KIP-848 coordinator lets the second process not in, a partition keeps the first one alive."""
    world = await OperatorWorld().started()
    takes_over(world, how)
    world.now_s += 20
    world.start(2, joins=False)
    world.scale(2)
    world.end(2)
    await world.settled(6)
    assert world.left == []
    assert guards(world) == ["DeathNotProven"]
    (held,) = [e for e in world.status.exceptions if e.kind.value == "Held"]
    assert "node n1 was made anew, or had another machine or container runtime, since the pod came to it" in held.message


@pytest.mark.parametrize("how", ["anew", "in place"])
async def test_a_crash_on_the_later_machine_releases_no_member_of_the_first_one(how: str) -> None:
    """The later process is refused (UNRELEASED_INSTANCE_ID) and crashes, because the first one lives."""
    world = await consuming()
    takes_over(world, how)
    world.now_s += 20
    shows(world, runs(run="z", started_at_s=world.now_s))
    await world.settled(2)
    world.now_s += 15
    shows(world, crashed(run="z", last_end=over(run="z", finished_at_s=world.now_s - 0.5)))
    await world.settled(3)
    assert released(world) == []


def test_a_node_store_tells_until_when_another_machine_had_a_name() -> None:
    clock = Clock(1_000.0)
    ledger = NodeLedger(now_s=clock)
    store = NodeStore(None, on_change=lambda name: None, rng=Random(1), clock_s=clock, ledger=ledger)  # type: ignore[arg-type]

    def told() -> NodeView:
        found = store.node_of("n1")
        assert found is not None
        return found

    store._put(view())
    assert told() == view()
    clock.now_s = 1_100.0
    store._put(view(boot_id="b2"))
    assert told().other_until_s == 0.0
    store._put(view(boot_id="b2", runtime="cri-o"))
    assert told().other_until_s == 1_100.0
    clock.now_s = 1_200.0
    store._put(view(machine_id="m2"))
    assert told() == view(machine_id="m2", other_until_s=1_200.0)
    store._remember_vanished("n1")
    assert told().other_until_s == 1_200.0


async def test_the_member_of_a_run_that_a_kubelet_lost_is_neither_removed_nor_released() -> None:
    """The run goes on where no runtime lists it; the one that was started in its place is refused and crashes."""
    world = await consuming()
    shows(world, runs(run="z", restarts=1, was_lost=True, started_at_s=world.now_s))
    await world.settled(2)
    world.now_s += 15
    shows(world, crashed(run="z", restarts=1, last_end=over(run="z", finished_at_s=world.now_s - 0.5)))
    await world.settled(3)
    assert released(world) == []
    world.scale(0)
    world.end(0)
    await world.settled(6)
    assert [i for _, i in world.left if i == world.id_of(0)] == []
