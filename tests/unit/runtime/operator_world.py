"""One StaticGroup's world for tests of rounds: the real reconciler and plan over fakes of its gateways."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from staticgroup.api import names
from staticgroup.api.resources.injected import InjectedStatus
from staticgroup.api.resources.memory import Issued, TimeoutMemory, Writer
from staticgroup.api.resources.status import MembersStatus, SessionTimeoutStatus, StaticGroupStatus
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.core.members.memory import SETTLE_MIN_S
from staticgroup.core.members.node_gone import NodeLifecycle
from staticgroup.runtime.connections.connections import Connections
from staticgroup.runtime.connections.reporter import ConnectionReporter
from staticgroup.runtime.executor import Executor
from staticgroup.runtime.gather import Gatherer
from staticgroup.runtime.hand_outs import HandOuts
from staticgroup.runtime.memory.memory import Memories
from staticgroup.runtime.narrator import Narrator
from staticgroup.runtime.process.metrics import Metrics
from staticgroup.runtime.reconciler import Reconciler
from staticgroup.runtime.stores import Stores
from staticgroup.runtime.work_queue import Result
from support.fake_gateways import FakeKafka, FakeKube, Journal, scaled
from support.fake_pods import FakeNodes, FakePods
from unit.core.builders import NODE, NOW_S, ended, pod_version, workload

KEY = ("shop", "orders")
CANARY = "s3cr3t-canary"
UNREACHABLE = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered; check the addresses")
CREATED_AT = datetime.fromtimestamp(NOW_S - 60, tz=UTC).isoformat()
"""Of the StaticGroup: after the pods of `builders.pod_version`."""
Json = dict[str, Any]


def static_group(uid: str = "sg-1", generation: int = 1, **spec: Any) -> Json:
    body: Json = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"}
    return {
        "apiVersion": names.API_VERSION, "kind": names.STATIC_GROUP_KIND,
        "metadata": {
            "namespace": "shop", "name": "orders", "uid": uid, "generation": generation,
            "creationTimestamp": CREATED_AT,
        },
        "spec": body | {"groupProtocol": "Classic"} | spec,
    }  # fmt: skip


def kafka_connection(**spec: Any) -> Json:
    body: Json = {
        "bootstrapServers": ["kafka.example.com:9092"],
        "sasl": {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}},
    }
    return {
        "apiVersion": names.API_VERSION, "kind": names.KAFKA_CONNECTION_KIND,
        "metadata": {"namespace": "shop", "name": "kafka", "uid": "kc-1", "generation": 1}, "spec": body | spec,
    }  # fmt: skip


class OperatorWorld:
    """A StatefulSet `web` of two pods, the group `orders`, and one operator process; time stands until it is moved."""

    def __init__(
        self, *, settle_s: float = SETTLE_MIN_S, node_lifecycle: NodeLifecycle = NodeLifecycle.AUTO, **spec: Any
    ) -> None:
        self.now_s = NOW_S
        self.stepped_s = 0.0
        self.clock_ahead_s = 0.0
        self.is_holder = True
        self.is_lease_ours = True
        self.holding: Writer | None = None
        self.is_policy_served = True
        self.is_webhook_served = False
        self.is_slots_policy_served = True
        self.is_fence_served = True
        self.template = ""
        self.journal: Journal = []
        self.kafka = FakeKafka(journal=self.journal)
        self.kube = FakeKube(journal=self.journal, nodes={"n1": NODE})
        self.kube.secrets["shop", "kafka-user"] = {"username": b"operator", "password": CANARY.encode()}
        self.stores = Stores()
        self.stores.put_connection(("shop", "kafka"), kafka_connection())
        self.pods = self._new_pods()
        self.position = 0
        """What the Lease keeps: how far the watch was before the last round whose status was written."""
        self.settle_s = settle_s
        self.node_lifecycle = node_lifecycle
        self.force_observe = False
        self.reconciler = self._new_reconciler()
        self.declare(static_group(**spec))
        self.scale(2)

    def _new_pods(self, watch_name: str = "1-00000001") -> FakePods:
        return FakePods(journal=self.journal, now_s=lambda: self.now_s, nodes=self.kube.nodes, watch_name=watch_name)

    def list_again(self) -> None:
        """Show the stores every StaticGroup that they know as it is now, as every term begins."""
        for (plural, *key), body in self.kube.objects.items():
            namespace, name = key
            if plural == names.STATIC_GROUP_PLURAL and (namespace, name) in self.stores.group_uids:
                self.stores.put_group((namespace, name), body)

    def _new_reconciler(self) -> Reconciler:
        self.list_again()
        metrics = Metrics()
        self.connections = Connections(
            kube=self.kube, stores=self.stores, monotonic_s=lambda: self.now_s - self.stepped_s
        )
        narrator = Narrator(kube=self.kube, metrics=metrics)
        gatherer = Gatherer(
            kube=self.kube,
            kafka=self.kafka,
            pods=self.pods,  # type: ignore[arg-type]  # the same questions and answers
            nodes=FakeNodes(self.pods.nodes),  # type: ignore[arg-type]
            stores=self.stores,
            connections=self.connections,
            metrics=metrics,
            cluster_uid="cluster-1",
            serves=lambda part: bool(getattr(self, f"is_{part.name.lower()}_served")),
            now_s=lambda: self.now_s,
            monotonic_s=lambda: self.now_s - self.stepped_s,
            settle_least_s=self.settle_s,
            lifecycle=self.node_lifecycle,
            clock_ahead_s=lambda: self.clock_ahead_s,
        )
        executor = Executor(
            kube=self.kube, kafka=self.kafka, stores=self.stores, connections=self.connections, narrator=narrator,
            may_write=lambda: self.is_holder, note_problem=gatherer.note_problem, now_s=lambda: self.now_s,
        )  # fmt: skip
        memories = Memories(
            kube=self.kube,
            pods=self.pods,  # type: ignore[arg-type]
            stores=self.stores,
            metrics=metrics,
            may_write=lambda: self.is_holder,
            holding=lambda: self.holding,
            still_holds=self.still_holds,
            monotonic_s=lambda: self.now_s - self.stepped_s,
        )
        self.hand_outs = HandOuts(
            gatherer=gatherer, memories=memories, executor=executor, force_observe=self.force_observe,
        )  # fmt: skip
        return Reconciler(
            gatherer=gatherer, executor=executor, stores=self.stores, memories=memories, narrator=narrator,
            metrics=metrics, may_write=lambda: self.is_holder, now_s=lambda: self.now_s,
            monotonic_s=lambda: self.now_s - self.stepped_s, force_observe=self.force_observe,
        )  # fmt: skip

    def ask_kafka(self, kafka: Any) -> None:
        """Put another gateway to Kafka in the place of the reconciler's."""
        self.reconciler.gatherer.kafka = self.reconciler.executor.kafka = kafka

    # what users do ---------------------------------------------------------------------------------------------

    def declare(self, body: Json) -> None:
        """Create or edit the StaticGroup, seen by the API server and by the store."""
        key = (names.STATIC_GROUP_PLURAL, *KEY)
        before = self.kube.objects.get(key)
        if before is not None and before["metadata"]["uid"] == body["metadata"]["uid"] and "status" in before:
            body = body | {"status": before["status"]}
        self.stores.put_group(KEY, self.kube.put_object(names.STATIC_GROUP_PLURAL, body))

    async def still_holds(self) -> bool:
        """Ask for the Lease, and lose it when it is another's, as `ActiveLease.confirm` does."""
        self.is_holder = self.is_holder and self.is_lease_ours
        return self.is_holder

    def delete_group(self) -> None:
        """Delete the StaticGroup, as `Listener.static_group_changed` takes it."""
        del self.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)]
        self.stores.drop_group(KEY, self.stores.group_uids[KEY])
        self.reconciler.forget(KEY)

    def lose_lease(self) -> None:
        self.is_holder = False

    def reporter(self) -> ConnectionReporter:
        """Return what writes the statuses of connections."""
        return ConnectionReporter(
            kube=self.kube, kafka=self.kafka, stores=self.stores, connections=self.connections,
            may_write=lambda: self.is_holder, now_s=lambda: self.now_s,
        )  # fmt: skip

    def scale(self, replicas: int, *, in_store: bool = True) -> None:
        """Scale the StatefulSet; `in_store` False: the watch of workloads has not delivered it."""
        view = scaled(self.kube.workloads.get(("shop", "web"), workload(2)), replicas)
        self.kube.workloads["shop", "web"] = view
        if in_store:
            self.stores.workloads["shop", "web"] = view

    def delete_workload(self) -> None:
        """Delete the StatefulSet."""
        self.kube.workloads.clear()
        self.stores.workloads.clear()

    # what pods and members do ------------------------------------------------------------------------------------

    @property
    def scope(self) -> str:
        """The scope of the ids, once it was issued."""
        return self.injected.scope

    def id_of(self, ordinal: int) -> str:
        return self.template.format(ordinal=ordinal) or f"web-{ordinal}.{self.scope}"

    def _happens(self, version: PodVersion, *, is_deleted: bool = False) -> None:
        self.kube.resource_version += 1
        version = replace(version, resource_version=self.kube.resource_version)
        if is_deleted:
            self.kube.pods.pop((version.namespace, version.name))
        else:
            self.kube.pods[version.namespace, version.name] = version
        self.pods.push(version, is_deleted=is_deleted)

    def start(self, ordinal: int, uid: str = "", *, joins: bool = True, **changes: Any) -> None:
        """Start a pod with its id; its member joins."""
        ids = frozenset({self.id_of(ordinal)})
        values = {"instance_ids": ids, "ids_are_fixed": True, "ready_since_s": self.now_s} | changes
        self._happens(pod_version(ordinal, uid or f"u{ordinal}", **values))
        if joins:
            self.kafka.join(self.id_of(ordinal))

    def end(self, ordinal: int, uid: str = "", *, gone: bool = True) -> None:
        """End a pod gracefully: its kubelet certifies it, then the object goes."""
        ids = frozenset({self.id_of(ordinal)})
        self._happens(ended(ordinal, uid or f"u{ordinal}", instance_ids=ids, ids_are_fixed=True))
        if gone:
            self.remove_object(ordinal)

    def remove_object(self, ordinal: int) -> None:
        """Delete the pod object as it is: after a graceful end, or by force."""
        self._happens(self.kube.pods["shop", f"web-{ordinal}"], is_deleted=True)

    # rounds ------------------------------------------------------------------------------------------------------

    async def round(self) -> Result:
        """Run one round."""
        self.reconciler.memories.mark_changed(KEY)
        return await self.look()

    async def look(self) -> Result:
        """Run one round that only its time has come for, and hand out what is due then; returns which comes first."""
        self.journal.clear()
        reached = self.pods.at
        result = await self.reconciler.reconcile(KEY)
        handed = await self.hand_outs.hand_out(KEY)
        if self.reconciler.memories.unstored_since_s(0.0) is None:
            self.position = reached
        waits = [each.requeue_after_s for each in (result, handed) if each.requeue_after_s is not None]
        return Result(requeue_after_s=min(waits, default=None), failed=result.failed or handed.failed)

    async def settled(self, rounds: int = 6, step_s: float = 1.5) -> None:
        """Run rounds with time between them."""
        for _ in range(rounds):
            await self.round()
            self.now_s += step_s

    def set_clock(self, by_s: float) -> None:
        """Set the wall clock forward or back; no time passes."""
        self.now_s += by_s
        self.stepped_s += by_s

    async def minutes(self, count: int) -> None:
        """Run two rounds each minute."""
        for _ in range(count):
            await self.settled(2)
            self.now_s += 60

    async def begin(self, pods: int, *appended: str, last: Json | None = None, **changes: Any) -> None:
        """Let ids be issued and pods start with them; each text is what one member of every pod appends to its id, and
        `last` is what is other of the last pod."""
        self.scale(pods)
        await self.round()
        if "{scope}" not in self.kube.objects["staticgroups", *KEY]["spec"].get("idTemplate", "{scope}"):
            await self.watched_for_long()
        for ordinal in range(pods):
            own = last or {} if ordinal == pods - 1 else {}
            self.start(ordinal, **({"joins": not appended} | changes | own))
            for text in appended:
                self.kafka.join(self.id_of(ordinal) + text)

    async def watched_for_long(self) -> None:
        """Let so much time pass that no member to come can be of a pod that nobody saw."""
        await self.round()
        self.now_s += self.settle_s + 1
        await self.settled(2)

    async def started(self, pods: int = 3, *appended: str, **changes: Any) -> OperatorWorld:
        """Let ids be issued, pods start with them and members join, five minutes ago."""
        await self.begin(pods, *appended, **changes)
        self.now_s += 300
        await self.settled(2)
        return self

    async def loses(self, rounds: int) -> None:
        """Let web-2 be scaled away and be deleted by force, so that its process may live."""
        self.scale(2)
        self.remove_object(2)
        await self.settled(rounds)

    async def departs(self, rounds: int, uid: str = "") -> None:
        """Let web-2 be scaled away and end gracefully, and give the operator some rounds."""
        self.scale(2)
        self.end(2, uid)
        await self.settled(rounds)

    def restart(self, *, watch_name: str = "") -> None:
        """Replace the operator process by a new one; `watch_name` is given when its watch could not resume."""
        before = self.pods
        self.pods = self._new_pods(watch_name or before.watch_name)
        present, version = tuple(self.kube.pods.values()), self.kube.resource_version
        if watch_name:
            self.pods.begin_afresh(present, version)
        else:
            self.pods.resume_after(before, present, version, position=self.position)
        self.reconciler = self._new_reconciler()

    # what is seen --------------------------------------------------------------------------------------------------

    @property
    def status(self) -> StaticGroupStatus:
        """The status as the API server has it."""
        body = self.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)]
        return StaticGroupStatus.model_validate(body.get("status") or {})

    @property
    def injected(self) -> InjectedStatus:
        assert self.status.injected is not None
        return self.status.injected

    @property
    def issued(self) -> Issued:
        assert self.status.memory.issued is not None
        return self.status.memory.issued

    @property
    def members(self) -> MembersStatus:
        assert self.status.members is not None
        return self.status.members

    @property
    def timeout(self) -> SessionTimeoutStatus:
        assert self.status.session_timeout is not None
        return self.status.session_timeout

    @property
    def remembered_timeout(self) -> TimeoutMemory:
        assert self.status.memory.timeout is not None
        return self.status.memory.timeout

    def tells(self, kind: str, status: str, reason: str, *parts: str) -> str:
        """Check a condition and what its message holds; returns the message."""
        *found, message = self.condition(kind)
        assert found == [status, reason]
        assert [part for part in parts if part not in message] == [], message
        return message

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        (found,) = (c for c in self.status.conditions if c.type == kind)
        return found.status.value, found.reason, found.message

    @property
    def done(self) -> set[str]:
        """Every operation that was asked for in the latest round."""
        return {operation for operation, *_ in self.journal}

    def did(self, operation: str) -> list[tuple[str, ...]]:
        """Return what was asked of one kind in the latest round."""
        return [details for name, *rest in self.journal if name == operation for details in [tuple(rest)]]

    @property
    def left(self) -> list[tuple[str, str]]:
        """(member id, instance id) of every entry ever sent."""
        return [(e.member_id, e.instance_id) for e, _ in self.kafka.leaves]


async def departing(**spec: Any) -> OperatorWorld:
    """Return a world scaled from 3 to 2: web-2 ended with a certificate, its member is still in the group."""
    world = await OperatorWorld(**spec).started()
    world.scale(2)
    world.end(2)
    return world


def guards(world: OperatorWorld) -> list[str]:
    """Return the guards that hold removals, as the status names them."""
    return [e.reason for e in world.status.issues if e.kind.value == "Held"]
