"""Memory of members over hand-overs and gaps of the watch, and members that may be of an unseen pod."""

from __future__ import annotations

from staticgroup.core.members.carriers import UNSEEN, digest_of
from staticgroup.core.members.memory import SETTLE_MIN_S
from staticgroup.kube.pods.book import PodIndex

from .operator_world import OperatorWorld, guards, kafka_connection
from .stories import LIVING, gap, left
from .test_members import lose, passes, seat, suspects


async def test_what_is_remembered_is_written_and_read_back() -> None:
    world = await OperatorWorld().started()
    lose(world)
    await world.settled(2)
    before = world.status.memory
    assert (seat(world).id, seat(world).member) == (world.id_of(2), digest_of(world.kafka.members[world.id_of(2)]))
    (suspect,) = before.suspects
    assert (suspect.uid, suspect.pod, suspect.ids, suspect.node) == ("u2", "web-2", [world.id_of(2)], "n1")
    assert (before.watch or "").startswith(world.pods.watch_name)
    world.restart()
    await world.settled(2)
    after = world.status.memory
    assert (after.seats, after.suspects, after.watch) == (before.seats, before.suspects, before.watch)
    world.kafka.join(world.id_of(1), "joined-after-the-hand-over")
    await world.settled(1)
    assert seat(world, 1).carriers == ["u1"]
    await world.departs(3, "u2b")
    assert left(world) == []


async def test_a_carrier_that_is_not_shown_any_more_is_a_suspect_since_one_moment() -> None:
    world = await OperatorWorld().started()
    world._happens(world.kube.pods["shop", "web-2"], is_deleted=True)
    world.restart(watch_name="2-00000002")
    await world.settled(2)
    assert suspects(world) == ["u2"]
    first = world.status.memory.suspects
    world.now_s += 30
    world.restart()
    await world.settled(3)
    assert world.status.memory.suspects == first


async def test_members_of_before_a_gap_keep_their_carriers_and_later_ones_may_be_of_an_unseen_pod() -> None:
    world = await OperatorWorld().started()
    gap(world)
    world.kafka.join(world.id_of(1), "after-the-gap")
    await world.settled(2)
    assert seat(world, 1).carriers == ["u1", UNSEEN]
    world.scale(1)
    world.end(2)
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(2)]
    assert guards(world) == ["JoinedBeforeWatch"]


async def test_the_watch_has_to_be_whole_for_long_enough_when_the_group_is_asked_for() -> None:
    """The answer may show the state before the gap, however late it comes."""
    world = await OperatorWorld().started()
    gap(world)
    await world.round()
    await passes(world, SETTLE_MIN_S - 60)

    def takes_long() -> None:
        world.now_s += 90

    world.kafka.before["describe"] = takes_long
    await world.round()
    assert not (world.status.memory.watch or "").startswith(world.pods.watch_name)
    await world.round()
    assert (world.status.memory.watch or "").startswith(world.pods.watch_name)


async def test_no_member_is_missing_while_the_watch_is_not_whole() -> None:
    """A process that has not listed the pods yet knows of none."""
    world = await OperatorWorld().started()
    name = world.pods.watch_name
    world.restart()
    index, world.pods.book.index = world.pods.book.index, PodIndex()
    world.pods.watch_name = ""
    await world.settled(2)
    assert suspects(world) == []
    world.pods.book.index, world.pods.watch_name = index, name
    await world.settled(2)
    assert suspects(world) == []
    await world.departs(3, "u2")
    assert left(world) == [world.id_of(2)]


async def test_a_connection_that_leads_elsewhere_makes_members_of_now_and_silences_of_before_worthless() -> None:
    """What was not described there may have been there for long."""
    world = await OperatorWorld().started()
    before = world.status.memory.watch
    world.stores.put_connection(("shop", "kafka"), kafka_connection(bootstrapServers=["other.example.com:9092"]))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    assert world.status.memory.watch == before
    assert seat(world).carriers == ["u2", UNSEEN]
    await world.departs(3, "u2")
    assert guards(world) == ["JoinedBeforeWatch"]


async def test_a_connection_that_comes_after_the_first_ids_makes_no_watch_young() -> None:
    """Resources of one `kubectl apply` arrive in any order; ids that were issued under this watch are older under no brokers."""
    world = OperatorWorld()
    connection = world.stores.connections.pop(("shop", "kafka"))
    world.scale(3)
    await world.round()
    assert world.status.injected is not None
    world.stores.connections["shop", "kafka"] = connection
    for ordinal in range(3):
        world.start(ordinal)
    await world.settled(2)
    assert seat(world, 2).carriers == ["u2"]
    await world.departs(3, "u2")
    assert left(world) == [world.id_of(2)]
    world.stores.put_connection(("shop", "kafka"), kafka_connection(bootstrapServers=["other.example.com:9092"]))
    world.kafka.join(world.id_of(1), "of-other-brokers")
    await world.settled(2)
    assert seat(world, 1).carriers == ["u1", UNSEEN], "these brokers were not described under this watch"
