"""Statuses and Leases of before that tools put back, share or restore: each is known for what it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.resources.status import Writer
from staticgroup.core.evidence.spans import GapWord
from staticgroup.kube.problem import problem_of
from staticgroup.runtime.memory.memories import OWNED_AGAIN_S

from .operator_world import UNREACHABLE, OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    blind,
    by_hand,
    departs,
    empty_seat,
    group_body,
    left,
    lost_stray,
    lost_untold,
    put,
    start_as,
)


def restored_with_status(world: OperatorWorld, status: dict[str, Any], **spec: Any) -> None:
    """Create the StaticGroup again with the status of its predecessor, as `velero restore --status-include-resources` does."""
    body = static_group(uid="sg-2", **spec)
    body["metadata"]["creationTimestamp"] = datetime.fromtimestamp(world.now_s, tz=UTC).isoformat()
    world.declare(body | {"status": status})


async def test_status_restored_onto_a_new_object_gives_new_ids_and_touches_no_member_of_the_old_ones() -> None:
    """A backup tool restores a deleted StaticGroup with its status: a new uid, so that pods that were lost before hold none of its ids."""
    world = await OperatorWorld().started()
    await lost_untold(world)
    status = group_body(world)["status"]
    scope = world.scope
    world.delete_group()
    world.now_s += 300
    restored_with_status(world, status)
    world.scale(2)
    await world.settled(3)
    assert world.scope != scope
    assert world.status.members is not None
    assert world.status.members.foreign == 3
    assert left(world) == []


async def test_status_restored_onto_a_new_object_tells_nothing_of_the_time_in_between() -> None:
    """A StaticGroup is deleted and restored with its status; meanwhile a pod with an id was lost and the operator restarted.

    While there is no StaticGroup no end is written anywhere nor holds the position back, yet the restored checkpoint has the
    present epoch and counts as unbroken.
    """
    world = await OperatorWorld(identity={"method": "None"}).started()
    await empty_seat(world)
    status, instance_id = group_body(world)["status"], world.id_of(2)
    world.delete_group()
    world.pods.is_managed = lambda namespace, name: False
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


BY_A_BACKUP_TOOL: dict[str, Any] = {
    "manager": "velero-server", "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
    "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}},
}  # fmt: skip


@pytest.mark.parametrize("owners", [[BY_A_BACKUP_TOOL], []], ids=["by another", "cleared before"])
async def test_older_status_that_a_backup_tool_put_back_is_not_taken_for_the_last_word(owners: list[Any]) -> None:
    """No operator runs; a backup tool writes an older status over the present one, in the same epoch of the watch.

    The suspect that only the newer one named is forgotten. That somebody else wrote it stands in metadata.managedFields; where these
    were cleared, nobody is noted (`tests/operator/test_gitops.py`), so a history that nobody owns is doubted, too.
    """
    world = await OperatorWorld().started()
    await empty_seat(world)
    older = group_body(world)["status"]
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
    put(world, status=older, metadata=group_body(world)["metadata"] | {"managedFields": owners})
    world.restart()
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []


async def test_status_that_a_backup_tool_applies_once_and_that_was_written_since_is_no_older_one() -> None:
    """Who applied the same values first stays an owner of them for ever (KEP-555): at each restart memory would count as lost."""
    world = await OperatorWorld().started()
    body = group_body(world)
    entry: dict[str, Any] = {"manager": "velero-server", "operation": "Apply", "subresource": "status"}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:continuity": {"f:idsByHand": {}, "f:allSeats": {}}}}}
    put(world, metadata=body["metadata"] | {"managedFields": [entry, *body["metadata"]["managedFields"]]})
    world.restart()
    await world.settled(2)
    assert blind(world) == ""
    await departs(world, 4)
    assert left(world) == [world.id_of(2)]


async def test_suspects_of_a_status_that_was_put_over_ours_are_kept_while_the_group_cannot_be_read() -> None:
    """What another status names is taken in, but only by its names: a suspect under another name is not written again.

    A replica that was paused writes late; the brokers are away; then the operator restarts.
    """
    world = await by_hand()
    mine = group_body(world)["status"]
    lost_stray(world)
    await world.settled(2)
    theirs = group_body(world)["status"]
    assert "stray" in str(theirs["ledger"])
    # another replica, which has seen nothing of it, took over from `mine`; then the paused one writes `theirs`
    put(world, status=mine)
    world.restart()
    world.kafka.problems["describe"] = UNREACHABLE
    await world.settled(2)
    assert "stray" not in str(group_body(world)["status"])
    put(world, status=theirs)
    await world.settled(3)
    world.restart()
    world.kafka.problems.clear()
    await departs(world, 4)
    assert left(world) == []


async def test_suspect_that_a_status_put_over_ours_names_is_kept_whatever_ids_it_carried() -> None:
    """A writer that knew another template names it; by what this one knows its ids are nobody's."""
    world = await by_hand()
    mine = group_body(world)["status"]
    lost_stray(world)
    await world.settled(2)
    theirs = group_body(world)["status"]
    (entry,) = theirs["ledger"]["incarnations"]
    named = theirs | {"ledger": {"incarnations": [entry | {"instanceIds": ["b-web-2"]}]}}
    put(world, status=mine)
    world.restart()
    await world.settled(2)
    assert world.pods.get("stray") is None
    put(world, status=named)
    await world.settled(3)
    world.restart()
    await world.settled(2)
    assert "stray" in str(group_body(world)["status"]["ledger"])


async def test_who_shares_the_digest_has_put_nothing_back() -> None:
    """Somebody clears metadata.managedFields, as the Kubernetes documentation says; the next apply of the operator makes
    `before-first-apply` an owner of every field that keeps its value, and the digest is one while no durable part changes.
    """
    world = await OperatorWorld().started()
    body = group_body(world)
    digest = body["status"]["continuity"]["digest"]
    both = [
        {"manager": manager, "operation": operation, "subresource": "status", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}}}
        for manager, operation in ((names.FIELD_MANAGER, "Apply"), ("before-first-apply", "Update"))
    ]
    put(world, metadata=body["metadata"] | {"managedFields": both})
    await world.settled(2)
    assert group_body(world)["status"]["continuity"]["digest"] == digest
    world.restart()
    await world.settled(2)
    assert blind(world) == ""


@pytest.mark.parametrize("named", [7, 2**31 - 1], ids=["put back", "forged"])
async def test_status_that_names_a_later_holding_than_there_is_stops_nothing(named: int) -> None:
    """An older Lease was put back (leases live in an etcd of their own), or whoever may write a status wrote a number.

    The Lease is asked whose it is; what one tenant writes into a status never moves it.
    """
    world = OperatorWorld()
    world.holding = Writer(lease_uid="lease-1", lease_transitions=4)
    await world.started()
    body = group_body(world)
    status = body["status"] | {"writer": {"leaseUid": "lease-1", "leaseTransitions": named}}
    put(world, status=status)
    for is_restarted in (False, True):
        if is_restarted:
            world.restart()
        await world.settled(2)
        assert world.is_holder
    await departs(world, 4)
    assert left(world) == [world.id_of(2)]
    assert world.status.writer == world.holding


async def test_death_of_another_timeline_is_not_believed_of_a_pod_that_runs() -> None:
    """etcd is restored to yesterday, as is told; web-2, which was scaled away today, is back and runs. A tool puts today's
    status back (`kubectl replace --subresource=status`, `existingResourcePolicy: update`), whose ledger says that it ended.

    The spans of the restore are closed by a true word; then web-2 is scaled away and has not stopped yet.
    """
    world = await OperatorWorld().started()
    await world.settled(1)
    yesterday = group_body(world)["status"]
    running = world.kube.pods["shop", "web-2"]
    world.kafka.problems["leave"] = UNREACHABLE
    await departs(world, 3)
    today = group_body(world)["status"]
    world.kafka.problems.clear()
    world.scale(3)
    world.kube.pods["shop", "web-2"] = running
    world.kafka.join(world.id_of(2), LIVING)
    put(world, status=yesterday)
    world.restart(epoch="epoch-2")
    world.pods.timeline, world.pods.saw_restore = "timeline-2", True
    await world.settled(2)
    assert (blind(world), world.pods.state("u2")) == ("0-2147483647", "Live")
    put(world, status=today)
    await world.settled(3)
    said_at_s = world.now_s + 10
    world.now_s += 20
    world.gap_words = (GapWord(since_s=0, until_s=said_at_s, said_at_s=said_at_s),)
    await world.settled(2)
    assert blind(world) == ""
    world.scale(2)
    await world.settled(4)
    assert left(world) == []


def clear_owners(world: OperatorWorld) -> None:
    """Clear metadata.managedFields, as the documentation of Kubernetes says: `kubectl patch … -p '{"metadata":{"managedFields":[{}]}}'`."""
    put(world, metadata=group_body(world)["metadata"] | {"managedFields": []})


async def test_owners_that_somebody_clears_while_the_operator_runs_are_noted_again() -> None:
    """Nothing changes for weeks, so no status is written, and then the operator is upgraded: it would not believe its own."""
    world = await OperatorWorld().started()
    world.now_s += 600
    clear_owners(world)
    await world.settled(2)
    world.restart()
    await world.settled(2)
    assert blind(world) == ""
    await departs(world, 4)
    assert left(world) == [world.id_of(2)]


async def test_owners_are_noted_again_though_the_first_write_of_that_failed() -> None:
    world = await OperatorWorld().started()
    world.now_s += 600
    apply, refused = world.kube.apply_status, [problem_of(503, verb="patch", resource="staticgroups.staticgroup.io/status")]

    async def failing_once(*args: Any, **kwargs: Any) -> Any:
        return refused.pop() if refused else await apply(*args, **kwargs)

    world.kube.apply_status = failing_once  # type: ignore[method-assign]
    clear_owners(world)
    await world.settled(2)
    assert not refused
    world.now_s += OWNED_AGAIN_S
    await world.settled(2)
    world.restart()
    await world.settled(2)
    assert blind(world) == ""


async def test_whoever_clears_the_owners_again_and_again_is_not_answered_each_time() -> None:
    world = await OperatorWorld().started()
    written = len(world.kube.status_writes)
    for _ in range(100):
        clear_owners(world)
        await world.round()
        world.now_s += 10
    assert 2 <= len(world.kube.status_writes) - written <= 1 + 100 * 10 / OWNED_AGAIN_S


async def test_an_api_server_that_notes_nobody_is_written_to_no_more_for_it() -> None:
    world = await OperatorWorld().started()
    apply = world.kube.apply_status

    async def noting_nobody(*args: Any, **kwargs: Any) -> Any:
        answer = await apply(*args, **kwargs)
        clear_owners(world)
        return group_body(world) if isinstance(answer, dict) else answer

    world.kube.apply_status = noting_nobody  # type: ignore[method-assign]
    del world.kafka.members[world.id_of(1)]
    await world.settled(2)
    written = len(world.kube.status_writes)
    await world.settled(20, step_s=60)
    assert len(world.kube.status_writes) == written


@pytest.mark.parametrize("failures", [1, 2])
async def test_status_that_was_put_over_ours_is_written_over_though_the_first_writes_of_that_failed(failures: int) -> None:
    """Whoever reads it again then finds what it has read before, which is not what the operator wrote."""
    world = await OperatorWorld().started()
    older = group_body(world)["status"]
    await empty_seat(world)
    apply, refused = world.kube.apply_status, [problem_of(503, verb="patch", resource="staticgroups.staticgroup.io/status")] * failures

    async def failing_first(*args: Any, **kwargs: Any) -> Any:
        return refused.pop() if refused else await apply(*args, **kwargs)

    world.kube.apply_status = failing_first  # type: ignore[method-assign]
    put(world, status=older)
    await world.settled(failures + 2)
    assert not refused
    assert group_body(world)["status"]["continuity"]["digest"] != older["continuity"]["digest"]
    assert not world.stores.doubted


async def test_doubt_of_an_emptied_status_is_remembered_while_no_ids_can_be_issued() -> None:
    """The status that is written then ends the doubt on the Lease, and is all that whoever comes next will know."""
    world = await OperatorWorld().started()
    world.scale(0)
    put(world, status={})
    world.restart()
    world.stores.doubted.add(("shop", "orders"))
    world.reconciler.cluster_uid = ""
    await world.settled(2)
    assert world.status.injected is None
    assert world.status.continuity is not None
    assert {span.reason for span in world.status.continuity.blind} == {"MemoryLost"}
    assert not world.stores.doubted
    writes = len(world.kube.status_writes)
    await world.settled(3)
    assert len(world.kube.status_writes) == writes
