"""Ids that become ours by an edit, and pods that show another id than the one they use: each ends with a living process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.kube.pods.book import PodIndex
from unit.core.builders import ended

from .operator_world import KEY, UNREACHABLE, OperatorWorld, guards, static_group
from .stories import LIVING, group_body, put, start_as

PLAIN: dict[str, Any] = {"idTemplate": "{podName}", "assumeExclusive": True}
OWN = PLAIN | {"client": {"type": "Own"}}
A, B = (
    {"instanceIdName": f"{x}_INSTANCE_ID", "sessionTimeoutName": f"{x}_SESSION", "suffix": f"-{x.lower()}"} for x in "AB"
)


def custom(*env: dict[str, str]) -> dict[str, Any]:
    return PLAIN | {"client": {"type": "Custom", "env": list(env)}}


async def beside_a_process_of_before(before: dict[str, Any], then: dict[str, Any], appended: str) -> OperatorWorld:
    """A pod was deleted by force before the StaticGroup was made; its process lives, and another pod stands in its
    place. Half an hour later an edit makes the id that it holds one of ours."""
    world = OperatorWorld(**before)
    world.template = f"web-{{ordinal}}{appended}"
    world.scale(3)
    for ordinal, uid in ((0, "u0"), (1, "u1"), (2, "u2b")):
        world.start(ordinal, uid, joins=ordinal != 2, instance_ids=frozenset({f"web-{ordinal}{appended}"}))
    world.kafka.join(f"web-2{appended}", LIVING)
    await world.minutes(30)
    world.declare(static_group(generation=2, **then))
    await world.settled(3)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(6)
    return world


@pytest.mark.parametrize(
    ("before", "then", "appended"),
    [
        pytest.param({}, OWN, "", id="the application keeps its ids"),
        pytest.param({}, PLAIN, "", id="another template"),
        pytest.param(custom(A), custom(A, B), "-b", id="another variable"),
        pytest.param(OWN, OWN | {"client": {"type": "Own", "suffixes": ["-0"]}}, "-0", id="a suffix of the client"),
        pytest.param(custom(A), {"assumeExclusive": True}, "", id="an earlier template without its suffix"),
    ],
)
async def test_member_that_was_somebody_elses_until_an_edit_may_be_of_an_unseen_pod(
    before: dict[str, Any], then: dict[str, Any], appended: str
) -> None:
    world = await beside_a_process_of_before(before, then, appended)
    assert world.left == []


APP: dict[str, Any] = {"idTemplate": "app-{ordinal}", "assumeExclusive": True}


@pytest.mark.parametrize(
    ("before", "then"),
    [
        pytest.param({"assumeExclusive": True}, {"assumeExclusive": True}, id="back to ids with a scope"),
        pytest.param(APP, APP, id="back to others without one"),
        pytest.param(APP, {"assumeExclusive": True}, id="to ids with a scope"),
    ],
)
async def test_edit_that_is_taken_back_soon_leaves_its_ids_as_young_as_they_are(
    before: dict[str, Any], then: dict[str, Any]
) -> None:
    """The application takes its host name, and a process that nobody saw starts again and again with one of these."""
    world = OperatorWorld(**before)
    world.template = "web-{ordinal}"
    world.scale(3)
    await world.round()
    await world.watched_for_long()
    shown: dict[str, Any] = {"instance_ids": frozenset(), "ids_are_fixed": True}
    for ordinal, uid in ((0, "u0"), (1, "u1"), (2, "u2b")):
        world.start(ordinal, uid, joins=False, **shown)
        world.kafka.join(f"web-{ordinal}", f"{LIVING}-{ordinal}")
    await world.minutes(30)
    world.declare(static_group(generation=2, **OWN))
    await world.minutes(2)
    world.declare(static_group(generation=3, **then))
    await world.minutes(1)
    world.kafka.join("web-2", f"{LIVING}-again")
    await world.settled(3)
    world.scale(2)
    world._happens(ended(2, "u2b", **shown))
    world.remove_object(2)
    await world.settled(6)
    assert world.left == []
    assert "JoinedBeforeWatch" in guards(world)


async def test_members_at_another_cluster_behind_the_same_address_are_older_than_the_watch() -> None:
    """As where the login chooses the cluster: the group is empty until the Secret is corrected."""
    world = OperatorWorld(**OWN)
    world.template = "web-{ordinal}"
    world.scale(3)
    for ordinal, uid in ((0, "u0"), (1, "u1"), (2, "u2b")):
        world.start(ordinal, uid, joins=False, instance_ids=frozenset())
    await world.settled(2)
    await world.minutes(12)
    world.kafka.cluster_id = "another-cluster"
    for ordinal in range(2):
        world.kafka.join(f"web-{ordinal}")
    world.kafka.join("web-2", LIVING)
    await world.settled(3)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(6)
    assert (world.left, guards(world)) == ([], ["JoinedBeforeWatch"])


async def test_suspect_that_was_silent_under_other_ids_is_one_again() -> None:
    """The id that it holds was foreign, so that nothing was heard of it."""
    world = OperatorWorld()
    world.template = "web-{ordinal}"
    world.scale(3)
    for ordinal in range(3):
        world.start(ordinal, instance_ids=frozenset(), joins=False)
        world.kafka.join(f"web-{ordinal}", f"m{ordinal}")
    await world.minutes(3)
    world.kafka.join("web-2", LIVING)
    world.remove_object(2)
    world.start(2, "u2b", instance_ids=frozenset(), joins=False)
    await world.minutes(20)
    assert world.status.memory.suspects == []
    world.declare(static_group(generation=2, **OWN))
    await world.settled(3)
    assert "u2" in {s.uid for s in world.status.memory.suspects}


async def test_edit_issues_no_id_that_a_member_of_somebody_else_holds() -> None:
    world = await OperatorWorld().started()
    start_as(world, "canary-0", "stray", {"web-2"})
    world.kafka.join("web-2", LIVING)
    await world.settled(2)
    world.kafka.join("web-1", "of-another-cluster")
    world.declare(static_group(generation=2, **PLAIN))
    await world.settled(2)
    assert world.status.injected is not None
    assert "{podName}." in world.status.injected.id_template
    assert world.condition("Injected")[:2] == ("False", "IdentityInvalid")
    assert "web-1" in world.condition("Injected")[2]


async def test_template_that_was_edited_while_nothing_was_injected_is_asked_for_as_well() -> None:
    """The ordinals had ids before, but other ones."""
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, mode="Observe", **PLAIN))
    await world.settled(2)
    world.kafka.join("web-2", LIVING)
    world.declare(static_group(generation=3, **PLAIN))
    await world.settled(2)
    assert world.condition("Injected")[1] == "IdsHeldElsewhere"


async def test_template_that_gives_a_live_pods_id_to_another_pod_is_refused_without_any_memory() -> None:
    world = OperatorWorld(idTemplate="{podName}1.{scope}")
    await world.round()
    world.template = f"web-{{ordinal}}1.{world.scope}"
    await world.started()
    world.kube.objects["staticgroups", *KEY]["status"] = {}
    world.declare(static_group(generation=2, idTemplate="{podName}.{scope}"))
    world.restart()
    await world.settled(2)
    assert world.condition("Injected")[:2] == ("False", "IdentityInvalid")
    assert "and pod web-1 has it" in world.condition("Injected")[2]


async def test_lost_part_of_a_status_is_no_beginning() -> None:
    """While no operator runs a pod comes, and is deleted by force; `injected` alone is lost, the memory beside it not."""
    world = OperatorWorld()
    world.scale(3)
    await world.settled(2)
    for ordinal in range(3):
        world.start(ordinal)
    await world.settled(3)
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.pods.is_lagging = True
    world.start(3, joins=False)
    for ordinal in range(3):
        world.end(ordinal)
    world.remove_object(3)
    world.scale(0)
    world.kafka.members.clear()
    put(world, status={k: v for k, v in group_body(world)["status"].items() if k != "injected"})
    world.now_s += 60
    world.restart(watch_name="2-00000002")
    world.pods.book.index = PodIndex()  # a new process lists no pod
    await world.settled(3)
    world.scale(4)
    for ordinal in range(4):
        world.start(ordinal, f"n{ordinal}")
    await world.settled(2)
    world.kafka.join(world.id_of(3), LIVING)
    await world.settled(2)
    world.scale(3)
    world.end(3, "n3")
    await world.settled(6)
    assert world.left == []
    assert guards(world) == ["JoinedBeforeWatch"]


async def test_ids_without_a_scope_are_not_as_young_as_those_with_one_that_were_issued_before_any_connection() -> None:
    world = OperatorWorld()
    connection = world.stores.connections.pop(("shop", "kafka"))
    await world.settled(2)
    world.declare(static_group(generation=2, **OWN))
    world.template = "web-{ordinal}"
    world.scale(3)
    for ordinal, uid in ((0, "u0"), (1, "u1"), (2, "u2b")):
        world.start(ordinal, uid, joins=ordinal != 2)
    world.kafka.join("web-2", LIVING)
    world.stores.connections["shop", "kafka"] = connection
    await world.settled(3)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)
    assert world.left == []


# pods that show another id than the one they use ----------------------------------------------------------------------


async def rolled(world: OperatorWorld, shown: str) -> None:
    """Roll three pods to ones that show another id and join as before, no description between end and join."""
    for ordinal in (2, 1, 0):
        world.kafka.problems["describe"] = UNREACHABLE
        before = world.kube.pods["shop", f"web-{ordinal}"].instance_ids
        world._happens(replace(ended(ordinal, f"u{ordinal}", instance_ids=before, ids_are_fixed=True)))
        await world.settled(1)
        world.remove_object(ordinal)
        ids = frozenset({shown.format(ordinal=ordinal)})
        world.start(ordinal, f"u{ordinal}b", joins=False, instance_ids=ids, ids_are_fixed=True)
        world.kafka.join(f"web-{ordinal}", f"{LIVING}-{ordinal}")
        world.kafka.problems.clear()
        await world.settled(3)
    await world.minutes(10)


async def test_pod_that_shows_another_text_is_not_blamed_for_it_where_its_member_has_joined() -> None:
    """As EC2_INSTANCE_ID beside an application that takes its host name."""
    world = OperatorWorld(**OWN)
    world.template = "web-{ordinal}"
    await world.round()
    for ordinal in range(2):
        world.start(ordinal, instance_ids=frozenset({f"i-0abc{ordinal}"}))
    world.now_s += 300
    await world.settled(2)
    reasons = {c.type: c.reason for c in world.status.conditions}
    assert (reasons["Ready"], reasons["Injected"]) == ("Reconciled", "InjectionOff")


async def test_pod_that_shows_another_text_holds_the_id_that_its_application_takes() -> None:
    """As SERVICE_INSTANCE_ID=$(POD_NAME).$(POD_NAMESPACE) beside an application that takes its host name."""
    world = OperatorWorld(**OWN)
    world.template = "web-{ordinal}"
    world.scale(3)
    await world.watched_for_long()
    for ordinal in range(3):
        world.start(ordinal, instance_ids=frozenset(), ids_are_fixed=True)
    await world.minutes(5)
    await rolled(world, "web-{ordinal}.shop")
    world.scale(2)
    world._happens(replace(world.kube.pods["shop", "web-2"], is_deleting=True, deletion_grace_s=60))
    await world.settled(4)
    assert world.left == []


async def test_application_that_ignores_the_variable_keeps_its_members_when_the_template_changes() -> None:
    """It takes its host name, which is what the earlier template gave."""
    world = OperatorWorld(**PLAIN)
    world.template = "web-{ordinal}"
    await world.started()
    world.declare(static_group(generation=2, idTemplate="{podName}.{scope}", assumeExclusive=True))
    await world.settled(2)
    await rolled(world, f"web-{{ordinal}}.{world.scope}")
    assert world.left == []
    assert set(guards(world)) == {"PodStillRunning"}
