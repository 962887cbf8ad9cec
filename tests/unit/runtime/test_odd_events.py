"""Odd but legal users and events: each test tells one story in which a rule of the house once did not hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.resources.staticgroup import StaticGroup
from staticgroup.cli import main
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.evidence.continuity import Checkpoint, SeatedPod
from staticgroup.core.evidence.spans import GapWord
from staticgroup.core.evidence.words import Word
from staticgroup.core.snapshot import History, Injected
from staticgroup.kube.pods.behind import Lineage
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.problem import problem_of
from staticgroup.runtime.memory.histories import Histories, Premise
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import FakeKafka, FakeKube
from unit.core.builders import workload
from unit.kube.pods.watched import following
from unit.kube.raw_objects import composed, eventually, finished, pod

from .operator_world import KEY, UNREACHABLE, OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    blind,
    departs,
    empty_seat,
    force_delete,
    group_body,
    left,
    lost_untold,
    start_as,
)
from .test_shared_workload import AUDIT, SharedWorld


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


async def audit_after_the_other_is_gone(refused_minutes: int) -> FakeKafka:
    """Return the group of `audit`, whose status was refused when a pod was lost, after `orders` was deleted over a restart.

    Parameters
    ----------
    refused_minutes: for how long it is refused after the round that saw the end; 0 for no other round.
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
    if refused_minutes:
        world.now_s += 60 * refused_minutes
        await world.rounds(2)
    world.scale(2)
    world.kube.apply_status = apply  # type: ignore[method-assign]
    world.restart_without_orders()
    audit.problems.clear()
    for _ in range(6):
        await world.reconciler.reconcile(AUDIT)
        world.now_s += 10
    return audit


async def test_end_is_durable_only_when_every_staticgroup_of_the_workload_has_it() -> None:
    """Two StaticGroups on one StatefulSet; the status of `audit` cannot be written for a while, that of `orders` can.

    The write of `orders` lets the stored position pass the end of a pod. `orders` is deleted while the operator restarts.
    """
    audit = await audit_after_the_other_is_gone(0)
    assert audit.leaves == []


async def test_staticgroup_that_cannot_be_read_for_a_while_keeps_its_history() -> None:
    """An operator is rolled back under a newer CRD: it cannot read one StaticGroup, whose policy goes on injecting.

    Then nobody manages its pods: no end is written, none holds the position back, and the Lease goes on under the same epoch.
    The next operator reads the StaticGroup again and takes its checkpoint for unbroken.
    """
    world = await OperatorWorld().started()
    await empty_seat(world)
    readable = group_body(world)
    world.stores.put_group(KEY, readable | {"spec": readable["spec"] | {"protocol": "Newer"}})
    world.pods.is_managed = lambda namespace, name: bool(world.stores.groups_of_workload(namespace, "web"))
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


async def test_checkpoint_is_of_the_time_that_the_watch_was_heard_last() -> None:
    """The connection of the watch is dead and says nothing (for up to 75 s); meanwhile a round writes a checkpoint.

    It says that the history is complete up to now. When the next watch is answered 410, the span begins at that time and not
    when the watch was heard last, which the store knows, and a true word about the span leaves out what ended before it.
    """
    world = await OperatorWorld().started()
    world.pods.age_s = lambda: 70.0  # type: ignore[attr-defined]  # as PodStore.age_s
    world.pods.timeline = "timeline-2"  # anything that has the checkpoint written again
    now_s = world.now_s
    await world.round()
    assert world.status.continuity is not None
    assert world.status.continuity.timeline == "timeline-2"
    assert world.status.continuity.at.timestamp() <= now_s - 70.0


async def test_pod_with_a_number_beyond_every_ordinal_in_its_name_stops_nothing() -> None:
    """Somebody runs `kubectl run web-$(date +%Y%m%d%H%M%S)` beside a StatefulSet `web`: no status can be written any more."""
    world = await OperatorWorld().started()
    start_as(world, "web-20261122093000", "script", set(), ids_are_fixed=False)
    await world.settled(2)
    assert world.status.continuity is not None


async def test_command_that_the_status_names_as_the_way_out_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Every WatchGap message ends in "staticgroup confirm-gap --list"."""
    with pytest.raises(SystemExit) as ended:
        main(["confirm-gap", "--help"])
    assert ended.value.code == 0, capsys.readouterr().err


async def test_rollout_while_suspended_makes_no_suspects_at_a_restart() -> None:
    """While suspended only the ledger is kept up to date; the seats still name the pods of before the rollout.

    Each of them ended gracefully, with a certificate. After a restart each is a suspect that waits for a person's word.
    """
    world = await OperatorWorld().started()
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


@pytest.mark.parametrize("minutes", [1, 31])
async def test_suspect_is_durable_only_when_every_staticgroup_has_it_however_long_that_takes(minutes: int) -> None:
    """As test_end_is_durable_only_when_every_staticgroup_of_the_workload_has_it, with a status refused for half an hour."""
    audit = await audit_after_the_other_is_gone(minutes)
    assert audit.leaves == []


async def test_pod_that_only_the_replay_from_below_has_shown_was_not_seen_at_the_end_of_the_gap(server: FakeApiServer) -> None:
    """`web` is behind the stored position; a restart resumes below it, and the connection breaks in the middle of the replay.

    By the next try that history is gone, and the watch goes on at the stored position: `web` is blind. But the pod of web-2,
    whose end the first half of the replay showed, counts as seen after the gap, so its seat counts as one whose pod stayed.
    In the second half web-2 was made again, joined, and was force-deleted.
    """
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(pod("web-1", uid="u1")))
    floor = int(server.put(composed(pod("web-2", uid="u2", instance_id="web-2.5c09e")))["metadata"]["resourceVersion"])
    server.put(composed(finished("web-2", uid="u2", instance_id="web-2.5c09e")))
    first_half = list(server.history)
    server.remove("shop", "web-2")
    server.put(composed(pod("web-2", uid="u2b", instance_id="web-2.5c09e")))
    server.remove("shop", "web-2")
    gone_until = server.resource_version
    server.tick()
    stored = Continuity(
        epoch="e1", timeline="t1", resource_versions={"": server.resource_version}, behind={("shop", "web"): floor}
    )
    server.history, server.sends_bookmarks = first_half, False
    async with following(server, resume=stored, anchored=False) as world:
        await eventually(lambda: world.state("u2") is IncarnationState.DEAD)
        server.compacted, server.history, server.sends_bookmarks = gone_until, [], True
        server.break_watches()
        await eventually(lambda: world.store.epoch)
        assert dict(world.store.behind_workloads) == {("shop", "web"): floor}
        assert world.state("u2b") is None
        group = StaticGroup.from_wire(static_group())
        kube = FakeKube(workloads={("shop", "web"): workload(2)})
        kube.put_object("staticgroups", static_group())
        histories = Histories(
            kube=kube, pods=world.store, policy_served=lambda: True, webhook_served=lambda: False, words=tuple, now_s=lambda: 60.0, monotonic_s=lambda: 60.0,
        )
        seats = tuple(SeatedPod(ordinal=n, uid=f"u{n}", node_name="node-a") for n in range(3))
        before = Checkpoint(epoch="e1", timeline="t1", at_s=40.0, workload_name="web", group_uid="sg-1", seats=seats)
        injected = Injected(scope="5c09e", watch_epoch="e1", method="Policy", id_template="{podName}.5c09e", session_timeout_ms=None)
        known = await histories.checkpoint(group, group.spec, History(injected=injected, continuity=before), None, Premise())
        assert known is not None
        assert known.is_unbroken(0)
        assert not known.is_unbroken(2)


async def test_staticgroup_that_cannot_be_read_spoils_no_round_of_another_on_its_workload() -> None:
    """An operator is rolled back under a newer CRD and cannot read one of two StaticGroups of a workload."""
    world = await SharedWorld().started()
    unreadable = world.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT]
    world.stores.put_group(AUDIT, unreadable | {"spec": unreadable["spec"] | {"protocol": "Newer"}})
    world.scaled_down()
    for _ in range(4):
        await world.round()
        world.now_s += 10
    assert world.ids(2)[0] not in world.members("orders")


async def test_span_of_a_gap_that_a_replica_with_a_slower_clock_ends_is_no_future_moment() -> None:
    """The clocks of two replicas are ten minutes apart. `since` is told by the one, `until` by the other, later one.

    `confirm-gap --list` makes one second of it, which had not come yet by any clock when the gap was.
    """
    world = await OperatorWorld().started()
    await world.settled(2)
    world.end(2)
    await world.settled(1)
    world.restart(epoch="epoch-2")
    world.now_s -= 600
    await world.settled(2)
    assert world.status.continuity is not None
    (span,) = world.status.continuity.blind
    assert span.since <= span.until


@pytest.mark.parametrize("slow_s", [0, 50])
async def test_suspect_of_an_operator_with_a_slow_clock_does_not_predate_its_scope(slow_s: float) -> None:
    world = OperatorWorld()
    world.now_s -= slow_s
    await world.started()
    await lost_untold(world)
    await departs(world, 3, "u2c")
    assert left(world) == []


def test_workload_without_a_position_blinds_no_other_that_has_one() -> None:
    lineage = Lineage(lambda namespace, name: True)
    lineage.begin(Continuity(epoch="e1", resource_versions={"": 42}, behind={("shop", "web"): 0, ("bill", "pay"): 30}))
    assert (lineage.floor("", 42), set(lineage.blind)) == (30, {("shop", "web")})


@pytest.mark.parametrize("is_shared", [False, True])
async def test_word_about_a_pod_that_ended_in_a_gap_counts_on_a_shared_workload(is_shared: bool) -> None:
    """Two StaticGroups on one StatefulSet: a pod carries ids of both, so each status says that its seat has *other* ids.

    The pod is lost while no operator looks; a person confirms its end, and then "no pod that is remembered carried exactly this id".
    """
    world: OperatorWorld = await (SharedWorld().started() if is_shared else OperatorWorld().started())
    await world.settled(3)
    instance_id = world.ids(2)[0] if isinstance(world, SharedWorld) else world.id_of(2)
    world.scale(2)
    await world.settled(2)
    force_delete(world, "web-2")
    world.kube.resource_version += 1
    kafka = world.reconciler.kafka
    world.restart(epoch="epoch-2")
    world.reconciler.kafka = kafka
    await world.settled(3)
    world.now_s += 10
    world.gap_words = (GapWord(since_s=0, until_s=world.now_s, said_at_s=world.now_s),)
    await world.settled(2)
    assert guards(world) == ["DeathNotProven"]
    word = Word(namespace="shop", pod_name="web-2", pod_uid="u2", said_by="anna", statement="powered off", said_at_s=world.now_s)
    world.pods.book.hear([word])
    await world.settled(4)
    members = world.kafkas.groups["orders"].members if isinstance(world, SharedWorld) else world.kafka.members
    assert (instance_id in members, guards(world)) == (False, [])
