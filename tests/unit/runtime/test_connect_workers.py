"""Connect workers from round to round: rolled to static, one lost, one removed, and an operator that begins again."""

from __future__ import annotations

from staticgroup.core.group import WorkerView

from .operator_world import OperatorWorld

PODS = 3


def cluster() -> OperatorWorld:
    world = OperatorWorld(groupProtocol="Auto", client={"type": "Connect"})
    world.kafka.protocol_type = "connect"
    return world


def hide(world: OperatorWorld) -> None:
    """Begin a rebalance, during which the coordinator does not show what members hold."""
    world.kafka.state = "PreparingRebalance"
    world.kafka.workers = {member_id: WorkerView() for member_id in world.kafka.members.values()}


def tell(world: OperatorWorld, *tasks: int, delay_ms: int = 0) -> None:
    """End a rebalance; say what each member holds, in the order in which they joined."""
    world.kafka.state = "Stable"
    for (instance_id, member_id), held in zip(world.kafka.members.items(), tasks, strict=True):
        world.kafka.workers[member_id] = WorkerView(
            host=instance_id.partition(".")[0], connectors=1, tasks=held, delay_ms=delay_ms, is_whole=True
        )


async def joined(world: OperatorWorld) -> OperatorWorld:
    await world.begin(PODS)
    tell(world, 4, 4, 4)
    world.now_s += 300
    await world.settled(2)
    return world


async def test_a_worker_that_is_scaled_away_leaves_by_both_of_its_ids_and_what_it_held_is_waited_for() -> None:
    world = await joined(cluster())
    assert world.condition("Ready")[0] == "True"
    assert world.status.connect is not None
    assert (world.status.connect.tasks, world.status.connect.waiting) == (12, 0)
    gone = (world.kafka.members[world.id_of(2)], world.id_of(2))
    world.scale(PODS - 1)
    world.end(2)
    world.kafka.before["leave"] = lambda: hide(world)
    await world.settled()
    assert world.left == [gone]
    tell(world, 4, 4, delay_ms=60_000)
    await world.settled(2)
    assert (world.status.connect.tasks, world.status.connect.waiting) == (8, 5)
    assert world.condition("MembershipComplete")[0] == "True"
    assert "5 connectors and tasks wait" in world.condition("MembershipComplete")[2]
    before = world.status
    await world.settled(3, step_s=20)
    assert world.status == before  # nothing ticks
    world.restart()
    await world.settled(2)
    assert (world.status.connect.tasks, world.status.connect.waiting) == (8, None)
    tell(world, 7, 5)
    await world.settled(2)
    assert (world.status.connect.tasks, world.status.connect.waiting) == (12, 0)


async def test_a_rebalance_hides_assignments_and_the_status_keeps_the_last_one() -> None:
    world = await joined(cluster())
    before = world.status.connect
    hide(world)
    await world.settled(2)
    assert world.status.connect == before
    assert world.left == []
