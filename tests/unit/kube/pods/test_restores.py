"""An API server that went back in time begins new watches in every namespace, and what it shows then is believed again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from staticgroup.core.evidence.chain import PodState
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.pods.watch.messages import Gap
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import WatchedStore, following
from unit.kube.raw_objects import composed, eventually, finished, pod

RAISED = 1_000_000_000
"""By so much a restore by the book raises the counter of versions (etcdutl --bump-revision)."""


def is_whole_again(world: WatchedStore, before: str, gaps: int = 1) -> Callable[[], object]:
    return lambda: len(world.gaps) >= gaps and world.watch() not in ("", before)


async def test_restored_etcd_is_a_gap_and_a_pod_that_lives_again_loses_its_certificate(server: FakeApiServer) -> None:
    server.put(pod())
    backup = server.snapshot()
    async with following(server) as world:
        server.put(finished())
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is PodState.DEAD)
        before = world.watch()
        server.restore(backup)
        await eventually(is_whole_again(world, before))
        assert "restored" in world.gaps[0]
        assert world.state() is PodState.LIVE
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is PodState.SUSPECT)


async def test_restore_that_only_the_list_after_a_gap_shows_is_one(server: FakeApiServer) -> None:
    """etcd loses its quorum: the watch is answered 410, the LIST fails until etcd is restored from a backup."""
    server.put(composed(pod("web-0", uid="u0")))
    backup = server.snapshot()
    async with following(server) as world:
        server.put(composed(finished("web-0", uid="u0")))
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: world.state("u1"))
        before = world.watch()
        server.failing["list", "pods"] = [503] * 3
        server.send_error(410)
        await eventually(lambda: world.gaps)
        server.restore(backup)
        await eventually(is_whole_again(world, before, gaps=2))
        assert any("restored" in gap for gap in world.gaps)
        await eventually(lambda: world.state("u0") is PodState.LIVE and world.state("u1") is PodState.SUSPECT)


@pytest.mark.parametrize("turns", [3, 4])
async def test_restore_that_is_reported_while_another_gap_begins_is_not_lost(server: FakeApiServer, turns: int) -> None:
    """A restore breaks watches and shows in the Lease at about the same time; `_recover` clears what was reported."""
    server.put(composed(finished()))
    async with following(server) as world:
        stream, loop = world.store._streams[""], asyncio.get_running_loop()
        watch_once = stream._watch_once

        def later(turns_left: int) -> None:
            loop.call_soon(*((later, turns_left - 1) if turns_left else (world.store.begin_anew, "the Lease went back")))

        async def watched(*, check_restore: bool) -> Gap | None:
            found = await watch_once(check_restore=check_restore)
            if found is not None:
                later(turns - 1)
            return found

        stream._watch_once = watched  # type: ignore[method-assign]
        server.break_watches()
        await eventually(lambda: server.watches)
        server.send_error(410)
        await eventually(lambda: "the Lease went back" in world.gaps and world.watch())


async def test_position_in_the_future_is_a_restored_etcd(server: FakeApiServer) -> None:
    stored = WatchPosition({"": ScopePosition(server.resource_version + 1000, "1700000000-0a1b2c3d")})
    server.put(pod())
    async with following(server, resume=stored) as world:
        await eventually(is_whole_again(world, "1700000000-0a1b2c3d"))
        assert "restored" in world.gaps[0]
        assert world.store.position("shop") <= server.resource_version


async def relist(world: WatchedStore, server: FakeApiServer) -> None:
    await world.store.relist()


async def pass_a_barrier(world: WatchedStore, server: FakeApiServer) -> None:
    assert not await world.store.reach_present("shop")


async def connect_again(world: WatchedStore, server: FakeApiServer) -> None:
    server.break_watches()


@pytest.mark.parametrize("find", [relist, pass_a_barrier, connect_again])
async def test_restore_that_one_namespace_shows_is_one_for_all_of_them(
    server: FakeApiServer, find: Callable[[WatchedStore, FakeApiServer], Awaitable[None]]
) -> None:
    """The other one cannot be asked just now; by the time it can the versions may be beyond those of before again."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(finished("pay-0", uid="p0", namespace="bill")))
    async with following(server, scopes=("shop", "bill")) as world:
        await eventually(lambda: len(server.watches) == 2)
        before = world.watch("shop"), world.watch("bill")
        server.failing_paths.add("/api/v1/namespaces/bill/pods")
        server.resource_version -= 1
        await find(world, server)
        await eventually(lambda: world.watch("shop") not in ("", before[0]))
        assert world.watch("bill") == ""
        server.failing_paths.clear()
        server.resource_version += 1_000
        await eventually(lambda: world.watch("bill") not in ("", before[1]))
        assert all("restored" in gap for gap in world.gaps)


@pytest.mark.parametrize("was_deleted", [False, True], ids=["ended", "deleted"])
async def test_pod_that_lives_again_shows_an_api_server_that_went_back(server: FakeApiServer, was_deleted: bool) -> None:
    """A uid never comes back and a terminal phase is never left, so etcd was restored, whatever its counter says."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(finished("web-1", uid="u1")))
    async with following(server) as world:
        before = world.watch()
        if was_deleted:
            server.remove("shop", "web-1")
            await eventually(lambda: [i.object_present for i in world.store.chain("shop", pod_names=["web-1"])] == [False])
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(is_whole_again(world, before))
        assert "is back" in world.gaps[0]
        assert world.state("u1") is PodState.LIVE


def raise_revision(server: FakeApiServer, backup: object) -> None:
    """Restore a backup as its instructions say: objects keep their versions, the counter is raised, and history is gone."""
    server.model.restore(backup)  # type: ignore[arg-type]
    server.resource_version += RAISED
    server.compact()
    server.break_watches()


@pytest.mark.parametrize("meanwhile", ["ended", "deleted", "changed"])
async def test_restore_with_a_raised_counter_is_seen_by_an_object_older_than_it_was(server: FakeApiServer, meanwhile: str) -> None:
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(pod("web-1", uid="u1")))
    backup = server.snapshot()
    async with following(server) as world:
        before = world.watch()
        server.put(composed(pod("web-1", uid="u1") if meanwhile == "changed" else finished("web-1", uid="u1")))
        if meanwhile == "deleted":
            server.remove("shop", "web-1")
        await eventually(lambda: world.store.position("") == server.resource_version)
        raise_revision(server, backup)
        await eventually(is_whole_again(world, before, gaps=2))
        assert any("uid u1) is back (etcd restored?)" in gap for gap in world.gaps)
        assert world.state("u1") is PodState.LIVE
        gaps = len(world.gaps)
        await world.store.relist()
        await asyncio.sleep(0)
        assert len(world.gaps) == gaps, "it is reported once"


async def test_raised_counter_that_no_watch_was_broken_by_is_seen_by_the_comparison(server: FakeApiServer) -> None:
    server.put(composed(pod("web-0", uid="u0")))
    backup = server.snapshot()
    async with following(server) as world:
        before = world.watch()
        server.put(composed(finished("web-0", uid="u0")))
        await eventually(lambda: world.state("u0") is PodState.DEAD)
        server.model.restore(backup)
        server.resource_version += RAISED
        await world.store.relist()
        await eventually(is_whole_again(world, before, gaps=2))
        assert world.state("u0") is PodState.LIVE


async def test_standby_that_saw_a_restore_adopts_no_name_of_before(server: FakeApiServer) -> None:
    server.put(pod())
    backup = server.snapshot()
    async with following(server) as world:
        old = WatchPosition({"": ScopePosition(server.resource_version, world.watch())})
        before = world.watch()
        for _ in range(3):
            server.put(pod("web-1", uid="u1"))
        await eventually(lambda: world.store.position("") == server.resource_version)
        server.restore(backup)
        server.tick()
        await eventually(is_whole_again(world, before))
        own = world.watch()
        world.store.adopt(old)
        assert world.watch() == own


async def test_read_that_is_overtaken_by_the_replay_of_a_barrier_is_no_restore(server: FakeApiServer) -> None:
    """The read before a reconnect is answered, and before its answer is taken a barrier's own short watch brings a newer event."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        (stream,) = world.store._streams.values()
        read, is_read, may_go_on = stream.current_resource_version, asyncio.Event(), asyncio.Event()

        async def slow() -> int | None:
            found = await read()
            is_read.set()
            await may_go_on.wait()
            return found

        stream.current_resource_version = slow  # type: ignore[method-assign]
        starts = len(server.watch_starts)
        server.break_watches()
        await is_read.wait()
        server.put(composed(pod("web-1", uid="u1")))
        assert await world.store.barrier("shop", server.resource_version)
        may_go_on.set()
        await eventually(lambda: len(server.watch_starts) >= starts + 2)
        assert world.gaps == []
