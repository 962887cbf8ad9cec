"""Odd but legal users and events: each test tells one story in which a rule of the house once did not hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.cli import main
from staticgroup.core.chain import IncarnationState
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.core.memory import ledger_from
from staticgroup.kube.continuity import Continuity
from staticgroup.kube.pod_store import PodStore
from staticgroup.kube.pod_stream import Gap
from staticgroup.kube.problem import problem_of
from support.fake_apiserver import FakeApiServer
from unit.core.builders import incarnation, pod_version
from unit.kube.raw_objects import composed, eventually, finished, pod
from unit.kube.test_pod_store import brief, following, lost_history

from .test_gaps import LIVING, away, blind, gap, left
from .test_shared_workload import AUDIT, SharedWorld
from .world import KEY, UNREACHABLE, World, guards, static_group


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


def managed(namespace: str, pod_name: str) -> bool:
    """Say what the listener says where one StaticGroup points at `web`."""
    return pod_name.rpartition("-")[0] == "web"


def start_as(world: World, pod_name: str, uid: str, ids: set[str], **changes: Any) -> None:
    """Start a pod of any name with any ids; nobody joins."""
    values = {"instance_ids": frozenset(ids), "ids_are_fixed": True} | changes
    world._happens(replace(pod_version(0, uid, **values), name=pod_name))


def force_delete(world: World, pod_name: str) -> None:
    """Delete an object; its process lives on."""
    world._happens(world.kube.pods["shop", pod_name], is_deleted=True)


def restored_with_status(world: World, status: dict[str, Any], **spec: Any) -> None:
    """Create the StaticGroup anew with the status of its predecessor, as `velero restore --status-include-resources` does."""
    body = static_group(uid="sg-2", **spec)
    body["metadata"]["creationTimestamp"] = datetime.fromtimestamp(world.now_s, tz=UTC).isoformat()
    world.declare(body | {"status": status})


# live removals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["None", "Policy"])
async def test_suspect_under_another_name_survives_a_restart(method: str) -> None:
    """A pod of another name carries the id of web-2 and is lost; the operator restarts and resumes its watch.

    Before the restart the chain holds that suspect (by its id). The ledger is made of the pods named after the workload
    only, and only their ends hold the stored position back, so after an everyday restart nobody knows of it.
    With method None ids may be written under any name; with the policy a copy made by
    `kubectl debug web-2 --copy-to=canary-0 --keep-annotations` does it where the template holds {ordinal}.
    """
    world = await World(identity={"method": method}).started()
    world.pods.book._is_managed = managed
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(2)
    assert guards(world) == ["DeathNotProven"]
    world.restart()
    await world.settled(4)
    assert left(world) == []


@pytest.mark.parametrize("trouble", ["brokers", "suspension"])
async def test_suspect_under_another_name_survives_a_restart_while_the_group_cannot_be_read(trouble: str) -> None:
    """As above, but before the operator restarts nobody can say who holds which id: brokers are away, or `spec.suspend`."""
    world = await World(identity={"method": "None"}).started()
    world.pods.book._is_managed = managed
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
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
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def counted(world: World) -> World:
    """Let the pod store of a world ask who counts on a pod of another name, and know the pods of `web` alone as managed."""
    world.pods.book._is_managed = managed
    return world


@pytest.mark.parametrize("when", ["between two rounds", "before the first round", "before the brokers answer"])
async def test_suspect_under_another_name_that_no_status_holds_yet_is_found_again_by_the_next_operator(when: str) -> None:
    """The operator ends before the round that would have written the suspect; its end is after the stored position."""
    world = await counted(await World(identity={"method": "None"}).started())
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    if when != "between two rounds":
        world.restart()
        await counted(world)
    if when == "before the brokers answer":
        world.kafka.problems["describe"] = UNREACHABLE
        await world.settled(2)
    force_delete(world, "canary-0")
    world.start(1, "u1b")  # something later that moves the position on
    world.restart()
    await counted(world)
    world.kafka.problems.clear()
    await world.settled(2)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_suspect_of_another_name_waits_for_nobody_who_does_not_count_on_its_ids() -> None:
    """Once the group was read and the status is written, the position passes it; and ids of nobody never hold it."""
    world = await counted(await World(identity={"method": "None"}).started())
    for name, uid, instance_id in (("canary-0", "stray", world.id_of(2)), ("other-0", "nobodys", "others-0")):
        start_as(world, name, uid, {instance_id})
        world.kube.resource_version += 1
        force_delete(world, name)
    position = world.kube.resource_version
    assert world.pods.book.durable_position("shop", position) < position
    await world.settled(2)
    assert world.pods.book.durable_position("shop", position) == position


async def test_suspect_that_a_later_writer_knows_is_one_although_our_watch_has_not_shown_its_end() -> None:
    """A paused replica, whose pod watch lags, reads what its successor wrote and writes over it; then another one begins.

    No number tells that the successor wrote later: somebody deleted the Lease meanwhile.
    """
    world = await World(identity={"method": "None"}).started()
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
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_pod_with_leading_zeros_in_its_name_is_no_sight_of_a_seat() -> None:
    """web-02 (a copy of a pod, with its annotation) has no name that a StatefulSet gives, but counts as ordinal 2.

    It stays over the gap, and by its uid the seat of web-2 counts as clear, where a pod came and went unseen.
    """
    world = await World().started()
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
    world = await World(identity={"method": "None"}).started()
    world.scale(2)
    await world.settled(2)
    away(world)
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
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
    world = World(identity={"template": "{ordinal}.{scope}"})
    world.scale(3)
    await world.round()
    world.template = "{ordinal}." + world.scope
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(2)
    away(world)
    world.scale(4)
    start_as(world, "web-3", "u3", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "web-3")
    world.scale(3)
    gap(world)
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_status_restored_onto_a_new_object_makes_no_suspect_predate_its_scope() -> None:
    """A backup tool restores a deleted StaticGroup with its status: a new uid and creation time, but the old scope.

    `predates` takes the creation of the object for the birth of the scope, and drops a suspect that lived under it.
    """
    world = await World().started()
    world.end(2)
    world.start(2, "lost", joins=False, instance_ids=frozenset({"not-told"}), ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.remove_object(2)
    world.start(2, "u2c", joins=False)
    await world.settled(2)
    status = world.kube.objects["staticgroups", *KEY]["status"]
    scope = world.scope
    world.delete_group()
    world.now_s += 300
    restored_with_status(world, status)
    await world.settled(3)
    assert world.scope == scope
    world.scale(2)
    world.end(2, "u2c")
    await world.settled(3)
    assert left(world) == []


async def test_status_restored_onto_a_new_object_tells_nothing_of_the_time_in_between() -> None:
    """A StaticGroup is deleted and restored with its status; meanwhile a pod with an id was lost and the operator restarted.

    While there is no StaticGroup no end is written anywhere nor holds the position back, yet the restored checkpoint has the
    present epoch and counts as unbroken.
    """
    world = await World(identity={"method": "None"}).started()
    world.kafka.problems["leave"] = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    world.scale(2)
    world.end(2)
    await world.settled(3)
    status, instance_id = world.kube.objects["staticgroups", *KEY]["status"], world.id_of(2)
    world.delete_group()
    world.pods.book._is_managed = lambda namespace, name: False
    world.now_s += 300
    world.scale(3)
    start_as(world, "web-2", "u2b", {instance_id})
    world.kafka.join(instance_id, LIVING)
    world.remove_object(2)
    world.scale(2)
    before = world.pods
    world.pods = world._new_pods(before.epoch)
    world.pods.resume_after(before)
    world.reconciler = world._new_reconciler()
    world.now_s += 300
    restored_with_status(world, status, identity={"method": "None"})
    world.kafka.problems.clear()
    await world.settled(6)
    assert left(world) == []


async def test_end_is_durable_only_when_every_staticgroup_of_the_workload_has_it() -> None:
    """Two StaticGroups on one StatefulSet; the status of `audit` cannot be written for a while, that of `orders` can.

    The write of `orders` lets the stored position pass the end of a pod. `orders` is deleted while the operator restarts.
    """
    world = await SharedWorld().started()
    audit = world.kafkas.groups["audit"]
    audit.problems["leave"] = UNREACHABLE
    world.scaled_down()
    await world.rounds(2)
    apply = world.kube.apply_status

    async def refusing(plural: str, namespace: str, name: str, *rest: Any, **more: Any) -> Any:
        if name == "audit":
            return problem_of(500, verb="patch", resource=plural, namespace=namespace)
        return await apply(plural, namespace, name, *rest, **more)

    world.kube.apply_status = refusing  # type: ignore[method-assign]
    world.scale(3)
    world.start(2, "u2b", joins=False, instance_ids=frozenset(world.ids(2)))
    audit.join(world.ids(2)[1], LIVING)
    await world.rounds(1)
    world.remove_object(2)
    await world.rounds(2)
    world.scale(2)
    world.kube.apply_status = apply  # type: ignore[method-assign]
    del world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.drop_group(KEY, world.stores.group_uids[KEY])
    before = world.pods
    world.pods = world._new_pods(before.epoch)
    world.pods.merge(ledger_from("shop", world.audit_status))
    world.pods.resume_after(before)
    world.reconciler = world._new_reconciler()
    world.reconciler.kafka = world.kafkas  # type: ignore[assignment]
    world.stores.put_group(AUDIT, world.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT])
    audit.problems.clear()
    for _ in range(6):
        await world.reconciler.reconcile(AUDIT)
        world.now_s += 10
    assert audit.leaves == []


async def test_staticgroup_that_cannot_be_read_for_a_while_keeps_its_history() -> None:
    """An operator is rolled back under a newer CRD: it cannot read one StaticGroup, whose policy goes on injecting.

    Then nobody manages its pods: no end is written, none holds the position back, and the Lease goes on under the same epoch.
    The next operator reads the StaticGroup again and takes its checkpoint for unbroken.
    """
    world = await World().started()
    world.kafka.problems["leave"] = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    world.scale(2)
    world.end(2)
    await world.settled(3)
    readable = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.put_group(KEY, readable | {"spec": readable["spec"] | {"protocol": "Newer"}})
    world.pods.book._is_managed = lambda namespace, name: bool(world.stores.groups_of_workload(namespace, "web"))
    await world.round()
    world.scale(3)
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.remove_object(2)
    world.scale(2)
    world.restart()
    world.stores.put_group(KEY, readable)
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []


async def test_healed_second_gap_heals_no_first_one(server: FakeApiServer) -> None:
    """Two namespaces; `bill` cannot be listed for a while, and `shop` has two gaps before the epoch is drawn.

    Only the events of the second gap are found. What came and went in the first one was never seen, and yet every name of
    the namespace counts as unbroken since before both.
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server, scopes=("shop", "bill"), sleep=brief) as world:
        await eventually(lambda: len(server.watches) == 2)
        epoch = world.store.epoch
        shop, bill = (world.store._streams[n] for n in ("shop", "bill"))
        server.failing_paths.add("/api/v1/namespaces/bill/pods")
        bill.report_gap(Gap(reason="410", is_expired=True))
        await eventually(lambda: world.gaps)
        server.failing["watch", "pods"] = [503] * 3
        server.break_watches()
        server.put(composed(pod("web-1", uid="came-and-went")))
        server.remove("shop", "web-1")
        server.tick()
        server.compact()
        await eventually(lambda: len(world.gaps) == 2 and shop.is_anchored)
        await eventually(lambda: server.watches)
        history, compacted = list(server.history), server.compacted
        server.break_watches()
        server.tick()
        server.compact()
        await eventually(lambda: len(world.gaps) == 3 and shop.is_anchored)
        server.failing_paths.clear()
        await eventually(lambda: world.store.epoch)
        assert epoch not in world.store.unbroken_since("shop", "web-1")
        server.history[:0], server.compacted = history, compacted
        await asyncio.sleep(0.3)
        assert world.store.get("came-and-went") is None
        assert epoch not in world.store.unbroken_since("shop", "web-1")


async def test_restore_that_only_the_list_after_a_gap_shows_ends_the_timeline(server: FakeApiServer) -> None:
    """etcd loses its quorum: the watch is answered 410, the LIST fails until etcd is restored from a backup.

    The LIST sees that the versions went back, but the timeline goes on, so the uid rule and the generation rule compare
    facts of two timelines, and `adopt` knows nothing of a restore.
    """
    server.put(composed(pod("web-0", uid="u0")))
    backup = server.snapshot()
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: world.state("u1"))
        timeline = world.store.timeline
        server.failing["list", "pods"] = [503] * 3
        server.send_error(410)
        await eventually(lambda: world.gaps)
        server.restore(backup)
        await eventually(lambda: world.store.epoch and world.store.position("") <= server.resource_version)
        assert world.state("u1") is IncarnationState.SUSPECT
        assert (world.store.timeline != timeline, world.store.saw_restore) == (True, True)


async def test_restore_that_is_told_while_a_gap_ends_counts_before_the_next_epoch(server: FakeApiServer) -> None:
    """The word about a restored etcd (or the Lease's version) arrives while the LIST that ends another gap is under way.

    The epoch is drawn under the old timeline, and everything may be concluded, until the stream has slept its back-off.
    """
    server.put(composed(pod()))
    async with following(server, reconnect_delay_s=0.2) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        server.failing["list", "pods"] = [503] * 2
        server.send_error(410)
        await eventually(lambda: world.gaps)
        world.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: world.store.epoch)
        assert world.store.timeline != timeline


@pytest.mark.parametrize("turns", [3, 4])
async def test_restore_that_is_told_while_another_gap_begins_is_not_lost(server: FakeApiServer, turns: int) -> None:
    """A restore breaks watches and is told by a word at about the same time; `_recover` clears what was reported.

    `restored` has noted the word, so it is never told again, and the Lease says that it is known.
    """
    server.put(composed(pod()))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline, stream, loop = world.store.timeline, world.store._streams[""], asyncio.get_running_loop()
        watch_once = stream._watch_once

        def later(turns_left: int) -> None:
            loop.call_soon(*((later, turns_left - 1) if turns_left else (world.store.restored, "2026-11-22T07:00:00Z")))

        async def watched(*, check_restore: bool) -> Gap | None:
            found = await watch_once(check_restore=check_restore)
            if found is not None:
                later(turns - 1)
            return found

        stream._watch_once = watched  # type: ignore[method-assign]
        server.break_watches()
        await eventually(lambda: server.watches)
        server.send_error(410)
        await eventually(lambda: world.gaps and world.store.epoch)
        await asyncio.sleep(0.1)
        assert world.store.timeline != timeline


async def test_word_about_a_restore_is_not_stored_as_known_under_the_old_timeline(server: FakeApiServer) -> None:
    """The attempt that reads the word from the Lease writes the Lease a moment later, before any stream has noticed.

    It stores the old epoch and the old timeline beside the word. A process that ends before its next renewal (2 s) leaves a
    Lease that says that the word is known: its successor resumes, and the word is lost for good.
    """
    server.put(composed(pod()))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        world.store.restored("2026-11-22T07:00:00Z")  # ActiveLease._observe
        stored = world.store.continuity()  # ActiveLease._body, in the same attempt
        assert stored is None or stored.timeline != timeline


async def test_older_status_that_a_backup_tool_put_back_is_not_taken_for_the_last_word() -> None:
    """No operator runs; a backup tool patches an older status over the present one, in the same epoch of the watch.

    The suspect that only the newer one named is forgotten. That somebody else wrote it stands in metadata.managedFields.
    """
    world = await World().started()
    world.kafka.problems["leave"] = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    world.scale(2)
    world.end(2)
    await world.settled(3)
    older = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]
    world.scale(3)
    await world.settled(1)
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(1)
    world.remove_object(2)
    await world.settled(1)
    world.scale(2)
    await world.settled(2)
    assert guards(world) == ["DeathNotProven"]
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    entry: dict[str, Any] = {"manager": "velero-server", "operation": "Update", "subresource": "status"}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}}}
    put = body | {"status": older, "metadata": body["metadata"] | {"managedFields": [entry]}}
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, put))
    world.restart()
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []


async def test_status_that_a_backup_tool_applies_once_and_that_was_written_since_is_no_older_one() -> None:
    """Who applied the same values first stays an owner of them for ever (KEP-555): at each restart memory would count as lost."""
    world = await World().started()
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    entry: dict[str, Any] = {"manager": "velero-server", "operation": "Apply", "subresource": "status"}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:continuity": {"f:idsByHand": {}, "f:allSeats": {}}}}}
    put = body | {"metadata": body["metadata"] | {"managedFields": [entry]}}
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, put))
    world.restart()
    await world.settled(2)
    assert blind(world) == ""
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_stored_time_never_passes_an_end_that_is_not_durable(server: FakeApiServer) -> None:
    """Statuses cannot be written for some minutes (an older CRD, a webhook), the Lease can; then the operator is gone.

    The position is held back at the first end that no status holds, but the time beside it says "complete up to now". When
    the events after the position are gone, the blind span begins at that time, and a word about the span, however true,
    says nothing of what ended before it.
    """
    server.put(pod())
    async with following(server) as world:
        now = [1000.0]
        world.store._now_s = lambda: now[0]
        world.store._book._now_s = lambda: now[0]
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)
        now[0] = 1700.0
        stored = world.store.continuity()
        assert stored is not None
        assert stored.behind
        assert stored.at_s <= 1000.0


async def test_checkpoint_is_of_the_time_that_the_watch_was_heard_last() -> None:
    """The connection of the watch is dead and says nothing (for up to 75 s); meanwhile a round writes a checkpoint.

    It says that the history is complete up to now. When the next watch is answered 410, the span begins at that time and not
    when the watch was heard last, which the store knows, and a true word about the span leaves out what ended before it.
    """
    world = await World().started()
    world.pods.age_s = lambda: 70.0  # type: ignore[attr-defined]  # as PodStore.age_s
    world.pods.timeline = "timeline-2"  # anything that has the checkpoint written anew
    now_s = world.now_s
    await world.round()
    assert world.status.continuity is not None
    assert world.status.continuity.timeline == "timeline-2"
    assert world.status.continuity.at.timestamp() <= now_s - 70.0


async def test_pod_with_an_id_written_by_hand_is_followed_whatever_its_name(server: FakeApiServer) -> None:
    """identity.method None; `kubectl debug web-2 --copy-to=web-2-debug --keep-labels`, and the id reads the pod-name label.

    The copy fences web-2 and holds its id. Its name is none of a StatefulSet and it has no annotation, so it is dropped on
    arrival: without any gap the chain of web-2 is proven dead while the copy runs.
    """
    async with following(server) as world:
        raw = pod("web-2-debug", uid="copy", instance_id=None, labels={"statefulset.kubernetes.io/pod-name": "web-2"})
        raw["spec"]["containers"][0]["env"] = [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-2.1a2b3c4d"}]
        server.put(raw)
        await eventually(lambda: world.store.position("shop") >= server.resource_version)
        assert [i.uid for i in world.store.chain("shop", instance_ids=("web-2.1a2b3c4d",))] == ["copy"]


# stops ------------------------------------------------------------------------------------------------------------


async def test_pod_with_a_number_beyond_every_ordinal_in_its_name_stops_nothing() -> None:
    """Somebody runs `kubectl run web-$(date +%Y%m%d%H%M%S)` beside a StatefulSet `web`: no status can be written any more."""
    world = await World().started()
    start_as(world, "web-20261122093000", "script", set(), ids_are_fixed=False)
    await world.settled(2)
    assert world.status.continuity is not None


async def test_command_that_the_status_names_as_the_way_out_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Every WatchGap message ends in "staticgroup confirm-gap --list"."""
    with pytest.raises(SystemExit) as ended:
        main(["confirm-gap", "--help"])
    assert ended.value.code == 0, capsys.readouterr().err


async def test_looking_back_at_an_everyday_deletion_is_no_restore(server: FakeApiServer) -> None:
    """A pod is deleted gracefully while one API server loses its history; another one still has the events.

    The first event of a graceful deletion shows a pod that runs. The LIST after the gap did not show the pod any more, so
    the event seems to be a pod that is back: every history of every StaticGroup ends, as "Restored".
    """
    for number in range(2):
        server.put(composed(pod(f"web-{number}", uid=f"u{number}")))
    async with following(server, sleep=brief) as world:
        await eventually(lambda: server.watches)
        epoch, timeline = world.store.epoch, world.store.timeline
        server.break_watches()
        server.put(composed(pod("web-1", uid="u1", deletionTimestamp="2026-01-01T00:00:30Z")))
        server.put(composed(finished("web-1", uid="u1")))
        server.remove("shop", "web-1")
        history, compacted = list(server.history), server.compacted
        await lost_history(server, world)
        server.history[:0], server.compacted = history, compacted
        await eventually(lambda: world.state("u1") is IncarnationState.DEAD or len(world.gaps) > 1)
        await asyncio.sleep(0.1)
        assert len(world.gaps) == 1, world.gaps
        assert world.store.timeline == timeline
        assert epoch in world.store.unbroken_since("shop")


async def test_certificate_of_a_holder_that_is_ahead_is_no_restore(server: FakeApiServer) -> None:
    """A standby takes over while its watch is behind; the ledger of the last holder has the end of a pod already.

    The watch then delivers the everyday event before that end (the deletion begins), and seems to show a pod that runs after
    its end was certified: every history of every StaticGroup ends, as "Restored".
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as standby:
        await eventually(lambda: server.watches)
        timeline = standby.store.timeline
        server.set_stalled(True)
        server.put(composed(pod("web-0", uid="u0", deletionTimestamp="2026-01-01T00:00:30Z")))
        server.put(composed(finished("web-0", uid="u0")))
        async with following(server, seed=2) as holder:
            ledger = holder.store.ledger("shop", pod_names=["web-0"])
            assert [i.state for i in ledger] == [IncarnationState.DEAD]
        standby.store.merge(ledger)
        server.set_stalled(False)
        await eventually(lambda: standby.store.position("") == server.resource_version)
        await asyncio.sleep(0.05)
        assert (standby.gaps, standby.store.timeline) == ([], timeline)


async def test_rollout_while_suspended_makes_no_suspects_at_a_restart() -> None:
    """While suspended only the ledger is kept up to date; the seats still name the pods of before the rollout.

    Each of them ended gracefully, with a certificate. After a restart each is a suspect that waits for a person's word.
    """
    world = await World().started()
    world.declare(static_group(generation=2, suspend=True))
    await world.settled(2)
    for ordinal in range(3):
        world.end(ordinal)
        world.start(ordinal, f"u{ordinal}b")
    await world.settled(2)
    world.restart()
    await world.settled(2)
    world.declare(static_group(generation=3, suspend=False))
    await world.settled(2)
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal, f"u{ordinal}b")
    await world.settled(4)
    assert left(world) == [world.id_of(1), world.id_of(2)], guards(world)
    assert blind(world) == ""


async def test_pods_listed_before_the_gap_of_another_namespace_count_as_seen(server: FakeApiServer) -> None:
    """Namespaces are watched one by one; an operator begins after an upgrade of the control plane, and both get 410.

    The second 410 comes while the LIST of the other namespace is under way. What was listed by then is of an era for which
    no epoch is ever noted, so the uid rule says nothing of those pods, and their seats are blind for good.
    """
    for number in range(8):
        server.put(composed(pod(f"web-{number}", uid=f"a{number}")))
        server.put(composed(pod(f"web-{number}", uid=f"b{number}", namespace="bill")))
    position = server.resource_version
    stored = Continuity(epoch="e0", resource_versions={"shop": position, "bill": position})
    server.tick()
    server.tick()
    server.compact()
    blind_seats = []
    for seed in range(12):
        server.failing["watch", "pods"] = [503] * (seed % 4)
        async with following(server, scopes=("shop", "bill"), resume=stored, seed=seed) as world:
            await asyncio.sleep(0.05)
            await eventually(lambda: world.store.epoch)
            for namespace, letter in (("shop", "a"), ("bill", "b")):
                for number in range(8):
                    seen = world.store.seen_under(f"{letter}{number}")
                    if seen not in world.store.unbroken_since(namespace, f"web-{number}"):
                        blind_seats.append(f"{namespace}/web-{number}")
    assert blind_seats == []


async def test_seat_that_is_merged_while_another_namespace_has_a_gap_makes_no_gap_here(server: FakeApiServer) -> None:
    """A status with an old seat is first read while another namespace is not anchored: the seat stays as a live pod.

    No LIST of its own namespace will come for it but the comparison, which takes it for an end that was never delivered.
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server, scopes=("shop", "bill")) as world:
        await eventually(lambda: len(server.watches) == 2)
        server.failing["list", "pods"] = [503] * 5
        world.store._streams["bill"].report_gap(Gap(reason="410"))
        await eventually(lambda: world.gaps)
        seat = incarnation(3, uid="long-gone", resource_version=1, state=IncarnationState.LIVE, object_present=True)
        world.store.merge([replace(seat, namespace="shop", pod_name="web-3")])
        await eventually(lambda: world.store.epoch)
        await world.store.relist()
        await asyncio.sleep(0.1)
        assert (world.state("long-gone"), len(world.gaps)) == (IncarnationState.SUSPECT, 1)


# misleading ---------------------------------------------------------------------------------------------------------


async def test_holder_that_saw_a_restore_takes_its_own_lease_up_again_without_another_one(server: FakeApiServer) -> None:
    """After the restore positions are below those that were resumed, and it is our own Lease that holds them."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as first:
        await eventually(lambda: server.watches)
        stored = first.store.continuity()
    backup = server.snapshot()
    for number in range(5):
        server.put(composed(pod("web-1", uid=f"u{number + 1}")))
    assert stored is not None
    late = replace(stored, resource_versions={"": server.resource_version})
    async with following(server, resume=late) as world:
        await eventually(lambda: server.watches)
        server.restore(backup)
        await eventually(lambda: world.store.saw_restore and world.store.epoch)
        own = world.store.continuity()
        assert own is not None
        assert own.resource_versions[""] < late.resource_versions[""]
        timeline = world.store.timeline
        assert world.store.adopt(own)
        assert world.store.timeline == timeline


async def test_restore_that_was_said_before_the_operator_began_is_told_as_one(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the guide asks, somebody says that etcd was restored while no operator runs; the status then says MemoryLost."""
    run = PodStore.run
    monkeypatch.setattr(PodStore, "run", lambda store, resume: run(store, resume, restored="2026-11-22T07:00:00Z"))
    async with following(server) as world:
        assert world.store.saw_restore
