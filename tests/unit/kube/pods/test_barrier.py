"""A barrier brings the watch up to a consistent read, or says that it did not."""

import asyncio

from staticgroup.core.evidence.chain import PodState
from support.clock import Clock
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
        server.set_stalled(True)
        server.put(finished())
        server.remove("shop", "web-0")
        server.tick()
        assert await world.store.barrier("shop", server.resource_version)
        assert world.state() is PodState.DEAD
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
        server.set_stalled(True)
        server.put(pod("web-1", uid="uid-1"))
        assert await world.store.barrier("shop", server.resource_version)


async def test_concurrent_barriers_share_one_replay(server: FakeApiServer) -> None:
    async with following(server) as world:
        starts = len(server.watch_starts)
        server.tick()
        passed = await asyncio.gather(*(world.store.barrier("shop", server.resource_version) for _ in range(50)))
        assert all(passed)
        assert len(server.watch_starts) - starts == 1


async def test_barrier_that_a_gap_overtakes_does_not_pass(server: FakeApiServer) -> None:
    """The new anchor's LIST is past the version asked for, but what happened in between is not known."""
    async with following(server, barrier_patience_s=5.0) as world:
        server.tick()
        asked = asyncio.create_task(world.store.barrier("shop", server.resource_version))
        await asyncio.sleep(0)
        server.send_error(500)
        assert await asked is False
        await eventually(world.watch)
        assert world.store.position("shop") >= server.resource_version


async def test_barrier_below_a_position_seen_before_the_read_is_a_restore(server: FakeApiServer) -> None:
    async with following(server) as world:
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
        assert world.state("copy") is PodState.LIVE
        assert min(world.store.position(scope) for scope in ("shop", "team")) == server.resource_version


async def test_the_present_is_reached_by_a_read_that_begins_now(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        server.set_stalled(True)
        server.put(finished())
        server.tick()
        assert await world.store.reach_present("shop")
        assert world.state() is PodState.DEAD
        server.failing["list", "pods"] = [503]
        assert not await world.store.reach_present("shop"), "no answer is no read"
        assert world.gaps == []


TEAM_PODS = "/api/v1/namespaces/team/pods"


async def test_namespace_that_may_not_be_followed_any_more_holds_nobody_else_up(server: FakeApiServer) -> None:
    """Who administers it deletes the operator's RoleBinding, or it hangs in Terminating; a copy in it is one in a namespace not served."""
    server.put(pod())
    clock = Clock()
    async with following(server, scopes=("shop", "team"), clock_s=clock) as world:
        await eventually(lambda: len(server.watches) == 2)
        server.forbidden_paths.add(TEAM_PODS)
        server.break_watches()
        await eventually(lambda: world.problems)
        server.tick()
        assert await world.store.barrier("shop", server.resource_version)
        assert await world.store.reach_present("shop")
        assert not await world.store.reach_present("team"), "its own removals wait"
        assert (world.gaps, world.store.is_whole) == ([], True)
        clock.now_s += 1_000
        server.tick()
        await world.store.barrier("shop", server.resource_version)
        assert world.store.age_s() < 1_000, "and no probe ends the process over it"
        server.forbidden_paths.clear()
        await eventually(lambda: not world.problems)
        assert await world.store.reach_present("team")


async def test_operator_begins_beside_a_namespace_that_it_may_not_follow(server: FakeApiServer) -> None:
    server.forbidden_paths.add(TEAM_PODS)
    async with following(server, scopes=("shop", "team")) as world:
        await eventually(lambda: world.watch("shop"))
        assert world.watch("team") == ""
        assert await world.store.barrier("shop", server.resource_version)


async def test_namespace_that_is_only_not_answered_for_is_waited_for(server: FakeApiServer) -> None:
    """A copy of a pod in it may hold the id, and it is to be seen."""
    async with following(server, scopes=("shop", "team")) as world:
        await eventually(lambda: len(server.watches) == 2)
        server.failing_paths.add(TEAM_PODS)
        server.break_watches()
        await eventually(lambda: world.problems)
        server.put(pod(uid="copy", namespace="team"))
        assert not await world.store.barrier("shop", server.resource_version)
        server.failing_paths.clear()
        assert await world.store.barrier("shop", server.resource_version)
        assert world.state("copy") is PodState.LIVE
