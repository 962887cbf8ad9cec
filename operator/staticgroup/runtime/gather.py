"""Gather what one round decides on, in the order that makes a removal safe and no other.

(1) Describe the group; bring the pod watch up to a later read and attribute each member that is new, (2) read workload
and pods consistently, (3) bring the pod watch up to that read, (4) see which carriers are left.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..api.identifiers import Ordinal
from ..api.resources.staticgroup import StaticGroup, StaticGroupSpec, WorkloadRef
from ..api.workloads import STATEFUL_SET
from ..core.evidence.chain import KnownPod, PodState
from ..core.group import BrokerBounds, GroupView, KafkaProblem, KafkaProblemKind
from ..core.ids.naming import HeldSeat, Naming, ordinal_of_pod
from ..core.issuance import Issuance, issue, wanted_by
from ..core.members.memory import SETTLE_MIN_S, Sight, watch_under
from ..core.members.node_gone import NodeLifecycle
from ..core.plan import Survey, survey
from ..core.seats import Seat
from ..core.slots.deployment import slot_obstacle, slot_pods, with_slots
from ..core.snapshot import Evidence, FreshRead, Snapshot
from ..core.timeouts.desired import Advice
from ..core.workload import WorkloadView
from ..kafka.gateway import KioGateway
from ..kafka.login.credentials import ConnectionSettings
from ..kube.gateway import KubeGateway
from ..kube.nodes.store import NodeStore
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem, KubeProblemKind
from .connections.connections import Connections, may_be_exclusive
from .connections.topic_sizes import TopicSizes
from .members import SightGatherer
from .memory.memory import Memory
from .memory.pace import PlanInputs
from .process.fleet import AdvicePort
from .process.injection import Part
from .process.metrics import Metrics
from .rivals import has_rivals, may_share_group, rivals_of
from .stores import Stores, connection_of

BOUNDS_MAX_AGE_S = 300.0
"""Bounds are static broker properties; a group's own setting may change, so they are read again now and then."""

_OF_SETTINGS = (KafkaProblemKind.AUTHENTICATION_FAILED, KafkaProblemKind.TLS_FAILED, KafkaProblemKind.SECRET_INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a round begins with.

    Parameters
    ----------
    at_s, monotonic_s: when the group was asked for, seconds since the Unix epoch and monotonic seconds.
    took_s: how long the answer took, seconds.
    """

    settings: ConnectionSettings | KafkaProblem
    group: GroupView | KafkaProblem
    at_s: float
    monotonic_s: float
    took_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Gatherer:
    """Ask brokers, API server and stores for one round.

    Parameters
    ----------
    cluster_uid: uid of the kube-system namespace. serves: whether a part of the injection is there.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    lifecycle: what the deletion of a Node object says of its machine.
    settle_least_s, clock_ahead_s: see `Snapshot` and `SightGatherer`.
    """

    kube: KubeGateway
    kafka: KioGateway
    pods: PodStore
    nodes: NodeStore
    stores: Stores
    connections: Connections
    metrics: Metrics
    cluster_uid: str
    serves: Callable[[Part], bool]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    recommendations: AdvicePort | None = None
    lifecycle: NodeLifecycle = NodeLifecycle.AUTO
    topic_sizes: TopicSizes | None = None
    settle_least_s: float = SETTLE_MIN_S
    clock_ahead_s: Callable[[], float] = lambda: 0.0

    async def describe(self, group: StaticGroup, spec: StaticGroupSpec) -> Described:
        """Describe the Kafka group, which comes before all else."""
        settings = await self.connections.settings_for(group)
        at_s, monotonic_s = self.now_s(), self.monotonic_s()
        found: GroupView | KafkaProblem = (
            settings if isinstance(settings, KafkaProblem) else await self.kafka.describe(settings, spec.group_id)
        )
        if isinstance(found, KafkaProblem):
            self.note_problem(group, found)
        took_s = self.monotonic_s() - monotonic_s
        return Described(settings=settings, group=found, at_s=at_s, monotonic_s=monotonic_s, took_s=took_s)

    def note_problem(self, group: StaticGroup, problem: KafkaProblem) -> None:
        """Count a problem, and read the settings of the StaticGroup's connection again if they may be wrong."""
        self.metrics.kafka_problems.labels(problem.kind.value).inc()
        if problem.kind in _OF_SETTINGS:
            self.connections.distrust(connection_of(group.spec, group.metadata.namespace))

    def shows_the_same(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described, last: PlanInputs
    ) -> bool:
        """True when nothing that a snapshot is made of can have changed since the last one.

        Every change of the workload, its pods, their watch and the injection is marked (`Memory.change_count`). Changes
        of pods with other names and of StaticGroups of the same Kafka group are not: if there are any, or if a pod has
        become a suspect, whose process may join with an id that it carried, whole snapshots are compared.
        """
        key = (group.metadata.namespace, group.metadata.name)
        is_unchanged = last.change_count == memory.change_count and last.history is memory.history and last.spec == spec
        if not is_unchanged or memory.stored.suspect_count != self.pods.suspect_count:
            return False
        if last.shares_group_or_ids or last.members != hash(described.group) or has_rivals(self.stores, key):
            return False
        is_recent = self.monotonic_s() - memory.bounds_read_at_s < BOUNDS_MAX_AGE_S
        return is_recent and last.snapshot.advice == self._advice(spec, key[0])

    async def gather(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described
    ) -> tuple[Snapshot, Survey]:
        """Gather what a round decides on after the group was described, in the order that makes a removal safe."""
        # Step 1: what the stores and the watches show, and so which ids there are.
        if isinstance(described.group, GroupView):
            memory.kafka_cluster_id = described.group.kafka_cluster_id
        seen = await self._from_stores(spec, memory, described, group)
        issuance = issue(spec, seen, memory.history)
        naming = issuance.naming if issuance.naming is not None and issuance.naming.schemes else None

        # Step 2: the pods that may hold a member that is described for the first time, behind a barrier.
        if naming is not None:
            others = self._others(naming.is_own) if memory.history.templates else seen.others
            sight = await self.sight(group, spec, memory, described, naming)
            seen = replace(self._with_pods(spec, seen, naming), others=others, sight=sight)
        seen = replace(seen, partitions=await self._partitions(described))
        found = survey(spec, seen, issuance, self.now_s())

        # Step 3: intent and pods, read consistently, and the pod watch brought up to that read.
        fresh: dict[str, FreshRead] = {}
        if found.reads:
            workload, fresh = await self._read_afresh(group, spec, found, seen)
            seen = self._with_rivals(spec, self._with_pods(spec, replace(seen, workload=workload), naming))

        # Step 4: only now, every pod that may hold a departed or crashed seat. No await from here on.
        chains = {s.key: self._chain(naming, seen.namespace, s) for s in found.judged if naming}
        evidence = {key: Evidence(chain=chain, fresh=fresh.get(key)) for key, chain in chains.items()}
        seen = replace(seen, evidence=evidence, watch=self._watch(group, memory, naming))
        strays, copies = self._carried_elsewhere(spec, seen), self._copies(spec, seen, issuance)
        return replace(seen, carried_elsewhere=strays, copies=copies), found

    async def _partitions(self, described: Described) -> Mapping[str, int] | None:
        """Return how many partitions the topics have that members subscribe; None where nobody's are known."""
        topics = described.group.topics if isinstance(described.group, GroupView) else None
        if not topics or self.topic_sizes is None or isinstance(described.settings, KafkaProblem):
            return None
        return await self.topic_sizes.of(described.settings, [topic for topic, _ in topics])

    def _others(self, is_asked: Callable[[str], bool]) -> tuple[KnownPod, ...]:
        """Return the pods of any name and namespace that are not dead and ever carried an id that is asked for."""
        carried = {i for _, i in self.pods.ids() if is_asked(i)}
        return tuple(i for i in self.pods.carriers(carried) if i.state is not PodState.DEAD)

    async def _from_stores(
        self, spec: StaticGroupSpec, memory: Memory, described: Described, group: StaticGroup
    ) -> Snapshot:
        """Take what the stores and the watches show."""
        namespace = group.metadata.namespace
        settings = described.settings
        is_silent = isinstance(described.group, KafkaProblem)  # then it is not asked again in the same round
        bounds = memory.bounds if is_silent else await self._bounds(settings, spec, memory)
        found = await self._workload(namespace, spec.workload_ref)
        kind = spec.workload_ref.known_kind
        scope = memory.history.injected.scope if memory.history.injected is not None else ""
        workload = None if isinstance(found, KubeProblem) else self._with_slots(found, spec, scope)
        created_at = group.metadata.creation_timestamp
        seen = Snapshot(
            namespace=namespace,
            name=group.metadata.name,
            uid=group.metadata.uid,
            metadata_generation=group.metadata.generation,
            age_s=self.now_s() - created_at.timestamp() if created_at is not None else math.inf,
            workload=workload,
            workload_problem=found.message if isinstance(found, KubeProblem) else "",
            is_workload_unfit=isinstance(found, KubeProblem) and found.kind is KubeProblemKind.INVALID,
            pods=(),
            group=described.group,
            described_at_s=described.at_s,
            bounds=bounds,
            watch=self._watch(group, memory, memory.naming_of(spec)),
            settle_least_s=self.settle_least_s,
            cluster_uid=self.cluster_uid,
            advice=self._advice(spec, namespace),
            is_word_refused=not may_be_exclusive(self.stores, group),
            scope=scope,
            slot_obstacle=slot_obstacle(kind, self.nodes.oldest(), self.serves(Part.FENCE)) if kind.has_slots else "",
        )
        return self._with_rivals(spec, self._with_pods(spec, seen, memory.naming_of(spec)))

    def _with_pods(self, spec: StaticGroupSpec, snapshot: Snapshot, naming: Naming | None) -> Snapshot:
        """Add the pods as the watch shows them now."""
        known = self.known(spec, snapshot.namespace)
        pods = _present(spec.workload_ref.name, naming, known)
        return replace(snapshot, known=known, pods=pods, watch_no=self.pods.watch_no)

    def known(self, spec: StaticGroupSpec, namespace: str) -> tuple[KnownPod, ...]:
        """Return the pods of a workload that were seen; only those of a Deployment have slots."""
        is_slotted, found = _is_slotted(spec), self.pods.of_workload(namespace, spec.workload_ref.name)
        return tuple(pod for pod in found if bool(pod.slots) is is_slotted)

    def _with_slots(self, view: WorkloadView | None, spec: StaticGroupSpec, scope: str) -> WorkloadView | None:
        """Add the slots that a Deployment wants, as the watch shows its pods now."""
        if view is None or view.rollout is None:
            return view
        known = self.known(spec, view.namespace)
        return with_slots(view, slot_pods(known, scope, self.pods.watch_no, self.now_s()))

    def _with_rivals(self, spec: StaticGroupSpec, snapshot: Snapshot) -> Snapshot:
        """Say who else asks for the same, and who injects, as it is by now."""
        rivals = rivals_of(self.stores, self.pods, (snapshot.namespace, snapshot.name))
        return replace(
            snapshot,
            overlaps=rivals.overlaps,
            prior_claims=rivals.prior_claims,
            collisions=rivals.collisions,
            asked_by_others_ms=rivals.asked_by_others_ms,
            unheard=rivals.unheard,
            policy_served=self.serves(Part.SLOTS_POLICY if _is_slotted(spec) else Part.POLICY),
            webhook_served=self.serves(Part.WEBHOOK),
        )

    def _advice(self, spec: StaticGroupSpec, namespace: str) -> Advice | None:
        """Return what the fleet learner recommends; None while recommendations are not read."""
        if self.recommendations is None:
            return None
        return self.recommendations.advice(self.stores.kafka_cluster_id_of(spec, namespace), spec.group_id)

    async def sight(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described, naming: Naming
    ) -> Sight:
        """Gather what is known, after a description, of the pods that may hold members."""
        gatherer = SightGatherer(
            pods=self.pods, nodes=self.nodes, lifecycle=self.lifecycle, read_node=self.kube.read_node,
            clock_ahead_s=self.clock_ahead_s,
            may_be_of=lambda i: naming.has_scope(i)
            or may_share_group(self.stores, group, i.namespace, i.workload_name),
        )
        return await gatherer.gather(
            group.metadata.namespace, naming, described.group, memory.history.members,
            described_at_s=described.monotonic_s, dated_at_s=described.at_s, took_s=described.took_s,
            brokers=self._brokers(group, memory), ids_since_s=self._ids_since_s(group, spec, naming),
        )

    def _brokers(self, group: StaticGroup, memory: Memory) -> str:
        """Return a text that changes with the brokers: their addresses, and the cluster that answered there last."""
        connection = self.stores.connections.get(connection_of(group.spec, group.metadata.namespace))
        if connection is None:
            return ""
        return ",".join((*sorted(connection.spec.bootstrap_servers), memory.kafka_cluster_id))

    def _watch(self, group: StaticGroup, memory: Memory, naming: Naming | None) -> str:
        """Return the name of the watch by which members are remembered; "" while it is not whole."""
        ids = naming.unscoped if naming is not None else ()
        return watch_under(self.pods.watch(group.metadata.namespace), self._brokers(group, memory), ids)

    @staticmethod
    def _ids_since_s(group: StaticGroup, spec: StaticGroupSpec, naming: Naming) -> float:
        """Return since when an id can be known to anybody, seconds since the Unix epoch; 0.0: who knows."""
        created = group.metadata.creation_timestamp
        is_own = naming.is_recognized_by_scope
        return created.timestamp() if created is not None and is_own else 0.0

    def _carried_elsewhere(self, spec: StaticGroupSpec, seen: Snapshot) -> frozenset[str]:
        """Return the members' ids that a pod of the namespace carries unchanged, but as no seat of the workload."""
        members = seen.group.members if isinstance(seen.group, GroupView) else ()
        own = {i for pod in seen.pods for i in pod.instance_ids}
        asked = {(seen.namespace, m.instance_id) for m in members if m.instance_id and m.instance_id not in own}
        strays = self.pods.strays(seen.namespace, spec.workload_ref.name, asked) if asked else ()
        return frozenset(i for pod in strays if pod.object_present for i in pod.instance_ids)

    def _copies(self, spec: StaticGroupSpec, seen: Snapshot, issuance: Issuance) -> tuple[KnownPod, ...]:
        """Return the living pods, by name, that are no seat but carry an id that this StaticGroup alone calls for."""
        naming, expected = issuance.naming, issuance.expected
        if naming is None or expected is None or not naming.issues_scoped:
            return ()
        scheme = naming.schemes[0]
        asked = {scheme.base_id(Ordinal(o), suffix) for o in set(expected.values()) for suffix in scheme.env_suffixes}
        found = self.pods.strays_anywhere(seen.namespace, spec.workload_ref.name, asked)
        living = (i for i in found if i.state is PodState.LIVE and not i.is_deleting)
        return tuple(sorted(living, key=lambda i: (i.namespace, i.pod_name)))

    async def _read_afresh(
        self, group: StaticGroup, spec: StaticGroupSpec, found: Survey, seen: Snapshot
    ) -> tuple[WorkloadView | None, dict[str, FreshRead]]:
        """Read intent and pods consistently, then bring the pod watch up to that read."""
        namespace, naming = group.metadata.namespace, found.issuance.naming
        position = self.pods.position(namespace)
        workload = await self.kube.read_workload(namespace, spec.workload_ref)
        if isinstance(workload, KubeProblem) or naming is None:
            return seen.workload, {}
        names = list(dict.fromkeys(name for seat in found.reads for name in seat.pod_names))
        shown = dict(zip(names, await asyncio.gather(*(self.kube.read_pod(namespace, n) for n in names)), strict=True))
        versions = [r.resource_version for r in shown.values() if not isinstance(r, KubeProblem)]
        passed = bool(versions) and await self._barrier(namespace, versions, position)
        workload = self._with_slots(workload, spec, seen.scope)
        wanted = wanted_by(naming, workload)
        fresh: dict[str, FreshRead] = {}
        for seat in found.reads:
            reads = [(n, read) for n in seat.pod_names if not isinstance(read := shown[n], KubeProblem)]
            if len(reads) < len(seat.pod_names):
                continue
            uids = [(n, r.version.uid) for n, r in reads if r.version is not None]
            fresh[seat.key] = FreshRead(
                is_expected=wanted is None or seat.key in wanted,
                objects=tuple((n, uid) for n, uid in uids if self._may_hold(naming, namespace, seat, uid)),
                resource_version=max(read.resource_version for _, read in reads),
                barrier_passed=passed,
            )
        return workload, fresh

    async def _barrier(self, namespace: str, versions: Sequence[int], position: int) -> bool:
        """Bring the pod watch up to the newest of several consistent reads; a read below `position` is a gap."""
        if min(versions) < position:
            return await self.pods.barrier(namespace, min(versions), not_below=position)
        return await self.pods.barrier(namespace, max(versions), not_below=position)

    async def _workload(self, namespace: str, ref: WorkloadRef) -> WorkloadView | KubeProblem | None:
        """Return the workload from the watch, or by a read if the watch has not shown it; None when it does not exist.

        Only StatefulSets are watched. Other kinds are read in each round, which changes of their pods ask for, and no
        stream breaks where nobody serves the kind.
        """
        known = self.stores.workloads.get((namespace, ref.name)) if ref.kind == STATEFUL_SET.kind else None
        if known is not None:
            return known
        read = await self.kube.read_workload(namespace, ref)
        if ref.kind != STATEFUL_SET.kind and isinstance(read, WorkloadView):
            self.stores.put_workload(read)
        return read

    async def _bounds(
        self, settings: ConnectionSettings | KafkaProblem, spec: StaticGroupSpec, memory: Memory
    ) -> BrokerBounds:
        """Return the broker's bounds, read again every few minutes."""
        now_s = self.monotonic_s()
        if isinstance(settings, KafkaProblem) or now_s - memory.bounds_read_at_s < BOUNDS_MAX_AGE_S:
            return memory.bounds
        bounds = await self.kafka.bounds(settings, spec.group_id)
        if isinstance(bounds, KafkaProblem):
            return memory.bounds
        memory.bounds, memory.bounds_read_at_s = bounds, now_s
        return bounds

    def _chain(self, naming: Naming, namespace: str, seat: Seat) -> tuple[KnownPod, ...]:
        """Return every known pod that may hold a seat: those of its pod name, and those that ever carried its id."""
        place = HeldSeat(seat.key, naming, namespace)
        near = self.pods.chain(namespace, pod_names=place.pod_names, instance_ids=place.carried_as)
        far = (i for i in self.pods.carriers(place.carried_as) if i.namespace != namespace)
        return tuple(naming.expand(i) for i in (*near, *far) if place.may_be_held_by(i))

    def _may_hold(self, naming: Naming, namespace: str, seat: Seat, uid: str) -> bool:
        """True unless the pod watch has shown an object with another id; who joined from it has it as a carrier."""
        pod, place = self.pods.get(uid), HeldSeat(seat.key, naming, namespace)
        return pod is None or (place.may_be_held_by(pod) and not place.shows_another(pod))


def _is_slotted(spec: StaticGroupSpec) -> bool:
    return spec.workload_ref.known_kind.has_slots


def _present(workload_name: str, naming: Naming | None, known: Sequence[KnownPod]) -> tuple[KnownPod, ...]:
    """Return the pods that exist, by name, with every id that their clients make of what they carry.

    Only those called `<workload_name>-<ordinal>`: a copy such as `web-debug` is no pod of the StatefulSet and must not
    stand for one that is not visible. Pods of a Deployment have slots, or wait for one.
    """
    here = (p for p in known if p.object_present)
    ours = (p for p in here if p.slots or ordinal_of_pod(workload_name, p.pod_name) is not None)
    present = sorted(ours, key=lambda p: p.pod_name)
    return tuple(naming.expand(p) if naming else p for p in present)
