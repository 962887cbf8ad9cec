"""The pod store against a fake API server over real HTTP: nothing is lost, and every gap is said."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticgroup.core.certificate import CertificateKind
from staticgroup.core.chain import Incarnation, IncarnationState
from staticgroup.core.pod import NodeView
from staticgroup.kube import transport as transport_module
from staticgroup.kube.continuity import Continuity
from staticgroup.kube.pod_store import PodStore, PodStoreHooks, PodStoreSettings
from staticgroup.kube.pod_stream import Gap
from staticgroup.kube.transport import connect
from support.fake_apiserver import FakeApiServer
from support.long_drills import by_length
from unit.kube.raw_objects import NODE, born, composed, eventually, finished, pod

UID = "uid-0"


async def brief(seconds: float) -> None:
    """Wait a thousandth of what is asked, but never less than a turn of the loop."""
    await asyncio.sleep(seconds / 1000)


class World:
    """One store following the fake server, with what it told."""

    def __init__(self, store: PodStore, nodes: dict[str, NodeView]) -> None:
        self.store = store
        self.nodes = nodes
        self.changes: list[tuple[str, str, str]] = []
        self.gaps: list[str] = []
        self.uncertified: list[str] = []

    def state(self, uid: str = UID) -> IncarnationState | None:
        found = self.store.get(uid)
        return found.state if found else None


@asynccontextmanager
async def following(
    server: FakeApiServer, *, resume: Continuity | None = None, merged: Iterable[Incarnation] = (), seed: int = 1,
    anchored: bool = True, scopes: tuple[str, ...] = ("",), is_managed: bool = True,
    sleep: Callable[[float], Any] = asyncio.sleep, now_s: Callable[[], float] = lambda: 50.0, **settings_: Any,
) -> AsyncIterator[World]:
    transport = connect(server.configuration())
    nodes = {"node-a": NODE}
    world: World
    hooks = PodStoreHooks(
        node_of=nodes.get, is_managed=lambda namespace, name: is_managed,
        on_change=lambda *key: world.changes.append(key), on_gap=lambda reason: world.gaps.append(reason),  # noqa: PLW0108 - world is made below
        on_uncertified=lambda reason: world.uncertified.append(reason),  # noqa: PLW0108
    )
    defaults: dict[str, Any] = {"barrier_patience_s": 0.02, "reconnect_delay_s": 0.001, "chunk_size": 2}
    store = PodStore(
        transport, hooks, rng=Random(seed), now_s=now_s, clock_s=asyncio.get_running_loop().time, scopes=scopes,
        settings=PodStoreSettings(**(defaults | settings_)), sleep=sleep,
    )
    world = World(store, nodes)
    store.merge(merged)
    task = asyncio.create_task(store.run(resume))
    try:
        if anchored:
            async with asyncio.timeout(10):
                await store.wait_anchored()
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


async def test_first_start_lists_in_chunks_and_draws_an_epoch(server: FakeApiServer) -> None:
    for number in range(5):
        server.put(pod(f"web-{number}", uid=f"uid-{number}"))
    async with following(server) as world:
        assert len(world.store) == 5
        assert len(world.store.epoch) == 16
        assert sum("continue=" in query for _, query in server.requests) == 2
        assert ("shop", "web", "web-0") in world.changes
        assert world.gaps == []


async def test_pods_named_like_those_of_a_statefulset_are_followed_whatever_their_labels(server: FakeApiServer) -> None:
    """Controllers before 1.28 set no pod index label, and whoever makes a pod by hand sets what he likes."""
    server.put(pod(labels={}))
    async with following(server) as world:
        server.put(pod("web-1", uid="by-hand", labels={}, ownerReferences=[]))
        await eventually(lambda: world.state("by-hand") is IncarnationState.LIVE)
        server.remove("shop", "web-1")
        await eventually(lambda: world.state("by-hand") is IncarnationState.SUSPECT)
        assert world.state() is IncarnationState.LIVE


@pytest.mark.parametrize("name", ["web", "web-7d9fc", "web-7d4b9c6b5d-x2x9z", "web-01"])
async def test_pods_that_no_statefulset_names_are_dropped_and_move_the_position(server: FakeApiServer, name: str) -> None:
    server.put(pod(name, uid="listed", instance_id=None))
    async with following(server) as world:
        server.put(pod(name, uid="watched", instance_id=None, namespace="other"))
        await eventually(lambda: world.store.position("shop") == server.resource_version)
        assert len(world.store) == 0
        await world.store.relist()
        assert world.gaps == []


async def test_pod_of_any_name_that_carries_an_id_annotation_is_followed(server: FakeApiServer) -> None:
    async with following(server) as world:
        server.put(pod("copy-of-web", uid="copy", instance_id="web-0.1a2b3c4d"))
        await eventually(lambda: world.state("copy") is IncarnationState.LIVE)
        assert [i.uid for i in world.store.chain("shop", instance_ids=("web-0.1a2b3c4d",))] == ["copy"]


async def test_graceful_end_is_certified_and_force_delete_is_a_suspect(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="graceful"))
    server.put(pod("web-1", uid="forced"))
    async with following(server) as world:
        server.put(finished("web-0", uid="graceful"))
        server.remove("shop", "web-0")
        server.remove("shop", "web-1")
        await eventually(lambda: world.state("forced") is IncarnationState.SUSPECT)
        assert world.uncertified == ["NotTerminal"]
        found = world.store.get("graceful")
        assert found is not None
        assert found.certificate is not None
        assert (found.state, found.certificate.kind) == (IncarnationState.DEAD, CertificateKind.ENDED)
        assert not found.object_present


@pytest.mark.parametrize("how", ["end", "break"])
async def test_interrupted_stream_resumes_from_its_position_without_a_gap(server: FakeApiServer, how: str) -> None:
    server.put(pod())
    async with following(server) as world:
        await eventually(lambda: server.watches)
        epoch, position = world.store.epoch, world.store.position("shop")
        server.end_watches() if how == "end" else server.break_watches()
        server.put(finished())
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.DEAD)
        assert (world.store.epoch, world.gaps) == (epoch, [])
        assert ("pods", position, "") in server.watch_starts


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


async def lost_history(server: FakeApiServer, world: World) -> None:
    """Let the API server forget what happened since the watch was last there, and wait until it is anchored again."""
    server.compact()
    server.end_watches()
    await eventually(lambda: world.gaps and world.store.epoch)


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


async def test_forgotten_suspects_of_nobody_are_no_gap(server: FakeApiServer) -> None:
    async with following(server, gone_max=20, is_managed=False) as world:
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


async def test_label_edit_hides_nothing(server: FakeApiServer) -> None:
    """A watch with a selector would show it as a deletion, and what follows not at all."""
    raw = server.put(born())
    async with following(server) as world:
        await eventually(lambda: server.watches)
        raw["metadata"]["labels"] = {}
        server.put(raw)
        server.put(pod(labels={}))
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)


async def test_pod_deleted_before_it_was_bound_is_certified_never_ran(server: FakeApiServer) -> None:
    server.put(born())
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.DEAD)
        found = world.store.get(UID)
        assert found is not None
        assert found.certificate is not None
        assert found.certificate.kind is CertificateKind.NEVER_RAN


async def test_node_facts_that_arrive_late_certify_the_end(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        world.nodes.clear()
        server.put(finished())
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)
        world.nodes["node-a"] = NODE
        world.store.node_changed("node-a")
        assert world.state() is IncarnationState.DEAD


# -- barrier


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


# -- contradiction, restore, stall


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


# -- resume


async def test_largest_pod_that_anybody_can_write_is_followed_like_any_other(server: FakeApiServer) -> None:
    """1.5 MiB in etcd are 9 MiB in JSON when every character is escaped, as `<` is."""
    server.put(pod())
    async with following(server) as world:
        server.put(pod("web-1", uid="large", annotations={"large": "x" * 9 * 1024 * 1024}))
        await eventually(lambda: world.state("large") is IncarnationState.LIVE)
        assert not world.gaps


async def test_event_that_is_too_large_to_be_taken_ends_the_connection_and_not_the_process(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(pod())
    async with following(server) as world:
        monkeypatch.setattr(transport_module, "EVENT_MAX_BYTES", 20_000)
        server.put(pod("web-1", uid="large", annotations={"large": "x" * 4_000_000}))
        await eventually(lambda: len(server.watch_starts) >= 3)
        assert world.state("large") is None
        server.compact()
        await eventually(lambda: world.state("large") is IncarnationState.LIVE)
        assert len(world.gaps) == 1


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
        assert standby.store.continuity() == stored


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
                                  '{"epoch": "a", "resourceVersions": {"": 0}}', '{"epoch": 1, "resourceVersions": {}}'])
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


def _settled(straight: World, world: World, server: FakeApiServer) -> bool:
    last = max((event.resource_version for _, event in server.history), default=0)
    return min(straight.store.position("shop"), world.store.position("shop")) >= last


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
