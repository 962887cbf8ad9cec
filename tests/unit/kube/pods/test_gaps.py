"""Every gap of the watch is said, and what it does not touch keeps its history."""

import asyncio

import pytest

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.pods.watch.sink import Gap
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import brief, following, lost_history
from unit.kube.raw_objects import composed, eventually, finished, pod


@pytest.mark.parametrize("gone_as_event", [False, True])
async def test_compacted_history_is_a_gap_with_a_new_epoch_and_keeps_what_was_known(
    server: FakeApiServer, gone_as_event: bool
) -> None:
    server.gone_as_event = gone_as_event
    server.put(pod())
    async with following(server) as world:
        epoch = world.store.epoch
        await eventually(lambda: server.watches)
        server.break_watches()
        server.remove("shop", "web-0")
        server.put(pod(uid="uid-1"))
        server.compact()
        await eventually(lambda: world.gaps and world.store.epoch)
        assert "410" in world.gaps[0]
        assert world.store.epoch != epoch
        assert world.state() is IncarnationState.SUSPECT
        assert world.state("uid-1") is IncarnationState.LIVE


async def test_names_whose_object_stayed_keep_their_history_over_a_gap(server: FakeApiServer) -> None:
    """An API server that restarts has lost its watch history; names are unique, and a uid never comes back."""
    for number in range(4):
        server.put(composed(pod(f"web-{number}", uid=f"u{number}")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        epoch = world.store.epoch
        server.break_watches()
        server.remove("shop", "web-1")
        server.put(pod("web-1", uid="u1b"))
        server.remove("shop", "web-2")
        server.put(pod("web-4", uid="u4"))
        await lost_history(server, world)
        stayed = {n for n in range(6) if epoch in world.store.unbroken_since("shop", f"web-{n}")}
        assert stayed == {0, 3}
        assert epoch not in world.store.unbroken_since("shop")
        assert world.state("u1") is world.state("u2") is IncarnationState.SUSPECT


async def test_gap_in_one_namespace_breaks_no_name_of_another(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="here"))
    async with following(server, scopes=("shop", "bill")) as world:
        await eventually(lambda: len(server.watches) == 2)
        epoch = world.store.epoch
        world.store._streams["shop"].report_gap(Gap(reason="a test"))
        await eventually(lambda: world.gaps and world.store.epoch)
        assert epoch in world.store.unbroken_since("bill", "web-7")
        assert epoch in world.store.unbroken_since("shop", "web-0")
        assert epoch not in world.store.unbroken_since("shop", "web-7")


async def test_process_that_begins_without_a_position_knows_no_name_since_before(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        assert world.store.unbroken_since("shop", "web-0") == {world.store.epoch}


async def test_expired_position_of_a_process_that_was_never_anchored_keeps_no_name(server: FakeApiServer) -> None:
    """What its LIST showed before the 410 came says nothing of the time since the stored position."""
    server.put(pod())
    stored = Continuity(epoch="e1", resource_versions={"": server.resource_version})
    server.put(pod("web-1", uid="other"))
    server.compact()
    async with following(server, resume=stored) as world:
        assert world.gaps
        assert "e1" not in world.store.unbroken_since("shop", "web-0")


async def test_forgotten_suspects_of_nobody_are_no_gap(server: FakeApiServer) -> None:
    async with following(server, gone_max=20, is_managed=lambda: False) as world:
        epoch = world.store.epoch
        for number in range(60):
            server.put(pod(f"job-{number}", uid=f"j{number}", instance_id=None))
            server.remove("shop", f"job-{number}")
        await eventually(lambda: world.store.position("") == server.resource_version)
        assert (world.store.epoch, world.gaps) == (epoch, [])
        assert len(world.store) <= 20


async def test_nothing_may_be_concluded_between_a_gap_and_the_new_anchor(server: FakeApiServer) -> None:
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.denied.add(("list", "pods"))
        server.send_error(500)
        await eventually(lambda: world.gaps)
        assert world.store.epoch == ""
        assert world.store.continuity() is None
        assert not await world.store.barrier("shop", 1)
        server.denied.clear()
        await world.store.wait_anchored()
        assert world.store.epoch


async def test_restored_etcd_is_a_gap_and_a_pod_that_lives_again_loses_its_certificate(server: FakeApiServer) -> None:
    server.put(pod())
    backup = server.snapshot()
    async with following(server) as world:
        server.put(finished())
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.DEAD)
        epoch = world.store.epoch
        server.restore(backup)
        await eventually(lambda: world.gaps and world.store.epoch)
        assert "restored" in world.gaps[0]
        assert world.store.epoch != epoch
        assert world.state() is IncarnationState.LIVE
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)


async def test_relist_that_agrees_is_no_gap(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        server.put(pod("web-1", uid="uid-1"))
        server.remove("shop", "web-0")
        server.tick()
        await world.store.relist()
        assert world.gaps == []


@pytest.mark.parametrize("what", ["created", "changed", "deleted"])
async def test_relist_that_contradicts_is_a_gap(server: FakeApiServer, what: str) -> None:
    server.put(pod())
    async with following(server) as world:
        await eventually(lambda: server.watches)
        if what == "created":
            server.put(pod("web-1", uid="uid-1"))
        elif what == "changed":
            server.put(pod(instance_id="another"))
        else:
            server.remove("shop", "web-0")
        server.drop_event()
        await world.store.relist()
        await eventually(lambda: world.gaps and world.store.epoch)
        if what == "deleted":
            assert world.state() is IncarnationState.SUSPECT
        else:
            assert {"created": "never delivered", "changed": "stopped at"}[what] in world.gaps[0]


async def test_stalled_stream_is_reconnected_without_a_gap(server: FakeApiServer) -> None:
    async with following(server, stall_timeout_s=0.05) as world:
        await eventually(lambda: len(server.watch_starts) >= 3)
        assert world.gaps == []


async def test_unavailable_server_is_no_gap_and_age_grows(server: FakeApiServer) -> None:
    async with following(server) as world:
        epoch = world.store.epoch
        server.failing_status = 503
        server.break_watches()
        await eventually(lambda: world.store.problems)
        assert world.store.problems[0].status == 503
        assert world.store.age_s() > 0
        server.failing_status = 0
        server.put(pod())
        await eventually(lambda: world.state() is IncarnationState.LIVE)
        assert (world.store.epoch, world.gaps) == (epoch, [])


async def test_unreadable_pod_is_a_gap(server: FakeApiServer) -> None:
    async with following(server) as world:
        await eventually(lambda: server.watches)
        raw = pod()
        raw["spec"]["containers"] = "none"
        server.put(raw)
        await eventually(lambda: world.gaps)
        assert "spec.containers" in world.gaps[0]


async def test_events_that_another_api_server_still_has_heal_the_gap(server: FakeApiServer) -> None:
    """Behind one address there may be several API servers, each with a watch history of its own."""
    for number in range(2):
        server.put(composed(pod(f"web-{number}", uid=f"u{number}")))
    async with following(server, sleep=brief) as world:
        await eventually(lambda: server.watches)
        epoch = world.store.epoch
        server.break_watches()
        server.put(composed(finished("web-1", uid="u1")))
        server.remove("shop", "web-1")
        server.put(composed(pod("web-2", uid="came-and-went")))
        server.remove("shop", "web-2")
        history, compacted = list(server.history), server.compacted
        await lost_history(server, world)
        assert epoch not in world.store.unbroken_since("shop")
        assert world.store.get("came-and-went") is None
        server.compacted, server.history = compacted, history + server.history
        await eventually(lambda: epoch in world.store.unbroken_since("shop"))
        assert world.state("u1") is IncarnationState.DEAD
        assert world.state("came-and-went") is IncarnationState.SUSPECT
        assert len(world.gaps) == 1


async def test_events_that_nobody_has_leave_the_gap_as_it_is(server: FakeApiServer) -> None:
    server.put(composed(pod()))
    async with following(server, sleep=brief) as world:
        await eventually(lambda: server.watches)
        epoch = world.store.epoch
        server.break_watches()
        server.put(composed(pod("web-7", uid="u7")))
        await lost_history(server, world)
        starts = len(server.watch_starts)
        await eventually(lambda: len(server.watch_starts) > starts + 3)
        assert epoch not in world.store.unbroken_since("shop", "web-7")
        assert epoch in world.store.unbroken_since("shop", "web-0")


@pytest.mark.parametrize("was_deleted", [False, True], ids=["ended", "deleted"])
async def test_pod_that_lives_again_shows_an_api_server_that_went_back(server: FakeApiServer, was_deleted: bool) -> None:
    """A uid never comes back and a terminal phase is never left, so etcd was restored, whatever its counter says."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(finished("web-1", uid="u1")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline, epoch = world.store.timeline, world.store.epoch
        if was_deleted:
            server.remove("shop", "web-1")
            await eventually(lambda: [i.object_present for i in world.store.chain("shop", pod_names=["web-1"])] == [False])
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: world.gaps and world.store.epoch)
        assert world.store.saw_restore
        assert world.store.timeline != timeline
        assert epoch not in world.store.unbroken_since("shop", "web-0")
        assert world.state("u1") is IncarnationState.LIVE


async def test_restore_with_a_bumped_counter_is_seen_by_a_pod_that_lives_again(server: FakeApiServer) -> None:
    """Its versions are higher than all before, and the watch is answered 410: the LIST shows what cannot be."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(pod("web-1", uid="u1")))
    backup = dict(server.objects)
    async with following(server) as world:
        await eventually(lambda: server.watches)
        epoch = world.store.epoch
        server.put(composed(finished("web-1", uid="u1")))
        await eventually(lambda: world.state("u1") is IncarnationState.DEAD)
        server.break_watches()
        server.objects.clear()
        for (resource, *_), stored in backup.items():
            server.put(stored, resource)
        server.compact()
        server.end_watches()
        await eventually(lambda: len(world.gaps) == 2 and world.store.epoch)
        assert world.store.saw_restore
        assert epoch not in world.store.unbroken_since("shop", "web-0")
        assert world.state("u1") is IncarnationState.LIVE


async def test_word_about_a_restore_ends_every_history_once(server: FakeApiServer) -> None:
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        epoch, timeline = world.store.epoch, world.store.timeline
        world.store.restored("")
        await asyncio.sleep(0)
        assert world.store.epoch == epoch
        world.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: world.gaps and world.store.epoch)
        assert (world.store.timeline == timeline, epoch in world.store.unbroken_since("shop", "web-0")) == (False, False)
        stored = world.store.continuity()
        assert stored is not None
        assert stored.restored == "2026-11-22T07:00:00Z"
        world.store.restored("2026-11-22T07:00:00Z")
        await asyncio.sleep(0)
        assert len(world.gaps) == 1
