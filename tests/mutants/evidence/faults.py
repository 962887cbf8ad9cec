"""The product's functions with one rule broken, for the mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from staticgroup.kube.pods.unwritten import UnwrittenEnds

from staticgroup.core import guards, plan, seats
from staticgroup.core.evidence import certificate, chain
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import ChainClause, ChainVerdict, Incarnation, IncarnationState
from staticgroup.core.evidence.pod import ContainerPhase, PodVersion
from staticgroup.core.status import memory
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.translate import pods

Patch = tuple[object, str, Any]


def without(*names: str) -> Patch:
    """Drop guards from the ordered tuple."""
    kept = tuple(g for g in guards.GUARDS if g.__name__ not in names)
    return plan, "first_hit", partial(guards.first_hit, guards=kept)


def version_seen_as(original: Callable[..., Any], change: Callable[[PodVersion], PodVersion]) -> Callable[..., Any]:
    return lambda version, *rest, **more: original(change(version), *rest, **more)


def judging(keep: Callable[[tuple[Incarnation, ...]], tuple[Incarnation, ...]]) -> Patch:
    """Let `judge` see only some of the incarnations."""

    def judge(instance_id: str, incarnations: Any, **known: Any) -> ChainVerdict:
        every = tuple(sorted(incarnations, key=lambda i: i.resource_version))
        return chain.judge(instance_id, keep(every), **known)

    return seats, "judge", judge


def all_read() -> Patch:
    """Read every departed seat afresh, proven or not."""
    return plan, "reads_needed", plan.departed


def continuous(instance_id: str, incarnations: Any, **known: Any) -> ChainVerdict:
    return chain.judge(instance_id, incarnations, **(known | {"continuous": True}))


def certify(**claimed: Any) -> Patch:
    original = certificate.certify
    return chain, "certify", lambda version, node, **known: original(version, node, **(known | claimed))


def last_shown_only(original: Callable[..., Any]) -> Callable[..., Incarnation]:
    """Keep of the containers that ran those of the newest version that shows any."""

    def fold(known: Any, version: PodVersion, *rest: Any, **more: Any) -> Incarnation:
        kept = known and replace(known, started_containers=frozenset() if version.started_containers else known.started_containers)
        folded: Incarnation = original(kept, version, *rest, **more)
        return folded

    return fold


def born_over_a_gap(original: Callable[..., Incarnation]) -> Callable[..., Incarnation]:
    """Take what a LIST shows as if no version had been skipped before it."""

    def advance(self: IncarnationBook, before: Any, version: PodVersion, **how: bool) -> Incarnation:
        return original(self, before, version, **(how | {"in_order": True}))

    return advance


def blind_to(key: str) -> Callable[..., bool]:
    """Look for traces of a run in everything but one field of a status entry."""
    return lambda entry: shows_a_run({k: v for k, v in entry.items() if k != key})


def vanished_is_dead(known: Incarnation, *, last: PodVersion | None = None, now_s: float) -> Incarnation:
    gone = replace(known, object_present=False)
    if known.certificate is not None:
        return gone
    proof = Certificate(kind=CertificateKind.ENDED, resource_version=0, statement="")
    return replace(gone, state=IncarnationState.DEAD, certificate=proof)


def only_gc_refused(version: PodVersion) -> Any:
    if version.disruption_reason != "DeletionByPodGC":
        return None
    return certificate.Refusal(clause="PodGC", reason=certificate.RefusalReason.POD_GARBAGE_COLLECTOR)


def any_epoch(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_continuous(snapshot: Any, history: Any, ordinal: Any) -> bool:
        return original(replace(snapshot, watch_epoch=snapshot.continuity.epoch), history, ordinal)

    return is_continuous


def unlimited(original: Callable[..., Any]) -> Callable[..., Any]:
    def unlimited(spec: Any, *rest: Any) -> Any:
        removal = spec.removal.model_copy(update={"max_percent_of_group": 100})
        return original(spec.model_copy(update={"removal": removal}), *rest)

    return unlimited


def suspects_forgotten(incarnations: Any) -> tuple[Incarnation, ...]:
    return tuple(i for i in memory_to_remember(incarnations) if i.state is not IncarnationState.SUSPECT)


def dead_forgotten(incarnations: Any) -> tuple[Incarnation, ...]:
    return tuple(i for i in memory_to_remember(incarnations) if i.state is not IncarnationState.DEAD)


def uncapped(self: UnwrittenEnds, scope: str, position: int) -> int:
    return position


memory_to_remember = memory.to_remember
shows_a_run = pods._shows_a_run
phase_rule, kubelet_rule, containers_rule = (
    certificate._phase_refusal,
    certificate.kubelet_refusal,
    certificate._container_refusal,
)
narrow: dict[str, Any] = {"lags": True, "pods": 2}
no_barrier = ("describe", "read workload", "read pod", "chains", "leave")


def _those_shown(version: PodVersion, started: frozenset[str] | None) -> Any:
    shown = tuple(c for c in version.required if c.phase is not ContainerPhase.ABSENT)
    return containers_rule(replace(version, required=shown), started) if shown else None


all_of_those_shown: Patch = (certificate, "_container_refusal", _those_shown)


def kubelet_seen_as(**changes: Any) -> Patch:
    def refusal(version: PodVersion, node: Any) -> Any:
        return kubelet_rule(replace(version, host_pid=False), node and replace(node, **changes))

    return certificate, "kubelet_refusal", refusal


def required(change: Callable[[PodVersion], PodVersion]) -> Patch:
    return certificate, "_container_refusal", version_seen_as(containers_rule, change)


def read_as_ended(version: PodVersion) -> PodVersion:
    """Take the reason ContainerStatusUnknown away, but not what is missing beside it."""
    return replace(version, required=tuple(replace(c, reason="") for c in version.required))


def some_seen(instance_id: str, incarnations: Any, **known: Any) -> ChainVerdict:
    verdict = chain.judge(instance_id, incarnations, **known)
    return replace(verdict, clause=ChainClause.PROVEN) if verdict.clause is ChainClause.UNSEEN else verdict


def by_id_only(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, namespace, pod_names, instance_ids: original(self, namespace, (), instance_ids)


def never_bound(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda version, **known: original(replace(version, node_name=""), ever_bound=False)


def kept_over_restore(self: IncarnationBook, version: PodVersion) -> Any:
    return self.take(version, is_deleted=False, in_order=False)
