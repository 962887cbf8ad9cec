"""A barrier brings the watch up to a consistent read, or says that it did not."""

import asyncio

from staticgroup.core.evidence.chain import IncarnationState
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import UID, following
from unit.kube.raw_objects import eventually, finished, pod


async def test_barrier_passes_at_once_when_the_stream_is_there(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        starts = len(server.watch_starts)
        assert await world.store.barrier("shop", world.store.position("shop"))
        assert len([s for s in server.watch_starts[starts:] if s[0] == "pods"]) <= 1  # the main stream, no replay


async def test_barrier_replays_what_a_stalled_stream_missed(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.set_stalled(True)
        server.put(finished())
        server.remove("shop", "web-0")
        server.tick()
        assert await world.store.barrier("shop", server.resource_version)
        assert world.state() is IncarnationState.DEAD
        assert world.store.position("shop") == server.resource_version
        before = world.store.get(UID)
        server.set_stalled(False)
        server.put(pod("web-9", uid="uid-9"))
        await eventually(lambda: world.state("uid-9"))
        assert world.store.get(UID) == before


async def test_barrier_without_event_or_bookmark_does_not_pass(server: FakeApiServer) -> None:
    async with following(server) as world:
        server.sends_bookmarks = False
        server.tick()
        assert not await world.store.barrier("shop", server.resource_version)
        server.sends_bookmarks = True
        assert await world.store.barrier("shop", server.resource_version)


async def test_a_barrier_that_takes_time_passes_because_the_watch_keeps_its_name(server: FakeApiServer) -> None:
    begun_s = asyncio.get_running_loop().time()
    async with following(server, now_s=lambda: 50.0 + asyncio.get_running_loop().time() - begun_s) as world:
        await eventually(lambda: server.watches)
        server.set_stalled(True)
        server.put(pod("web-1", uid="uid-1"))
        _, before_s = world.store.watch("shop")
        assert await world.store.barrier("shop", server.resource_version)
        assert world.store.watch("shop")[1] > before_s


async def test_concurrent_barriers_share_one_replay(server: FakeApiServer) -> None:
    async with following(server) as world:
        await eventually(lambda: server.watches)
        starts = len(server.watch_starts)
        server.tick()
        passed = await asyncio.gather(*(world.store.barrier("shop", server.resource_version) for _ in range(50)))
        assert all(passed)
        assert len(server.watch_starts) - starts == 1


async def test_barrier_that_a_gap_overtakes_does_not_pass(server: FakeApiServer) -> None:
    """The new anchor's LIST is past the version asked for, but what happened in between is not known."""
    async with following(server, barrier_patience_s=5.0) as world:
        await eventually(lambda: server.watches)
        server.tick()
        asked = asyncio.create_task(world.store.barrier("shop", server.resource_version))
        await asyncio.sleep(0)
        server.send_error(500)
        assert await asked is False
        await world.store.wait_anchored()
        assert world.store.position("shop") >= server.resource_version


async def test_barrier_below_a_position_seen_before_the_read_is_a_restore(server: FakeApiServer) -> None:
    async with following(server) as world:
        await eventually(lambda: server.watches)
        position = world.store.position("shop")
        assert not await world.store.barrier("shop", position - 1, not_below=position)
        await eventually(lambda: world.gaps)
        assert "restored" in world.gaps[0]


async def test_barrier_for_a_namespace_that_is_not_followed_does_not_pass(server: FakeApiServer) -> None:
    async with following(server, scopes=("shop",)) as world:
        assert not await world.store.barrier("other", 1)


async def test_barrier_brings_up_every_namespace_because_a_copy_of_a_pod_holds_its_id_in_any(server: FakeApiServer) -> None:
    """resourceVersions of one kind compare over namespaces (KEP-5504)."""
    async with following(server, scopes=("shop", "team")) as world:
        await eventually(lambda: len(server.watches) >= 2)
        server.set_stalled(True)
        server.put(pod(uid="copy", namespace="team"))
        server.tick()
        assert await world.store.barrier("shop", server.resource_version)
        assert world.state("copy") is IncarnationState.LIVE
        assert min(world.store.position(scope) for scope in ("shop", "team")) == server.resource_version


async def test_a_namespace_that_is_to_be_followed_and_is_there_again_is_named(server: FakeApiServer) -> None:
    async with following(server, scopes=("shop",), gone=("team", "lab")) as world:
        assert await world.store.unfollowed() == ""
        server.put({"metadata": {"name": "lab", "namespace": ""}}, "namespaces")
        assert await world.store.unfollowed() == "lab"
        server.denied.add(("get", "namespaces"))  # no answer says nothing
        assert await world.store.unfollowed() == "team"
