"""Runs that a kubelet or runtime has lost: they may live on, so their pod has no end any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.certificate import STATUS_UNKNOWN
from staticgroup.core.evidence.chain import KnownPod, PodState, fold
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion

from .builders import NODE, NOW_S
from .crashes import backs_off, crashed, over, runs, shows

UNKNOWN = over(reason="Unknown")
NOT_FOUND = EndView(container_id="", finished_at_s=None, reason=STATUS_UNKNOWN)
"""What a kubelet writes of a run that its runtime does not list."""
ENDED = {"phase": "Succeeded", "is_deleting": True}


def folded(*seen: PodVersion) -> KnownPod:
    known: KnownPod | None = None
    for number, version in enumerate(seen):
        known = fold(known, replace(version, resource_version=100 + number), NODE, from_birth=True, now_s=NOW_S)
    assert known is not None
    return known


@pytest.mark.parametrize(
    "shown",
    [
        runs(run="1", restarts=1, after=replace(UNKNOWN, container_id="containerd://app-0"), was_lost=True),
        crashed(run="1", restarts=1, was_lost=True),
        crashed(run="0", last_end=UNKNOWN),
        backs_off(run="0", last_end=UNKNOWN, was_lost=True),
        ContainerView(name="app", phase=ContainerPhase.WAITING, restart_count=1, last_end=NOT_FOUND, was_lost=True),
    ],
    ids=["runs again", "the next one crashed", "ended unseen", "backs off", "not found"],
)
def test_run_that_was_lost_is_known_however_a_version_shows_it_and_no_later_run_takes_that_back(
    shown: ContainerView,
) -> None:
    """Nor does the end of the last run, nor does a boot of its node: which boot the lost run belongs to is not known."""
    assert folded(shows(runs(run="0")), shows(shown)).has_lost_run
    later = (shows(runs(run="2", restarts=2, after="1")), shows(crashed(run="2", restarts=2), **ENDED))
    found = folded(shows(runs(run="0")), shows(shown), *later)
    assert (found.has_lost_run, found.state, found.refusal_reason) == (True, PodState.LIVE, "ContainerLost")


def test_run_that_never_began_is_not_lost() -> None:
    """The kubelet ends a container that it never started as ContainerStatusUnknown, without an id (TerminatePod)."""
    never = crashed(run="0", last_end=NOT_FOUND)
    assert not folded(shows(never)).has_lost_run
    assert not folded(shows(runs(run="0")), shows(crashed(run="0"))).has_lost_run


def test_end_of_the_last_run_proves_nothing_of_one_that_was_lost_in_the_same_version() -> None:
    """As the first version that a process sees may be the last."""
    found = folded(shows(runs(run="0")), shows(crashed(run="1", restarts=1, was_lost=True), **ENDED))
    assert (found.state, found.refusal_reason) == (PodState.LIVE, "ContainerLost")
