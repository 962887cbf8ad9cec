"""Take the picture of one round, in the order that makes a removal safe and no other.

(1) describe the group; where it shows a member for the first time, bring the pod watch up to a read behind it and attribute it,
(2) read workload and pods consistently, (3) bring the pod watch up to that read, (4) see who of the carriers is left.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..api.identifiers import Ordinal
from ..api.resources.staticgroup import StaticGroup, StaticGroupSpec, WorkloadRef
from ..api.workloads import STATEFUL_SET
from ..core.evidence.chain import KnownPod, PodState
from ..core.group import BrokerBounds, GroupView, KafkaProblem
from ..core.ids.naming import Naming, ordinal_of_pod
from ..core.intent import Intent, intent_of
from ..core.members.holding import Seat as HeldSeat
from ..core.members.memory import Sight
from ..core.members.node_gone import NodeLifecycle
from ..core.next_pods.advice import Advice
from ..core.plan import crashed, departed, reads_needed
from ..core.roles import role_of
from ..core.seats import Seat, is_departed
from ..core.snapshot import Evidence, FreshRead, Snapshot
from ..core.workload import WorkloadView
from ..kafka.gateway import KafkaGateway
from ..kafka.login.credentials import ConnectionSettings
from ..kube.gateway import KubeGateway
from ..kube.nodes.store import NodeStore
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem, KubeProblemKind
from .connections.allowed import may_be_exclusive
from .connections.connections import Connections
from .fleet import AdvicePort
from .members import SightGatherer
from .memory.memory import Memory
from .memory.rest import Picture
from .rivals import Rivals
from .stores import Stores
from .work_queue import Key

BOUNDS_MAX_AGE_S = 300.0
"""Bounds are static broker properties; a group's own setting may change, so they are read again now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a round begins with: the settings of the connection, the group by them, and when it was asked for: Unix seconds, monotonic seconds."""

    settings: ConnectionSettings | KafkaProblem
    group: GroupView | KafkaProblem
    at_s: float
    monotonic_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Whatever is asked for a picture.

    Parameters
    ----------
    note_problem: told of a Kafka problem with the KafkaConnection that has it.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    kube: KubeGateway
    kafka: KafkaGateway
    pods: PodStore
    stores: Stores
    connections: Connections
    cluster_uid: str
    policy_served: Callable[[], bool]
    webhook_served: Callable[[], bool]
    note_problem: Callable[[Key, KafkaProblem], None]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    recommendations: AdvicePort
    nodes: NodeStore
    lifecycle: NodeLifecycle
    settle_least_s: float
    clock_ahead_s: Callable[[], float]

    async def describe(self, group: StaticGroup, spec: StaticGroupSpec) -> Described:
        """Describe the Kafka group, which comes before all else."""
        namespace = group.metadata.namespace
        settings = await self.connections.settings_for(group)
        at_s, monotonic_s = self.now_s(), self.monotonic_s()
        found: GroupView | KafkaProblem = (
            settings if isinstance(settings, KafkaProblem) else await self.kafka.describe(settings, spec.group_id)
        )
        if isinstance(found, KafkaProblem):
            self.note_problem(spec.connection_ref.key(namespace), found)
        return Described(settings=settings, group=found, at_s=at_s, monotonic_s=monotonic_s)

    def shows_the_same(self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described, last: Picture) -> bool:
        """Say whether all that a picture is made of is as it was, by the description and what can have changed untold.

        Notes
        -----
        Of the workload, its pods, their watch and how ids are injected, every change is marked (`Memory.change_count`). Nobody tells of
        pods of other names and of StaticGroups of the same Kafka group; of those that have any, whole pictures are compared, and so
        they are when any pod has become a suspect since: its process may join an id that it carried.
        """
        key = (group.metadata.namespace, group.metadata.name)
        is_unchanged = last.change_count == memory.change_count and last.history is memory.history and last.spec == spec
        if not is_unchanged or memory.stored.suspect_count != self.pods.suspect_count or last.has_company or last.members != hash(described.group):
            return False
        is_alone = not Rivals(self.stores).any_of(key)
        advice = self._advice(spec.connection_ref.key(key[0]), spec)
        return is_alone and last.quiet.advice == advice and self.monotonic_s() - memory.bounds_read_at_s < BOUNDS_MAX_AGE_S

    async def observe(self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described) -> Snapshot:
        """Take one frozen picture after the description, in the order that the safety argument needs."""
        first = await self._first_look(spec, memory, described, group)  # step 1
        seen, intent = self._with_chains(spec, memory, first, {})
        seen = replace(seen, sight=await self._sight(group, spec, memory, described, intent))
        if memory.history.injected is None and spec.identity.scope is not None:
            scope = spec.identity.scope
            seen = replace(seen, others=self._others(lambda i: scope in i))
        elif memory.history.templates and intent is not None:
            seen = replace(seen, others=self._others(intent.naming.is_own))
        needed = reads_needed(spec, seen, memory.history, self.now_s(), intent) if intent is not None else ()
        if needed:
            workload, fresh = await self._read_afresh(group, spec, needed, seen, memory)  # steps 2, 3
            seen, _ = self._with_chains(spec, memory, replace(seen, workload=workload), fresh)  # step 4: only now
            seen = self._with_rivals(seen)  # they may have said something meanwhile
        return replace(
            seen,
            watch=self._watch(group, spec),
            told_elsewhere=self._told_elsewhere(spec, seen),
            copies=self._copies(spec, seen, intent),
        )

    def _others(self, is_asked: Callable[[str], bool]) -> tuple[KnownPod, ...]:
        """Return every pod, of whatever name and namespace, that lives or may and has carried an id that is asked for."""
        carried = {i for _, i in self.pods.ids() if is_asked(i)}
        return tuple(i for i in self.pods.carriers(carried) if i.state is not PodState.DEAD)

    async def _first_look(self, spec: StaticGroupSpec, memory: Memory, described: Described, group: StaticGroup) -> Snapshot:
        """Take what the stores and the watch tell; no pods yet."""
        namespace = group.metadata.namespace
        connection_key, settings = spec.connection_ref.key(namespace), described.settings
        # brokers that did not answer the describe are not asked again in the same round
        bounds = memory.bounds if isinstance(described.group, KafkaProblem) else await self._bounds(settings, spec, memory)
        found = await self._workload(namespace, spec.workload_ref)
        workload = None if isinstance(found, KubeProblem) else found
        created_at = group.metadata.creation_timestamp
        seen = Snapshot(
            namespace=namespace,
            name=group.metadata.name,
            uid=group.metadata.uid,
            metadata_generation=group.metadata.generation,
            created_at_s=created_at.timestamp() if created_at is not None else 0.0,
            age_s=self.now_s() - created_at.timestamp() if created_at is not None else math.inf,
            workload=workload,
            workload_problem=found.message if isinstance(found, KubeProblem) else "",
            is_workload_unfit=isinstance(found, KubeProblem) and found.kind is KubeProblemKind.INVALID,
            pods=(),
            group=described.group,
            described_at_s=described.at_s,
            bounds=bounds,
            watch=self._watch(group, spec),
            settle_least_s=self.settle_least_s,
            cluster_uid=self.cluster_uid,
            advice=self._advice(connection_key, spec),
            is_word_refused=not may_be_exclusive(self.stores, group),
        )
        return self._with_rivals(seen)

    def _with_rivals(self, snapshot: Snapshot) -> Snapshot:
        """Say who else asks for the same, and who injects, as it is by now."""
        key, rivals = (snapshot.namespace, snapshot.name), Rivals(self.stores, self.pods)
        return replace(
            snapshot,
            overlaps=rivals.overlaps(key),
            same_scope=rivals.same_scope(key),
            prior_claims=rivals.claims(key),
            collisions=rivals.collisions(key),
            asked_by_others_ms=rivals.asked_by_others_ms(key),
            unheard=rivals.unheard(key),
            policy_served=self.policy_served(),
            webhook_served=self.webhook_served(),
        )

    def _with_chains(
        self,
        spec: StaticGroupSpec,
        memory: Memory,
        snapshot: Snapshot,
        fresh: Mapping[str, FreshRead],
    ) -> tuple[Snapshot, Intent | None]:
        """Add the pods as the watch shows them now, and the chain of each departed or crashed seat with what was read of it."""
        snapshot = replace(snapshot, known=self.pods.of_workload(snapshot.namespace, spec.workload_ref.name))
        intent = intent_of(spec, snapshot, memory.history)
        naming = intent.naming if intent is not None else None
        snapshot = replace(snapshot, pods=_present(spec.workload_ref.name, naming, snapshot.known))
        if naming is None:
            return snapshot, None
        seats = departed(spec, snapshot, memory.history, self.now_s(), intent)
        evidence = {
            seat.key: Evidence(chain=self._chain(naming, snapshot.namespace, seat), fresh=fresh.get(seat.key))
            for seat in (*seats, *crashed(spec, snapshot, memory.history, intent))
        }
        return replace(snapshot, evidence=evidence), intent

    def _advice(self, connection_key: Key, spec: StaticGroupSpec) -> Advice | None:
        """Return what the fleet learner recommends; None while recommendations are not read."""
        return self.recommendations.advice(self.stores.kafka_cluster_id(connection_key), spec.group_id)

    async def _sight(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described, intent: Intent | None
    ) -> Sight | None:
        """Gather what is known of the pods that may hold members; None before ids are issued."""
        naming = intent.naming if intent is not None else memory.naming_of(spec)
        return None if naming is None else await self.sight(group, spec, memory, described, naming)

    async def sight(
        self, group: StaticGroup, spec: StaticGroupSpec, memory: Memory, described: Described, naming: Naming
    ) -> Sight:
        """Gather what is known, after a description, of the pods that may hold members."""
        gatherer = SightGatherer(
            pods=self.pods, nodes=self.nodes, lifecycle=self.lifecycle, read_node=self.kube.read_node,
            monotonic_s=self.monotonic_s, clock_ahead_s=self.clock_ahead_s,
            may_be_of=lambda pod: naming.has_scope(pod) or Rivals(self.stores).may_be_of(pod.namespace, pod.pod_name.rpartition("-")[0], group),
        )
        return await gatherer.gather(
            group.metadata.namespace, naming, role_of(spec), described.group, memory.history.members,
            described_at_s=described.monotonic_s, dated_at_s=described.at_s, brokers=self._brokers(group, spec),
            ids_since_s=self._ids_since_s(group, spec, naming),
        )

    def _brokers(self, group: StaticGroup, spec: StaticGroupSpec) -> str:
        """Return what is another text where the connection leads to other brokers."""
        connection = self.stores.connections.get(spec.connection_ref.key(group.metadata.namespace))
        servers = sorted(connection.spec.bootstrap_servers) if connection is not None else []
        return hashlib.sha256(",".join(servers).encode()).hexdigest()[:8]

    def _watch(self, group: StaticGroup, spec: StaticGroupSpec) -> str:
        """Return the name of the watch by which members are remembered; "" while it is not whole."""
        name = self.pods.watch(group.metadata.namespace)
        return f"{name}.{self._brokers(group, spec)}" if name else ""

    @staticmethod
    def _ids_since_s(group: StaticGroup, spec: StaticGroupSpec, naming: Naming) -> float:
        """Return since when an id can be known to anybody, seconds since the Unix epoch; 0.0: who knows."""
        created = group.metadata.creation_timestamp
        return created.timestamp() if created is not None and naming.is_told_by_scope and spec.identity.scope is None else 0.0

    def _told_elsewhere(self, spec: StaticGroupSpec, seen: Snapshot) -> frozenset[str]:
        """Return the ids of members that a pod of the namespace carries as they are, which is no seat of the workload."""
        members = seen.group.members if isinstance(seen.group, GroupView) else ()
        own = {i for pod in seen.pods for i in pod.instance_ids}
        asked = {(seen.namespace, m.instance_id) for m in members if m.instance_id and m.instance_id not in own}
        strays = self.pods.strays(seen.namespace, spec.workload_ref.name, asked) if asked else ()
        return frozenset(i for pod in strays if pod.object_present for i in pod.instance_ids)

    def _copies(self, spec: StaticGroupSpec, seen: Snapshot, intent: Intent | None) -> tuple[KnownPod, ...]:
        """Return the living pods that are no seat of the workload and carry an id of this StaticGroup alone that it calls for, by name."""
        if intent is None or not intent.naming.issues_scoped:
            return ()
        scheme = intent.naming.schemes[0]
        asked = {scheme.base_id(Ordinal(o), suffix) for o in set(intent.expected.values()) for suffix in scheme.env_suffixes}
        found = self.pods.strays_anywhere(seen.namespace, spec.workload_ref.name, asked)
        living = (i for i in found if i.state is PodState.LIVE and not i.is_deleting)
        return tuple(sorted(living, key=lambda i: (i.namespace, i.pod_name)))

    async def _read_afresh(
        self,
        group: StaticGroup,
        spec: StaticGroupSpec,
        seats: Sequence[Seat],
        seen: Snapshot,
        memory: Memory,
    ) -> tuple[WorkloadView | None, dict[str, FreshRead]]:
        """Read intent and pods consistently (step 2), then bring the pod watch up to that read (step 3)."""
        namespace = group.metadata.namespace
        position = self.pods.position(namespace)
        workload = await self.kube.read_workload(namespace, spec.workload_ref)
        if isinstance(workload, KubeProblem):
            return seen.workload, {}
        names = list(dict.fromkeys(name for seat in seats for name in seat.pod_names))
        by_name = dict(zip(names, await asyncio.gather(*(self.kube.read_pod(namespace, n) for n in names)), strict=True))
        versions = [r.resource_version for r in by_name.values() if not isinstance(r, KubeProblem)]
        passed = bool(versions) and await self._barrier(namespace, versions, position)
        intent = intent_of(spec, replace(seen, workload=workload), memory.history)
        fresh: dict[str, FreshRead] = {}
        for seat in seats:
            found = [(n, read) for n in seat.pod_names if not isinstance(read := by_name[n], KubeProblem)]
            if len(found) < len(seat.pod_names):
                continue
            fresh[seat.key] = FreshRead(
                is_expected=intent is None or not is_departed(intent.naming, intent.expected, seat.key),
                objects=tuple((n, r.version.uid) for n, r in found if r.version is not None and self._may_hold(intent, namespace, seat, r.version.uid)),
                resource_version=max(read.resource_version for _, read in found),
                barrier_passed=passed,
            )
        return workload, fresh

    async def _barrier(self, namespace: str, versions: Sequence[int], position: int) -> bool:
        """Bring the pod watch up to the newest of several consistent reads; a read below `position` is a gap."""
        if min(versions) < position:
            return await self.pods.barrier(namespace, min(versions), not_below=position)
        return await self.pods.barrier(namespace, max(versions), not_below=position)

    async def _workload(self, namespace: str, ref: WorkloadRef) -> WorkloadView | KubeProblem | None:
        """Return the workload from the watch, or by a read while the watch has not shown it; None when it does not exist.

        Notes
        -----
        Only StatefulSets are watched. Other kinds are read in each round: what their pods do asks for one, and no stream breaks where
        nobody serves the kind.
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
    ) -> BrokerBounds | None:
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
        """Return every known pod that may hold a seat: those of its pod name, and those that carried its id anywhere."""
        place = HeldSeat(seat.key, naming, namespace)
        near = self.pods.chain(namespace, pod_names=place.pod_names, instance_ids=place.carried_as)
        far = (i for i in self.pods.carriers(place.carried_as) if i.namespace != namespace)
        return tuple(naming.expand(i) for i in (*near, *far) if place.may_be_held_by(i))

    def _may_hold(self, intent: Intent | None, namespace: str, seat: Seat, uid: str) -> bool:
        """True unless the pod watch has shown of an object that it cannot hold a seat."""
        pod = self.pods.get(uid)
        return intent is None or pod is None or HeldSeat(seat.key, intent.naming, namespace).may_be_held_by(pod)


def _present(workload_name: str, naming: Naming | None, known: Sequence[KnownPod]) -> tuple[KnownPod, ...]:
    """Return the pods that exist, by name, with every id that their clients make of what they carry.

    Notes
    -----
    Only those called `<workload_name>-<ordinal>`: a copy such as `web-debug` is no pod of the StatefulSet and must not stand
    for one that is not visible.
    """
    ours = (p for p in known if p.object_present and ordinal_of_pod(workload_name, p.pod_name) is not None)
    present = sorted(ours, key=lambda p: p.pod_name)
    return tuple(naming.expand(p) if naming else p for p in present)
