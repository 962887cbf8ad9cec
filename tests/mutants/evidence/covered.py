"""Faults that break no promise alone, each with the clause that makes up for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core import seats
from staticgroup.core.evidence import certificate
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.pods.records import PodRecords

from .faults import (
    Patch,
    all_of_those_shown,
    born_over_a_gap,
    by_id_only,
    judging,
    kept_over_restore,
    read_as_ended,
    required,
    some_seen,
    without,
)
from .mutants import Mutant


def _fault(name: str, variant: str, *patches: Patch, by: str, **order: Any) -> tuple[Mutant, str]:
    return Mutant(name=name, says=name, variant=variant, patches=patches, order=order), by


_small: dict[str, Any] = {"pods": 2}
COVERED = (
    _fault(
        "guard pod_present dropped",
        "force delete",
        without("pod_present"),
        **_small,
        by="chain_not_proven: the object is in the chain, and without a certificate it is alive",
    ),
    _fault(
        "guard expected_again dropped",
        "holds",
        without("expected_again"),
        by="a member whose ordinal the fresh read wants is not classified as departed",
    ),
    _fault(
        "guards two_incarnations, zombie and duplicate dropped",
        "force delete",
        without("two_incarnations", "zombie", "duplicate"),
        **_small,
        by="they report what the chain and the compare-and-set prevent",
    ),
    _fault(
        "guard suspended dropped",
        "holds",
        without("suspended"),
        by="a suspended StaticGroup has no round, and a spec that changed drops the leave",
    ),
    _fault(
        "living incarnation accepted",
        "force delete",
        judging(
            lambda c: tuple(
                replace(i, state=IncarnationState.DEAD) if i.state is IncarnationState.LIVE else i for i in c
            )
        ),
        **_small,
        by="pod_present while the object exists, suspicion once it is gone",
    ),
    _fault(
        "reason ContainerStatusUnknown accepted",
        "lost container",
        required(read_as_ended),
        by="a lost container has neither containerID nor finishedAt in its end",
    ),
    _fault(
        "phase of the controller manager's name accepted",
        "out-of-service",
        (certificate, "PHASE_MANAGERS_REFUSED", frozenset()),
        by="whoever writes a phase alone is not believed, whatever the name",
    ),
    _fault(
        "containers without a status skipped, all([])",
        "rejection",
        all_of_those_shown,
        by="a phase that was written without any entry has a writer who wrote no statuses",
    ),
    _fault(
        "birth kept over a gap",
        "never pulled, gap",
        (IncarnationBook, "_advance", born_over_a_gap(IncarnationBook._advance)),
        by="a gap holds for good",
    ),
    _fault(
        "certificate kept over an etcd restore",
        "etcd restore",
        (IncarnationBook, "take_after_restore", kept_over_restore),
        by="a noticed restore is a gap, and a gap holds for good",
    ),
    _fault(
        "empty chain accepted",
        "restart, rejection",
        (seats, "judge", some_seen),
        by="ledger, LIST and replay together always show a carrier of an id that is held",
    ),
    _fault(
        "incarnations of the pod name ignored",
        "force delete",
        (PodRecords, "chain", by_id_only(PodRecords.chain)),
        **_small,
        by="ids are never dropped, so each carrier is found by its id",
    ),
    _fault(
        "pod not read",
        "force delete",
        **_small,
        steps=("describe", "read workload", "barrier and chains", "leave"),
        by="the barrier, as long as it is set after the describe",
    ),
)
"""Faults that break no promise alone, each with what makes up for it; not counted as killed."""
