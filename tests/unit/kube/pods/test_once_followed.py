"""A pod that once carried an id is followed until its object goes, whatever it looks like later."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.core.evidence.words import Word
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.pods.watch import stream as streams
from support.fake_apiserver import FakeApiServer
from unit.core.builders import incarnation
from unit.kube.pods.watched import WatchedStore, following
from unit.kube.raw_objects import eventually, pod

ID = "2.5c09e"
READS = "metadata.annotations['staticgroup.io/instance-id']"


def copy_of_a_pod(instance_id: str | None) -> dict[str, Any]:
    """Return a debug copy of another name, whose process reads its id from the annotation that was kept."""
    raw = pod("canary", uid="c1", instance_id=instance_id)
    raw["spec"]["containers"][0]["env"] = [{"name": "MEMBER", "valueFrom": {"fieldRef": {"fieldPath": READS}}}]
    return raw


async def taken_off(server: FakeApiServer, world: WatchedStore) -> str:
    """Let the annotation of a followed copy be taken off; returns the epoch of before."""
    await eventually(lambda: world.store.epoch)
    epoch = world.store.epoch
    server.put(copy_of_a_pod(ID))
    await eventually(lambda: world.store.get("c1"))
    server.put(copy_of_a_pod(None))
    server.put(pod("web-9", uid="u9"))
    await eventually(lambda: world.store.get("u9"))
    return epoch


async def anchored_again(world: WatchedStore) -> None:
    """Wait until whatever a comparison has reported is over."""
    await eventually(lambda: not any(s.has_reported_gap for s in world.store._streams.values()) and world.store.epoch)


async def test_annotation_that_is_taken_off_makes_no_gap_and_no_suspect(server: FakeApiServer) -> None:
    """Any tenant may annotate a pod and take that back, and a new epoch is one for the whole cluster."""
    async with following(server) as world:
        epoch = await taken_off(server, world)
        await world.store.relist()
        await anchored_again(world)
        assert (world.gaps, world.store.epoch, world.state("c1")) == ([], epoch, IncarnationState.LIVE)
        found = world.store.get("c1")
        assert found is not None
        assert found.instance_ids == {ID}, "its process may hold the id for as long as it lives"


async def test_end_of_a_pod_whose_annotation_was_taken_off_is_seen(server: FakeApiServer) -> None:
    async with following(server) as world:
        await taken_off(server, world)
        server.remove("shop", "canary")
        await eventually(lambda: world.state("c1") is IncarnationState.SUSPECT)


async def test_word_closes_no_life_of_a_pod_whose_annotation_was_taken_off(server: FakeApiServer) -> None:
    async with following(server) as world:
        await taken_off(server, world)
        await world.store.relist()
        await anchored_again(world)
        world.store.hear(
            [Word(namespace="shop", pod_name="canary", pod_uid="c1", said_by="anna", statement="node is off", said_at_s=1e12)]
        )
        assert world.state("c1") is IncarnationState.LIVE


async def test_list_that_is_ahead_of_the_watch_hides_no_pod_that_carried_an_id_meanwhile(server: FakeApiServer) -> None:
    """The page of the LIST is read before the events are folded that make the pod our concern."""
    server.put(pod("web-0", uid="u0"))
    async with following(server) as world:
        await eventually(lambda: world.store.epoch)
        epoch = world.store.epoch
        server.set_stalled(True)
        server.put(copy_of_a_pod(ID))
        server.put(copy_of_a_pod(None))
        await world.store.relist()
        await anchored_again(world)
        assert (world.gaps, world.store.epoch, world.state("c1")) == ([], epoch, IncarnationState.LIVE)
        server.set_stalled(False)


async def test_resumed_watch_keeps_a_pod_that_carried_an_id_in_the_replay(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="u0"))
    stored = Continuity(epoch="before", timeline="t1", resource_versions={"": server.resource_version})
    server.put(copy_of_a_pod(ID))
    server.put(copy_of_a_pod(None))
    async with following(server, resume=stored) as world:
        await eventually(lambda: world.store.epoch)
        assert (world.gaps, world.store.epoch, world.state("c1")) == ([], "before", IncarnationState.LIVE)


async def test_events_of_a_gap_that_are_found_after_all_show_its_end(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another API server still has them: the annotation came, went, and so did the pod."""
    raws = [("ADDED", copy_of_a_pod(ID)), ("MODIFIED", copy_of_a_pod(None)), ("DELETED", copy_of_a_pod(None))]
    async with following(server) as world:
        await eventually(lambda: world.store.epoch)
        server.set_stalled(True)
        events = []
        for kind, raw in raws:
            shown = server.put(raw) if kind != "DELETED" else server.remove("shop", "canary")
            events.append({"type": kind, "object": shown})

        async def found(*_: Any, **__: Any) -> list[dict[str, Any]]:
            return events

        monkeypatch.setattr(streams, "lost_events", found)
        server.compact()
        server.break_watches()
        server.set_stalled(False)
        await eventually(lambda: world.gaps and world.store.epoch)
        await eventually(lambda: world.store.get("c1"))
        assert world.state("c1") is IncarnationState.SUSPECT


def remembered() -> Incarnation:
    """Return the copy as a ledger names it: alive, with the id that it carried once."""
    return incarnation(0, "c1", pod_name="canary", instance_ids=frozenset({ID}), resource_version=1)


@pytest.mark.parametrize("exists", [True, False])
async def test_pod_that_only_a_ledger_knows_is_followed_from_the_first_list_on(server: FakeApiServer, exists: bool) -> None:
    if exists:
        server.put(copy_of_a_pod(None))
    async with following(server, merged=[remembered()]) as world:
        await eventually(lambda: world.store.epoch)
        assert world.state("c1") is (IncarnationState.LIVE if exists else IncarnationState.SUSPECT)
        found = world.store.get("c1")
        assert found is not None
        assert found.instance_ids == {ID}
        if exists:
            server.remove("shop", "canary")
            await eventually(lambda: world.state("c1") is IncarnationState.SUSPECT)


async def test_standby_that_takes_over_learns_of_a_live_pod_by_the_next_list_and_not_as_a_gap(server: FakeApiServer) -> None:
    """Its own watch began when the annotation was gone already; the ledger of the last holder names the pod."""
    server.put(copy_of_a_pod(None))
    async with following(server) as world:
        await eventually(lambda: world.store.epoch)
        epoch = world.store.epoch
        assert world.store.get("c1") is None
        world.store.merge([remembered()])
        assert world.state("c1") is IncarnationState.SUSPECT
        await world.store.relist()
        await anchored_again(world)
        assert (world.gaps, world.store.epoch, world.state("c1")) == ([], epoch, IncarnationState.LIVE)
        server.remove("shop", "canary")
        await eventually(lambda: world.state("c1") is IncarnationState.SUSPECT)


async def test_standby_learns_from_a_ledger_what_a_pod_carried_before_it_looked(server: FakeApiServer) -> None:
    server.put(pod("web-1", uid="u1", instance_id="1.5c09e"))
    async with following(server) as world:
        await eventually(lambda: world.store.get("u1"))
        both = frozenset({"1.5c09e", ID})
        world.store.merge([incarnation(1, "u1", instance_ids=both, resource_version=1)])
        found = world.store.get("u1")
        assert found is not None
        assert (found.state, found.object_present, found.instance_ids) == (IncarnationState.LIVE, True, both)
