"""Deliberate faults, each in the product's own code or in the order of its steps, and what kills them.

A mutant must be killed by the variant that it names: the search then ends with the shortest way to the broken promise.
Faults that another clause makes up for cannot be killed; `covered` lists them with that clause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from staticgroup.kube.pods.unwritten import UnwrittenEnds

from simulator.evidence.variant import VARIANTS, Variant
from staticgroup.core import plan, seats
from staticgroup.core.evidence import certificate, chain
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.status import memory
from staticgroup.kube.pods import book as incarnation_book
from staticgroup.kube.translate import pods

from .faults import (
    Patch,
    all_of_those_shown,
    all_read,
    any_epoch,
    blind_to,
    certify,
    continuous,
    dead_forgotten,
    judging,
    kubelet_seen_as,
    last_shown_only,
    narrow,
    never_bound,
    no_barrier,
    only_gc_refused,
    phase_rule,
    required,
    suspects_forgotten,
    uncapped,
    unlimited,
    vanished_is_dead,
    version_seen_as,
    without,
)


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
        return replace(next(v for v in VARIANTS if v.name == self.variant), **self.order)

    @contextmanager
    def applied(self) -> Iterator[Variant]:
        """Break the product for as long as the context lasts; gives the variant to search."""
        with ExitStack() as stack:
            for owner, attribute, broken in self.patches:
                stack.enter_context(patch.object(owner, attribute, broken))
            yield self.mutated()


def _mutant(name: str, says: str, variant: str, *patches: Patch, **order: Any) -> Mutant:
    return Mutant(name=name, says=says, variant=variant, patches=patches, order=order)


MUTANTS = (
    # certificates
    _mutant(
        "phase",
        "E1 without the phase rule: containers alone",
        "crash",
        (certificate, "_phase_refusal", only_gc_refused),
    ),
    _mutant(
        "podgc",
        "a phase written by PodGC counts",
        "lost node",
        (certificate, "_phase_refusal", version_seen_as(phase_rule, lambda v: replace(v, disruption_reason=""))),
    ),
    _mutant(
        "other writer",
        "a phase counts whose writer wrote no container statuses",
        "out-of-service",
        (
            certificate,
            "_phase_refusal",
            version_seen_as(phase_rule, lambda v: replace(v, phase_manager="", phase_has_statuses=True)),
        ),
    ),
    _mutant(
        "taint",
        "what is written for pods of an out-of-service node counts",
        "out-of-service, one name",
        kubelet_seen_as(is_out_of_service=False),
    ),
    _mutant("hostpid", "the end of a hostPID pod counts", "hostPID", kubelet_seen_as()),
    _mutant(
        "old kubelet", "the word of a 1.26 kubelet counts", "old kubelet", (certificate, "KUBELET_MINOR_MIN", 1)
    ),
    _mutant(
        "virtual kubelet", "the word of a virtual kubelet counts", "virtual kubelet", kubelet_seen_as(is_virtual=False)
    ),
    _mutant(
        "unknown kubelet",
        "a kubelet of unknown version counts as new",
        "unknown kubelet",
        kubelet_seen_as(kubelet_minor=36),
    ),
    _mutant(
        "containers",
        "E1 without the container rule: a terminal phase alone",
        "lost container",
        (certificate, "_container_refusal", lambda version, started: None),
    ),
    _mutant(
        "absent",
        "a phase that was written without any entry counts, entries that are not there are skipped: all([])",
        "rejection",
        (certificate, "_phase_refusal", version_seen_as(phase_rule, lambda v: replace(v, phase_has_statuses=True))),
        all_of_those_shown,
    ),
    _mutant(
        "first container",
        "only the first container is asked",
        "lost container",
        required(lambda v: replace(v, required=v.required[:1])),
    ),
    _mutant(
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
    ),
    _mutant(
        "birth over a restart",
        "a pod first seen by a LIST counts as seen from birth",
        "never pulled, restart",
        certify(runs_known=True),
    ),
    _mutant(
        "last word tells runs",
        "a terminal version counts as showing whatever ran before it",
        "never pulled, restart",
        (PodVersion, "tells_every_run", property(lambda v: bool(v.required))),
    ),
    _mutant(
        "container shown",
        "a container whose id was shown counts as never started",
        "never pulled",
        certify(started=frozenset()),
    ),
    _mutant(
        "another container shown",
        "a container's id is forgotten when another one's is shown",
        "never pulled, sidecar",
        (incarnation_book, "fold", last_shown_only(chain.fold)),
    ),
    _mutant(
        "restart count",
        "the restart count is not asked for a run",
        "never pulled",
        (pods, "_shows_a_run", blind_to("restartCount")),
    ),
    _mutant(
        "last state",
        "the last state is not asked for a run",
        "never pulled",
        (pods, "_shows_a_run", blind_to("lastState")),
    ),
    _mutant(
        "bound",
        "a pod that was bound and vanished counts as never bound",
        "force delete",
        (chain, "certify_unbound", never_bound(certificate.certify_unbound)),
    ),
    _mutant(
        "vanished",
        "a vanished object counts as an end",
        "force delete",
        (incarnation_book, "vanish", vanished_is_dead),
    ),
    # chain
    _mutant("newest", "evidence of the newest incarnation only", "force delete", judging(lambda c: c[-1:])),
    _mutant(
        "suspects",
        "suspects are left out of the chain",
        "force delete",
        judging(lambda c: tuple(i for i in c if i.state is not IncarnationState.SUSPECT)),
    ),
    _mutant("gap", "a gap of the watch is ignored", "watch gap", (seats, "judge", continuous)),
    _mutant(
        "epoch",
        "what is known under another epoch is believed after a gap",
        "watch gap",
        (seats, "is_continuous", any_epoch(seats.is_continuous)),
    ),
    _mutant(
        "ledger", "suspects are forgotten at a restart", "restart", (memory, "to_remember", suspects_forgotten)
    ),
    _mutant(
        "position",
        "the stored position passes ends that are in no ledger",
        "restart",
        (UnwrittenEnds, "durable_position", uncapped),
    ),
    _mutant(
        "evidence lost",
        "the dead are forgotten at a restart",
        "restart, rejection",
        (memory, "to_remember", dead_forgotten),
    ),
    # guards
    _mutant("no evidence", "guard chain_not_proven dropped", "force delete", without("chain_not_proven"), all_read()),
    _mutant(
        "living pod",
        "neither a living incarnation nor its object holds",
        "orderly",
        without("pod_present"),
        judging(
            lambda c: tuple(
                replace(i, state=IncarnationState.DEAD) if i.state is IncarnationState.LIVE else i for i in c
            )
        ),
    ),
    _mutant("barrier not heeded", "guard no_barrier dropped", "force delete", without("no_barrier"), **narrow),
    _mutant("hold", "guard hold_window dropped", "holds", without("hold_window")),
    _mutant("unscoped", "guard unscoped dropped", "stranger", without("unscoped")),
    _mutant(
        "budget",
        "the removal budget is dropped",
        "two threads",
        (plan, "_plan_removals", unlimited(plan._plan_removals)),
    ),
    # order
    _mutant(
        "no barrier", "the chain is taken from a watch that may lag", "force delete", steps=no_barrier, **narrow
    ),
    _mutant(
        "barrier first", "the barrier before the describe", "force delete", steps=("barrier", *no_barrier), **narrow
    ),
    _mutant(
        "reads first",
        "workload and pod are read, and the barrier set, before the describe",
        "force delete",
        steps=("read workload", "read pod", "describe", "barrier and chains", "leave"),
        **narrow,
    ),
    _mutant(
        "chains first",
        "the chain is taken before the barrier",
        "force delete",
        steps=("describe", "read workload", "read pod", "chains", "barrier", "leave"),
        **narrow,
    ),
    _mutant(
        "describe last",
        "the group is described after the evidence",
        "orderly",
        steps=("read workload", "read pod", "barrier and chains", "describe", "leave"),
        **narrow,
    ),
    _mutant("instance only", "the leave carries no member id", "orderly", instance_only_leave=True),
    _mutant(
        "intent unread",
        "the workload is not read after the describe",
        "holds",
        steps=("describe", "read pod", "barrier and chains", "leave"),
    ),
    _mutant("restore", "a read below the watch's position is not noticed", "etcd restore", restore_unnoticed=True),
    _mutant("suspension", "the spec is not looked at before the leave", "holds", suspension_unnoticed=True),
    # too strict
    _mutant(
        "every container",
        "an end needs an id of every container, though one never started",
        "never pulled, sidecar",
        (certificate, "_never_started", lambda container, started: not started),
    ),
    _mutant("too strict", "no kubelet is new enough", "orderly", (certificate, "KUBELET_MINOR_MIN", 99)),
)
