"""Each fault of the API server, of operators and of people bites: what it says can be seen, and healing undoes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from simulation.fault_world import begin, kept, pod, trace_count, up
from simulator.faults import FAULTS, carry_out, heirs
from simulator.faults.labels import copy_without_labels
from simulator.kubernetes.objects import (
    LEASES,
    MUTATING_POLICIES,
    PODS,
    STATIC_GROUPS,
    Json,
    uid_of,
)
from simulator.kubernetes.storage import ApiError
from simulator.kubernetes.watch_log import Event, Selector
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD, Team
from simulator.world.world import SYSTEM, World
from staticgroup.api.names import POD_INDEX_LABEL
from staticgroup.runtime.process.settings import Settings
from support.narrowing import some

BY_HAND = Team(
    spec={
        "groupProtocol": "Classic", "client": {"type": "Own"}, "idTemplate": "{podName}", "assumeExclusive": True,
    },
    set_spec={"podManagementPolicy": "Parallel"}, is_by_hand=True,
)


@up()
async def test_a_fault_that_is_carried_out_is_counted_and_traced(world: World) -> None:
    await carry_out(world, Random(1), FAULTS["pods_come_without_the_index_label"], lasts_s=5.0)
    assert world.faults == {"pods_come_without_the_index_label": 1}
    assert trace_count(world, "pods come without the index label") == 1
    assert trace_count(world, "pods come without the index label: over") == 1


@up()
async def test_a_restarted_api_server_has_no_history_and_answers_410(world: World) -> None:
    before = world.server.resource_version
    world.server.subscribe(PODS, "", Selector(), before - 5, lambda _: None, lambda: None)[0].close()
    watch = world.operators[0].operator.pods.names()
    begin(world, "api_server_restarts")
    for resource in (PODS, LEASES, STATIC_GROUPS):
        with pytest.raises(ApiError, match="410"):
            world.server.subscribe(resource, "", Selector(), before - 5, lambda _: None, lambda: None)
    await world.until(lambda: world.operators[0].operator.pods.names() not in ("", watch), 60, "another watch")


@up()
async def test_an_api_server_that_is_away_answers_no_request_and_comes_back(world: World) -> None:
    heal = begin(world, "api_server_is_away")
    version = world.server.resource_version
    await asyncio.sleep(100)
    assert world.server.resource_version == version, "nothing was written by anybody"
    heal()
    await asyncio.sleep(90)
    assert all(not node.is_cut for node in world.kubernetes.nodes.values())
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, 120, "the departed member is gone")


@kept()
async def test_an_emptied_status_is_empty_and_no_oracle_blames_the_operator(world: World) -> None:
    begin(world, "status_is_emptied")
    assert world.status == {}
    await asyncio.sleep(120)


@kept()
async def test_a_status_that_is_set_back_says_what_it_said(world: World) -> None:
    old = world.status
    heal = begin(world, "status_is_set_back")
    world.users.edit_without_effect(NAMESPACE, GROUP)
    await world.until(lambda: world.status.get("observedGeneration") == 2, 30, "a new status")
    heal()
    assert world.status == old
    await asyncio.sleep(120)


@pytest.mark.parametrize("seed", range(4))
@up("seed")
async def test_the_first_read_of_the_lease_is_refused_once(world: World, seed: int) -> None:
    """503, 429, 500 or a broken connection; the next reads are answered."""
    heal = begin(world, "first_read_of_the_lease_is_refused", seed)
    assert world.living == []
    heal()
    (running,) = world.living
    refusals = running.transport.link.faults.refusals["get", LEASES]
    assert len(refusals) == 1
    await world.until(running.operator.lease.holds, 60, "the Lease is held")
    assert refusals == []
    assert world.on_start == []


@up()
async def test_a_lease_that_cannot_be_read_is_renewed_until_somebody_else_writes_it(world: World) -> None:
    """Its holder writes over the version it wrote last; once that is refused it has to read, and cannot, and the Lease
    is lost."""
    heal = begin(world, "lease_cannot_be_read")
    renewed_s = world.truth.lease_renewed_s("operator-a")
    await asyncio.sleep(12)
    assert world.truth.lease_renewed_s("operator-a") > renewed_s + 9
    lease = some(world.server.get(LEASES, SYSTEM, Settings().lease_name))
    world.server.update(LEASES, lease | {"metadata": lease["metadata"] | {"labels": {"seen-by": "somebody"}}})
    renewed_s = world.truth.lease_renewed_s("operator-a")
    await asyncio.sleep(12)
    assert world.truth.lease_renewed_s("operator-a") < renewed_s + 3
    heal()
    await world.until(lambda: world.truth.lease_renewed_s("operator-a") > renewed_s + 12, 60, "it is renewed")


@pytest.mark.parametrize("seed", range(3))
@kept()
async def test_an_operator_freezes_in_a_status_write_which_arrives_after_its_successor_has_written(
    world: World, seed: int
) -> None:
    """The write is bound to a version that is not the newest any more, so it is answered 409 and changes nothing."""
    asked: list[tuple[str, str]] = []
    writers: list[Json] = []
    refused: list[int] = []
    apply_status = world.server.apply_status

    def applied(resource: str, namespace: str, name: str, body: Json) -> Json:
        try:
            return apply_status(resource, namespace, name, body)
        except ApiError as error:
            if body["status"]["memory"].get("writer") == before:
                refused.append(error.status)
            raise

    def written(resource: str, event: Event) -> None:
        if resource == STATIC_GROUPS and event.current is not None:
            writers.append(((event.current.get("status") or {}).get("memory") or {}).get("writer"))

    world.operators[0].transport.link.on_request.append(lambda verb, label: asked.append((verb, label)))
    before = world.status["memory"]["writer"]
    begin(world, "operator_freezes_in_a_status_write", seed)
    frozen = world.operators[0].process
    await world.until(lambda: frozen.is_frozen, 60, "it stands still")
    assert asked.pop() == ("patch", f"{STATIC_GROUPS}/status")
    await world.until(lambda: world.leader() is world.operators[1], 30, "its successor holds the Lease")
    await world.until(lambda: world.status["memory"]["writer"] != before, 30, "its successor has written")
    assert frozen.is_frozen
    world.server.observers.append(written)
    world.server.apply_status = applied  # type: ignore[method-assign]
    await world.until(lambda: not frozen.is_frozen, 90, "it goes on")
    await world.until(lambda: refused, 5, "its write arrives")
    assert refused == [409]
    world.users.edit_without_effect(NAMESPACE, GROUP)
    await world.until(lambda: world.status["observedGeneration"] == 3, 30, "a new status")
    assert before not in writers


@up()
async def test_operators_that_are_away_find_no_history(world: World) -> None:
    watch = world.living[0].operator.pods.names()
    heal = begin(world, "operators_are_away")
    assert world.living == []
    world.users.roll(NAMESPACE, WORKLOAD)
    await asyncio.sleep(60)
    before = world.server.resource_version
    heal()
    with pytest.raises(ApiError, match="410"):
        world.server.subscribe(PODS, "", Selector(), before - 1, lambda _: None, lambda: None)
    assert [o.name for o in world.living] == ["operator-a"]
    await asyncio.sleep(10)
    assert world.living[0].operator.pods.names() not in ("", watch)


@kept()
async def test_etcd_that_is_restored_ahead_forgets_objects_and_its_revisions_jump(world: World) -> None:
    version = world.server.resource_version
    heal = begin(world, "etcd_is_restored_ahead")
    world.users.edit_without_effect(NAMESPACE, GROUP)
    heal()
    assert world.server.resource_version >= version + 1_000_000_000
    group = some(world.server.get(STATIC_GROUPS, NAMESPACE, GROUP))
    assert group["spec"]["onTopicChange"] == "Rebalance"
    await asyncio.sleep(60)
    await world.until(world.is_settled, 120, "all pods are members")


def crash(world: World) -> None:
    world.crash_operator(world.operators[0])


def cut_off(world: World) -> None:
    world.operators[0].transport.link.faults.is_cut = True


@pytest.mark.parametrize("hide", [crash, cut_off, None])
@up()
async def test_a_restore_that_no_operator_sees_is_noted_as_such(
    world: World, hide: Callable[[World], None] | None
) -> None:
    """Revisions may pass those that an operator knew, before it reads again."""
    heal = begin(world, "etcd_is_restored")
    world.users.edit_without_effect(NAMESPACE, GROUP)
    if hide is not None:
        hide(world)
    heal()
    group = some(world.server.get(STATIC_GROUPS, NAMESPACE, GROUP))
    assert group["spec"]["onTopicChange"] == "Rebalance"
    assert bool(world.truth.assumptions.unseen_s) == (hide is not None)


@up()
async def test_a_policy_that_is_missing_injects_nothing(world: World) -> None:
    heal = begin(world, "injection_policy_is_missing")
    assert world.server.list(MUTATING_POLICIES) == []
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await asyncio.sleep(20)
    assert "annotations" not in pod(world, 2)["metadata"]
    heal()
    assert len(world.server.list(MUTATING_POLICIES)) == 1


@up(team=BY_HAND)
async def test_pods_that_come_without_the_index_label_are_not_selected_by_it(world: World) -> None:
    heal = begin(world, "pods_come_without_the_index_label")
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await world.until(lambda: world.ids_of(world.processes.running()[-1]) == [f"{WORKLOAD}-2"], 60, "it runs")
    await asyncio.sleep(5)
    selected = world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))
    assert [p["metadata"]["name"] for p in selected] == [f"{WORKLOAD}-0", f"{WORKLOAD}-1"]
    assert f"{WORKLOAD}-2" in world.members(), "it takes part in the group all the same"
    heal()
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await asyncio.sleep(20)
    assert POD_INDEX_LABEL in pod(world, 2)["metadata"]["labels"]


@up()
async def test_an_index_label_that_is_taken_off_comes_back(world: World) -> None:
    heal = begin(world, "index_label_is_taken_off")
    assert len(world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))) == 2
    heal()
    assert len(world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))) == 3


@up()
async def test_a_pod_that_is_made_by_hand_carries_the_id_and_no_label(world: World) -> None:
    original, departed = pod(world, 2), world.id_of(2)
    copy = copy_without_labels(original)
    assert "labels" not in copy["metadata"]
    assert "ownerReferences" not in copy["metadata"]
    begin(world, "pod_is_made_by_hand", 3)
    await world.until(lambda: not world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"), 60, "the pod is gone")
    await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"), 60, "its copy is there")
    assert uid_of(pod(world, 2)) != uid_of(original)
    await world.until(lambda: departed in world.members(), 60, "it takes part under the id")
    life = world.truth.pods[uid_of(pod(world, 2))]
    assert departed in life.ids, "the ground truth knows it as a carrier"


def test_every_trouble_of_an_heir_is_a_fault() -> None:
    assert set(heirs.TROUBLES) <= set(FAULTS)


@up()
async def test_a_workload_comes_while_no_operator_lives(world: World) -> None:
    old = {uid_of(p) for p in world.server.list(PODS, NAMESPACE)}
    begin(world, "workload_comes_while_no_operator_lives")
    await world.until(lambda: not world.living, 120, "no operator lives")
    assert world.status["injected"]["idTemplate"]
    await asyncio.sleep(15)
    assert world.living == []
    pods = world.server.list(PODS, NAMESPACE)
    assert pods
    assert not old & {uid_of(p) for p in pods}
    assert world.status["memory"]["issued"] == {"ordinals": "", "templates": []}, (
        "what the acknowledgement says; no round has seen a pod"
    )


@up(watched=25)
async def test_operators_may_watch_many_namespaces_one_by_one(world: World) -> None:
    assert len(world.namespaces) == 25
    assert world.operators[0].operator.settings.watch_namespaces == world.namespaces
    some(world.server.get(LEASES, SYSTEM, "staticgroup-operator"))
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, 120, "the departed member is gone")
    assert world.safety.removals == 1
