"""Deliberate faults, each in the product's own code or in the order of its steps, and what kills them.

A mutant must be killed by the variant that it names: the search then ends with the shortest way to the broken promise.
Faults that another clause makes up for cannot be killed here; they are listed with the clause that covers them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from staticgroup.core import certificate, chain, memory, plan
from staticgroup.core.chain import IncarnationState
from staticgroup.core.injection import plan_injection
from staticgroup.kube import incarnation_book
from staticgroup.kube.incarnation_book import IncarnationBook
from staticgroup.kube.translate import pods

from .faults import (
    Patch,
    all_of_those_shown,
    blind_to,
    born_over_a_gap,
    by_id_only,
    certify,
    continuous,
    dead_forgotten,
    judging,
    kept_over_restore,
    kubelet_seen_as,
    last_shown_only,
    narrow,
    never_bound,
    new_epoch,
    no_barrier,
    only_gc_refused,
    phase_rule,
    read_as_ended,
    required,
    some_seen,
    suspects_forgotten,
    uncapped,
    unlimited,
    vanished_is_dead,
    version_seen_as,
    without,
)
from .variant import Variant, variant_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault.

    Parameters
    ----------
    says: what is broken. variant: where it must be found.
    patches: (owner, attribute, replacement) in the product. order: changed fields of the variant.
    """

    name: str
    says: str
    variant: str
    patches: tuple[Patch, ...] = ()
    order: dict[str, Any] = field(default_factory=dict)

    def mutated(self) -> Variant:
        """Return the variant with the changed order."""
        return replace(variant_named(self.variant), **self.order)

    @contextmanager
    def applied(self) -> Iterator[Variant]:
        """Break the product for as long as the context lasts; gives the variant to search."""
        with ExitStack() as stack:
            for owner, attribute, broken in self.patches:
                stack.enter_context(patch.object(owner, attribute, broken))
            yield self.mutated()


def _mutants() -> Iterator[Mutant]:
    def mutant(name: str, says: str, variant: str, *patches: Patch, **order: Any) -> Mutant:
        return Mutant(name=name, says=says, variant=variant, patches=patches, order=order)

    # certificates
    yield mutant(
        "phase",
        "E1 without the phase rule: containers alone",
        "crash",
        (certificate, "_phase_refusal", only_gc_refused),
    )
    yield mutant(
        "podgc",
        "a phase written by PodGC counts",
        "lost node",
        (certificate, "_phase_refusal", version_seen_as(phase_rule, lambda v: replace(v, disruption_reason=""))),
    )
    yield mutant(
        "other writer",
        "a phase counts whose writer wrote no container statuses",
        "out-of-service",
        (
            certificate,
            "_phase_refusal",
            version_seen_as(phase_rule, lambda v: replace(v, phase_manager="", phase_has_statuses=True)),
        ),
    )
    yield mutant(
        "oath",
        "what is written for pods of an out-of-service node counts",
        "out-of-service, one name",
        kubelet_seen_as(is_out_of_service=False),
    )
    yield mutant("hostpid", "the end of a hostPID pod counts", "hostPID", kubelet_seen_as())
    yield mutant(
        "old kubelet", "the word of a 1.26 kubelet counts", "old kubelet", (certificate, "KUBELET_MINOR_MIN", 1)
    )
    yield mutant(
        "virtual kubelet", "the word of a virtual kubelet counts", "virtual kubelet", kubelet_seen_as(is_virtual=False)
    )
    yield mutant(
        "unknown kubelet",
        "a kubelet of unknown version counts as new",
        "unknown kubelet",
        kubelet_seen_as(kubelet_minor=36),
    )
    yield mutant(
        "containers",
        "E1 without the container rule: a terminal phase alone",
        "lost container",
        (certificate, "_container_refusal", lambda version, started: None),
    )
    yield mutant(
        "absent",
        "a phase that was written without any entry counts, entries that are not there are skipped: all([])",
        "rejection",
        (certificate, "_phase_refusal", version_seen_as(phase_rule, lambda v: replace(v, phase_has_statuses=True))),
        all_of_those_shown,
    )
    yield mutant(
        "first container",
        "only the first container is asked",
        "lost container",
        required(lambda v: replace(v, required=v.required[:1])),
    )
    yield mutant(
        "lost container",
        "a container that the kubelet lost counts as ended",
        "lost container",
        required(
            lambda v: replace(
                v,
                required=tuple(
                    replace(c, reason="", container_id="x", finished_at="x")
                    if c.reason == "ContainerStatusUnknown"
                    else c
                    for c in v.required
                ),
            )
        ),
    )
    yield mutant(
        "birth over a restart",
        "a pod first seen by a LIST counts as seen from birth",
        "never pulled, restart",
        certify(seen_from_birth=True),
    )
    yield mutant(
        "container shown",
        "a container whose id was shown counts as never started",
        "never pulled",
        certify(started=frozenset()),
    )
    yield mutant(
        "another container shown",
        "a container's id is forgotten when another one's is shown",
        "never pulled, sidecar",
        (incarnation_book, "fold", last_shown_only(chain.fold)),
    )
    yield mutant(
        "restart count",
        "the restart count is not asked for a run",
        "never pulled",
        (pods, "_shows_a_run", blind_to("restartCount")),
    )
    yield mutant(
        "last state",
        "the last state is not asked for a run",
        "never pulled",
        (pods, "_shows_a_run", blind_to("lastState")),
    )
    yield mutant(
        "bound",
        "a pod that was bound and vanished counts as never bound",
        "force delete",
        (chain, "certify_unbound", never_bound(certificate.certify_unbound)),
    )
    yield mutant(
        "vanished",
        "a vanished object counts as an end",
        "force delete",
        (incarnation_book, "vanish", vanished_is_dead),
    )
    # chain
    yield mutant("newest", "evidence of the newest incarnation only", "force delete", judging(lambda c: c[-1:]))
    yield mutant(
        "suspects",
        "suspects are left out of the chain",
        "force delete",
        judging(lambda c: tuple(i for i in c if i.state is not IncarnationState.SUSPECT)),
    )
    yield mutant("gap", "a gap of the watch is ignored", "watch gap", (plan, "judge", continuous))
    yield mutant(
        "epoch",
        "a new epoch is written after a gap",
        "watch gap",
        (plan, "plan_injection", new_epoch(plan_injection)),
    )
    yield mutant(
        "ledger", "suspects are forgotten at a restart", "restart", (memory, "to_remember", suspects_forgotten)
    )
    yield mutant(
        "position",
        "the stored position passes ends that are in no ledger",
        "restart",
        (IncarnationBook, "durable_position", uncapped),
    )
    yield mutant(
        "evidence lost",
        "the dead are forgotten at a restart",
        "restart, rejection",
        (memory, "to_remember", dead_forgotten),
    )
    # guards
    yield mutant("no evidence", "guard chain_not_proven dropped", "force delete", without("chain_not_proven"))
    yield mutant(
        "living pod",
        "neither a living incarnation nor its object holds",
        "orderly",
        without("pod_present"),
        judging(
            lambda c: tuple(
                replace(i, state=IncarnationState.DEAD) if i.state is IncarnationState.LIVE else i for i in c
            )
        ),
    )
    yield mutant("barrier not heeded", "guard no_barrier dropped", "force delete", without("no_barrier"), **narrow)
    yield mutant("hold", "guard hold_window dropped", "holds", without("hold_window"))
    yield mutant("unscoped", "guard unscoped dropped", "stranger", without("unscoped"))
    yield mutant(
        "budget",
        "the removal budget is dropped",
        "two threads",
        (plan, "_plan_removals", unlimited(plan._plan_removals)),
    )
    # order
    yield mutant(
        "no barrier", "the chain is taken from a watch that may lag", "force delete", steps=no_barrier, **narrow
    )
    yield mutant(
        "barrier first", "the barrier before the describe", "force delete", steps=("barrier", *no_barrier), **narrow
    )
    yield mutant(
        "reads first",
        "workload and pod are read, and the barrier set, before the describe",
        "force delete",
        steps=("read workload", "read pod", "describe", "barrier and chains", "leave"),
        **narrow,
    )
    yield mutant(
        "chains first",
        "the chain is taken before the barrier",
        "force delete",
        steps=("describe", "read workload", "read pod", "chains", "barrier", "leave"),
        **narrow,
    )
    yield mutant(
        "describe last",
        "the group is described after the evidence",
        "orderly",
        steps=("read workload", "read pod", "barrier and chains", "describe", "leave"),
        **narrow,
    )
    yield mutant("instance only", "the leave carries no member id", "orderly", instance_only_leave=True)
    yield mutant(
        "intent unread",
        "the workload is not read after the describe",
        "holds",
        steps=("describe", "read pod", "barrier and chains", "leave"),
    )
    yield mutant("restore", "a read below the watch's position is not noticed", "etcd restore", restore_unnoticed=True)
    yield mutant("suspension", "the spec is not looked at before the leave", "holds", suspension_unnoticed=True)
    # too strict
    yield mutant(
        "every container",
        "an end needs an id of every container, though one never started",
        "never pulled, sidecar",
        (certificate, "_never_started", lambda container, started: not started),
    )
    yield mutant("too strict", "no kubelet is new enough", "orderly", (certificate, "KUBELET_MINOR_MIN", 99))


MUTANTS = tuple(_mutants())


def _covered() -> Iterator[tuple[Mutant, str]]:
    def fault(name: str, variant: str, *patches: Patch, by: str, **order: Any) -> tuple[Mutant, str]:
        return Mutant(name=name, says=name, variant=variant, patches=patches, order=order), by

    small: dict[str, Any] = {"pods": 2}
    yield fault(
        "guard pod_present dropped",
        "force delete",
        without("pod_present"),
        **small,
        by="chain_not_proven: the object is in the chain, and without a certificate it is alive",
    )
    yield fault(
        "guard expected_again dropped",
        "holds",
        without("expected_again"),
        by="a member whose ordinal the fresh read wants is not classified as departed",
    )
    yield fault(
        "guards two_incarnations, zombie and duplicate dropped",
        "force delete",
        without("two_incarnations", "zombie", "duplicate"),
        **small,
        by="they report what the chain and the compare-and-set prevent",
    )
    yield fault(
        "guard suspended dropped",
        "holds",
        without("suspended"),
        by="a suspended StaticGroup has no round, and a spec that changed drops the leave",
    )
    yield fault(
        "living incarnation accepted",
        "force delete",
        judging(
            lambda c: tuple(
                replace(i, state=IncarnationState.DEAD) if i.state is IncarnationState.LIVE else i for i in c
            )
        ),
        **small,
        by="pod_present while the object exists, suspicion once it is gone",
    )
    yield fault(
        "reason ContainerStatusUnknown accepted",
        "lost container",
        required(read_as_ended),
        by="a lost container has neither containerID nor finishedAt in its end",
    )
    yield fault(
        "phase of the controller manager's name accepted",
        "out-of-service",
        (certificate, "PHASE_MANAGERS_REFUSED", frozenset()),
        by="whoever writes a phase alone is not believed, whatever the name",
    )
    yield fault(
        "containers without a status skipped, all([])",
        "rejection",
        all_of_those_shown,
        by="a phase that was written without any entry has a writer who wrote no statuses",
    )
    yield fault(
        "birth kept over a gap",
        "never pulled, gap",
        (IncarnationBook, "_advance", born_over_a_gap(IncarnationBook._advance)),
        by="a gap holds for good",
    )
    yield fault(
        "certificate kept over an etcd restore",
        "etcd restore",
        (IncarnationBook, "take_after_restore", kept_over_restore),
        by="a noticed restore is a gap, and a gap holds for good",
    )
    yield fault(
        "empty chain accepted",
        "restart, rejection",
        (plan, "judge", some_seen),
        by="ledger, LIST and replay together always show a carrier of an id that is held",
    )
    yield fault(
        "incarnations of the pod name ignored",
        "force delete",
        (IncarnationBook, "chain", by_id_only(IncarnationBook.chain)),
        **small,
        by="ids are never dropped, so each carrier is found by its id",
    )
    yield fault(
        "pod not read",
        "force delete",
        **small,
        steps=("describe", "read workload", "barrier and chains", "leave"),
        by="the barrier, as long as it is set after the describe",
    )


COVERED = tuple(_covered())
"""Faults that break no promise alone, each with what makes up for it; not counted as killed."""


def mutant_named(name: str) -> Mutant:
    """Return a mutant by its name."""
    return next(m for m in MUTANTS if m.name == name)
