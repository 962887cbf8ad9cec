"""Odd but legal events in which a rule of the house does not hold; each test tells one story."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.staticgroup import StaticGroup
from staticgroup.api.status import Writer
from staticgroup.core.chain import IncarnationState
from staticgroup.core.continuity import Checkpoint, GapWord, Seat
from staticgroup.core.memory import ledger_from
from staticgroup.core.snapshot import History, Injected
from staticgroup.core.words import Word
from staticgroup.kube.behind import Lineage
from staticgroup.kube.continuity import Continuity
from staticgroup.kube.problem import problem_of
from staticgroup.runtime.histories import Histories
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import FakeKube
from unit.core.builders import workload
from unit.kube.raw_objects import NODE, composed, eventually, finished, pod
from unit.kube.test_pod_store import following

from .test_gaps import LIVING, away, blind, gap, left
from .test_hostile import force_delete, managed, start_as
from .test_shared_workload import AUDIT, SharedWorld
from .world import KEY, UNREACHABLE, World, guards, static_group


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        yield running_server


# live removals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["brokers", "suspension", "crash"])
async def test_suspect_under_another_name_that_no_status_names_yet(trouble: str) -> None:
    """As in test_hostile, but the copy is lost while the group cannot be read, or right before the operator crashes."""
    spec: dict[str, Any] = {"identity": {"method": "None"}}
    world = await World(**spec).started()
    world.pods.book._is_managed = managed
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
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
    world.scale(2)
    world.end(2)
    await world.settled(6)
    assert (left(world), guards(world)) == ([], ["DeathNotProven"])


async def test_live_pod_under_another_name_that_goes_while_no_operator_looks() -> None:
    """Ids follow annotations; a copy of web-2 that kept them holds the id. It is lost while all replicas are away.

    The LIST does not show it, the status never named it (a seat is a name of the workload), and the rules of gaps ask for
    names of the workload only.
    """
    world = World(identity={"template": "{ordinal}.{scope}"})
    world.scale(3)
    await world.round()
    world.template = "{ordinal}." + world.scope
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(2)
    start_as(world, "canary-0", "stray", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.scale(2)
    world.end(2)
    await world.settled(4)
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
    world = await World(identity={"method": "None"}).started()
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(4)
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
    world = World(identity={"template": "{ordinal}.{scope}"})
    world.scale(3)
    await world.round()
    world.template = "{ordinal}." + world.scope
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(3)
    away(world)
    start_as(world, "canary-0", "stray", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    gap(world)
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_suspect_under_another_name_is_not_purged() -> None:
    """Many pods that belong to nobody are lost (virtual nodes, workflows); the oldest suspects of nobody are dropped.

    A suspect that carries an id of a StaticGroup under another name counts as nobody's.
    """
    world = await World(identity={"method": "None"}).started()
    world.pods.book._is_managed = managed
    world.pods.book._gone_max = world.pods.book._gone_limit = 10
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(2)
    assert guards(world) == ["DeathNotProven"]
    for number in range(12):
        start_as(world, f"job-{number}", f"job-{number}", set())
        force_delete(world, f"job-{number}")
        world.pods.book.purge()
    await world.settled(3)
    assert left(world) == []


@pytest.mark.parametrize("minutes", [1, 31])
async def test_suspect_is_durable_only_when_every_staticgroup_has_it_however_long_that_takes(minutes: int) -> None:
    """As test_end_is_durable_only_when_every_staticgroup_of_the_workload_has_it, with a status refused for half an hour."""
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
    world.now_s += 60 * minutes
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


async def test_pod_born_in_the_gap_under_a_template_that_no_pod_at_either_end_has_yet() -> None:
    """The template is changed to one with {ordinal}; running pods keep their composed ids until they are rolled.

    In the gap web-3 is made by the new template, its annotation is edited to the id of web-2, and it is lost. Every seat
    at both ends has ids that cannot be edited, and that alone counts as a proof that no pod had others.
    """
    world = await World().started()
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
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_suspects_of_a_status_that_was_put_over_ours_are_kept_while_the_group_cannot_be_read() -> None:
    """What another status names is taken in, but only by its names: a suspect under another name is not written again.

    A replica that was paused writes late; the brokers are away; then the operator restarts.
    """
    world = await World(identity={"method": "None"}).started()
    world.pods.book._is_managed = managed
    mine = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "canary-0")
    await world.settled(2)
    theirs = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]
    assert "stray" in str(theirs["ledger"])
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    # another replica, which has seen nothing of it, took over from `mine`; then the paused one writes `theirs`
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, body | {"status": mine}))
    world.restart()
    world.kafka.problems["describe"] = UNREACHABLE
    await world.settled(2)
    assert "stray" not in str(world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"])
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, body | {"status": theirs}))
    await world.settled(3)
    world.restart()
    world.kafka.problems.clear()
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


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
        server.history, server.compacted, server.sends_bookmarks = [], gone_until, True
        server.break_watches()
        await eventually(lambda: world.store.epoch)
        assert dict(world.store.behind_workloads) == {("shop", "web"): floor}
        assert world.state("u2b") is None
        group = StaticGroup.from_wire(static_group())
        histories = Histories(
            kube=FakeKube(workloads={("shop", "web"): workload(2)}), pods=world.store, policy_served=lambda: True, words=tuple, now_s=lambda: 60.0
        )
        seats = tuple(Seat(ordinal=n, uid=f"u{n}", node_name="node-a") for n in range(3))
        before = Checkpoint(epoch="e1", timeline="t1", at_s=40.0, workload_name="web", group_uid="sg-1", seats=seats)
        injected = Injected(scope="5c09e", watch_epoch="e1", method="Policy", id_template="{podName}.5c09e", session_timeout_ms=None)
        known = await histories.checkpoint(group, group.spec, History(injected=injected, continuity=before), None)
        assert known is not None
        assert known.is_unbroken(0)
        assert not known.is_unbroken(2)


# stuck -------------------------------------------------------------------------------------------------------------


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


async def resumed_by_two(server: FakeApiServer) -> Continuity:
    """Return what a first process stored."""
    async with following(server, scopes=("shop",)) as first:
        await eventually(lambda: server.watches)
        stored = first.store.continuity()
    assert stored is not None
    return stored


async def test_standby_that_is_behind_and_leads_for_a_moment_is_no_restore(server: FakeApiServer) -> None:
    """A rolling update of two replicas that serve one quiet namespace: the holder has been brought further (by a barrier or
    a bookmark) than the standby that leads after it for some seconds; a third replica has begun at the first one's position.
    """
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    async with following(server, scopes=("shop",), resume=stored, seed=2) as b:
        async with following(server, scopes=("shop",), resume=stored, seed=3) as a:
            for _ in range(5):
                server.tick()
            assert await a.store.barrier("shop", server.resource_version)
            last_words = a.store.continuity()
        assert last_words is not None
        async with following(server, scopes=("shop",), resume=last_words, seed=4) as c:
            timeline = c.store.timeline
            assert b.store.adopt(last_words)
            of_b = b.store.continuity()
            assert of_b is not None
            assert of_b.epoch == last_words.epoch
            assert c.store.adopt(of_b)
            assert (c.store.timeline, c.gaps) == (timeline, [])


async def test_end_that_is_judged_late_takes_the_position_back_and_is_no_restore(server: FakeApiServer) -> None:
    """A pod ends on a node that is not known yet; meanwhile the position is stored and a standby begins at it.

    When the node is known, the end counts at the version of long ago and the position stands below it for a moment.
    """
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    now = [50.0]
    async with following(server, resume=replace(stored, resource_versions={"": stored.resource_versions["shop"]}), seed=2, now_s=lambda: now[0]) as a:
        a.nodes.clear()
        server.put(composed(finished("web-0", uid="u0")))
        for number in range(3):
            server.put(composed(pod("api-0", uid=f"x{number}")))
        await eventually(lambda: a.store.position("") == server.resource_version)
        now[0] += 100
        begun_at = a.store.continuity()
        assert begun_at is not None
        async with following(server, resume=begun_at, seed=3) as c:
            timeline = c.store.timeline
            a.nodes["node-a"] = NODE
            a.store.node_changed("node-a")
            last_words = a.store.continuity()
            assert last_words is not None
            c.store.adopt(last_words)
            assert c.store.timeline == timeline


async def test_restore_that_both_replicas_were_told_of_costs_nothing_more_at_a_fail_over(server: FakeApiServer) -> None:
    """Somebody says `staticgroup restored`; both replicas hear it. Weeks later the standby takes over."""
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    async with following(server, scopes=("shop",), resume=stored, seed=2) as a, following(server, scopes=("shop",), resume=stored, seed=3) as b:
        for replica in (a, b):
            replica.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: a.store.epoch and b.store.epoch and a.store.epoch != stored.epoch)
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: a.state("u1") and b.state("u1"))
        last_words = a.store.continuity()
        assert last_words is not None
        assert b.store.adopt(last_words)
        assert b.store.timeline == a.store.timeline


async def test_replica_that_is_made_after_a_told_restore_is_not_blinded_by_a_standby_that_was_told_too(server: FakeApiServer) -> None:
    """As above; in the next rolling update the old standby leads for a moment, and then the new replica."""
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    async with following(server, scopes=("shop",), resume=stored, seed=2) as a, following(server, scopes=("shop",), resume=stored, seed=3) as b:
        for replica in (a, b):
            replica.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: a.store.epoch and b.store.epoch and a.store.epoch != stored.epoch)
        of_a = a.store.continuity()
        assert of_a is not None
        async with following(server, scopes=("shop",), resume=of_a, seed=4) as c:
            b.store.adopt(of_a)
            of_b = b.store.continuity()
            assert of_b is not None
            c.store.adopt(of_b)
            assert of_a.timeline == of_b.timeline == c.store.timeline


async def test_position_does_not_go_back_when_many_staticgroups_are_made(server: FakeApiServer) -> None:
    """A team applies seventy StaticGroups at once, for StatefulSets of which a pod has been replaced weeks ago.

    Those ends become managed at once; for some of them there is no room behind the position, so it goes back by weeks.
    """
    is_onboarded = [False]
    for number in range(70):
        server.put(composed(pod(f"team{number}-0", uid=f"a{number}")))
    now = [50.0]
    async with following(server, now_s=lambda: now[0]) as world:
        world.store._book._is_managed = lambda namespace, name: is_onboarded[0]
        for number in range(70):
            server.put(composed(finished(f"team{number}-0", uid=f"a{number}")))
            server.remove("shop", f"team{number}-0")
            server.put(composed(pod(f"team{number}-0", uid=f"b{number}")))
        for _ in range(100):
            server.put(composed(pod("api-0", uid="api")))
        await eventually(lambda: world.store.position("") == server.resource_version)
        now[0] += 1_000_000
        before = world.store.continuity()
        is_onboarded[0] = True
        after = world.store.continuity()
        assert before is not None
        assert after is not None
        assert after.resource_versions[""] >= before.resource_versions[""]


async def test_who_shares_the_digest_has_put_nothing_back() -> None:
    """Somebody clears metadata.managedFields, as the Kubernetes documentation says; the next apply of the operator makes
    `before-first-apply` an owner of every field that keeps its value, and the digest is one while no durable part changes.
    """
    world = await World().started()
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    digest = body["status"]["continuity"]["digest"]
    both = [
        {"manager": manager, "operation": operation, "subresource": "status", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}}}
        for manager, operation in ((names.FIELD_MANAGER, "Apply"), ("before-first-apply", "Update"))
    ]
    put = body | {"metadata": body["metadata"] | {"managedFields": both}}
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, put))
    await world.settled(2)
    assert world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]["continuity"]["digest"] == digest
    world.restart()
    await world.settled(2)
    assert blind(world) == ""


async def test_holder_of_a_lease_that_was_put_back_acquires_it_above_the_number_that_a_status_names() -> None:
    """Leases live in an etcd of their own (--etcd-servers-overrides) or are put back by a tool; the operator restarts.

    Its holding has a lower number than the one in every status, so each counts as a later holder's.
    """
    world = World()
    world.holding = Writer(lease_uid="lease-1", lease_transitions=7)
    await world.started()
    world.restart()
    world.holding = Writer(lease_uid="lease-1", lease_transitions=4)
    world.scale(2)
    world.end(2)
    await world.settled(2)
    assert (world.is_holder, world.overtaken_by) == (False, 7)
    world.holding, world.is_holder = Writer(lease_uid="lease-1", lease_transitions=8), True
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_span_of_a_gap_that_a_replica_with_a_slower_clock_ends_is_no_future_moment() -> None:
    """The clocks of two replicas are ten minutes apart. `since` is told by the one, `until` by the other, later one.

    `confirm-gap --list` makes one second of it, which had not come yet by any clock when the gap was.
    """
    world = await World().started()
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
    world = World()
    world.now_s -= slow_s
    await world.started()
    world.end(2)
    world.start(2, "lost", joins=False, instance_ids=frozenset({"not-told"}), ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.remove_object(2)
    world.start(2, "u2c", joins=False)
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2c")
    await world.settled(3)
    assert left(world) == []


def test_workload_without_a_position_blinds_no_other_that_has_one() -> None:
    lineage = Lineage(lambda namespace, name: True)
    lineage.begin(Continuity(epoch="e1", resource_versions={"": 42}, behind={("shop", "web"): 0, ("bill", "pay"): 30}))
    assert (lineage.floor("", 42), set(lineage.blind)) == (30, {("shop", "web")})


async def test_death_of_another_timeline_is_not_believed_of_a_pod_that_runs() -> None:
    """etcd is restored to yesterday, as is told; web-2, which was scaled away today, is back and runs. A tool puts today's
    status back (`kubectl replace --subresource=status`, `existingResourcePolicy: update`), whose ledger says that it ended.

    The spans of the restore are closed by a true word; then web-2 is scaled away and has not stopped yet.
    """
    world = await World().started()
    await world.settled(1)
    yesterday = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]
    running = world.kube.pods["shop", "web-2"]
    world.kafka.problems["leave"] = UNREACHABLE
    world.scale(2)
    world.end(2)
    await world.settled(3)
    today = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"]
    world.kafka.problems.clear()
    world.scale(3)
    world.kube.pods["shop", "web-2"] = running
    world.kafka.join(world.id_of(2), LIVING)
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, body | {"status": yesterday}))
    world.restart(epoch="epoch-2")
    world.pods.timeline, world.pods.saw_restore = "timeline-2", True
    await world.settled(2)
    assert (blind(world), world.pods.state("u2")) == ("0-2147483647", "Live")
    body = world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, body | {"status": today}))
    await world.settled(3)
    said_at_s = world.now_s + 10
    world.now_s += 20
    world.gap_words = (GapWord(since_s=0, until_s=said_at_s, said_at_s=said_at_s),)
    await world.settled(2)
    assert blind(world) == ""
    world.scale(2)
    await world.settled(4)
    assert left(world) == []


@pytest.mark.parametrize("is_shared", [False, True])
async def test_word_about_a_pod_that_ended_in_a_gap_counts_on_a_shared_workload(is_shared: bool) -> None:
    """Two StaticGroups on one StatefulSet: a pod carries ids of both, so each status says that its seat has *other* ids.

    The pod is lost while no operator looks; a person confirms its end, and then "no pod was ever seen carrying this id".
    """
    world: World = await (SharedWorld().started() if is_shared else World().started())
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
