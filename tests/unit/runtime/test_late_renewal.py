"""A renewal of the Lease that comes late: the holder may not write for a moment, no other replica had the Lease, and
nothing is lost.

`ActiveLease.run` reports only changes that it sees between two of its attempts. One that takes longer than the deadline
leaves is none, so no new term begins, and whatever was due meanwhile has to come again by itself.
"""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.api import names
from staticgroup.runtime.connections.reporter import ConnectionReporter
from staticgroup.runtime.work_queue import WorkQueue

from .operator_world import KEY, OperatorWorld, kafka_connection, static_group

pytestmark = pytest.mark.looptime
CONNECTION = ("shop", "kafka")
LATE_S, PATIENCE_S = 1.5, 30.0


async def test_round_that_falls_into_the_moment_is_held_afterwards() -> None:
    """An edit is seen then, and no other event follows."""
    world = await OperatorWorld().started()
    queue = WorkQueue(world.reconciler.reconcile)
    queue.start()
    world.declare(static_group(generation=2))
    world.is_holder = False
    queue.add(KEY)
    await asyncio.sleep(LATE_S)
    world.is_holder = True
    await asyncio.sleep(PATIENCE_S)
    await queue.stop()
    assert world.status.observed_generation == 2


def reporter_of(world: OperatorWorld) -> ConnectionReporter:
    body = kafka_connection()
    world.stores.put_connection(CONNECTION, body)
    world.kube.put_object(names.KAFKA_CONNECTION_PLURAL, body)
    return world.reporter()


@pytest.mark.parametrize("is_late_at_once", [True, False], ids=["from the start", "while the brokers are asked"])
async def test_connection_gets_its_status_afterwards(is_late_at_once: bool) -> None:
    world = OperatorWorld()
    reporter = reporter_of(world)
    world.is_holder = not is_late_at_once
    probe = world.kafka.probe

    async def late(*arguments: object) -> object:
        world.is_holder = False
        return await probe(*arguments)  # type: ignore[arg-type]

    if not is_late_at_once:
        world.kafka.probe = late  # type: ignore[assignment,method-assign]
    queue = WorkQueue(reporter.reconcile)
    queue.start()
    queue.add(CONNECTION)
    await asyncio.sleep(0.5)
    world.is_holder, world.kafka.probe = True, probe  # type: ignore[method-assign]
    await asyncio.sleep(PATIENCE_S)
    await queue.stop()
    assert world.kube.objects[names.KAFKA_CONNECTION_PLURAL, *CONNECTION]["status"]["observedGeneration"] == 1
