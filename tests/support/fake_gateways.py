"""Fakes of the shell's gateways: a Kafka group, an API server and a pod watch that live in memory.

They are fakes, not mocks: each keeps the state and the rules that the operator depends on (the coordinator's
compare-and-set and what it forgets at a fail-over; consistent reads and a uid-bound status; a watch that may lag behind
the API server until a barrier brings it up). All three write what they were asked into one `journal`, in order. A test
interferes by `before[operation]`, which runs just before an operation takes effect, and by `problems[operation]`, which
is answered instead.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from staticgroup.core.chain import Incarnation
from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblem,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    MemberView,
)
from staticgroup.core.pod import NodeView, PodVersion
from staticgroup.core.workload import WorkloadView
from staticgroup.kafka.credentials import ConnectionSettings
from staticgroup.kafka.gateway import ClusterFacts
from staticgroup.kafka.rights import GroupRights
from staticgroup.kube.event_poster import Involved
from staticgroup.kube.gateway import PodRead
from staticgroup.kube.pods.behind import Lineage
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.pods.names import NameContinuity
from staticgroup.kube.pods.unwritten import CountedOn
from staticgroup.kube.problem import KubeProblem, problem_of
from support.bounds import broker_bounds

Json = dict[str, Any]
Journal = list[tuple[str, ...]]
Hook = Callable[[], Awaitable[None] | None]


@dataclass
class _Hooks:
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
class FakeKafka(_Hooks):
    """One group with static membership as its coordinator keeps it.

    Attributes
    ----------
    members: instance id (or "" + member id for dynamic ones) to member id.
    stored: the members of the last generation that was written to the offsets topic; a fail-over goes back to it.
    problems: answered instead of describe, bounds, leave or probe while set.
    outcome: answered for every entry of a leave while set.
    """

    members: dict[str, str] = field(default_factory=dict)
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
    _joined: int = 0

    def join(self, instance_id: str, member_id: str = "") -> str:
        """Join as a static member; whoever held the id is replaced, and its member id is fenced from now on."""
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
            group_id=group_id,
            group_type=self.group_type,
            state=self.state,
            coordinator=self.coordinator,
            protocol_type=self.protocol_type,
            members=tuple(MemberView(member_id=m, instance_id=i or None) for i, m in self.members.items()),
        )

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        """Read the bounds."""
        await self.reached("bounds", group_id)
        return self.problems.get("bounds", self.broker_bounds)

    async def leave(
        self, settings: ConnectionSettings, group_id: str, entries: Sequence[LeaveEntry]
    ) -> LeaveResult | KafkaProblem:
        """Compare and set, entry by entry (GroupMetadataManager.classicGroupLeave)."""
        await self.reached("leave", group_id, *(f"{e.member_id}/{e.instance_id}" for e in entries))
        assert entries, "an empty LeaveGroup"
        if "leave" in self.problems:
            return self.problems["leave"]
        outcomes = tuple(self.outcome or self._leave(e) for e in entries)
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
        """Say which cluster it is."""
        self.settings_seen.append(settings)
        await self.reached("probe")
        return self.problems.get("probe", ClusterFacts(cluster_id=self.cluster_id, brokers=()))

    async def describe_rights(self, settings: ConnectionSettings, group_id: str) -> GroupRights | KafkaProblem:
        """Say that every right is there."""
        await self.reached("describe_rights", group_id)
        return GroupRights(describe_group=True, read_group=True)

    async def close(self) -> None:
        """Note the end."""
        await self.reached("close")


@dataclass
class FakeKube(_Hooks):
    """The API server behind the gateway: consistent reads of what is there now.

    Attributes
    ----------
    problems: answered instead of an operation (by its method name) while set.
    status_writes: every status that was accepted, in order. events: every Event posted.
    """

    resource_version: int = 100
    workloads: dict[tuple[str, str], WorkloadView] = field(default_factory=dict)
    pods: dict[tuple[str, str], PodVersion] = field(default_factory=dict)
    secrets: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    problems: dict[str, KubeProblem] = field(default_factory=dict)
    status_writes: list[Json] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)

    async def read_workload(self, namespace: str, name: str) -> WorkloadView | KubeProblem | None:
        """Read a StatefulSet as it is now."""
        await self.reached("read_workload", name)
        return self.problems.get("read_workload") or self.workloads.get((namespace, name))

    async def read_pod(self, namespace: str, name: str) -> PodRead | KubeProblem:
        """Read a pod name as it is now."""
        await self.reached("read_pod", name)
        if "read_pod" in self.problems:
            return self.problems["read_pod"]
        return PodRead(resource_version=self.resource_version, version=self.pods.get((namespace, name)))

    async def read_secret(self, namespace: str, name: str) -> dict[str, bytes] | KubeProblem | None:
        """Read a Secret."""
        await self.reached("read_secret", name)
        return self.problems.get("read_secret") or copy.deepcopy(self.secrets.get((namespace, name)))

    async def cluster_uid(self) -> str | KubeProblem:
        """Say which cluster it is."""
        return "cluster-1"

    async def read_object(self, plural: str, namespace: str, name: str) -> Json | KubeProblem | None:
        """Read one of our resources."""
        await self.reached("read_object", name)
        return self.problems.get("read_object") or copy.deepcopy(self.objects.get((plural, namespace, name)))

    async def list_objects(self, plural: str, namespace: str) -> list[Json] | KubeProblem:
        """List one of our resources."""
        await self.reached("list_objects", plural)
        return [copy.deepcopy(o) for (p, ns, _), o in self.objects.items() if p == plural and namespace in ("", ns)]

    def put_object(self, plural: str, body: Json) -> Json:
        """Store one of our resources as a new version of it."""
        self.resource_version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.resource_version)
        self.objects[plural, body["metadata"]["namespace"], body["metadata"]["name"]] = body
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
        self.status_writes.append(copy.deepcopy(status))
        return copy.deepcopy(self.put_object(plural, present | {"status": status}))

    async def post_event(
        self, involved: Involved, *, type_: str, reason: str, message: str, action: str
    ) -> KubeProblem | None:
        """Keep an Event."""
        await self.reached("post_event", reason)
        if "post_event" in self.problems:
            return self.problems["post_event"]
        self.events.append((type_, reason, message))
        return None

    async def has_policy(self, name: str) -> bool | KubeProblem:
        """Say that the policy is installed."""
        return True

    async def served_schema(self, kind: str) -> Json | KubeProblem | None:
        """Publish no schema."""
        return None

    async def can_i(
        self, verb: str, *, group: str, resource: str, subresource: str = "", namespace: str = ""
    ) -> bool | KubeProblem:
        """Grant every right."""
        return True

    async def server_minor(self) -> int | KubeProblem:
        """Be the newest release."""
        return 36


@dataclass
class FakePods(_Hooks):
    """The pod watch: the real incarnation book, fed by the test, which may lag behind the API server.

    Attributes
    ----------
    is_lagging: what happens is kept back until a barrier or `deliver` brings the watch up to it.
    barrier_works: False: the watch cannot be brought up.
    after_chain: runs once, when chains were taken after a barrier, that is at the end of *observe*.
    history: everything that ever happened, for a successor that resumes.
    is_managed: (namespace, pod name) belongs to a StaticGroup. counted_on: see `CountedOn`.
    """

    now_s: Callable[[], float] = lambda: 0.0
    nodes: dict[str, NodeView] = field(default_factory=dict)
    epoch: str = "epoch-1"
    is_lagging: bool = False
    barrier_works: bool = True
    after_chain: Callable[[], None] | None = None
    at: int = 100
    timeline: str = "timeline-1"
    saw_restore: bool = False
    ended_at_s: dict[str, float] = field(default_factory=dict)
    is_managed: Callable[[str, str], bool] = lambda namespace, name: True
    counted_on: CountedOn = lambda suspect: {}
    epochs: list[str] = field(default_factory=list)
    history: list[tuple[PodVersion, bool]] = field(default_factory=list)
    waiting: list[tuple[PodVersion, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._passed_barrier = False
        self.names = NameContinuity(("",))
        self.lineage = Lineage(lambda namespace, name: True)
        self.book = IncarnationBook(
            node_of=self.nodes.get,
            now_s=self.now_s,
            is_managed=lambda namespace, name: self.is_managed(namespace, name),  # noqa: PLW0108 - tests replace it
            counted_on=lambda suspect: self.counted_on(suspect),  # noqa: PLW0108
        )

    def push(self, version: PodVersion, *, is_deleted: bool = False) -> None:
        """Let one thing happen to a pod; the watch hears of it at once unless it lags."""
        self.history.append((version, is_deleted))
        self.waiting.append((version, is_deleted))
        if not self.is_lagging:
            self.deliver()

    def deliver(self, until: int | None = None) -> None:
        """Fold what happened, up to a resource version or all of it."""
        while self.waiting and (until is None or self.waiting[0][0].resource_version <= until):
            version, is_deleted = self.waiting.pop(0)
            self.book.take(version, is_deleted=is_deleted, in_order=True)
            self.at = max(self.at, version.resource_version)

    def list_afresh(self, present: Iterable[PodVersion]) -> None:
        """Begin with a LIST, as a process that cannot resume does."""
        for version in present:
            self.book.take(version, is_deleted=False, in_order=False)
            self.at = max(self.at, version.resource_version)

    def begin_afresh(self, present: Iterable[PodVersion], resource_version: int) -> None:
        """Begin with a complete LIST at a resource version; what a ledger names and it does not show has vanished."""
        versions = tuple(present)
        self.list_afresh(versions)
        self.book.take_absent("", {v.uid: v.resource_version for v in versions}, resource_version)
        self.at = max(self.at, resource_version)

    def resume_after(self, before: FakePods) -> None:
        """Begin where another process may have stored its position: below every end that no status holds."""
        stored = before.book.unwritten.durable_position("", before.at)
        present: dict[str, PodVersion] = {}
        for version, is_deleted in before.history:
            if version.resource_version <= stored and not is_deleted:
                present[version.uid] = version
            elif version.resource_version <= stored:
                present.pop(version.uid, None)
        self.list_afresh(present.values())
        self.at, self.history = stored, list(before.history)
        self.waiting = [(v, is_deleted) for v, is_deleted in before.history if v.resource_version > stored]
        self.deliver()

    def lose(self, present: Iterable[PodVersion], resource_version: int, epoch: str) -> None:
        """Have a gap: what was not delivered is lost, a LIST shows what is there now, and a new epoch begins."""
        self.waiting.clear()
        versions = tuple(present)
        self.epochs = [*(self.epochs or [self.epoch]), epoch]
        self.book.next_era("")
        self.names.begin_gap("", self.book.sightings(""))
        self.list_afresh(versions)
        self.names.end_gap("", self.book.sightings_of(v.uid for v in versions))
        self.names.draw(self.epoch)
        self.book.take_absent("", {v.uid: v.resource_version for v in versions}, resource_version)
        self.at, self.epoch = max(self.at, resource_version), epoch

    def unbroken_since(self, namespace: str, pod_name: str = "", *, workload: str = "") -> frozenset[str]:
        """Return the epochs since which a name, or every name, is unbroken."""
        if not self.epoch:
            return frozenset()
        earlier = self.names.epochs(namespace, pod_name) if pod_name else self.names.of_scope(namespace)
        named = workload or pod_name.rpartition("-")[0]
        return earlier | {self.epoch} | (self.lineage.epochs((namespace, named)) if named else frozenset())

    def seen_under(self, uid: str) -> str:
        """Return the epoch in which an object was seen last, as PodStore.seen_under does."""
        record = self.book.records.get(uid)
        if record is None or record.seen_in < 0:
            return ""
        return (self.epochs or [self.epoch])[record.seen_in]

    def age_s(self) -> float:
        """Return how long the watch has said nothing."""
        return 0.0

    def went_back(self, reason: str) -> None:
        """End every history, as PodStore.went_back does."""
        self.saw_restore, self.timeline, self.epoch = True, f"{self.timeline}-back", ""

    def position(self, namespace: str) -> int:
        """Return how far the watch is."""
        return self.at

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch up to a consistent read, as PodStore.barrier does."""
        await self.reached("barrier", str(resource_version))
        epoch = self.epoch
        if not epoch or not self.barrier_works:
            return False
        if resource_version < not_below:
            self.epoch = ""
            return False
        self.deliver(resource_version)
        self._passed_barrier = True
        return self.epoch == epoch

    def strays(self, namespace: str, workload_name: str, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return the carriers of ids that have other names, as PodStore.strays does."""
        return self.book.records.strays(namespace, workload_name, instance_ids)

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[Incarnation, ...]:
        """Return the chain, noting that it was taken."""
        ids = tuple(instance_ids)
        self.journal.append(("chain", *ids))
        found = self.book.records.chain(namespace, pod_names, ids)
        if self.after_chain is not None and self._passed_barrier:
            after_chain, self.after_chain = self.after_chain, None
            after_chain()
        return found

    @property
    def behind_workloads(self) -> dict[tuple[str, str], int]:
        """Return the workloads whose history was lost when the watch was resumed."""
        return self.lineage.blind

    def get(self, uid: str) -> Incarnation | None:
        """Return the chain entry of a pod uid; None when it is unknown."""
        record = self.book.records.get(uid)
        return record.incarnation() if record else None

    def of_workload(self, namespace: str, workload_name: str) -> tuple[Incarnation, ...]:
        """Return every incarnation named after a StatefulSet."""
        found = (r.incarnation() for r in self.book.records.of_workload(namespace, workload_name))
        return tuple(sorted(found, key=lambda i: (i.resource_version, i.uid)))

    def carriers(self, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return every incarnation of any namespace that carried an id."""
        return self.book.records.carriers(instance_ids)

    def merge(self, entries: Iterable[Incarnation]) -> None:
        """Add what a status holds from an earlier process."""
        self.book.merge(tuple(entries), complete_until=lambda namespace: self.at)

    def forget(self, uid: str) -> bool:
        """Drop a vanished incarnation."""
        return self.book.forget(uid)

    def mark_durable(self, written: Incarnation) -> bool:
        """Note that a status holds this state."""
        return self.book.unwritten.mark_durable(written)

    def state(self, uid: str) -> str:
        """Return the state of an incarnation, "" when it is unknown."""
        record = self.book.records.get(uid)
        return record.state.value if record else ""


def scaled(view: WorkloadView, replicas: int) -> WorkloadView:
    """Return a StatefulSet that wants another number of pods and has them."""
    return replace(
        view,
        replicas=replicas,
        status_replicas=replicas,
        ready_replicas=replicas,
        updated_replicas=replicas,
        metadata_generation=view.metadata_generation + 1,
        observed_generation=view.observed_generation + 1,
    )
