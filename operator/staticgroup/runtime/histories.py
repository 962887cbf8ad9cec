"""Say for which seats of a StaticGroup no pod can have come and gone unseen, from what the watch knows now.

`core.evidence.continuity` decides; here its facts are gathered. While the watch goes on nothing is read. After a gap the StatefulSet
is read once, consistently and after the LIST that ended the gap; and in a quiet moment it is read with a barrier of the pod
watch behind it, so that the next gap finds facts to compare with (the generation rule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..api.injection import follows_annotation
from ..api.resources.identity import InjectionMethod
from ..api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ..core.evidence.chain import Incarnation
from ..core.evidence.continuity import (
    Checkpoint,
    GapWord,
    SeatedPod,
    SettledWorkload,
    SpanReason,
    WatchView,
    carried_over,
    first_checkpoint,
    settled_workload,
)
from ..core.ids.naming import Naming, naming_or_none, ordinal_of_pod
from ..core.snapshot import History
from ..core.workload import WorkloadView
from ..kube.gateway import KubeGateway
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A StatefulSet as read before a barrier of the pod watch was passed, under an epoch."""

    epoch: str
    workload: SettledWorkload


@dataclass(slots=True)
class Histories:
    """Gather what `core.evidence.continuity` asks for.

    Parameters
    ----------
    policy_served: the admission policy that injects ids is in force.
    words: what people have said about gaps.
    now_s: seconds since the Unix epoch.
    """

    kube: KubeGateway
    pods: PodStore
    policy_served: Callable[[], bool]
    words: Callable[[], tuple[GapWord, ...]]
    now_s: Callable[[], float]

    async def checkpoint(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, settled: Settled | None, *,
        elsewhere: bool | None = False, words: bool = True,
    ) -> Checkpoint | None:
        """Carry what is remembered of a StaticGroup over to now.

        Parameters
        ----------
        elsewhere: a pod of another name exists that carries one of the ids; None when that is not known.
        words: False leaves the spans open that people's words would close.

        Returns
        -------
        None while nothing is known: the pod watch is not complete, or the StatefulSet cannot be read after a gap.
        """
        if not self.pods.epoch:
            return None
        before = history.continuity
        view = self._view(group, spec, history, settled, elsewhere=elsewhere, words=words)
        if before is None:
            first = first_checkpoint(view, self.now_s())
            return first if history.injected is None else self._forgotten(group, first)
        if not view.goes_on(before):
            read = await self.kube.read_workload(group.metadata.namespace, spec.workload_ref.name)
            if isinstance(read, KubeProblem) or self.pods.epoch != view.epoch:
                return None
            view = self._view(group, spec, history, settled, settled_workload(read), elsewhere=elsewhere, words=words)
        return carried_over(before, view, self.now_s())

    def updated(
        self, known: Checkpoint | None, group: StaticGroup, spec: StaticGroupSpec, history: History,
        settled: Settled | None, *, elsewhere: bool | None = False,
    ) -> Checkpoint | None:
        """Bring a checkpoint of this round up to date without reading anything; None when the watch had a gap meanwhile."""
        if known is None or self.pods.epoch != known.epoch:
            return None
        return carried_over(known, self._view(group, spec, history, settled, elsewhere=elsewhere), self.now_s())

    def _forgotten(self, group: StaticGroup, known: Checkpoint) -> Checkpoint:
        """Return a checkpoint of ids that were issued although nothing is remembered of their history."""
        created = group.metadata.creation_timestamp
        since_s = created.timestamp() if created is not None else 0.0
        return known.blinded(SpanReason.MEMORY_LOST, since_s=since_s, until_s=self.now_s())

    def _view(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, settled: Settled | None,
        read: SettledWorkload | None = None, *, elsewhere: bool | None = False, words: bool = True,
    ) -> WatchView:
        namespace, name = group.metadata.namespace, spec.workload_ref.name
        by_ordinal: dict[int, list[Incarnation]] = {}
        for pod in self.pods.of_workload(namespace, name):
            ordinal = ordinal_of_pod(name, pod.pod_name)
            if ordinal is not None:
                by_ordinal.setdefault(ordinal, []).append(pod)
        unbroken = {o: self.pods.unbroken_since(namespace, f"{name}-{o}") for o in by_ordinal}
        pods = [(o, pod) for o, found in by_ordinal.items() for pod in found]
        naming = naming_or_none(spec, history)
        is_behind = (namespace, name) in self.pods.behind_workloads
        epoch, by_hand = self.pods.epoch, self._are_by_hand(spec, history, elsewhere)
        return WatchView(
            epoch=epoch,
            timeline=self.pods.timeline,
            was_restored=self.pods.saw_restore,
            group_uid=group.metadata.uid,
            silent_s=max(0.0, self.pods.age_s()),
            workload_name=name,
            # An id that may be carried under any name may have been carried by a pod of whatever workload was out of sight.
            everywhere=self.pods.unbroken_since(namespace, workload="" if by_hand else name),
            unbroken=unbroken,
            seats=tuple(_seat(o, pod, naming) for o, pod in pods if pod.object_present),
            # What a replay has shown before the rest of it was lost was not seen at the end of a gap.
            seen=frozenset(
                pod.uid
                for o, pod in pods
                if (pod.object_present or not is_behind) and self.pods.seen_under(pod.uid) in unbroken[o]
            ),
            gone=frozenset(pod.uid for _, pod in pods if not pod.object_present),
            ended_at_s=self.pods.ended_at_s,
            read=read,
            settled=settled.workload if settled is not None and settled.epoch == epoch else None,
            are_ids_by_hand=by_hand,
            words=self.words() if words else (),
        )

    def _are_by_hand(self, spec: StaticGroupSpec, history: History, elsewhere: bool | None) -> bool:
        """True when nobody keeps an id from being carried under any pod name, or one is.

        Notes
        -----
        An id that follows an annotation goes with it into a copy (`kubectl debug --copy-to --keep-annotations`).
        """
        before, injected = history.continuity, history.injected
        if elsewhere or (elsewhere is None and before is not None and before.ids_by_hand):
            return True
        is_injected = spec.identity.method is not InjectionMethod.NONE and self.policy_served()
        is_composed = injected is None or not follows_annotation(spec.identity, injected.id_template)
        return not (is_injected and is_composed) and not spec.identity.exclusive

    async def settle(
        self, group: StaticGroup, spec: StaticGroupSpec, known: Checkpoint | None, workload: WorkloadView | None,
    ) -> Settled | None:
        """Read the StatefulSet and bring the pod watch up to that, when it wants something else than what is remembered.

        Parameters
        ----------
        workload: as the watch shows it, which costs nothing to look at.

        Returns
        -------
        None when nothing is to be learned now: pods come or go, or the read or the barrier failed.
        """
        wanted = settled_workload(workload)
        if known is None or wanted is None or wanted == known.workload or not known.is_complete:
            return None
        if len(known.seats) != wanted.replicas or not all(wanted.wants(s.ordinal) for s in known.seats):
            return None
        epoch, namespace, name = self.pods.epoch, group.metadata.namespace, spec.workload_ref.name
        position = self.pods.position(namespace)
        read = await self.kube.read_workload(namespace, name)
        if isinstance(read, KubeProblem) or settled_workload(read) != wanted:
            return None
        beyond = await self.kube.read_pod(namespace, f"{name}-{wanted.start + wanted.replicas}")
        if isinstance(beyond, KubeProblem) or not epoch:
            return None
        is_passed = await self.pods.barrier(namespace, beyond.resource_version, not_below=position)
        return Settled(epoch=epoch, workload=wanted) if is_passed and self.pods.epoch == epoch else None


def _seat(ordinal: int, pod: Incarnation, naming: Naming | None) -> SeatedPod:
    return SeatedPod(
        ordinal=ordinal,
        uid=pod.uid,
        node_name=pod.node_name,
        restarts=None if pod.ids_are_fixed else pod.restarts,
        has_other_ids=naming is None or not naming.gives(pod),
    )
