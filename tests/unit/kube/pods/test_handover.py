"""A later process, or a standby, goes on from what was stored, and only from that."""

from __future__ import annotations

from dataclasses import dataclass, field

from staticgroup.core.evidence.chain import PodState
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.pods.store import REPLAYED_S, SAMPLES_APART_S, SAMPLES_MAX
from staticgroup.kube.pods.watch.messages import Gap
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
from unit.kube.pods.watched import WatchedStore, following
from unit.kube.raw_objects import born, eventually, finished, pod

NAME = "1700000000-0a1b2c3d"


def at(version: int, name: str = NAME, scope: str = "") -> WatchPosition:
    return WatchPosition({scope: ScopePosition(version, name)})


@dataclass
class Renewed:
    """A store whose Lease is renewed as time goes by and versions are written."""

    server: FakeApiServer
    world: WatchedStore
    clock: Clock
    versions: list[int] = field(default_factory=list)

    async def later(self, seconds: float) -> None:
        """Let some time pass, with one change at its end that the watch has brought by then."""
        self.clock.now_s += seconds
        self.server.put(pod("api-0", uid="api"))
        await eventually(lambda: self.world.store.position("") == self.server.resource_version)
        self.versions.append(self.server.resource_version)


async def test_the_stored_position_is_that_of_a_while_ago(server: FakeApiServer) -> None:
    """What happened since is in no status yet, perhaps."""
    clock = Clock()
    async with following(server, clock_s=clock) as world:
        it, anchor = Renewed(server, world, clock), world.store.position("")
        assert world.stored() == (anchor, world.watch())
        for _ in range(6):
            await it.later(REPLAYED_S / 4)
            assert world.stored().watch == world.watch()
        assert world.stored().resource_version == it.versions[1]
        clock.now_s += REPLAYED_S
        assert world.stored().resource_version == it.versions[5]


async def test_positions_are_taken_no_closer_than_some_seconds_apart(server: FakeApiServer) -> None:
    """A Lease is renewed each second."""
    clock = Clock()
    async with following(server, clock_s=clock) as world:
        it = Renewed(server, world, clock)
        world.stored()
        for _ in range(3):
            await it.later(SAMPLES_APART_S * 0.9)
            world.stored()
        clock.now_s += REPLAYED_S - SAMPLES_APART_S * 0.9
        assert world.stored().resource_version == it.versions[0], "of the second one nothing was kept"
        clock.now_s += SAMPLES_APART_S * 0.9
        assert world.stored().resource_version == it.versions[2]


async def test_a_status_that_is_not_written_holds_the_position_back(server: FakeApiServer) -> None:
    clock = Clock()
    async with following(server, clock_s=clock) as world:
        it = Renewed(server, world, clock)
        world.stored()
        await it.later(REPLAYED_S)
        world.stored()
        unstored_since_s = clock.now_s + 1
        for _ in range(3):
            await it.later(REPLAYED_S * 2)
            found = world.stored(unstored_since_s=unstored_since_s)
        assert found.resource_version < it.versions[0], "some time before it had to be written"
        assert world.stored(unstored_since_s=unstored_since_s + REPLAYED_S).resource_version == it.versions[0]
        assert world.stored(unstored_since_s=clock.now_s + 1_000).resource_version == it.versions[2], "what is to come brings nothing forward"
        assert world.stored().resource_version == it.versions[2]


async def test_a_status_that_is_not_written_for_days_costs_no_memory(server: FakeApiServer) -> None:
    clock = Clock()
    async with following(server, clock_s=clock) as world:
        since_s, anchor = clock.now_s, world.stored()
        for _ in range(SAMPLES_MAX + 50):
            clock.now_s += SAMPLES_APART_S
            assert world.stored(unstored_since_s=since_s) == anchor
        assert len(world.store._samples) <= SAMPLES_MAX


async def test_process_that_goes_on_keeps_the_name_and_certifies_what_ended_meanwhile(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="dies"))
    server.put(pod("web-1", uid="stays"))
    server.put(pod("web-2", uid="forced"))
    async with following(server) as world:
        stored = world.store.lease_position(None)
    assert stored is not None
    server.put(finished("web-0", uid="dies"))
    server.remove("shop", "web-0")
    server.remove("shop", "web-2")
    server.put(born("web-3", uid="new"))
    server.put(pod("web-4", uid="came-and-went"))
    server.remove("shop", "web-4")
    again = WatchPosition.from_json(stored.to_json())
    async with following(server, resume=again, seed=2) as world:
        assert world.watch() == stored.scopes[""].watch
        assert world.gaps == []
        assert {uid: world.state(uid) for uid in ("dies", "stays", "forced", "new", "came-and-went")} == {
            "dies": PodState.DEAD, "stays": PodState.LIVE, "forced": PodState.SUSPECT,
            "new": PodState.LIVE, "came-and-went": PodState.SUSPECT}
        assert world.stored() == stored.scopes[""], "what it replayed is in no status of its own yet"


async def test_end_of_before_the_stored_position_is_not_known_to_the_next_process(server: FakeApiServer) -> None:
    """So the position waits for the status that records it."""
    server.put(pod())
    async with following(server) as world:
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is PodState.SUSPECT)
        position = world.store.position("")
    async with following(server, resume=at(position)) as world:
        assert (world.watch(), world.state()) == (NAME, None)


async def test_position_that_is_gone_begins_a_new_watch(server: FakeApiServer) -> None:
    stored = at(server.resource_version)
    server.put(pod())
    server.compact()
    async with following(server, resume=stored) as world:
        await eventually(world.watch)
        assert world.watch() != NAME
        assert len(world.gaps) == 1
        assert world.state() is PodState.LIVE


async def test_more_namespaces_than_were_stored_begin_new_watches_and_the_others_go_on(server: FakeApiServer) -> None:
    stored = at(server.resource_version, scope="shop")
    async with following(server, resume=stored, scopes=("shop", "bill")) as world:
        assert world.watch("shop") == NAME
        assert world.watch("bill") not in ("", NAME)
        assert world.gaps == []
    async with following(server, resume=at(server.resource_version), scopes=("shop", "bill")) as world:
        assert (world.watch("shop"), world.watch("bill")) == (NAME, NAME)


async def test_nothing_is_stored_of_a_watch_that_is_not_whole_any_more(server: FakeApiServer) -> None:
    """The Lease would say that it is: a process that ends before it is whole again leaves it, and the next one goes on."""
    server.put(pod())
    async with following(server, scopes=("shop", "bill")) as world:
        await eventually(lambda: len(server.watches) == 2)
        both = some(world.store.lease_position(None))
        assert set(both.scopes) == {"shop", "bill"}
        server.failing_paths.add("/api/v1/namespaces/shop/pods")
        world.store._streams["shop"].report_gap(Gap(reason="a test"))
        stored = world.store.lease_position(None)
        await eventually(lambda: world.gaps)
        begun = world.store.lease_position(None)
        assert stored == begun == WatchPosition({"bill": both.scopes["bill"]})
        server.failing_paths.clear()
        await eventually(lambda: world.watch("shop"))
        server.failing_paths.update(f"/api/v1/namespaces/{scope}/pods" for scope in ("shop", "bill"))
        world.store.begin_anew("a test")
        assert world.store.lease_position(None) == WatchPosition({})
        await eventually(lambda: len(world.gaps) == 3)
        assert world.store.lease_position(None) == WatchPosition({}), "which is no position to go on from"
        server.failing_paths.clear()
        await eventually(lambda: world.watch("shop") and world.watch("bill"))
        assert {s: p.watch for s, p in world.store.lease_position(None).scopes.items()} == {s: world.watch(s) for s in ("shop", "bill")}  # type: ignore[union-attr]


async def test_what_is_stored_is_kept_before_anything_is_known(server: FakeApiServer) -> None:
    server.denied.add(("list", "pods"))
    async with following(server, is_watched=False) as world:
        assert world.store.lease_position(None) is None


async def test_standby_that_overlaps_what_the_holder_stored_goes_on_under_its_name(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server, seed=1) as holder, following(server, seed=2) as standby:
        server.put(pod("web-1", uid="uid-1"))
        await eventually(lambda: holder.state("uid-1") and standby.state("uid-1"))
        stored = some(holder.store.lease_position(None))
        assert standby.watch() != holder.watch()
        standby.store.adopt(stored)
        assert standby.watch() == holder.watch()
        assert standby.store.lease_position(None) == stored, "what is in no status yet is replayed also after the next hand-over"


async def test_standby_goes_on_from_what_the_holder_stored_and_not_from_where_it_began_itself(server: FakeApiServer) -> None:
    """It began long ago, from a position of that time; the events since then are gone from the API server."""
    clock = Clock()
    async with following(server, clock_s=clock) as holder:
        first = some(holder.store.lease_position(None))
        async with following(server, clock_s=clock, resume=first, seed=2) as standby:
            it = Renewed(server, holder, clock)
            for _ in range(3):
                await it.later(3_600)
                holder.stored()
            stored = some(holder.store.lease_position(None))
            standby.store.adopt(stored)
            assert standby.stored().resource_version == it.versions[-2] > first.scopes[""].resource_version


async def test_holder_that_began_from_what_is_stored_goes_on_from_there(server: FakeApiServer) -> None:
    """It has listed after that position, and what it has replayed since is in no status yet."""
    async with following(server) as world:
        stored = world.store.lease_position(None)
    assert stored is not None
    server.put(pod())
    server.remove("shop", "web-0")
    async with following(server, resume=stored, seed=2) as world:
        await eventually(lambda: world.state() is PodState.SUSPECT)
        world.store.adopt(stored)
        assert world.store.lease_position(None) == stored


async def test_standby_that_listed_after_the_stored_position_keeps_its_own_name(server: FakeApiServer) -> None:
    async with following(server, seed=1) as holder:
        stored = holder.store.lease_position(None)
    assert stored is not None
    server.put(pod())
    server.remove("shop", "web-0")  # came and went between the stored position and the standby's LIST
    async with following(server, seed=2) as standby:
        own = standby.watch()
        standby.store.adopt(stored)
        assert standby.watch() == own
        assert standby.stored().watch == own


async def test_standby_adopts_each_namespace_by_itself(server: FakeApiServer) -> None:
    async with following(server, scopes=("shop", "bill"), seed=2) as standby:
        own = standby.watch("bill")
        standby.store.adopt(at(10**6, scope="shop"))
        assert (standby.watch("shop"), standby.watch("bill")) == (NAME, own)
        standby.store.adopt(at(10**6, "1700000001-0a1b2c3d"))
        assert (standby.watch("shop"), standby.watch("bill")) == ("1700000001-0a1b2c3d",) * 2


async def test_a_gap_of_the_holder_is_none_of_the_standby(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as holder, following(server, resume=holder.store.lease_position(None), seed=2) as standby:
        first = holder.watch()
        await eventually(lambda: len(server.watches) == 2)
        holder.store._streams[""].report_gap(Gap(reason="410 at the API server of the holder"))
        await eventually(lambda: holder.gaps and holder.watch())
        second = holder.watch()
        assert (standby.watch(), second != first) == (first, True)
        stored = some(holder.store.lease_position(None))
        standby.store.adopt(stored)
        assert standby.watch() == second, "the name by which statuses remember by now"
