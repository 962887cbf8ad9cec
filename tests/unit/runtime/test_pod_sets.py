"""Rounds of a StaticGroup whose pods a StrimziPodSet lists: only what is not listed any more is departed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.workloads import STRIMZI_POD_SET
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.plan import plan
from staticgroup.core.seats import OVERDUE_AFTER_S
from staticgroup.core.snapshot import History
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.runtime.rivals import rivals_of
from unit.core.builders import workload

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import left
from .test_same_ids import EARLIER, IDENTITY, TEMPLATE, group

REF = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": "web"}
UNSERVED = KubeProblem(
    kind=KubeProblemKind.NOT_FOUND, verb="get", resource="strimzipodsets.core.strimzi.io", namespace="shop", status=404,
    message="the API server serves no StrimziPodSet in core.strimzi.io/v1; install Strimzi's cluster operator",
)  # fmt: skip


class PodSetWorld(OperatorWorld):
    """The world of an OperatorWorld, where the pods are those of a StrimziPodSet, which no watch shows."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(workloadRef=REF, **spec)

    def scale(self, replicas: int, *, in_store: bool = True) -> None:
        """List the first pods, whatever the store receives: no watch of StrimziPodSets is held."""
        self.list_pods(*range(replicas))

    def list_pods(self, *ordinals: int, **changes: Any) -> None:
        """Write another list of pods; the controller has taken it in."""
        generation = getattr(self, "generation", 2) + 1
        self.generation = generation
        view = workload(
            len(ordinals), metadata_generation=generation, observed_generation=generation, current_revision="",
            update_revision="",
        )  # fmt: skip
        view = replace(view, kind=STRIMZI_POD_SET, listed=ordinals, start=min(ordinals, default=0), **changes)
        self.kube.workloads["shop", "web"] = view


async def test_only_the_member_of_a_pod_that_is_not_listed_any_more_leaves() -> None:
    """A hole in the list: of a replica count, the last pod would be the departed one."""
    world = await PodSetWorld().started(4)
    world.list_pods(0, 1, 3)
    world.end(2)
    await world.settled(4)
    assert left(world) == [world.id_of(2)]
    assert world.id_of(3) in world.kafka.members
    (reason,) = {entry.reason for entry, _ in world.kafka.leaves}
    assert reason.endswith("pod web-2 is not wanted any more, ordinal 2 ended")


async def test_a_pod_that_is_not_listed_and_lives_is_never_removed() -> None:
    world = await PodSetWorld().started(3)
    world.list_pods(0, 2)
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["PodStillRunning"]
    assert world.condition("RemovalSettled")[1] == "RemovalInProgress"
    # nobody deletes it: its labels are not the set's selector's, or Strimzi does not run
    world.now_s += OVERDUE_AFTER_S
    await world.settled(2)
    assert left(world) == []
    world.tells("RemovalSettled", "False", "RemovalHeld", "kubectl -n shop delete pod web-1")


@pytest.mark.parametrize("listed", [(), (0, 1, 2)])
async def test_a_kind_that_is_not_served_any_more_removes_no_member_and_says_what_to_install(
    listed: tuple[int, ...],
) -> None:
    """An API server without the CustomResourceDefinition answers as one without the object."""
    world = await PodSetWorld().started(3)
    world.list_pods(*listed)
    world.end(2)
    world.kube.problems["read_workload"] = UNSERVED
    await world.settled(4)
    assert left(world) == []
    world.tells(
        "WorkloadFound", "Unknown", "WorkloadUnreadable",
        "StrimziPodSet shop/web cannot be read: the API server serves no StrimziPodSet",
        "install Strimzi's cluster operator", "chart value workloads.strimzi",
    )  # fmt: skip
    spec, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    assert "StrimziPodSet web cannot be read." in explained(
        spec, snapshot, plan(spec, snapshot, History(), world.now_s), world.now_s
    )


async def test_the_next_pods_of_a_set_that_cannot_be_read_get_no_id_of_another_static_group() -> None:
    """The policy goes on by the status alone: pods of both would have fenced each other until the set could be read
    again."""
    world = PodSetWorld(**IDENTITY)
    world.template = TEMPLATE
    await world.started(2)
    assert world.injected.method.value == "Policy"
    world.kube.problems["read_workload"] = UNSERVED
    rival = group("rival", EARLIER)  # whose connection has been pointed at the same brokers
    world.stores.put_group(("shop", "rival"), rival)
    await world.settled(2)
    assert world.injected.method.value == "None"
    assert world.condition("Ready")[:2] == ("False", "ConflictingStaticGroups")
    world.stores.drop_group(("shop", "rival"), "uid-rival")
    world.kube.problems.clear()
    await world.settled(2)
    assert world.injected.method.value == "Policy"


@pytest.mark.parametrize(
    "client",
    [
        {"type": "Own"},
        {
            "type": "Custom", "suffixes": ["-a-b", "-b"],
            "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
        },
    ],
    ids=["the application brings its ids", "two members of a pod would share an id"],
)
async def test_an_edit_that_ends_the_injection_ends_it_also_where_the_set_cannot_be_read(
    client: dict[str, Any],
) -> None:
    world = PodSetWorld(**IDENTITY)
    world.template = TEMPLATE
    await world.started(2)
    world.kube.problems["read_workload"] = UNSERVED
    world.declare(static_group(generation=2, workloadRef=REF, client=client, **IDENTITY))
    await world.settled(2)
    assert world.injected.method.value == "None"


async def test_a_list_that_cannot_be_read_is_reported_with_what_to_correct() -> None:
    """To install Strimzi, which is there, is no way out of a pod of another name in the list."""
    world = await PodSetWorld().started(3)
    message = "StrimziPodSet has an unreadable field spec.pods[].metadata.name (str)"
    world.kube.problems["read_workload"] = replace(UNSERVED, kind=KubeProblemKind.INVALID, status=0, message=message)
    await world.settled(2)
    assert left(world) == []
    message = world.condition("WorkloadFound")[2]
    assert message.endswith(
        "Correct that field: every pod of the list is called web-<ordinal>, such as web-0, and none is listed twice."
    )
    assert "install" not in message


async def test_a_stateful_set_of_the_same_name_says_nothing_about_it() -> None:
    world = await PodSetWorld().started(3)
    world.stores.put_workload(workload(0, name="web"))
    await world.settled(3)
    assert left(world) == []
    assert world.condition("WorkloadFound")[2] == "StrimziPodSet shop/web exists and wants 3 pods."
    del world.kube.workloads["shop", "web"]
    await world.round()
    assert world.condition("WorkloadFound")[2].startswith("StrimziPodSet shop/web does not exist.")


async def test_a_static_group_of_a_stateful_set_of_the_same_name_writes_into_no_pod_of_it() -> None:
    """Taken for a second writer, it kept every departed member, and the remedy named pods that the two never share."""
    world = await PodSetWorld().started(3)
    other = static_group("sg-2", workloadRef={"name": "web"}, groupId="audit")
    other["metadata"]["name"] = "audit"
    world.stores.put_group(("shop", "audit"), other)
    world.list_pods(0, 1)
    world.end(2)
    await world.settled(4)
    assert rivals_of(world.stores, None, KEY).collisions == ()
    assert left(world) == [world.id_of(2)]
    other["spec"]["workloadRef"] = REF
    world.stores.put_group(("shop", "audit"), other)
    assert rivals_of(world.stores, None, KEY).collisions


async def test_a_listed_pod_that_is_never_made_holds_removals_and_is_reported_once_it_lasts() -> None:
    """Strimzi's status counts every pod of the list, made or not: without its operator that is no moment, and all is
    not well."""
    world = await PodSetWorld().started(4)
    world.list_pods(0, 1, 2, status_replicas=3)
    world.end(3)
    world.end(1)
    world.now_s += 60
    await world.settled(2)
    assert (guards(world), world.condition("Ready")[:2]) == (["PodsUnseen"], ("True", "Reconciled"))
    world.now_s += OVERDUE_AFTER_S
    await world.settled(2)
    assert left(world) == []
    assert world.condition("RemovalSettled")[:2] == ("False", "RemovalHeld")
    assert world.condition("Ready")[0] == "False"
    assert "whether Strimzi's cluster operator is at work" in world.condition("RemovalSettled")[2]
    world.start(1, "u1b")
    await world.settled(2)
    assert left(world) == [world.id_of(3)]


async def test_what_is_wanted_is_said_as_it_is_listed() -> None:
    world = await PodSetWorld().started(4)
    world.list_pods(0, 1, 3)
    spec, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    text = explained(spec, snapshot, plan(spec, snapshot, History(), world.now_s), world.now_s)
    assert "Workload: StrimziPodSet web wants ordinals 0-1, 3; 3 ready." in text


async def test_pods_without_an_id_are_rolled_as_strimzi_does() -> None:
    world = PodSetWorld()
    world.scale(1)
    await world.round()
    world.start(0, instance_ids=frozenset())
    await world.settled(2)
    message = world.condition("Injected")[2]
    assert "kubectl -n shop annotate strimzipodsets web strimzi.io/manual-rolling-update=true" in message


async def test_a_pod_whose_ordinal_is_too_long_to_be_given_an_id_is_not_advised_to_be_rolled() -> None:
    """The injection reads nine digits out of a name, the operator ten: the remedy of other pods never helped this
    one."""
    world = PodSetWorld()
    world.list_pods(0, 1_234_567_890)
    await world.round()
    world.start(0)
    world.start(1_234_567_890, joins=False, instance_ids=frozenset())
    await world.settled(2)
    message = world.tells("Injected", "False", "PodsWithoutId", "no roll gives web-1234567890 one")
    assert "manual-rolling-update" not in message
