"""The StatefulSet controller and its users write what the real ones write."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from simulator.kubernetes.objects import STATEFULSETS, is_terminating, name_of, uid_of
from staticgroup.api import names
from support.narrowing import some

from .plain_world import PlainWorld
from .pod_versions import is_up, up, versions_of

# -- StatefulSet


@up()
async def test_ordered_set_starts_one_pod_after_the_other_with_its_labels(world: PlainWorld) -> None:
    starts = [entry.at_s for entry in world.trace.select(what="container started")]
    assert [dict(e.facts)["pod"] for e in world.trace.select(what="container started")] == ["web-0", "web-1", "web-2"]
    assert all(later - earlier > 1 for earlier, later in pairwise(starts))
    labels = world.pods[2]["metadata"]["labels"]
    revision = world.server.get(STATEFULSETS, "shop", "web")["status"]["updateRevision"]  # type: ignore[index]
    assert labels == {
        "app": "web",
        names.POD_INDEX_LABEL: "2",
        names.POD_NAME_LABEL: "web-2",
        names.REVISION_LABEL: revision,
    }
    assert {p["spec"]["nodeName"] for p in world.pods} == {"n1", "n2", "n3"}


@up(podManagementPolicy="Parallel")
async def test_parallel_set_starts_all_at_once(world: PlainWorld) -> None:
    starts = [entry.at_s for entry in world.trace.select(what="container started")]
    assert max(starts) - min(starts) < 2


@up()
async def test_set_status_says_what_the_operator_reads(world: PlainWorld) -> None:
    found = some(world.server.get(STATEFULSETS, "shop", "web"))
    status = found["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert status["currentRevision"] == status["updateRevision"]


@up()
async def test_roll_replaces_one_pod_at_a_time_from_the_highest(world: PlainWorld) -> None:
    """stateful_set_control.go: never more than one away, the highest ordinal first, and a new revision at the end."""
    before = {name_of(p): uid_of(p) for p in world.pods}
    found = versions_of(world)
    world.users.roll("shop", "web")
    await world.until(lambda: is_up(world, 3) and not {uid_of(p) for p in world.pods} & set(before.values()))
    assert [name_of(o) for kind, o in found if kind == "DELETED"] == ["web-2", "web-1", "web-0"]
    status = world.server.get(STATEFULSETS, "shop", "web")["status"]  # type: ignore[index]
    await asyncio.sleep(1)
    status = world.server.get(STATEFULSETS, "shop", "web")["status"]  # type: ignore[index]
    assert status["currentRevision"] == status["updateRevision"]
    assert all(p["metadata"]["labels"][names.REVISION_LABEL] == status["updateRevision"] for p in world.pods)


@up(ordinals={"start": 5})
async def test_partition_counts_from_the_first_ordinal_and_holds_back_the_lower_ones(world: PlainWorld) -> None:
    """stateful_set_control.go loops over replicas, so the partition is an index, not an ordinal."""
    before = {name_of(p): uid_of(p) for p in world.pods}
    assert sorted(before) == ["web-5", "web-6", "web-7"]
    world.users.edit_workload("shop", "web", {"updateStrategy": {"rollingUpdate": {"partition": 2}}})
    world.users.roll("shop", "web")
    await asyncio.sleep(60)
    replaced = {name_of(p) for p in world.pods if uid_of(p) != before[name_of(p)]}
    assert replaced == {"web-7"}
    world.users.delete_pod("shop", "web-5")
    await world.until(lambda: is_up(world, 3) and uid_of(world.pods[0]) != before["web-5"])
    old = world.server.get(STATEFULSETS, "shop", "web")["status"]["currentRevision"]  # type: ignore[index]
    assert world.pods[0]["metadata"]["labels"][names.REVISION_LABEL] == old


@up()
async def test_scale_down_takes_the_highest_and_waits_for_the_unhealthy(world: PlainWorld) -> None:
    """OrderedReady: one broken replica blocks scale-down (facts: scaling and unhealthy pods)."""
    world.cluster.nodes["n1"].timings = world.cluster.nodes["n1"].timings.__class__(ready_s=(60.0, 60.0))
    first = world.pods[0]
    world.processes.exit(uid_of(first), "app", 1)
    await asyncio.sleep(3)
    world.users.scale("shop", "web", 1)
    await asyncio.sleep(20)
    assert len(world.pods) == 3
    await world.until(lambda: len(world.pods) == 1)
    requested = [dict(e.facts)["pod"] for e in world.trace.select(who="statefulset", what="pod deletion")]
    assert requested == ["web-2", "web-1"]


@up()
async def test_flap_keeps_the_pod_that_was_not_deleted_yet_and_replaces_the_other(world: PlainWorld) -> None:
    old = uid_of(world.pods[2])
    world.users.scale("shop", "web", 2)
    await world.until(lambda: is_terminating(world.pods[2]))
    world.users.scale("shop", "web", 3)
    await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != old)


@up()
async def test_orphaned_pods_live_on_and_a_new_set_adopts_them(world: PlainWorld) -> None:
    before = [uid_of(p) for p in world.pods]
    world.users.delete_workload("shop", "web", propagation="Orphan")
    await world.until(lambda: world.server.get(STATEFULSETS, "shop", "web") is None)
    await asyncio.sleep(5)
    assert [uid_of(p) for p in world.pods] == before
    assert not any(p["metadata"].get("ownerReferences") for p in world.pods)
    world.create_workload(3)
    await asyncio.sleep(5)
    assert [uid_of(p) for p in world.pods] == before
    assert all(p["metadata"]["ownerReferences"][0]["controller"] for p in world.pods)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@up()
async def test_deleted_set_takes_its_pods_along(world: PlainWorld, propagation: str) -> None:
    world.users.delete_workload("shop", "web", propagation=propagation)
    await asyncio.sleep(0.01)
    assert (world.server.get(STATEFULSETS, "shop", "web") is not None) is (propagation == "Foreground")
    await world.until(lambda: not world.pods)
    await world.until(lambda: world.server.get(STATEFULSETS, "shop", "web") is None)
    assert not world.processes.running


@up()
async def test_deleted_namespace_empties_itself(world: PlainWorld) -> None:
    world.users.delete_namespace("shop")
    await world.until(lambda: world.server.get("namespaces", "", "shop") is None)
    assert not world.pods
    assert not world.processes.running


@up()
async def test_controller_that_was_away_goes_on_with_what_it_missed(world: PlainWorld) -> None:
    """An appointment that it missed does not stand in the way of the next one."""
    world.cluster.stateful_sets.due.is_paused = True
    world.users.scale("shop", "web", 4)
    await asyncio.sleep(5)
    assert len(world.pods) == 3
    world.cluster.stateful_sets.due.is_paused = False
    world.cluster.restart_api_server()
    await world.until(lambda: is_up(world, 4), 30)
