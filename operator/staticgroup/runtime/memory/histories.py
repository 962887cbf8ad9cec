"""Say for which seats of a StaticGroup no pod can have come and gone unseen, from what the watch knows now.

`core.evidence.continuity` decides; here its facts are gathered. While the watch goes on nothing is read. After a gap the StatefulSet
and the StaticGroup are read once, consistently and after the LIST that ended the gap; and in a quiet moment the first is read
with a barrier of the pod watch behind it, so that the next gap finds facts to compare with (the generation rule).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ...api import names
from ...api.injection import follows_annotation, identity_of, injector
from ...api.resources.durable import InjectedMethod
from ...api.resources.staticgroup import Mode, StaticGroup, StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...core.evidence.chain import Incarnation, IncarnationState
from ...core.evidence.continuity import (
    Checkpoint,
    SeatedPod,
    SettledWorkload,
    WatchView,
    carried_over,
    first_checkpoint,
    settled_workload,
)
from ...core.evidence.spans import SINCE_EVER_S, BlindSpan, EditablePod, GapWord, SpanReason
from ...core.ids.naming import Naming, keep_ids_in_copies, naming_or_none, ordinal_of_pod
from ...core.snapshot import History
from ...core.workload import WorkloadView
from ...kube.gateway import KubeGateway
from ...kube.pods.store import PodStore
from ...kube.problem import KubeProblem
from ..work_queue import Key

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A StatefulSet as read before a barrier of the pod watch was passed, under an epoch."""

    epoch: str
    workload: SettledWorkload


@dataclass(slots=True, kw_only=True)
class Premise:
    """Since when an id can be under no pod name but its own, as far as this process has looked.

    Attributes
    ----------
    generation: metadata.generation of the StaticGroup at the last look; None before the first.
    holds_since_s: when the first of the looks was that have all found it so, monotonic seconds, because the wall clock may be
        set while the watch is silent; infinite where the last one did not, minus infinity once all that it did not hold for
        lies behind what the watch was heard of.
    """

    generation: int | None = None
    holds_since_s: float = -math.inf

    @property
    def is_doubted(self) -> bool:
        """True while it may not have held for what the watch was not heard of yet."""
        return self.holds_since_s > -math.inf

    @property
    def is_coming(self) -> bool:
        """True while it holds, and time alone makes it hold for all that the watch was heard of."""
        return -math.inf < self.holds_since_s < math.inf


@dataclass(slots=True)
class Histories:
    """Gather what `core.evidence.continuity` asks for.

    Parameters
    ----------
    policy_served, webhook_served: the admission policy, the webhook that injects ids is in force.
    words: what people have said about gaps.
    swept: the blind spans of a StaticGroup that its nodes have been swept of.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    kube: KubeGateway
    pods: PodStore
    policy_served: Callable[[], bool]
    webhook_served: Callable[[], bool]
    words: Callable[[], tuple[GapWord, ...]]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    swept: Callable[[Key], frozenset[BlindSpan]] = lambda key: frozenset()

    def looked(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, premise: Premise, *,
        status: StaticGroupStatus | None, shown: StaticGroupStatus | None, elsewhere: bool | None,
    ) -> History:
        """Look whether an id can be under any pod name now; each round begins with it, whatever else it can do.

        Parameters
        ----------
        premise: what earlier looks found; this one is noted in it.
        status: as this process knows it; at the first look it tells which generation was looked at before.
        shown: the status that the API server has, by which the policy injects.
        elsewhere: a pod of another name exists that carries one of the ids; None when that is not known.

        Returns
        -------
        What is remembered, with `Checkpoint.ids_by_hand` where it can have been so at any moment since the checkpoint, a
        moment in which none could be made included. It is taken back by a checkpoint that lies wholly behind.

        Notes
        -----
        Each edit of the spec raises metadata.generation by one. After more than one since the last look nobody knows what
        the spec said in between.
        """
        before, generation = history.continuity, group.metadata.generation
        if premise.generation is None:
            premise.generation = generation if status is None else status.observed_generation
            premise.holds_since_s = math.inf if before is not None and before.ids_by_hand else -math.inf
        is_untold = generation > (premise.generation or generation) + 1 and not spec.identity.exclusive
        if is_untold:
            log.info("the spec was edited more than once unseen", extra={"key": f"{group.metadata.namespace}/{group.metadata.name}"})
        premise.generation = generation
        if is_untold or self._are_by_hand(group, spec, history, shown, elsewhere):
            premise.holds_since_s = math.inf
        elif premise.holds_since_s == math.inf:
            premise.holds_since_s = self.monotonic_s()
        elif premise.holds_since_s <= self.monotonic_s() - max(0.0, self.pods.age_s()):
            premise.holds_since_s = -math.inf
        if before is None or before.ids_by_hand or not premise.is_doubted:
            return history
        return replace(history, continuity=replace(before, ids_by_hand=True))

    async def checkpoint(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, settled: Settled | None, premise: Premise, *,
        words: bool = True, editable: tuple[EditablePod, ...] = (), is_doubted: bool = False,
    ) -> Checkpoint | None:
        """Carry what is remembered of a StaticGroup over to now.

        Parameters
        ----------
        history, premise: as of this round's look. editable: see `editable`.
        words: False leaves the spans open that people's words would close.
        is_doubted: a status that tells nothing was emptied, as far as anybody knows.

        Returns
        -------
        None while nothing is known: the pod watch is not complete, or after a gap the StatefulSet cannot be read or the StaticGroup
        was edited without that its watch has told it: then the look of this round does not say what was so in the gap.
        """
        if not self.pods.epoch:
            return None
        before = history.continuity
        view = self._view(group, spec, history, settled, premise, words=words, editable=editable)
        if before is None:
            first = first_checkpoint(view, self.now_s())
            return first if history.injected is None and not is_doubted else self._forgotten(group, spec, first)
        if not view.goes_on(before):
            read, is_as_looked_at = await asyncio.gather(
                self.kube.read_workload(group.metadata.namespace, spec.workload_ref), self._is_as_looked_at(group)
            )
            if isinstance(read, KubeProblem) or not is_as_looked_at or self.pods.epoch != view.epoch:
                return None
            read_view = settled_workload(read)
            view = self._view(group, spec, history, settled, premise, read_view, words=words, editable=editable)
        return carried_over(before, view, self.now_s())

    async def _is_as_looked_at(self, group: StaticGroup) -> bool:
        """True when a consistent read shows the same generation of a StaticGroup as the watch."""
        known = group.metadata
        body = await self.kube.read_object(names.STATIC_GROUP_PLURAL, known.namespace, known.name)
        if body is None or isinstance(body, KubeProblem):
            return False
        return (body["metadata"]["uid"], body["metadata"].get("generation", known.generation)) == (known.uid, known.generation)

    def updated(
        self, known: Checkpoint | None, group: StaticGroup, spec: StaticGroupSpec, history: History,
        settled: Settled | None, premise: Premise, *, editable: tuple[EditablePod, ...] = (),
    ) -> Checkpoint | None:
        """Bring a checkpoint of this round up to date without reading anything; None when the watch had a gap meanwhile."""
        if known is None or self.pods.epoch != known.epoch:
            return None
        return carried_over(known, self._view(group, spec, history, settled, premise, editable=editable), self.now_s())

    def editable(self, namespace: str, workload_name: str, others: Iterable[Incarnation]) -> tuple[EditablePod, ...]:
        """Return the living pods whose ids can be edited: those named after a workload, and those of `others`."""
        pods = {i.uid: i for i in (*self.pods.of_workload(namespace, workload_name), *others)}
        return tuple(
            EditablePod(
                name=f"{i.namespace}/{i.pod_name}",
                created_at_s=i.created_at_s,
                ready_since_s=i.ready_since_s if not i.restarts else None,
            )
            for i in pods.values()
            if i.state is IncarnationState.LIVE and i.object_present and not i.ids_are_fixed
        )

    def _forgotten(self, group: StaticGroup, spec: StaticGroupSpec, known: Checkpoint) -> Checkpoint:
        """Return a checkpoint of ids that were issued although nothing is remembered of their history."""
        if spec.identity.scope is not None:  # as old as they like
            return known.blinded(SpanReason.SCOPE_WRITTEN, since_s=SINCE_EVER_S, until_s=self.now_s())
        created = group.metadata.creation_timestamp
        since_s = created.timestamp() if created is not None else 0.0
        return known.blinded(SpanReason.MEMORY_LOST, since_s=since_s, until_s=self.now_s())

    def _view(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, settled: Settled | None, premise: Premise,
        read: SettledWorkload | None = None, *, words: bool = True, editable: tuple[EditablePod, ...] = (),
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
        epoch, before = self.pods.epoch, history.continuity
        may_be_anywhere = premise.is_doubted or (before is not None and before.ids_by_hand)
        return WatchView(
            epoch=epoch,
            timeline=self.pods.timeline,
            was_restored=self.pods.saw_restore,
            group_uid=group.metadata.uid,
            silent_s=max(0.0, self.pods.age_s()),
            workload_name=name,
            # An id that may be carried under any name may have been carried by a pod of whatever workload was out of sight.
            everywhere=self.pods.unbroken_since(namespace, workload="" if may_be_anywhere else name),
            of_every_workload=self.pods.unbroken_since(namespace),
            unbroken=unbroken,
            seats=tuple(_seat(o, pod, naming) for o, pod in pods if pod.object_present),
            editable=editable,
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
            are_ids_by_hand=premise.is_doubted,
            words=self.words() if words else (),
            swept=self.swept((namespace, group.metadata.name)) if words else frozenset(),
        )

    def _are_by_hand(
        self, group: StaticGroup, spec: StaticGroupSpec, history: History, shown: StaticGroupStatus | None, elsewhere: bool | None
    ) -> bool:
        """True when nobody keeps an id from being carried under any pod name, or one is.

        Notes
        -----
        An id that follows an annotation goes with it into a copy (`kubectl debug --copy-to --keep-annotations`). So it is asked of
        what injects now and of the pods that live, whatever injected their ids.
        """
        before, injected = history.continuity, shown.injected if shown is not None else None
        if elsewhere or (elsewhere is None and before is not None and before.ids_by_hand):
            return True
        if spec.identity.exclusive:
            return False
        is_acting = spec.mode is Mode.MANAGE and not spec.suspend
        chosen = injector(
            spec.identity.method, policy_served=self.policy_served(), webhook_served=self.webhook_served()
        )
        if not is_acting or chosen is InjectedMethod.NONE:
            return True
        # What was decided is in force once it is written; until then the injection reads what the API server has.
        in_force = [(i.method, i.id_template) for i in (history.injected, injected) if i is not None]
        if any(method == InjectedMethod.NONE or follows_annotation(identity_of(spec), t) for method, t in in_force):
            return True
        pods = self.pods.of_workload(group.metadata.namespace, spec.workload_ref.name)
        return bool(keep_ids_in_copies(spec, history, (p for p in pods if p.object_present)))

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
        read = await self.kube.read_workload(namespace, spec.workload_ref)
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
