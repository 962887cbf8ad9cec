"""A whole operator process over a real-HTTP API server and a group in memory: watches, Lease, rounds, restarts."""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from staticgroup.runtime.stores import Stores
from support.fake_apiserver import BROKEN
from unit.kube.raw_objects import eventually, pod

from .operator_world import KEY, kafka_connection, static_group
from .process_world import CONNECTIONS, GROUPS, KAFKA, LEASE, STATEFUL_SETS, Cluster, Json, left, stateful_set


async def test_scale_down_ends_with_exactly_the_departed_member_gone(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
        await cluster.departs()
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("instanceId") == cluster.id_of(2))
    assert left(cluster) == [cluster.id_of(2)]
    assert set(cluster.kafka.members) == {cluster.id_of(0), cluster.id_of(1)}


async def test_pods_of_a_staticgroup_that_vanish_without_proof_are_counted_by_what_was_missing(
    cluster: Cluster,
) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.put(pod("other-0", uid="o0"))
        cluster.server.remove("shop", "other-0")
        cluster.server.remove("shop", "web-2")
        cluster.end(1)
        await eventually(lambda: operator.pods.position("shop") == cluster.server.resource_version)
        (counted,) = operator.metrics.certificate_refusals.collect()
        totals = {s.labels["reason"]: s.value for s in counted.samples if s.name.endswith("_total")}
        assert totals == {"NotTerminal": 1}


@pytest.mark.parametrize("status", [0, BROKEN, 403, 429, 503])
async def test_scale_down_while_no_operator_runs_is_finished_by_the_next_process(cluster: Cluster, status: int) -> None:
    """The watch resumes from the position in the Lease, also where its first readings fail: nothing went unseen."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        watch = await cluster.stored_watch(operator)
    cluster.scale(2)
    cluster.end(2)
    if status:
        cluster.server.failing["get", LEASE[0]] = [status, status]
    async with cluster.operating("two") as (operator, _):
        await cluster.is_removed()
        assert operator.pods.names() == watch
    assert left(cluster) == [cluster.id_of(2)]


async def test_process_that_cannot_resume_its_watch_removes_no_member_whose_pod_it_did_not_see_end(
    cluster: Cluster,
) -> None:
    """The API server has compacted what happened meanwhile: the status names a carrier that no LIST shows."""
    async with cluster.operating():
        await cluster.populated()
        await cluster.carriers_are_known()
    cluster.scale(2)
    cluster.end(2)
    cluster.server.compact()
    async with cluster.operating("two"):
        await eventually(
            lambda: [e["reason"] for e in cluster.status.get("issues") or () if e["kind"] == "Held"] == ["Suspect"],
            20,
        )
        (suspect,) = cluster.status["memory"]["suspects"]
        assert (suspect["uid"], suspect["pod"]) == ("u2", "web-2")
    assert left(cluster) == []


async def test_process_that_watches_sixty_namespaces_holds_the_lease_and_removes(cluster: Cluster) -> None:
    """Each namespace has a watch of its own that stays open; none of them may take the place of a call."""
    namespaces = ("shop", *(f"team-{n}" for n in range(59)))
    async with cluster.operating(watch_namespaces=namespaces) as (operator, _):
        await cluster.populated()
        assert operator.lease.holds()
        followed = {(w.resource, w.namespace) for w in cluster.server.watches if not w.is_short}
        assert len(followed) == 4 * 60 + 1
        await cluster.departs()
    assert left(cluster) == [cluster.id_of(2)]


async def test_rights_that_go_in_one_namespace_stop_no_removal_in_another(cluster: Cluster) -> None:
    """Its administrator deletes the operator's RoleBinding, or it hangs in Terminating; until the process ends, to
    begin without it."""
    async with cluster.operating(watch_namespaces=("shop", "team")) as (operator, _):
        await cluster.populated()
        cluster.server.forbidden_paths.add("/api/v1/namespaces/team/pods")
        for group, kind in (
            ("apps/v1", "statefulsets"),
            ("staticgroup.io/v1alpha1", "staticgroups"),
            ("staticgroup.io/v1alpha1", "kafkaconnections"),
        ):
            cluster.server.forbidden_paths.add(f"/apis/{group}/namespaces/team/{kind}")
        cluster.server.break_watches()
        await eventually(lambda: any(s.problem for s in operator.pods._streams.values()))
        await cluster.departs()
        assert operator.is_ready()
    assert left(cluster) == [cluster.id_of(2)]


async def test_suspect_that_was_gone_before_the_ids_could_be_known_is_none_of_ours(cluster: Cluster) -> None:
    """Whether its ids are of this StaticGroup alone depends on the identity of the cluster, which a process reads as it
    begins."""
    body = static_group()
    body["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"
    cluster.server.put(body, GROUPS)
    async with cluster.operating():
        await cluster.populated()
        cluster.server.put(pod("web-7", uid="u7", instance_id="an-id-of-before"))
        cluster.server.put(pod("web-8", uid="u8", instance_id=cluster.id_of(8)))
        cluster.server.remove("shop", "web-7")
        cluster.server.remove("shop", "web-8")
        await eventually(lambda: "web-8" in str((cluster.status.get("memory") or {}).get("suspects")))
        assert "web-7" not in str(cluster.status["memory"]["suspects"])


def is_forgotten(operator: Operator) -> bool:
    stores = operator.stores
    remembered = (stores.groups, stores.group_uids, stores.by_workload, operator.reconciler.memories._by_key)
    return (
        not any(remembered)
        and len(operator.queue) == 0
        and not any(m.samples for m in operator.metrics.ready.collect())
    )


@pytest.mark.parametrize("is_broken", [False, True], ids=["watched", "while the watch was broken"])
async def test_deleted_staticgroup_is_forgotten_everywhere(cluster: Cluster, is_broken: bool) -> None:
    """Where the API server has compacted its deletion, only the LIST can show it, by what is missing."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        if is_broken:
            cluster.server.break_watches()
        cluster.server.remove("shop", "orders", GROUPS)
        if is_broken:
            cluster.server.compact()
        await eventually(lambda: is_forgotten(operator))


async def test_workload_and_connection_deleted_while_the_watch_was_broken_are_forgotten(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.break_watches()
        cluster.server.remove("shop", "web", STATEFUL_SETS)
        cluster.server.remove("shop", "kafka", CONNECTIONS)
        cluster.server.compact()
        await eventually(lambda: not operator.stores.workloads and not operator.stores.connections)
        await eventually(lambda: "ConnectionNotFound" in reasons(cluster))
        assert operator.connection_reporter._written == {}


def reasons(cluster: Cluster) -> set[str]:
    return {c["reason"] for c in cluster.status["conditions"]}


async def test_staticgroup_created_again_while_the_watch_was_broken_starts_again(cluster: Cluster) -> None:
    """Same name, another uid: the memory of the first is dropped, ids of the second have a scope of their own."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        scope = cluster.status["injected"]["scope"]
        operator.metrics.removed.labels(*KEY).inc(5)
        cluster.server.break_watches()
        cluster.server.remove("shop", "orders", GROUPS)
        cluster.server.put(static_group("sg-2"), GROUPS)
        cluster.server.compact()
        await eventually(lambda: cluster.status.get("injected", {}).get("scope") not in (None, scope))
        assert operator.stores.group_uids == {KEY: "sg-2"}
        assert operator.reconciler.memories._by_key[KEY].uid == "sg-2"
        assert operator.metrics.removed.labels(*KEY)._value.get() == 0


@pytest.mark.parametrize("is_valid", [True, False])
def test_end_of_an_old_uid_drops_no_staticgroup_of_its_name(is_valid: bool) -> None:
    """As when the write of a status is answered after its successor came; what cannot be read has a uid as well."""
    stores = Stores()
    stores.put_group(KEY, static_group("sg-2") | ({} if is_valid else {"spec": {"groupId": 7}}))
    assert not stores.drop_group(KEY, "sg-1")
    assert (KEY in stores.groups, KEY in stores.invalid_groups) == (is_valid, not is_valid)
    assert stores.drop_group(KEY, "sg-2")
    assert not stores.groups
    assert not stores.invalid_groups


async def test_connection_created_again_under_its_name_gets_a_status_of_its_own(cluster: Cluster) -> None:
    async with cluster.operating():
        await eventually(lambda: "status" in cluster.server.objects[CONNECTIONS, *KAFKA])
        cluster.server.remove(*KAFKA, CONNECTIONS)
        again = kafka_connection()
        again["metadata"]["uid"] = "kc-2"
        cluster.server.put(again, CONNECTIONS)
        await eventually(lambda: "status" in cluster.server.objects[CONNECTIONS, *KAFKA])


async def test_stateful_set_that_cannot_be_read_is_logged_and_changes_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.operating() as (operator, _):
        await eventually(lambda: operator.stores.workloads)
        cluster.server.put(stateful_set(3) | {"spec": {"replicas": "many"}}, STATEFUL_SETS)
        await eventually(lambda: "StatefulSet cannot be read" in caplog.text)
        assert operator.stores.workloads["shop", "web"].replicas == 3


async def test_process_is_ready_only_when_every_store_is_complete(cluster: Cluster) -> None:
    cluster.server.denied.add(("list", STATEFUL_SETS))
    async with cluster.operating() as (operator, _):
        await eventually(operator.lease.holds)
        assert not operator.is_ready()
        cluster.server.denied.clear()
        await eventually(operator.is_ready)


async def test_secret_without_the_label_that_the_operator_asks_for_is_used_for_nothing(cluster: Cluster) -> None:
    def connected() -> Json:
        return next((c for c in cluster.status.get("conditions") or () if c["type"] == "Connected"), {})

    async with cluster.operating(secret_label="staticgroup.io/kafka=yes", secret_max_age_s=1):
        await eventually(connected)
        assert (connected()["status"], connected()["reason"]) == ("False", "SecretNotFound")
        assert (
            "Secret kafka-user could not be read: it lacks the label staticgroup.io/kafka=yes" in connected()["message"]
        )
        assert not cluster.kafka.settings_seen
        secret = cluster.server.objects["secrets", "shop", "kafka-user"]
        cluster.server.put(
            {**secret, "metadata": {**secret["metadata"], "labels": {"staticgroup.io/kafka": "yes"}}}, "secrets"
        )
        await eventually(lambda: connected()["status"] == "True")


async def test_rounds_wait_in_line_by_connection_and_have_the_deadline_of_the_settings(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        assert operator.queue.lane_of(KEY) == ("shop", "kafka")
        assert operator.queue.lane_of(("shop", "unknown")) == ("shop", "")
        assert operator.queue.deadline_s == operator.connection_queue.deadline_s == Settings().round_deadline_s


async def test_round_that_waits_for_a_silent_broker_is_seen_as_late(cluster: Cluster) -> None:
    answer = asyncio.Event()
    async with cluster.operating() as (operator, _):
        await eventually(lambda: "injected" in cluster.status)
        cluster.kafka.before["describe"] = answer.wait  # type: ignore[assignment]
        cluster.scale(2)

        def late() -> float | None:
            operator.refresh_gauges()
            return operator.metrics.registry.get_sample_value("staticgroup_rounds_late")

        await eventually(lambda: late() == 1)
        answer.set()
        await eventually(lambda: late() == 0)
