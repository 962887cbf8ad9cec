"""Pods of other names that carry an id: copies, pods made by hand, and what is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.core.evidence.words import Word
from staticgroup.core.snapshot import History
from staticgroup.core.status.memory import ledger_from
from staticgroup.runtime.memory.memory import Memory
from unit.core.builders import pod_version

from .operator_world import KEY, UNREACHABLE, OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    away,
    by_annotations,
    by_hand,
    departs,
    force_delete,
    gap,
    left,
    lost_stray,
    managed,
    start_as,
    stray,
)
from .test_premises import a_departure_of_unscoped_ids


@pytest.mark.parametrize("method", ["None", "Policy"])
async def test_suspect_under_another_name_survives_a_restart(method: str) -> None:
    """A pod of another name carries the id of web-2 and is lost; the operator restarts and resumes its watch.

    Before the restart the chain holds that suspect (by its id). The ledger is made of the pods named after the workload
    only, and only their ends hold the stored position back, so after an everyday restart nobody knows of it.
    With method None ids may be written under any name; with the policy a copy made by
    `kubectl debug web-2 --copy-to=canary-0 --keep-annotations` does it where the template holds {ordinal}.
    """
    world = await OperatorWorld(identity={"method": method}).started()
    world.pods.is_managed = managed
    lost_stray(world)
    await world.settled(3)
    await departs(world, 2)
    assert guards(world) == ["DeathNotProven"]
    world.restart()
    await world.settled(4)
    assert left(world) == []


@pytest.mark.parametrize("trouble", ["brokers", "suspension"])
async def test_suspect_under_another_name_survives_a_restart_while_the_group_cannot_be_read(trouble: str) -> None:
    """As above, but before the operator restarts nobody can say who holds which id: brokers are away, or `spec.suspend`."""
    world = await by_hand()
    lost_stray(world)
    await world.settled(3)
    if trouble == "brokers":
        world.kafka.problems["describe"] = UNREACHABLE
    else:
        world.declare(static_group(generation=2, suspend=True, identity={"method": "None"}))
    await world.settled(2)
    world.restart()
    await world.settled(2)
    world.kafka.problems.clear()
    world.declare(static_group(generation=3, suspend=False, identity={"method": "None"}))
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


@pytest.mark.parametrize("when", ["between two rounds", "before the first round", "before the brokers answer"])
async def test_suspect_under_another_name_that_no_status_holds_yet_is_found_again_by_the_next_operator(when: str) -> None:
    """The operator ends before the round that would have written the suspect; its end is after the stored position."""
    world = await by_hand()
    stray(world)
    await world.settled(2)
    if when != "between two rounds":
        world.restart()
        world.pods.is_managed = managed
    if when == "before the brokers answer":
        world.kafka.problems["describe"] = UNREACHABLE
        await world.settled(2)
    force_delete(world, "canary-0")
    world.start(1, "u1b")  # something later that moves the position on
    world.restart()
    world.pods.is_managed = managed
    world.kafka.problems.clear()
    await world.settled(2)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_suspect_of_another_name_waits_for_nobody_who_does_not_count_on_its_ids() -> None:
    """Once the group was read and the status is written, the position passes it; and ids of nobody never hold it."""
    world = await by_hand()
    for name, uid, instance_id in (("canary-0", "stray", world.id_of(2)), ("other-0", "nobodys", "others-0")):
        start_as(world, name, uid, {instance_id})
        world.kube.resource_version += 1
        force_delete(world, name)
    position = world.kube.resource_version
    assert world.pods.book.unwritten.durable_position("shop", position) < position
    await world.settled(2)
    assert world.pods.book.unwritten.durable_position("shop", position) == position


@pytest.mark.parametrize("suffix", [None, "Streams"])
async def test_suspended_staticgroup_is_behind_a_suspect_only_where_it_issues_its_ids(suffix: str | None) -> None:
    """It has read nothing since the operator restarted. A lost pod of somebody else with an id of its own concerns it not."""
    identity: dict[str, Any] = {"method": "None"} | ({"suffix": suffix} if suffix else {})
    world = await OperatorWorld(identity=identity).started()
    carried = {"ours": {world.id_of(2)}, "others": {"payments-2"}}
    world.declare(static_group(generation=2, suspend=True, identity=identity))
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    for uid, ids in carried.items():
        start_as(world, f"{uid}-0", uid, ids)
        force_delete(world, f"{uid}-0")
        counted = world.reconciler.ledgers.counting_on(world.pods.get(uid))  # type: ignore[arg-type]
        assert counted == ({("shop", "web"): True} if uid == "ours" else {})


async def test_staticgroup_that_cannot_be_read_counts_on_every_suspect_of_its_namespace() -> None:
    """A newer CRD allows what this operator does not know; whoever can read it again goes on from its status."""
    world = await by_hand()
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    body = static_group(generation=2, protocol="Newer")
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, body))
    force_delete(world, "canary-0")
    assert world.reconciler.ledgers.counting_on(world.pods.get("stray")) == {("shop", "web"): True}  # type: ignore[arg-type]


async def test_suspect_with_an_id_that_nobody_wants_yet_is_remembered_for_when_it_is_wanted() -> None:
    """Nobody wants the id of web-3 when a pod that carries it is lost; then the StatefulSet is scaled up, and down again."""
    world = await by_hand()
    start_as(world, "canary-0", "stray", {world.id_of(3)})
    force_delete(world, "canary-0")
    stray = world.pods.get("stray")
    assert stray is not None
    assert world.reconciler.ledgers.counting_on(stray) == {("shop", "web"): True}
    await world.settled(4)
    assert stray.uid in {e.uid for e in world.status.ledger.incarnations}  # type: ignore[union-attr]
    assert world.reconciler.ledgers.counting_on(stray) == {("shop", "web"): False}
    world.restart()
    world.pods.is_managed = managed
    world.scale(4)
    world.start(3, joins=False)
    await world.settled(2)
    world.kafka.join(world.id_of(3), LIVING)
    world.scale(3)
    world.end(3)
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_suspect_of_nobody_is_somebodys_once_a_template_makes_its_id() -> None:
    """Ids without a scope; a pod that carries one of the template that the spec gets next is lost before that."""
    world = OperatorWorld(identity={"method": "None", "template": "a-{podName}", "exclusive": True})
    world.template = "a-web-{ordinal}"
    await world.started()
    world.pods.is_managed = managed
    start_as(world, "canary-0", "stray", {"b-web-2"})
    force_delete(world, "canary-0")
    stray = world.pods.get("stray")
    assert stray is not None
    assert world.reconciler.ledgers.counting_on(stray) == {}
    world.declare(static_group(generation=2, identity={"method": "None", "template": "b-{podName}", "exclusive": True}))
    await world.settled(2)
    world.now_s += 60
    await world.settled(2)
    assert world.reconciler.ledgers.counting_on(stray) == {("shop", "web"): False}
    assert stray.uid in {e.uid for e in world.status.ledger.incarnations}  # type: ignore[union-attr]


async def test_suspects_of_nobody_cost_a_renewal_of_the_lease_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of lost pods with ids of their own, and hundreds of StaticGroups in the namespace: each pair is asked once."""
    world = await OperatorWorld().started()
    for number in range(50):
        body = static_group(uid=f"sg-{number}", workloadRef={"name": f"set-{number}"}, groupId=f"group-{number}")
        body["metadata"]["name"] = f"group-{number}"
        world.stores.put_group(("shop", f"group-{number}"), body)
        world.reconciler.memories._by_key["shop", f"group-{number}"] = Memory(
            uid=f"sg-{number}", history=History(), status=None, shown=None, resource_version="1", counted_ids=frozenset()
        )
    world.pods.is_managed = managed
    for number in range(40):
        start_as(world, f"job-{number}", f"job-{number}", {f"payments-{number}"})
        force_delete(world, f"job-{number}")
    asked: list[str] = []
    counts_on = type(world.reconciler.ledgers)._counts_on
    monkeypatch.setattr(
        type(world.reconciler.ledgers), "_counts_on", lambda *a: (asked.append(a[1][1]), counts_on(*a))[1]
    )
    for _ in range(5):
        world.pods.book.unwritten.stored_position("", world.kube.resource_version)
        world.now_s += 2
    assert 0 < len(asked) <= 40 * 51


async def test_suspect_that_a_later_writer_knows_is_one_although_our_watch_has_not_shown_its_end() -> None:
    """A paused replica, whose pod watch lags, reads what its successor wrote and writes over it; then another one begins.

    No number tells that the successor wrote later: somebody deleted the Lease meanwhile.
    """
    world = await OperatorWorld(identity={"method": "None"}).started()
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    await world.settled(2)
    assert world.status.continuity is not None
    paused, lagging = world.reconciler, world.pods
    world.restart()
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    await world.settled(2)
    assert world.pods.state("stray") == "Suspect"

    lagging.merge(ledger_from("shop", world.status, "sg-1"))
    assert lagging.state("stray") == "Suspect"
    await paused.reconcile(KEY)
    world.restart(epoch=world.pods.epoch)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_pod_with_leading_zeros_in_its_name_is_no_sight_of_a_seat() -> None:
    """web-02 (a copy of a pod, with its annotation) has no name that a StatefulSet gives, but counts as ordinal 2.

    It stays over the gap, and by its uid the seat of web-2 counts as clear, where a pod came and went unseen.
    """
    world = await OperatorWorld().started()
    start_as(world, "web-02", "copy", {"web-0.deadbeef"})
    await world.settled(2)
    world.end(2)
    await world.settled(2)
    away(world)
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.remove_object(2)
    gap(world)
    await world.settled(2)
    world.scale(2)
    await world.settled(4)
    assert left(world) == []


async def test_method_that_changed_in_the_gap_does_not_hide_that_ids_were_written_by_hand() -> None:
    """identity.method was None when the gap began and is Policy when it ends: ids could be under any name in between."""
    world = await OperatorWorld(identity={"method": "None"}).started()
    world.scale(2)
    await world.settled(2)
    away(world)
    lost_stray(world)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    gap(world)
    await world.settled(3)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_pod_born_in_the_gap_may_carry_any_id_where_ids_can_be_edited() -> None:
    """Ids follow annotations ({ordinal}); web-3 is made in the gap, its annotation is edited to the id of web-2, and it is lost.

    The rule about containers that may have restarted with another id asks only for pods that were there when the gap began.
    """
    world = await by_annotations()
    away(world)
    world.scale(4)
    start_as(world, "web-3", "u3", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "web-3")
    world.scale(3)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert left(world) == []


@pytest.mark.parametrize("trouble", ["brokers", "suspension", "crash"])
async def test_suspect_under_another_name_that_no_status_names_yet(trouble: str) -> None:
    """As above, but the copy is lost while the group cannot be read, or right before the operator crashes."""
    spec: dict[str, Any] = {"identity": {"method": "None"}}
    world = await OperatorWorld(**spec).started()
    world.pods.is_managed = managed
    stray(world)
    await world.settled(3)
    if trouble == "brokers":
        world.kafka.problems["describe"] = UNREACHABLE
    elif trouble == "suspension":
        world.declare(static_group(generation=2, suspend=True, **spec))
    if trouble != "crash":
        await world.settled(3)
    force_delete(world, "canary-0")
    if trouble != "crash":
        await world.settled(3)
    world.restart()
    await world.settled(2)
    world.kafka.problems.clear()
    world.declare(static_group(generation=3, suspend=False, **spec))
    await departs(world, 6)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_live_pod_under_another_name_that_goes_while_no_operator_looks() -> None:
    """Ids follow annotations; a copy of web-2 that kept them holds the id. It is lost while all replicas are away.

    The LIST does not show it, the status never named it (a seat is a name of the workload), and the rules of gaps ask for
    names of the workload only.
    """
    world = await by_annotations()
    stray(world, ids_are_fixed=False)
    await departs(world, 4)
    assert guards(world) == ["PodStillRunning"]
    force_delete(world, "canary-0")
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    await world.settled(6)
    assert left(world) == []


async def test_live_pod_of_the_time_of_another_method_that_goes_while_no_operator_looks() -> None:
    """As above with the default template: canary-0 was given the id of web-2 by hand while identity.method was None.

    The method is Policy by the time of the gap, at both ends of it, so no id can be under another name.
    """
    world = await OperatorWorld(identity={"method": "None"}).started()
    stray(world)
    await world.settled(2)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(3)
    await departs(world, 4)
    assert guards(world) == ["PodStillRunning"]
    force_delete(world, "canary-0")
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    await world.settled(6)
    assert left(world) == []


async def test_copy_of_a_pod_that_came_and_went_in_the_gap_where_ids_follow_annotations() -> None:
    """`kubectl debug web-2 --copy-to=canary-0 --keep-annotations` in the gap: the copy fences web-2, and its node is lost.

    Every pod of the StatefulSet stays and restarts nothing, so every seat counts as clear.
    """
    world = await by_annotations()
    await world.settled(1)
    away(world)
    lost_stray(world, ids_are_fixed=False)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert left(world) == []


async def test_suspect_under_another_name_is_not_purged() -> None:
    """Many pods that belong to nobody are lost (virtual nodes, workflows); the oldest suspects of nobody are dropped.

    A suspect that carries an id of a StaticGroup under another name counts as nobody's.
    """
    world = await by_hand()
    gone = world.pods.book.gone
    gone._gone_max = gone._gone_limit = 10
    lost_stray(world)
    await world.settled(3)
    await departs(world, 2)
    assert guards(world) == ["DeathNotProven"]
    for number in range(12):
        start_as(world, f"job-{number}", f"job-{number}", set())
        force_delete(world, f"job-{number}")
        world.pods.book.purge()
    await world.settled(3)
    assert left(world) == []


async def test_pod_born_in_the_gap_under_a_template_that_no_pod_at_either_end_has_yet() -> None:
    """The template is changed to one with {ordinal}; running pods keep their composed ids until they are rolled.

    In the gap web-3 is made by the new template, its annotation is edited to the id of web-2, and it is lost. Every seat
    at both ends has ids that cannot be edited, and that alone counts as a proof that no pod had others.
    """
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, identity={"template": "{ordinal}.{scope}"}))
    await world.settled(3)
    assert world.status.injected is not None
    assert world.status.injected.id_template.startswith("{ordinal}")
    away(world)
    world.scale(4)
    start_as(world, "web-3", "u3", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "web-3")
    world.scale(3)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert left(world) == []


async def test_suspect_of_another_namespace_is_confirmed_where_the_status_says() -> None:
    """Unscoped ids in `shop`; a StatefulSet in `bill` uses the same texts in another group, which the word allows.

    One of its pods is force-deleted. No ledger names it, so the command does not know it; the resource alone is the word.
    """
    world = await a_departure_of_unscoped_ids()
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2"})))
    world._happens(world.kube.pods["bill", "pay-2"], is_deleted=True)
    await world.settled(3)
    assert guards(world) == ["DeathNotProven"]
    assert "create a PodEndConfirmation of this uid in namespace bill" in world.condition("RemovalSettled")[2]
    world.now_s += 1
    said = Word(namespace="bill", pod_name="pay-2", pod_uid="pay-2", said_at_s=world.now_s, said_by="anna", statement="it is off")
    world.pods.book.hear([said])
    await world.settled(3)
    assert left(world) == ["app-2"]
