"""A whole operator process over a real-HTTP API server and a group in memory: watches, Lease, rounds, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from simulator.operators.entrance import entered
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.status.durable import seal_of
from staticgroup.kube.lease import POSITION_ANNOTATION
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from staticgroup.runtime.stores import Stores
from support.fake_apiserver import BROKEN, FakeApiServer
from support.fake_gateways import FakeKafka
from unit.kube.raw_objects import eventually, finished, pod

from .operator_world import CANARY, KEY, kafka_connection, static_group

Json = dict[str, Any]
GROUPS, STATEFUL_SETS = "staticgroups.staticgroup.io", "statefulsets.apps"
CONNECTIONS, KAFKA = "kafkaconnections.staticgroup.io", ("shop", "kafka")
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/staticgroup-operator"
LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")


def stateful_set(replicas: int, generation: int = 1) -> Json:
    return {
        "metadata": {"namespace": "shop", "name": "web", "uid": "w1", "generation": generation},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "app"}]}}},
        "status": {"observedGeneration": generation, "replicas": replicas},
    }


class Cluster:
    """The API server's content and the Kafka group, as users and kubelets move them."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.kafka = FakeKafka()
        server.put({"metadata": {"name": "kube-system", "uid": "cluster-1"}}, "namespaces")
        server.put({"metadata": {"name": "node-a"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}, "nodes")
        server.put(
            {"metadata": {"name": "staticgroup-inject"}}, "mutatingadmissionpolicies.admissionregistration.k8s.io"
        )
        secret = {"username": "b3BlcmF0b3I=", "password": "czNjcjN0LWNhbmFyeQ=="}
        server.put({"metadata": {"namespace": "shop", "name": "kafka-user"}, "data": secret}, "secrets")
        server.put(kafka_connection(), "kafkaconnections.staticgroup.io")
        server.put(static_group(), GROUPS)
        self.scale(3)

    @property
    def status(self) -> Json:
        return self.server.objects[GROUPS, *KEY].get("status") or {}

    def id_of(self, ordinal: int) -> str:
        return f"web-{ordinal}.{self.status['injected']['scope']}"

    def scale(self, replicas: int) -> None:
        self.server.put(stateful_set(replicas, self.server.resource_version), STATEFUL_SETS)

    def injected(self, raw: Json) -> Json:
        """Return a pod with the id composed of its name, as the policy writes it."""
        container = raw["spec"]["containers"][0]
        container["env"] = [
            {"name": "STATICGROUP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KAFKA_GROUP_INSTANCE_ID", "value": f"$(STATICGROUP_POD_NAME).{self.status['injected']['scope']}"},
        ]
        return raw

    def start(self, *ordinals: int) -> None:
        for n in ordinals:
            self.server.put(self.injected(pod(f"web-{n}", uid=f"u{n}", instance_id=self.id_of(n))))
            self.kafka.join(self.id_of(n))

    def end(self, ordinal: int) -> None:
        self.server.put(self.injected(finished(f"web-{ordinal}", uid=f"u{ordinal}", instance_id=self.id_of(ordinal))))
        self.server.remove("shop", f"web-{ordinal}")

    @asynccontextmanager
    async def operating(
        self, identity: str = "one", **changes: Any
    ) -> AsyncIterator[tuple[Operator, asyncio.Task[None]]]:
        """Run one operator process."""
        transport = connect(self.server.configuration())
        settings = Settings(identity=identity, namespace="ops", lease_retry_s=0.05, barrier_patience_s=0.05, **changes)
        operator = Operator(settings, transport, kafka=self.kafka)
        task = asyncio.create_task(entered(operator))
        try:
            async with asyncio.timeout(20):
                await operator.pods.wait_anchored()
            yield operator, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await transport.close()

    async def populated(self) -> None:
        """Let ids be issued and three pods start with them."""
        await eventually(lambda: "injected" in self.status, 20)
        self.start(0, 1, 2)
        await eventually(lambda: (self.status.get("members") or {}).get("joined") == 3, 20)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        yield Cluster(server)


def left(cluster: Cluster) -> list[str]:
    return [entry.instance_id for entry, _ in cluster.kafka.leaves]


async def test_scale_down_ends_with_exactly_the_departed_member_gone(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("instanceId") == cluster.id_of(2), 20)
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
        await eventually(lambda: operator.pods.position("shop") == cluster.server.resource_version, 20)
        (counted,) = operator.metrics.certificate_refusals.collect()
        totals = {s.labels["reason"]: s.value for s in counted.samples if s.name.endswith("_total")}
        assert totals == {"NotTerminal": 1}


async def test_scale_down_while_no_operator_runs_is_finished_by_the_next_process(cluster: Cluster) -> None:
    """The watch resumes from the position in the Lease, so nothing has come and gone unseen."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        watch = operator.pods.names()
        await eventually(lambda: watch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")), 20)
    cluster.scale(2)
    cluster.end(2)
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert operator.pods.names() == watch
    assert left(cluster) == [cluster.id_of(2)]


@pytest.mark.parametrize("status", [BROKEN, 403, 429, 503])
async def test_process_whose_first_readings_of_the_lease_fail_resumes_the_watch_all_the_same(
    cluster: Cluster, status: int
) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        watch = operator.pods.names()
        await eventually(lambda: watch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")), 20)
    cluster.scale(2)
    cluster.end(2)
    cluster.server.failing["get", LEASE[0]] = [status, status]
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert operator.pods.names() == watch
    assert left(cluster) == [cluster.id_of(2)]


async def test_process_that_cannot_resume_its_watch_removes_no_member_whose_pod_it_did_not_see_end(
    cluster: Cluster,
) -> None:
    """The API server has compacted what happened meanwhile: the status names a carrier that no LIST shows."""
    async with cluster.operating():
        await cluster.populated()
        await eventually(lambda: "u2" in str(cluster.status.get("seats")), 20)
    cluster.scale(2)
    cluster.end(2)
    cluster.server.compact()
    async with cluster.operating("two"):
        await eventually(
            lambda: [e["reason"] for e in cluster.status.get("exceptions") or () if e["kind"] == "Held"] == ["Suspect"],
            20,
        )
        (suspect,) = cluster.status["suspects"]
        assert (suspect["uid"], suspect["pod"]) == ("u2", "web-2")
    assert left(cluster) == []


async def test_standby_watches_but_writes_nothing_until_the_holder_is_gone(cluster: Cluster) -> None:
    async with cluster.operating("one") as (first, first_task), cluster.operating("two") as (second, _):
        await cluster.populated()
        assert (first.lease.holds(), second.lease.holds()) == (True, False)
        await eventually(second.is_ready, 20)
        before = second.metrics.status_writes._value.get()
        first_task.cancel()
        await asyncio.gather(first_task, return_exceptions=True)
        await eventually(second.lease.holds, 20)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert before == 0
    assert left(cluster) == [cluster.id_of(2)]


async def test_process_that_watches_sixty_namespaces_holds_the_lease_and_removes(cluster: Cluster) -> None:
    """Each namespace has a watch of its own that stays open; none of them may take the place of a call."""
    namespaces = ("shop", *(f"team-{n}" for n in range(59)))
    async with cluster.operating(watch_namespaces=namespaces) as (operator, _):
        await cluster.populated()
        assert operator.lease.holds()
        followed = {(w.resource, w.namespace) for w in cluster.server.watches if not w.is_short}
        assert len(followed) == 4 * 60 + 1
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
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
        await eventually(lambda: operator.pods.problems, 20)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert operator.is_ready()
    assert left(cluster) == [cluster.id_of(2)]


def take_lease(cluster: Cluster, holder: str) -> None:
    """Write another holder, or none, into the Lease."""
    lease = cluster.server.objects[LEASE]
    lease["spec"] |= {"holderIdentity": holder, "leaseTransitions": lease["spec"].get("leaseTransitions", 0) + 1}
    before = lease["metadata"]["resourceVersion"]
    assert cluster.server.put(lease, LEASE[0])["metadata"]["resourceVersion"] != before, "nobody may write over it"


def writes(cluster: Cluster) -> list[str]:
    return [path for method, path in cluster.server.requests if method != "GET"]


async def test_lost_lease_makes_a_standby_that_writes_nothing_and_goes_on_watching(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, task):
        await cluster.populated()
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.lease.holds() and not operator.is_active, 20)
        await eventually(lambda: not any(w for w in operator.queue._rounds if not w.done()), 20)
        written = len(writes(cluster))
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: operator.stores.workloads["shop", "web"].replicas == 2, 20)
        await eventually(lambda: not any(p.object_present for p in departed(operator)), 20)
        assert operator.is_ready()
        assert not task.done()
        assert len(writes(cluster)) == written
    assert left(cluster) == []


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
        await eventually(lambda: "web-8" in str(cluster.status.get("suspects")), 20)
        assert "web-7" not in str(cluster.status["suspects"])


def departed(operator: Operator) -> list[Any]:
    return [p for p in operator.pods.of_workload("shop", "web") if p.pod_name == "web-2"]


async def test_replica_that_gets_its_lease_back_does_all_that_a_new_holder_does(cluster: Cluster) -> None:
    """Another holder wrote the status meanwhile: it is read again, never overwritten with what was remembered."""
    async with cluster.operating() as (operator, task):
        await cluster.populated()
        watch, queue = operator.pods.names(), operator.queue
        await eventually(lambda: watch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")), 20)
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.is_active, 20)
        cluster.server.set_stalled(True)  # only a LIST shows what the other one wrote
        connection = cluster.server.objects[CONNECTIONS, *KAFKA]
        cluster.server.put(connection | {"status": connection["status"] | {"brokers": 99}}, CONNECTIONS)
        body = cluster.server.objects[GROUPS, *KEY]
        conditions = [c | {"lastTransitionTime": "2020-01-01T00:00:00Z"} for c in body["status"]["conditions"]]
        theirs = {"uid": "u7", "pod": "web-7", "ids": [cluster.id_of(7)], "since": "2026-11-21T10:00:00Z"}
        written = body["status"] | {"suspects": [theirs], "conditions": conditions}
        parsed = StaticGroupStatus.model_validate(written)
        written["seal"] = seal_of(parsed.watch, parsed.seats, parsed.suspects)
        cluster.server.put(body | {"status": written}, GROUPS)
        take_lease(cluster, "")
        await eventually(lambda: operator.is_active, 20)
        cluster.server.set_stalled(False)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("instanceId") == cluster.id_of(2), 20)
        await eventually(lambda: cluster.server.objects[CONNECTIONS, *KAFKA]["status"]["brokers"] != 99, 20)
        (connected,) = (c for c in cluster.status["conditions"] if c["type"] == "Connected")
        assert connected["lastTransitionTime"] == "2020-01-01T00:00:00Z"
        assert operator.queue is not queue
        assert operator.pods.names() == watch
        assert "web-7" in str(cluster.status["suspects"])
        assert not task.done()
    assert left(cluster) == [cluster.id_of(2)]


async def test_replica_that_gets_its_lease_back_goes_on_under_the_watch_of_the_holder_in_between(
    cluster: Cluster,
) -> None:
    """Acquiring the Lease must not overwrite what that holder stored on it before it was read."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.is_active, 20)
        theirs = WatchPosition({"": ScopePosition(cluster.server.resource_version, "1790000000-0000abcd")})
        cluster.server.objects[LEASE]["metadata"]["annotations"] = {POSITION_ANNOTATION: theirs.to_json()}
        take_lease(cluster, "")
        await eventually(lambda: operator.is_active, 20)
        assert operator.pods.names() == "1790000000-0000abcd"


async def test_lease_that_was_deleted_begins_new_watches(cluster: Cluster) -> None:
    """A restore of an older etcd is declared by this: present members may be of unseen pods."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        watch = operator.pods.names()
        cluster.server.remove(*LEASE[1:], LEASE[0])
        await eventually(lambda: operator.pods.names() not in ("", watch), 20)


async def test_next_term_waits_until_every_round_of_the_one_before_has_ended(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        may_end, described = asyncio.Event(), cluster.kafka.describe
        begun: list[str] = []
        cut: list[str] = []

        async def describe(settings: Any, group_id: str) -> Any:
            begun.append(group_id)
            try:
                await asyncio.Event().wait()
            finally:
                cut.append(group_id)
                await may_end.wait()

        cluster.kafka.describe = describe  # type: ignore[method-assign]
        operator.listener.look_at(KEY)
        await eventually(lambda: begun, 20)
        take_lease(cluster, "somebody-else")
        await eventually(lambda: cut, 20)
        cluster.kafka.describe = described  # type: ignore[method-assign]
        take_lease(cluster, "")
        await eventually(operator.lease.holds, 20)
        renewals = writes(cluster).count(LEASE_PATH)
        await eventually(lambda: writes(cluster).count(LEASE_PATH) > renewals + 3, 20)
        assert not operator.is_active
        may_end.set()
        await eventually(lambda: operator.is_active, 20)


async def test_round_of_an_earlier_term_is_cut_off_before_the_next_term_begins(cluster: Cluster) -> None:
    """It would go on under the Lease of the new term and write what it remembers from before."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        hanging, described = asyncio.Event(), cluster.kafka.describe
        begun: list[str] = []
        ended: list[str] = []

        async def describe(settings: Any, group_id: str) -> Any:
            begun.append(group_id)
            try:
                await hanging.wait()
            finally:
                ended.append(group_id)
            return await described(settings, group_id)

        cluster.kafka.describe = describe  # type: ignore[method-assign]
        operator.listener.look_at(KEY)
        await eventually(lambda: begun, 20)
        take_lease(cluster, "somebody-else")
        await eventually(lambda: ended == ["orders"], 20)
        written = len([w for w in writes(cluster) if "staticgroups" in w])
        take_lease(cluster, "")
        await eventually(lambda: operator.is_active, 20)
        assert len([w for w in writes(cluster) if "staticgroups" in w]) == written
        cluster.kafka.describe = described  # type: ignore[method-assign]


async def test_deleted_staticgroup_is_forgotten_everywhere(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.remove("shop", "orders", GROUPS)
        await eventually(lambda: is_forgotten(operator), 20)


def is_forgotten(operator: Operator) -> bool:
    stores = operator.stores
    remembered = (stores.groups, stores.group_uids, stores.by_workload, operator.reconciler.memories._by_key)
    return (
        not any(remembered)
        and len(operator.queue) == 0
        and not any(m.samples for m in operator.metrics.ready.collect())
    )


async def test_staticgroup_deleted_while_the_watch_was_broken_is_forgotten_everywhere(cluster: Cluster) -> None:
    """The API server has compacted its deletion: only the LIST can show it, by what is missing."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.break_watches()
        cluster.server.remove("shop", "orders", GROUPS)
        cluster.server.compact()
        await eventually(lambda: is_forgotten(operator), 20)


async def test_workload_and_connection_deleted_while_the_watch_was_broken_are_forgotten(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.break_watches()
        cluster.server.remove("shop", "web", STATEFUL_SETS)
        cluster.server.remove("shop", "kafka", CONNECTIONS)
        cluster.server.compact()
        await eventually(lambda: not operator.stores.workloads and not operator.stores.connections, 20)
        await eventually(lambda: "ConnectionNotFound" in reasons(cluster), 20)
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
        await eventually(lambda: cluster.status.get("injected", {}).get("scope") not in (None, scope), 20)
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
        await eventually(lambda: "status" in cluster.server.objects[CONNECTIONS, *KAFKA], 20)
        cluster.server.remove(*KAFKA, CONNECTIONS)
        again = kafka_connection()
        again["metadata"]["uid"] = "kc-2"
        cluster.server.put(again, CONNECTIONS)
        await eventually(lambda: "status" in cluster.server.objects[CONNECTIONS, *KAFKA], 20)


async def test_stateful_set_that_cannot_be_read_is_logged_and_changes_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster.operating() as (operator, _):
        await eventually(lambda: operator.stores.workloads, 20)
        cluster.server.put(stateful_set(3) | {"spec": {"replicas": "many"}}, STATEFUL_SETS)
        await eventually(lambda: "StatefulSet cannot be read" in caplog.text, 20)
        assert operator.stores.workloads["shop", "web"].replicas == 3


async def test_process_is_ready_only_when_every_store_is_complete(cluster: Cluster) -> None:
    cluster.server.denied.add(("list", STATEFUL_SETS))
    async with cluster.operating() as (operator, _):
        await eventually(operator.lease.holds, 20)
        assert not operator.is_ready()
        cluster.server.denied.clear()
        await eventually(operator.is_ready, 20)


async def test_secret_without_the_label_that_the_operator_asks_for_is_used_for_nothing(cluster: Cluster) -> None:
    def connected() -> Json:
        return next((c for c in cluster.status.get("conditions") or () if c["type"] == "Connected"), {})

    async with cluster.operating(secret_label="staticgroup.io/kafka=yes", secret_max_age_s=1):
        await eventually(connected, 20)
        assert (connected()["status"], connected()["reason"]) == ("False", "SecretNotFound")
        assert (
            "Secret kafka-user could not be read: it lacks the label staticgroup.io/kafka=yes" in connected()["message"]
        )
        assert not cluster.kafka.settings_seen
        secret = cluster.server.objects["secrets", "shop", "kafka-user"]
        cluster.server.put(
            {**secret, "metadata": {**secret["metadata"], "labels": {"staticgroup.io/kafka": "yes"}}}, "secrets"
        )
        await eventually(lambda: connected()["status"] == "True", 20)


async def test_no_write_of_a_whole_life_holds_the_password(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
    written = [str(o) for key, o in cluster.server.objects.items() if key[0] != "secrets"]
    assert CANARY not in " ".join(written)
    assert not [path for _, path in cluster.server.requests if CANARY in path]


async def test_rounds_wait_in_line_by_connection_and_have_the_deadline_of_the_settings(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        assert operator.queue.lane_of(KEY) == ("shop", "kafka")
        assert operator.queue.lane_of(("shop", "unknown")) == ("shop", "")
        assert operator.queue.deadline_s == operator.connection_queue.deadline_s == Settings().round_deadline_s


async def test_round_that_waits_for_a_silent_broker_is_seen_as_late(cluster: Cluster) -> None:
    answer = asyncio.Event()
    async with cluster.operating() as (operator, _):
        await eventually(lambda: "injected" in cluster.status, 20)
        cluster.kafka.before["describe"] = answer.wait  # type: ignore[assignment]
        cluster.scale(2)

        def late() -> float | None:
            operator.refresh_gauges()
            return operator.metrics.registry.get_sample_value("staticgroup_rounds_late")

        await eventually(lambda: late() == 1, 20)
        answer.set()
        await eventually(lambda: late() == 0, 20)
