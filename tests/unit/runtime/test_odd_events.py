"""Odd but legal users and events: each test is one case in which a rule once did not hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.resources.memory import SUSPECT_IDS_MAX
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History
from staticgroup.kube.problem import problem_of
from unit.core.builders import ended, pod_version

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import LIVING, away, by_hand, force_delete, gap, group_body, left, managed, start_as
from .test_shared_workload import AUDIT, SharedWorld


async def test_pod_with_a_number_beyond_every_ordinal_in_its_name_stops_nothing() -> None:
    """A user runs `kubectl run web-$(date +%Y%m%d%H%M%S)` beside a StatefulSet `web`: no status can be written any
    more."""
    world = await OperatorWorld().started()
    start_as(world, "web-20261122093000", "script", set(), ids_are_fixed=False)
    await world.settled(2)
    assert len(world.status.memory.seats) == 3


async def test_rollout_while_suspended_makes_no_suspects_at_a_restart() -> None:
    """While suspended the group is not described; the pods of before the rollout have ended gracefully, each with a
    certificate."""
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, mode="Suspended"))
    await world.settled(2)
    for ordinal in range(3):
        world.end(ordinal)
        world.start(ordinal, f"u{ordinal}b")
    await world.settled(2)
    world.restart()
    await world.settled(2)
    world.declare(static_group(generation=3, mode="Manage"))
    await world.settled(2)
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal, f"u{ordinal}b")
    await world.settled(4)
    assert left(world) == [world.id_of(1), world.id_of(2)], guards(world)


async def test_staticgroup_that_cannot_be_read_spoils_no_round_of_another_on_its_workload() -> None:
    """An operator is rolled back under a newer CRD and cannot read one of two StaticGroups of a workload."""
    world = await SharedWorld().started()
    unreadable = world.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT]
    world.stores.put_group(AUDIT, unreadable | {"spec": unreadable["spec"] | {"groupProtocol": "Newer"}})
    world.scaled_down()
    for _ in range(4):
        await world.round()
        world.now_s += 10
    assert world.ids(2)[0] not in world.members("orders")


# ordinals that no int32 holds: no StatefulSet keeps such a pod, but pods of such names and ids are made by hand


@pytest.mark.parametrize("ordinal", [7, 3_000_000_000, 20261122093000])
async def test_member_that_joined_in_a_gap_is_kept_whatever_its_number(ordinal: int) -> None:
    """Ids are set by hand: one that was seen to end, and in a gap another pod with the same id, which was lost."""
    world = await by_hand()
    name, the_id = f"web-{ordinal}", f"web-{ordinal}.{world.scope}"
    start_as(world, name, "first", {the_id})
    world.kafka.join(the_id, "first-member")
    await world.settled(2)
    world._happens(replace(ended(0, "first", instance_ids=frozenset({the_id}), ids_are_fixed=True), name=name))
    world._happens(world.kube.pods["shop", name], is_deleted=True)
    away(world)
    start_as(world, "canary-0", "second", {the_id})
    world.kafka.join(the_id, LIVING)
    force_delete(world, "canary-0")
    gap(world)
    await world.settled(5)
    assert LIVING not in dict(world.left)
    assert guards(world) == ["JoinedBeforeWatch"]


# what pods of another namespace cost a StaticGroup without {scope} in its ids, because every tenant may write
# annotations


NAMES: dict[str, Any] = {"idTemplate": "{podName}", "assumeExclusive": True}
ETCD_MAX = 1_500_000
"""Bytes of one request to etcd (--max-request-bytes), see api/resources/status.py."""


def lurker(world: OperatorWorld, n: int, ids: frozenset[str]) -> None:
    """Start a pod of namespace bill whose annotations staticgroup.io/instance-id.… say ids; it has no consumer."""
    values = {"namespace": "bill", "name": f"lurker-{n}", "instance_ids": ids, "ids_are_fixed": False}
    world._happens(pod_version(0, f"lurker-{n}", **values))


async def of_pod_names() -> OperatorWorld:
    world = OperatorWorld(**NAMES)
    world.template = "web-{ordinal}"
    await world.started()
    world.pods.is_managed = managed
    return world


async def test_status_stays_below_what_etcd_takes() -> None:
    """Of suspects that have no room nothing is remembered, so the next process begins as if it remembered nothing."""
    world = await of_pod_names()
    assert world.status.memory.watch is not None
    for n in range(20):
        lurker(world, n, frozenset(f"web-1-{n}-{k}-".ljust(240, "a") for k in range(SUSPECT_IDS_MAX)))
        world._happens(world.kube.pods["bill", f"lurker-{n}"], is_deleted=True)
    await world.settled(3)
    assert len(world.status.memory.suspects) > 1
    assert len(json.dumps(group_body(world)["status"])) < ETCD_MAX
    assert world.status.memory.watch is None


# a StatefulSet that could not be read is not one that does not exist


async def test_read_that_failed_is_not_reported_as_a_statefulset_that_does_not_exist() -> None:
    """WorkloadFound says that the StatefulSet does not exist, create it; the API server has only not answered.

    `Reconciler._workload` returns None for a KubeProblem as for an absence, where the watch has not shown the
    StatefulSet yet. All ids are unwanted in that round, and the injected session timeout is planned without the
    template.
    """
    world = await OperatorWorld().started()
    injected_ms = world.injected.session_timeout_ms if world.status.injected is not None else None
    del world.stores.workloads["shop", "web"]
    world.kube.problems["read_workload"] = problem_of(503, verb="get", resource="statefulsets")
    await world.round()
    assert "does not exist" not in world.condition("WorkloadFound")[2]
    assert world.condition("WorkloadFound")[:2] == ("Unknown", "WorkloadUnreadable")
    assert world.injected.session_timeout_ms == injected_ms
    assert world.left == []
    spec, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    decided = plan(spec, snapshot, History(), world.now_s)
    assert "StatefulSet web cannot be read." in explained(spec, snapshot, decided, world.now_s)


# advice about pods of namespaces that may belong to another tenant never says to delete them


async def advice(world: OperatorWorld) -> str:
    """Return the message about web-2, which has ended while a pod of another tenant may be its member."""
    carried = {"instance_ids": frozenset({world.id_of(2)}), "ids_are_fixed": True}
    world._happens(pod_version(2, "tenant-1-2", namespace="tenant-1", name="web-2", **carried))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    await world.departs(4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])
    (message,) = (e.message for e in world.status.issues if e.kind.value == "Held")
    assert "delete pod" not in message
    return message


async def test_way_out_where_ids_have_no_scope_is_a_scope_or_a_staticgroup_there() -> None:
    world = OperatorWorld(idTemplate="{podName}", assumeExclusive=True)
    world.template = "web-{ordinal}"
    await world.started()
    world.pods.is_managed = managed
    assert (await advice(world)).endswith(
        "add {scope} to spec.idTemplate, or, if that pod consumes in another group, create a StaticGroup for its workload there"
    )


async def test_way_out_where_somebody_copied_a_scoped_id_is_to_ask_there() -> None:
    assert (await advice(await by_hand())).endswith(
        "ask in namespace tenant-1 why that pod has an id of this StaticGroup"
    )
