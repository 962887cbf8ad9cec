"""Fakes of the shell's gateways: a Kafka group and an API server that live in memory; the pod watch is in `fake_pods`.

They are fakes, not mocks: each keeps the state and the rules that the operator depends on (the coordinator's
compare-and-set and what it forgets at a fail-over; consistent reads and a uid-bound status; a watch that may lag behind
the API server until a barrier brings it up). All three write what they were asked into one `journal`, in order. A test
interferes by `before[operation]`, which runs just before an operation takes effect, and by `problems[operation]`, which
is answered instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblem,
    LeaveCall,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    MemberView,
    ReleaseOutcome,
    WorkerView,
)
from staticgroup.core.workload import WorkloadView
from staticgroup.kafka.gateway import ClusterFacts
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.rights import GroupRights
from staticgroup.kube.event_poster import Involved
from staticgroup.kube.gateway import PodRead
from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.kube.transport import Resource
from support.bounds import altered, broker_bounds

Json = dict[str, Any]
Journal = list[tuple[str, ...]]
Hook = Callable[[], Awaitable[None] | None]
T = TypeVar("T")


def copied(value: T) -> T:
    """Return an unshared copy of JSON; several times as fast as `copy.deepcopy`, which tracks cycles."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [copied(each) for each in value]  # type: ignore[return-value]
    return value


@dataclass
class Hooks:
    """What a test does to a fake: note, interfere, answer with a problem."""

    journal: Journal = field(default_factory=list)
    before: dict[str, Hook] = field(default_factory=dict)

    async def reached(self, operation: str, *details: str) -> None:
        """Note an operation and let the test interfere once."""
        self.journal.append((operation, *details))
        hook = self.before.pop(operation, None)
        if hook is not None:
            running = hook()
            if running is not None:
                await running


@dataclass
class FakeKafka(Hooks):
    """One group with static membership as its coordinator keeps it.

    Attributes
    ----------
    members: instance id ("" for a dynamic one) to member id. dynamic: further member ids without an instance id.
    hosts: from which address members joined, by member id.
    stored: the members of the last generation that was written to the offsets topic; a fail-over goes back to it.
    problems: answered instead of describe, bounds, leave or probe while set.
    outcome: answered for every entry of a leave while set.
    epoch: of the members of a group that has epochs. away: member ids that have left for a while.
    lagging: member ids that are an epoch behind.
    called: by which call each leave and temporary leave was sent.
    workers: what members of a Connect cluster tell, by member id.
    releases: every temporary leave with its outcome. release_outcome: answered to each while set.
    """

    members: dict[str, str] = field(default_factory=dict)
    dynamic: list[str] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    group_type: GroupType = GroupType.CLASSIC
    protocol_type: str = "consumer"
    state: str = "Stable"
    coordinator: str = "1@10.0.0.1:9092"
    broker_bounds: BrokerBounds = field(
        default_factory=lambda: broker_bounds(classic_min_ms=6_000, classic_max_ms=1_800_000)
    )
    problems: dict[str, KafkaProblem] = field(default_factory=dict)
    cluster_id: str | None = "cluster-k"
    outcome: LeaveOutcome | None = None
    settings_seen: list[ConnectionSettings] = field(default_factory=list)
    leaves: list[tuple[LeaveEntry, LeaveOutcome]] = field(default_factory=list)
    epoch: int = 5
    away: set[str] = field(default_factory=set)
    lagging: set[str] = field(default_factory=set)
    releases: list[tuple[LeaveEntry, ReleaseOutcome]] = field(default_factory=list)
    release_outcome: ReleaseOutcome | None = None
    called: list[LeaveCall] = field(default_factory=list)
    workers: dict[str, WorkerView] = field(default_factory=dict)
    _joined: int = 0

    def join(self, instance_id: str, member_id: str = "") -> str:
        """Join as a static member; the former holder is replaced, and its member id is fenced from now on."""
        self._joined += 1
        self.members[instance_id] = member_id or f"consumer-{self._joined}"
        self.stored = dict(self.members)
        return self.members[instance_id]

    def store(self) -> None:
        """Write the present generation: what happened before survives a fail-over."""
        self.stored = dict(self.members)

    def fail_over(self, coordinator: str = "2@10.0.0.2:9092") -> None:
        """Move the group to another coordinator, which knows only what was stored."""
        self.coordinator = coordinator
        self.members = dict(self.stored)

    async def describe(self, settings: ConnectionSettings, group_id: str) -> GroupView | KafkaProblem:
        """Read the group."""
        self.settings_seen.append(settings)
        await self.reached("describe", group_id)
        if "describe" in self.problems:
            return self.problems["describe"]
        return GroupView(
            group_id=group_id, group_type=self.group_type, state=self.state, coordinator=self.coordinator,
            protocol_type=self.protocol_type,
            members=tuple(
                MemberView(
                    member_id=m, instance_id=i or None, member_epoch=self._epoch_of(m), worker=self.workers.get(m),
                    client_host=self.hosts.get(m, ""),
                    is_host_current=self.group_type in (GroupType.CONSUMER, GroupType.STREAMS),
                )
                for i, m in (*self.members.items(), *(("", m) for m in self.dynamic))
            ),
            group_epoch=self._epoch_of(""), assignment_epoch=self._epoch_of(""),
            kafka_cluster_id=self.cluster_id or "",
        )  # fmt: skip

    def _epoch_of(self, member_id: str) -> int | None:
        if self.group_type not in (GroupType.CONSUMER, GroupType.STREAMS):
            return None
        return -2 if member_id in self.away else self.epoch - (member_id in self.lagging)

    async def release(
        self, settings: ConnectionSettings, group_id: str, entry: LeaveEntry,
        by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT,
    ) -> ReleaseOutcome | KafkaProblem:  # fmt: skip
        """Compare both ids and let the member leave for a while (consumerGroupLeave, streamsGroupLeave)."""
        await self.reached("release", group_id, f"{entry.member_id}/{entry.instance_id}")
        self.called.append(by)
        if "release" in self.problems:
            return self.problems["release"]
        if self.release_outcome is not None:
            return self.release_outcome
        is_served = (by is LeaveCall.STREAMS_HEARTBEAT) is (self.group_type is GroupType.STREAMS)
        holder = self.members.get(entry.instance_id) if is_served else None
        outcome = ReleaseOutcome.RELEASED if holder == entry.member_id else ReleaseOutcome.FENCED
        if holder is None:
            outcome = ReleaseOutcome.UNKNOWN
        if outcome is ReleaseOutcome.RELEASED:
            self.away.add(entry.member_id)
        self.releases.append((entry, outcome))
        return outcome

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        """Read the bounds."""
        await self.reached("bounds", group_id)
        return self.problems.get("bounds", self.broker_bounds)

    async def leave(
        self, settings: ConnectionSettings, group_id: str, entries: Sequence[LeaveEntry],
        by: LeaveCall = LeaveCall.LEAVE_GROUP,
    ) -> LeaveResult | KafkaProblem:  # fmt: skip
        """Compare and set, entry by entry (GroupMetadataManager.classicGroupLeave, streamsGroupLeave)."""
        await self.reached("leave", group_id, *(f"{e.member_id}/{e.instance_id}" for e in entries))
        self.called.append(by)
        assert entries, "an empty LeaveGroup"
        if "leave" in self.problems:
            return self.problems["leave"]
        is_served = (by is LeaveCall.STREAMS_HEARTBEAT) is (self.group_type is GroupType.STREAMS)
        outcomes = tuple(self.outcome or (self._leave(e) if is_served else LeaveOutcome.UNKNOWN) for e in entries)
        self.leaves.extend(zip(entries, outcomes, strict=True))
        return LeaveResult(coordinator=self.coordinator, outcomes=outcomes)

    def _leave(self, entry: LeaveEntry) -> LeaveOutcome:
        holder = self.members.get(entry.instance_id)
        if holder is None:
            return LeaveOutcome.UNKNOWN
        if holder != entry.member_id:
            return LeaveOutcome.FENCED
        del self.members[entry.instance_id]
        return LeaveOutcome.REMOVED

    async def probe(self, settings: ConnectionSettings) -> ClusterFacts | KafkaProblem:
        self.settings_seen.append(settings)
        await self.reached("probe")
        return self.problems.get("probe", ClusterFacts(cluster_id=self.cluster_id, brokers=()))

    async def set_group_config(
        self, settings: ConnectionSettings, group_id: str, values: Mapping[str, int]
    ) -> KafkaProblem | None:
        """Store settings of the group, all or none, as a later read shows them."""
        await self.reached("set_group_config", group_id, *(f"{k}={v}" for k, v in sorted(values.items())))
        if "set_group_config" in self.problems:
            return self.problems["set_group_config"]
        self.broker_bounds = altered(self.broker_bounds, values)
        return None

    async def describe_rights(
        self, settings: ConnectionSettings, group_id: str, *, alters: bool = False
    ) -> GroupRights | KafkaProblem:
        await self.reached("describe_rights", group_id)
        return GroupRights(describe_group=True, read_group=True)

    async def close(self) -> None:
        """Note the end."""
        await self.reached("close")


@dataclass
class FakeKube(Hooks):
    """The API server behind the gateway: consistent reads of what is there now.

    Attributes
    ----------
    problems: answered instead of an operation (by its method name) while set.
    status_writes: every status that was accepted, in order. events: every Event posted.
    notes: every note that was written, each as (pod, annotation, text), in order.
    noted: makes the version of a pod that a note leads to, and shows it to whoever watches.
    """

    resource_version: int = 100
    workloads: dict[tuple[str, str], WorkloadView] = field(default_factory=dict)
    pods: dict[tuple[str, str], PodVersion] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    secrets: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    problems: dict[str, KubeProblem] = field(default_factory=dict)
    status_writes: list[Json] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    noted: Callable[[PodVersion, str, str], None] = lambda version, annotation, text: None

    async def read_workload(self, namespace: str, ref: WorkloadRef) -> WorkloadView | KubeProblem | None:
        await self.reached("read_workload", ref.name)
        found = self.workloads.get((namespace, ref.name))
        return self.problems.get("read_workload") or (
            found if found is not None and found.kind.kind == ref.kind else None
        )

    async def read_pod(self, namespace: str, name: str) -> PodRead | KubeProblem:
        await self.reached("read_pod", name)
        if "read_pod" in self.problems:
            return self.problems["read_pod"]
        return PodRead(resource_version=self.resource_version, version=self.pods.get((namespace, name)))

    async def write_note(self, pod: KnownPod, annotation: str, text: str) -> KubeProblem | None:
        """Write an annotation over the version that the caller knows, bound to the uid it is about."""
        await self.reached("write_note", pod.pod_name, text)
        if "write_note" in self.problems:
            return self.problems["write_note"]
        present = self.pods.get((pod.namespace, pod.pod_name))
        if present is None:
            return problem_of(404, verb="patch", resource="pods", namespace=pod.namespace)
        if (present.uid, present.resource_version) != (pod.uid, pod.resource_version):
            return problem_of(409, verb="patch", resource="pods", namespace=pod.namespace)
        self.notes.append((pod.pod_name, annotation, text))
        self.noted(present, annotation, text)
        return None

    async def read_node(self, name: str) -> NodeView | KubeProblem | None:
        await self.reached("read_node", name)
        return self.problems.get("read_node") or self.nodes.get(name)

    async def read_secret(self, namespace: str, name: str) -> dict[str, bytes] | KubeProblem | None:
        await self.reached("read_secret", name)
        return self.problems.get("read_secret") or copied(self.secrets.get((namespace, name)))

    async def cluster_uid(self) -> str | KubeProblem:
        return "cluster-1"

    async def read_object(self, plural: str, namespace: str, name: str) -> Json | KubeProblem | None:
        """Read one of our resources."""
        await self.reached("read_object", name)
        return self.problems.get("read_object") or copied(self.objects.get((plural, namespace, name)))

    async def list_objects(self, plural: str, namespace: str) -> list[Json] | KubeProblem:
        """List one of our resources."""
        await self.reached("list_objects", plural)
        return [copied(o) for (p, ns, _), o in self.objects.items() if p == plural and namespace in ("", ns)]

    def put_object(self, plural: str, body: Json) -> Json:
        """Store a new version of one of our resources; keeps of field managers what the body does not set (KEP-555)."""
        self.resource_version += 1
        body = copied(body)
        key = plural, body["metadata"].get("namespace", ""), body["metadata"]["name"]
        before = self.objects.get(key, {"metadata": {}})["metadata"]
        if before.get("uid") == body["metadata"].get("uid") and "managedFields" in before:
            body["metadata"].setdefault("managedFields", before["managedFields"])
        body["metadata"]["resourceVersion"] = str(self.resource_version)
        self.objects[key] = body
        return body

    async def apply_status(
        self, plural: str, namespace: str, name: str, uid: str, status: Json, *, resource_version: str = ""
    ) -> Json | KubeProblem:
        """Write a status over the version that the caller knows, bound to the uid it is about."""
        await self.reached("apply_status", name)
        if "apply_status" in self.problems:
            return self.problems["apply_status"]
        present = self.objects.get((plural, namespace, name))
        if present is None:
            return problem_of(404, verb="patch", resource=plural, namespace=namespace)
        known = resource_version or present["metadata"].get("resourceVersion", "")
        if (present["metadata"]["uid"], present["metadata"].get("resourceVersion", "")) != (uid, known):
            return problem_of(409, verb="patch", resource=plural, namespace=namespace)
        self.status_writes.append(copied(status))
        metadata = dict(present["metadata"])
        return copied(self.put_object(plural, present | {"metadata": metadata, "status": status}))

    async def post_event(
        self, involved: Involved, *, type_: str, reason: str, message: str, action: str
    ) -> KubeProblem | None:
        """Keep an Event."""
        await self.reached("post_event", reason)
        if "post_event" in self.problems:
            return self.problems["post_event"]
        self.events.append((type_, reason, message))
        return None

    async def has_policy(self, resource: Resource, name: str) -> bool | KubeProblem:
        """Say that each policy is installed."""
        return True

    async def has_webhook(self, name: str) -> bool | KubeProblem:
        """Say that the webhook is not installed."""
        return False


def scaled(view: WorkloadView, replicas: int) -> WorkloadView:
    """Return a StatefulSet that wants another number of pods and has them."""
    return replace(
        view, replicas=replicas, status_replicas=replicas, ready_replicas=replicas, updated_replicas=replicas,
        metadata_generation=view.metadata_generation + 1, observed_generation=view.observed_generation + 1,
    )  # fmt: skip
