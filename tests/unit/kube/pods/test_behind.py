"""One workload whose ends cannot be written resets nobody else's continuity, and its own only when its history is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.continuity import Continuity
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import WatchedStore, following
from unit.kube.raw_objects import eventually, pod

WEB, BILL = ("shop", "web"), ("shop", "bill")


def bill(ordinal: int) -> dict[str, object]:
    made: dict[str, object] = pod(f"bill-{ordinal}", uid=f"bill-{ordinal}", instance_id=f"bill-{ordinal}.1a2b3c4d")
    return made


def stored_of(world: WatchedStore) -> Continuity:
    found = world.store.continuity()
    assert found is not None
    return found


async def troubled(server: FakeApiServer) -> Continuity:
    """Return what is stored after web-0 ended and cannot be written, and pods of `bill` came and went since."""
    server.put(pod())
    server.put(bill(0))
    clock_s = [50.0]
    async with following(server, now_s=lambda: clock_s[0]) as world:
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)
        server.put(bill(1))
        await eventually(lambda: world.state("bill-1") is IncarnationState.LIVE)
        clock_s[0] += 3600
        stored = stored_of(world)
        assert stored.resource_versions[""] == world.store.position("shop")
        assert set(stored.behind) == {WEB}
        again = Continuity.from_json(stored.to_json())
        assert again == stored
        return stored


async def test_restart_that_finds_the_history_loses_nothing_of_anybody(server: FakeApiServer) -> None:
    stored = await troubled(server)
    async with following(server, resume=stored, seed=2) as world:
        assert (world.store.epoch, world.gaps, dict(world.store.behind_workloads)) == (stored.epoch, [], {})
        assert world.state() is IncarnationState.SUSPECT


@pytest.mark.parametrize("as_event", [False, True])
async def test_restart_without_the_history_is_a_gap_of_that_workload_alone(server: FakeApiServer, as_event: bool) -> None:
    stored = await troubled(server)
    server.gone_as_event = as_event
    server.compacted = stored.behind[WEB] + 1
    server.remove("shop", "bill-1")  # after the stored position
    async with following(server, resume=stored, seed=2) as world:
        store = world.store
        assert world.gaps == []
        assert dict(store.behind_workloads) == {WEB: stored.behind[WEB]}
        assert store.epoch not in ("", stored.epoch)
        assert stored.epoch in store.unbroken_since("shop", workload="bill")
        assert stored.epoch in store.unbroken_since("shop", "bill-0")
        assert stored.epoch not in store.unbroken_since("shop", workload="web")
        assert stored.epoch not in store.unbroken_since("shop", "web-0")
        assert stored.epoch not in store.unbroken_since("shop")
        assert world.state("bill-1") is IncarnationState.SUSPECT
        after = stored_of(world)
    # whoever is asked for nothing more than this text knows the same
    again = Continuity.from_json(after.to_json())
    async with following(server, resume=again, seed=3) as world:
        assert world.store.epoch == after.epoch
        assert stored.epoch in world.store.unbroken_since("shop", workload="bill")
        assert stored.epoch not in world.store.unbroken_since("shop", workload="web")
        assert after.epoch in world.store.unbroken_since("shop", workload="web")


async def test_workload_that_is_gone_meanwhile_is_nobodys_gap(server: FakeApiServer) -> None:
    stored = await troubled(server)
    server.compacted = stored.behind[WEB] + 1
    async with following(server, resume=stored, seed=2, is_managed=lambda: False) as world:
        assert (world.store.epoch, world.gaps, dict(world.store.behind_workloads)) == (stored.epoch, [], {})


async def test_position_that_is_gone_itself_is_a_gap_of_all(server: FakeApiServer) -> None:
    stored = await troubled(server)
    server.put(bill(2))
    server.compact()
    async with following(server, resume=stored, seed=2) as world:
        assert len(world.gaps) == 1
        assert stored.epoch not in world.store.unbroken_since("shop", workload="bill")
        assert stored_of(world).since == {}


async def test_workload_without_a_position_is_blind_and_nothing_is_asked_from_anywhere(server: FakeApiServer) -> None:
    stored = replace(await troubled(server), behind={WEB: 0})
    async with following(server, resume=stored, seed=2) as world:
        assert dict(world.store.behind_workloads) == {WEB: 0}
        assert stored.epoch in world.store.unbroken_since("shop", workload="bill")
    assert "0" not in {str(start) for resource, start, _ in server.watch_starts if resource == "pods"}


async def test_gap_after_the_start_forgets_the_epochs_before_it(server: FakeApiServer) -> None:
    stored = await troubled(server)
    server.compacted = stored.behind[WEB] + 1
    async with following(server, resume=stored, seed=2) as world:
        server.put(bill(3))
        server.drop_event()
        await world.store.relist()
        await eventually(lambda: world.gaps and world.store.epoch)
        assert stored.epoch not in world.store.unbroken_since("shop", workload="bill")


async def test_restored_etcd_below_the_stored_position_is_seen_although_it_is_above_that_of_the_workload(
    server: FakeApiServer,
) -> None:
    stored = await troubled(server)
    future = replace(stored, resource_versions={"": stored.resource_versions[""] + 1000})
    async with following(server, resume=future, seed=2) as world:
        assert "restored" in world.gaps[0]
        assert stored.epoch not in world.store.unbroken_since("shop", workload="bill")


async def test_standby_that_began_after_the_end_goes_on_for_all_other_workloads(server: FakeApiServer) -> None:
    stored = await troubled(server)
    async with following(server, seed=2) as standby:
        own = standby.store.epoch
        server.tick()
        ahead = replace(stored, resource_versions={"": server.resource_version})
        assert standby.store.adopt(ahead)
        assert dict(standby.store.behind_workloads) == {WEB: stored.behind[WEB]}
        assert standby.store.epoch not in (own, stored.epoch)
        assert {own, stored.epoch} <= standby.store.unbroken_since("shop", workload="bill")
        assert stored.epoch not in standby.store.unbroken_since("shop", workload="web")
        assert own in standby.store.unbroken_since("shop", workload="web")


async def test_standby_that_saw_the_end_itself_goes_on_for_all(server: FakeApiServer) -> None:
    server.put(pod())
    clock_s = [50.0]
    async with (
        following(server, seed=1, now_s=lambda: clock_s[0]) as holder,
        following(server, seed=2, now_s=lambda: clock_s[0]) as standby,
    ):
        server.remove("shop", "web-0")
        await eventually(lambda: holder.state() is standby.state() is IncarnationState.SUSPECT)
        clock_s[0] += 3600
        stored = stored_of(holder)
        assert set(stored.behind) == {WEB}
        assert standby.store.adopt(stored)
        assert (standby.store.epoch, dict(standby.store.behind_workloads)) == (stored.epoch, {})


async def test_holder_that_resumed_without_a_workload_need_not_continue_what_it_came_from(server: FakeApiServer) -> None:
    stored = await troubled(server)
    server.compacted = stored.behind[WEB] + 1
    async with following(server, resume=stored, seed=2) as world:
        epoch = world.store.epoch
        assert world.store.adopt(stored)
        assert world.store.epoch == epoch
        assert stored.epoch in world.store.unbroken_since("shop", workload="bill")


async def test_take_over_counts_as_durable_what_the_holder_of_the_same_epoch_had_written(server: FakeApiServer) -> None:
    server.put(pod())
    server.put(bill(0))
    async with following(server, seed=1) as holder:
        stored = stored_of(holder)
        async with following(server, resume=stored, seed=2) as standby:
            server.remove("shop", "web-0")
            server.remove("shop", "bill-0")
            await eventually(lambda: holder.state("bill-0") is standby.state("bill-0") is IncarnationState.SUSPECT)
            for suspect in holder.store.chain("shop", pod_names=["bill-0"]):
                assert holder.store.mark_durable(suspect)
            last = stored_of(holder)
            moved = replace(last, resource_versions={"": holder.store.position("shop")}, behind={WEB: last.resource_versions[""]})
            assert standby.store.adopt(moved)
            assert standby.store.is_durable("bill-0")
            assert not standby.store.is_durable("uid-0")
