"""What the status says of odd days is so, and what it asks for helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.core.group import LeaveOutcome

from .operator_world import OperatorWorld, guards, kafka_connection, static_group
from .stories import LIVING, managed, start_as, stray

CONNECTION = ("shop", "kafka")
B_CONSUMER = {"instanceIdName": "B_INSTANCE_ID", "suffix": "-b", "sessionTimeoutName": ""}


def change_workload(world: OperatorWorld, **changes: Any) -> None:
    """Change the StatefulSet, seen by the API server and by the store."""
    view = replace(world.kube.workloads["shop", "web"], **changes)
    world.kube.workloads["shop", "web"] = world.stores.workloads["shop", "web"] = view


def start_debug_copy(world: OperatorWorld) -> None:
    """`kubectl debug web-0 --copy-to=web-debug`: its id is composed of its own name, and no timeout is shown."""
    start_as(world, "web-debug", "copy", {f"web-debug.{world.scope}"}, session_timeouts_ms=())


async def later(world: OperatorWorld, seconds: float) -> None:
    """Let time pass with a round now and then."""
    await world.settled(4)
    world.now_s += seconds
    await world.settled(3)


# members that are away ------------------------------------------------------------------------------------------------


async def test_pods_that_lack_one_of_two_ids_are_reported_until_they_are_rolled() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, client={"type": "Custom", "env": [{}, B_CONSUMER]}))
    await later(world, 3600)
    assert world.condition("Injected")[:2] == ("False", "PodsWithoutId")
    _, reason, message = world.condition("MembershipComplete")
    assert reason == "NotRolledYet"
    assert message.startswith("3 of 6 members are not static yet")


async def test_one_literal_id_in_the_template_of_all_pods_is_reported_with_the_way_to_write_it() -> None:
    world = OperatorWorld(idTemplate="{podName}.{scope}", client={"type": "Own"})
    world.scale(3)
    await world.round()
    for n in range(3):
        world.start(n, joins=False, instance_ids=frozenset({world.id_of(0)}))
    world.kafka.join(world.id_of(0))
    await later(world, 3600)
    message = world.tells(
        "Injected", "False", "PodsWithoutId", "some carry the id of web-0, and the members of one id fence each other"
    )
    assert message.endswith(
        f"compose the id of each pod in the pod template as {{podName}}.{world.scope}, and roll the StatefulSet"
    )
    assert world.condition("MembershipComplete")[1] == "NotRolledYet"
    assert world.condition("Ready")[0] == "False"


async def test_pod_that_is_never_made_is_reported_with_where_to_see_why() -> None:
    world = await OperatorWorld().started()
    world.end(2)
    del world.kafka.members[world.id_of(2)]
    await later(world, 3600)
    assert world.condition("MembershipComplete")[1:] == (
        "MembersMissing",
        "1 of 3 members have been away for longer than a restart takes, because their pods do not exist, "
        "such as web-2. "
        "See why with kubectl -n shop describe statefulset web",
    )
    assert world.condition("Ready")[0] == "False"


async def test_dynamic_clients_are_not_reported_as_fenced() -> None:
    """The application does not read the variable: restarting its pods brings nothing."""
    world = OperatorWorld()
    world.kafka.members[""] = "consumer-app-1"
    await world.started(2, joins=False)
    messages = [
        world.condition("MembershipComplete")[2],
        *(e.message for e in world.status.issues if e.kind.value == "Missing"),
    ]
    assert len(messages) == 3
    assert all(
        "the client must take it from the variable KAFKA_GROUP_INSTANCE_ID, which container app has" in text
        for text in messages
    )
    assert not any("restart its pod" in text for text in messages)


# pods that are none of ours -------------------------------------------------------------------------------------------


async def test_debug_copy_counts_among_no_pods() -> None:
    world = await OperatorWorld().started()
    start_debug_copy(world)
    await world.settled(3)
    assert world.condition("TimeoutSufficient")[1] == "TimeoutFits"
    assert world.condition("Injected")[2].startswith("All 3 pods carry")


async def test_debug_copy_stands_for_no_pod_that_is_not_visible() -> None:
    world = await OperatorWorld().started()
    start_debug_copy(world)
    world.scale(2)
    world.end(2)
    change_workload(world, status_replicas=3)  # one more than is visible
    world.now_s += 60
    await world.settled(3)
    assert guards(world) == ["PodsUnseen"]
    assert world.left == []


async def test_debug_copy_that_has_just_gone_stands_for_none_either() -> None:
    world = await OperatorWorld().started()
    start_debug_copy(world)
    world.scale(2)
    world.end(2)
    change_workload(world, status_replicas=3)
    world.now_s += 60
    world._happens(world.kube.pods["shop", "web-debug"], is_deleted=True)
    await world.round()
    assert guards(world) == ["PodsUnseen"]


async def test_pod_that_is_not_wanted_is_not_counted_among_those_that_carry_their_id() -> None:
    world = await OperatorWorld().started(4)
    world.end(3)
    del world.kafka.members[world.id_of(3)]
    world.start(3, "u3b", instance_ids=frozenset(), joins=False)
    world.scale(3)
    await world.settled(2)
    assert world.condition("Injected")[2].startswith("All 3 pods carry")


# departed members -----------------------------------------------------------------------------------------------------


async def kept(world: OperatorWorld) -> str:
    """Let days pass, and return why departed members are kept."""
    await later(world, 86_400)
    message = world.tells("RemovalSettled", "False", "RemovalHeld")
    assert world.condition("Ready")[0] == "False"
    assert world.left == []
    return message


async def test_member_of_a_copy_that_lives_on_is_not_said_to_leave_soon() -> None:
    world = await OperatorWorld(idTemplate="{podName}.{scope}", client={"type": "Own"}).started()
    world.pods.is_managed = managed
    stray(world)
    await world.departs(3)
    assert (await kept(world)).endswith(
        "nothing ends that pod now; if it is not needed: kubectl -n shop delete pod canary-0."
    )


async def test_member_of_an_orphan_is_not_said_to_leave_soon() -> None:
    """`kubectl delete statefulset web --cascade=orphan`: the pods live on, on purpose."""
    world = await OperatorWorld().started()
    world.delete_workload()
    await world.settled(2)
    assert world.condition("RemovalSettled")[1] == "RemovalInProgress"
    assert "delete pod web-0" in await kept(world)


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"update_strategy": "OnDelete"}, "kubectl -n shop delete pod web-0"),
        ({"partition": 2}, "kubectl -n shop delete pod web-0"),
        ({}, "kubectl -n shop rollout restart statefulset/web"),
    ],
)
async def test_pods_with_old_ids_are_reported_with_the_command_that_replaces_them(
    changes: Mapping[str, Any], command: str
) -> None:
    world = await OperatorWorld().started()
    change_workload(world, **changes)
    world.declare(static_group(generation=2, idTemplate="{podName}-b.{scope}"))
    held = await kept(world)
    assert "3 departed members are held back" in held
    assert held.endswith("the member leaves once it restarts: kubectl -n shop delete pod web-0.")
    assert world.condition("Injected")[2].endswith(command)


async def test_member_of_an_old_id_leaves_soon_while_its_pods_are_rolled() -> None:
    world = await OperatorWorld().started()
    change_workload(world, update_revision="r2", updated_replicas=0)
    world.declare(static_group(generation=2, idTemplate="{podName}-b.{scope}"))
    await later(world, 3600)
    assert world.condition("RemovalSettled")[1] == "RemovalInProgress"


async def test_member_of_a_living_pod_is_not_said_to_leave_when_its_session_expires() -> None:
    world = await OperatorWorld(idTemplate="{podName}.{scope}", client={"type": "Own"}, removal="Never").started()
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    await world.departs(3)
    assert "leaves when its process ends and its session expires" in world.condition("RemovalSettled")[2]


async def test_group_that_rebalances_after_a_removal_is_not_said_to_be_stable() -> None:
    world = await OperatorWorld().started()
    await world.departs(4)
    world.kafka.state = "PreparingRebalance"
    await later(world, 3600)
    assert world.condition("RemovalSettled")[1:] == (
        "Removed", "1 departed member was removed, and a later read of the group confirmed it."
    )


# before the first round -----------------------------------------------------------------------------------------------


async def test_nothing_is_claimed_of_what_is_not_looked_at_while_suspended() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, mode="Suspended"))
    await world.settled(2)
    found = {c.type: (c.status.value, c.reason) for c in world.status.conditions}
    assert found.pop("Ready") == ("False", "Suspended")
    assert set(found.values()) == {("Unknown", "NotObservedYet")}
    assert "Injected" in found
    world.declare(static_group(generation=3))
    await world.settled(1)
    assert {c.status.value for c in world.status.conditions} == {"True"}


async def test_right_that_only_a_removal_needs_is_not_claimed() -> None:
    world = await OperatorWorld().started()
    world.kafka.outcome = LeaveOutcome.NOT_AUTHORIZED
    await world.departs(3)
    assert world.condition("Authorized")[1] == "ReadGroupDenied"
    del world.kafka.members[world.id_of(2)]
    await world.settled(3)
    assert world.condition("Authorized")[2] == (
        "The brokers refused no request. READ on the group is needed for removals and rebalances only."
    )


async def test_statefulset_that_is_being_deleted_wants_no_pods() -> None:
    world = await OperatorWorld().started()
    change_workload(world, is_deleting=True)
    await world.settled(2)
    assert world.condition("WorkloadFound")[2] == "StatefulSet shop/web is being deleted; its pods are deleted with it."
    change_workload(world, is_orphaning=True)
    await world.settled(2)
    assert world.condition("WorkloadFound")[2] == "StatefulSet shop/web is being deleted; its pods stay."


# session timeouts -----------------------------------------------------------------------------------------------------


async def test_consumer_without_a_variable_for_its_session_timeout_is_named() -> None:
    world = OperatorWorld(client={"type": "Custom", "env": [{}, B_CONSUMER]})
    await world.round()
    for n in range(2):
        ids = {world.id_of(n), f"{world.id_of(n)}-b"}
        world.start(n, joins=False, instance_ids=frozenset(ids))
        for instance_id in sorted(ids):
            world.kafka.join(instance_id)
    world.now_s += 300
    await world.settled(3)
    assert world.condition("TimeoutSufficient")[1:] == (
        "TimeoutUnknown",
        "2 of 2 pods, such as web-0, do not show the session timeout of all their consumers: "
        "spec.client.env names no variable "
        "for it (sessionTimeoutName) beside B_INSTANCE_ID.",
    )


async def test_pods_that_carry_the_id_are_counted_although_their_statefulset_is_gone() -> None:
    """`kubectl delete sts web --cascade=orphan`."""
    world = await OperatorWorld().started()
    world.delete_workload()
    await world.settled(2)
    assert "3 pods still run with the id that was issued to them" in world.condition("Injected")[2]


# spec.client names a container that the pods do not have: nothing a pod does brings its client an id


CONTAINER: dict[str, Any] = {"container": "worker"}
ENTRIES: dict[str, Any] = {
    "type": "Custom",
    "env": [{"instanceIdName": "KAFKA_GROUP_INSTANCE_ID"}, {"container": "worker", "suffix": "-b"}]
}


async def with_pods(client: dict[str, Any], **changes: Any) -> OperatorWorld:
    """Let three pods be Ready for minutes whose clients got no id from the policy."""
    world = OperatorWorld(idTemplate="{podName}.{scope}", client=client)
    await world.begin(3, joins=False, **changes)
    world.now_s += 300
    await world.settled(3)
    return world


@pytest.mark.parametrize("client", [CONTAINER, ENTRIES], ids=["container", "env"])
@pytest.mark.parametrize("changes", [{}, {"instance_ids": frozenset()}], ids=["annotated", "without an annotation"])
async def test_restart_gives_no_id_to_a_container_that_is_not_there(
    client: dict[str, Any], changes: dict[str, Any]
) -> None:
    """The policy writes the annotation and no variable."""
    world = await with_pods(client, **changes)
    messages = [c.message for c in world.status.conditions] + [e.message for e in world.status.issues]
    assert not any("restart its pod" in text or "rollout restart" in text for text in messages)
    assert world.condition("Injected") == (
        "False",
        "IdentityInvalid",
        "spec.client names container worker, which the pods of StatefulSet web do not have, "
        "so its variables are written nowhere; "
        "correct the name of the container in spec.client, and roll the StatefulSet",
    )
    assert "ee Injected" in world.condition("MembershipComplete")[2]
    assert world.status.issues
    assert all("correct the name of the container in spec.client" in e.message for e in world.status.issues)


@pytest.mark.parametrize(
    "client", [{"container": "app"}, {"container": "worker", "type": "Own"}], ids=["right", "its own ids"]
)
async def test_container_that_receives_its_variables_or_is_to_receive_none(client: dict[str, Any]) -> None:
    world = await with_pods(client)
    assert "container" not in world.condition("Injected")[2]
    assert any("restart its pod" in e.message for e in world.status.issues)


async def test_container_of_a_statefulset_that_is_not_there_is_not_known() -> None:
    world = await OperatorWorld(client=CONTAINER).started()
    world.delete_workload()
    await world.settled(2)
    assert "worker" not in world.condition("Injected")[2]


# where to read on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "page"), [("Manage", "workloadnotfound"), ("Suspended", "suspended")])
async def test_a_condition_names_the_page_on_its_reason_where_the_site_is_known(mode: str, page: str) -> None:
    world = await OperatorWorld().started()
    world.reconciler.docs_url = "https://docs.example"
    world.declare(static_group(generation=2, mode=mode))
    world.delete_workload()
    await world.settled(2)
    assert world.condition("Ready")[2].endswith(f" (https://docs.example/guide/troubleshooting.html#{page})")


async def test_the_condition_of_a_connection_names_the_page_on_its_reason_too() -> None:
    world = OperatorWorld()
    world.kube.put_object(names.KAFKA_CONNECTION_PLURAL, kafka_connection())
    world.kube.secrets = {}
    reporter = world.reporter()
    reporter.docs_url = "https://docs.example"
    await reporter.reconcile(CONNECTION)
    written = world.kube.objects[names.KAFKA_CONNECTION_PLURAL, *CONNECTION]["status"]["conditions"]
    assert {c["message"].rpartition("#")[2] for c in written} == {"secretnotfound)"}
