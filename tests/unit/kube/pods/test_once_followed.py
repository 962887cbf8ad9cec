"""A pod that once carried an id is followed until its object is gone, whatever it shows later."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.chain import PodState
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
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
    """Let the annotation of a followed copy be taken off; returns the name of the watch of before."""
    before = world.watch()
    server.put(copy_of_a_pod(ID))
    await eventually(lambda: world.store.get("c1"))
    server.put(copy_of_a_pod(None))
    server.put(pod("web-9", uid="u9"))
    await eventually(lambda: world.store.get("u9"))
    return before


async def anchored_again(world: WatchedStore) -> None:
    """Wait until whatever a comparison has reported is over."""
    await eventually(lambda: not any(s.has_reported_gap for s in world.store._streams.values()) and world.watch())


async def test_annotation_that_is_taken_off_makes_no_gap_and_no_suspect(server: FakeApiServer) -> None:
    """Any tenant may annotate a pod and take that back, and a new watch is one for the whole cluster."""
    async with following(server) as world:
        before = await taken_off(server, world)
        await world.store.relist()
        await anchored_again(world)
        assert (world.gaps, world.watch(), world.state("c1")) == ([], before, PodState.LIVE)
        found = some(world.store.get("c1"))
        assert found.instance_ids == {ID}, "its process may hold the id for as long as it lives"


async def test_end_of_a_pod_whose_annotation_was_taken_off_is_seen(server: FakeApiServer) -> None:
    async with following(server) as world:
        await taken_off(server, world)
        server.remove("shop", "canary")
        await eventually(lambda: world.state("c1") is PodState.SUSPECT)


async def test_list_that_is_ahead_of_the_watch_hides_no_pod_that_carried_an_id_meanwhile(server: FakeApiServer) -> None:
    """The page of the LIST is read before the events are folded that make the pod our concern."""
    server.put(pod("web-0", uid="u0"))
    async with following(server) as world:
        before = world.watch()
        server.set_stalled(True)
        server.put(copy_of_a_pod(ID))
        server.put(copy_of_a_pod(None))
        await world.store.relist()
        await anchored_again(world)
        assert (world.gaps, world.watch(), world.state("c1")) == ([], before, PodState.LIVE)
        server.set_stalled(False)


async def test_resumed_watch_keeps_a_pod_that_carried_an_id_in_the_replay(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="u0"))
    name = "1800000000-0a1b2c3d"
    stored = WatchPosition({"": ScopePosition(server.resource_version, name)})
    server.put(copy_of_a_pod(ID))
    server.put(copy_of_a_pod(None))
    async with following(server, resume=stored) as world:
        assert (world.gaps, world.watch(), world.state("c1")) == ([], name, PodState.LIVE)


async def test_pod_with_an_id_written_by_hand_is_followed_whatever_its_name(server: FakeApiServer) -> None:
    """client.type Own; `kubectl debug web-2 --copy-to=web-2-debug --keep-labels`, and the id reads the pod-name label.

    The copy fences web-2 and holds its id. Its name is none of a StatefulSet and it has no annotation.
    """
    async with following(server) as world:
        raw = pod("web-2-debug", uid="copy", instance_id=None, labels={"statefulset.kubernetes.io/pod-name": "web-2"})
        raw["spec"]["containers"][0]["env"] = [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-2.1a2b3c4d"}]
        server.put(raw)
        await eventually(lambda: world.store.position("shop") >= server.resource_version)
        assert [i.uid for i in world.store.chain("shop", instance_ids=("web-2.1a2b3c4d",))] == ["copy"]
