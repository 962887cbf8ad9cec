"""A later process, or a standby, goes on from what was stored, and only from that."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.pods.watch.sink import Gap
from support.fake_apiserver import FakeApiServer
from support.long_drills import by_length
from unit.kube.pods.watched import UID, WatchedStore, following
from unit.kube.raw_objects import born, eventually, finished, pod


async def test_standby_with_an_unbroken_watch_keeps_its_history_beyond_a_gap_of_the_holder(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as holder, following(server, resume=holder.store.continuity(), seed=2) as standby:
        first = holder.store.epoch
        await eventually(lambda: len(server.watches) == 2)
        holder.store._streams[""].report_gap(Gap(reason="410 at the API server of the holder"))
        await eventually(lambda: holder.gaps and holder.store.epoch)
        second = holder.store.epoch
        await eventually(lambda: standby.store.position("") >= server.resource_version)
        stored = holder.store.continuity()
        assert stored is not None
        assert standby.store.adopt(stored)
        assert standby.store.unbroken_since("shop") == {first, second}


async def test_resumed_process_keeps_the_epoch_and_certifies_what_died_meanwhile(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="dies"))
    server.put(pod("web-1", uid="stays"))
    server.put(pod("web-2", uid="forced"))
    async with following(server) as world:
        stored = world.store.continuity()
    assert stored is not None
    server.put(finished("web-0", uid="dies"))
    server.remove("shop", "web-0")
    server.remove("shop", "web-2")
    server.put(born("web-3", uid="new"))
    again = Continuity.from_json(stored.to_json())
    async with following(server, resume=again, seed=2) as world:
        assert world.store.epoch == stored.epoch
        assert world.gaps == []
        assert {uid: world.state(uid) for uid in ("dies", "stays", "forced", "new")} == {
            "dies": IncarnationState.DEAD, "stays": IncarnationState.LIVE, "forced": IncarnationState.SUSPECT,
            "new": IncarnationState.LIVE}


async def test_resume_from_a_position_that_is_gone_is_a_gap(server: FakeApiServer) -> None:
    stored = Continuity(epoch="old", resource_versions={"": server.resource_version})
    server.put(pod())
    server.compact()
    async with following(server, resume=stored) as world:
        assert world.store.epoch not in ("", "old")
        assert len(world.gaps) == 1
        assert world.state() is IncarnationState.LIVE


async def test_resume_from_the_future_is_a_restored_etcd(server: FakeApiServer) -> None:
    stored = Continuity(epoch="old", resource_versions={"": server.resource_version + 1000})
    server.put(pod())
    async with following(server, resume=stored) as world:
        assert world.store.epoch not in ("", "old")
        assert "restored" in world.gaps[0]
        assert world.store.position("shop") <= server.resource_version


async def test_resume_with_more_namespaces_than_were_stored_is_a_gap(server: FakeApiServer) -> None:
    stored = Continuity(epoch="old", resource_versions={"shop": server.resource_version})
    async with following(server, resume=stored, scopes=("shop", "other")) as world:
        assert world.store.epoch != "old"
        assert len(world.gaps) == 1
    stored = Continuity(epoch="old", resource_versions={"": server.resource_version})
    async with following(server, resume=stored, scopes=("shop", "other")) as world:
        assert (world.store.epoch, world.gaps) == ("old", [])


async def test_standby_goes_on_under_the_epoch_of_a_holder_whose_knowledge_it_overlaps(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server, seed=1) as holder, following(server, seed=2) as standby:
        server.put(pod("web-1", uid="uid-1"))
        await eventually(lambda: holder.state("uid-1") and standby.state("uid-1"))
        stored = holder.store.continuity()
        assert stored is not None
        assert standby.store.epoch != stored.epoch
        assert standby.store.adopt(stored)
        now = standby.store.continuity()
        assert now is not None
        assert replace(now, read=stored.read) == stored


async def test_standby_that_listed_after_the_stored_position_adopts_nothing(server: FakeApiServer) -> None:
    async with following(server, seed=1) as holder:
        stored = holder.store.continuity()
    assert stored is not None
    server.put(pod())
    server.remove("shop", "web-0")  # came and went between the stored position and the standby's LIST
    async with following(server, seed=2) as standby:
        epoch = standby.store.epoch
        assert not standby.store.adopt(stored)
        assert standby.store.epoch == epoch


async def test_standby_adopts_a_watch_over_all_namespaces_for_its_own_and_never_one_that_lacks_them(
    server: FakeApiServer,
) -> None:
    async with following(server, scopes=("shop", "other"), seed=2) as standby:
        epoch = standby.store.epoch
        assert not standby.store.adopt(Continuity(epoch="held", resource_versions={"shop": 10**6}))
        assert standby.store.epoch == epoch
        assert not standby.store.adopt(Continuity(epoch="held", resource_versions={"": 10**6}))
        assert standby.store.adopt(Continuity(epoch="held", resource_versions={"": 10**6}, timeline="theirs"))
        assert (standby.store.epoch, standby.store.timeline) == ("held", "theirs")


async def test_after_an_etcd_restore_no_epoch_is_adopted(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        before = world.store.position("shop")
        assert not await world.store.barrier("shop", before - 1, not_below=before)
        await eventually(lambda: world.gaps and world.store.epoch)
        epoch = world.store.epoch
        assert not world.store.adopt(Continuity(epoch="held", resource_versions={"": 10**6}))
        assert world.store.epoch == epoch


async def test_stored_position_never_passes_an_end_that_is_not_durable(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        last = server.remove("shop", "web-0")
        server.put(pod("web-1", uid="uid-1"))
        await eventually(lambda: world.state("uid-1"))
        deleted_at = int(last["metadata"]["resourceVersion"])
        stored = world.store.continuity()
        assert stored is not None
        assert stored.resource_versions[""] == deleted_at - 1
        (suspect,) = world.store.chain("shop", pod_names=["web-0"])
        assert world.store.mark_durable(suspect)
        after = world.store.continuity()
        assert after is not None
        assert after.resource_versions[""] == world.store.position("shop")
    async with following(server, resume=stored) as world:
        assert world.state() is IncarnationState.SUSPECT


async def test_ledger_entry_that_no_list_shows_becomes_a_suspect(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        ledger = world.store.chain("shop", pod_names=["web-0"])
    server.remove("shop", "web-0")
    async with following(server, merged=ledger) as world:
        assert world.state() is IncarnationState.SUSPECT
        assert [i.uid for i in world.store.chain("shop", instance_ids=["web-0.1a2b3c4d"])] == [UID]


async def test_ledger_from_an_abandoned_time_line_is_recognised(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        server.put(finished())
        await eventually(lambda: world.state() is IncarnationState.DEAD)
        ledger = world.store.chain("shop", pod_names=["web-0"])
    server.objects.clear()
    server.resource_version = 10
    server.put(pod())
    async with following(server, merged=ledger) as world:
        assert world.state() is IncarnationState.LIVE


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"epoch": "", "resourceVersions": {}}', '{"epoch": "a"}',
                                  '{"epoch": "a", "resourceVersions": {"": 0}}', '{"epoch": 1, "resourceVersions": {}}',
                                  '{"epoch": "a", "resourceVersions": {"": 1}, "at": 1' + "0" * 400 + "}", "[" * 100_000])
def test_unusable_stored_continuity_is_none(text: str) -> None:
    assert Continuity.from_json(text) is None


@settings(max_examples=by_length(short=12, long=25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["run", "end", "remove", "cut", "restart", "tick"])), max_size=14))
async def test_any_split_of_a_history_into_resumed_watches_folds_to_the_same_incarnations(steps: list[tuple[int, str]]) -> None:
    """Cut connections and restart the process anywhere: states equal those of one uninterrupted store."""
    async with FakeApiServer().serving() as server, following(server, reconnect_delay_s=0.0005) as straight:
        generation = dict.fromkeys(range(3), 0)
        resume, ledger = straight.store.continuity(), ()
        segments: list[list[tuple[int, str]]] = [[]]
        for step in steps:
            segments[-1].append(step) if step[1] != "restart" else segments.append([])
        for segment in segments:
            async with following(server, resume=resume, merged=ledger) as world:
                for slot, step in segment:
                    _step(server, generation, slot, step)
                await eventually(lambda w=world: _settled(straight, w, server))  # type: ignore[misc]
                names = [f"web-{n}" for n in range(3)]
                ledger = world.store.chain("shop", pod_names=names)
                resume = world.store.continuity()
                expected = {i.uid: (i.state, i.object_present) for i in straight.store.chain("shop", pod_names=names)}
                assert {i.uid: (i.state, i.object_present) for i in ledger} == expected
                assert (world.gaps, straight.gaps) == ([], [])


def _step(server: FakeApiServer, generation: dict[int, int], slot: int, step: str) -> None:
    name, uid = f"web-{slot}", f"uid-{slot}-{generation[slot]}"
    there = server.objects.get(("pods", "shop", name), {})
    if step == "run" and there.get("status", {}).get("phase") == "Succeeded":
        return  # a terminal phase is never left
    if step in ("run", "end"):
        server.put((pod if step == "run" else finished)(name, uid=uid))
    elif step == "remove" and ("pods", "shop", name) in server.objects:
        server.remove("shop", name)
        generation[slot] += 1
    elif step == "cut":
        server.break_watches()
    elif step == "tick":
        server.tick()


def _settled(straight: WatchedStore, world: WatchedStore, server: FakeApiServer) -> bool:
    last = max((event.resource_version for _, event in server.history), default=0)
    return min(straight.store.position("shop"), world.store.position("shop")) >= last
