"""Runs that a kubelet or runtime has lost: they may live on until their node runs under another boot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.evidence.certificate import STATUS_UNKNOWN
from staticgroup.core.evidence.chain import UNKNOWN_BOOT, KnownPod, PodState, fold
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, NodeView, PodVersion

from .builders import NODE, NOW_S
from .crashes import backs_off, crashed, over, runs, shows

FIRST, SECOND = replace(NODE, boot="b1"), replace(NODE, boot="b2")
UNKNOWN = over(reason="Unknown")


def lost(restarts: int = 1, name: str = "app") -> ContainerView:
    """Runs again in place of a run that its runtime has lost."""
    return runs(
        name,
        run=str(restarts),
        restarts=restarts,
        after=replace(UNKNOWN, container_id=f"containerd://{name}-{restarts - 1}"),
        was_lost=True,
    )


def first(name: str = "app") -> ContainerView:
    return runs(name, run="0")


def folded(*seen: tuple[PodVersion, NodeView | None]) -> KnownPod:
    known: KnownPod | None = None
    for number, (version, node) in enumerate(seen):
        known = fold(known, replace(version, resource_version=100 + number), node, from_birth=True, now_s=NOW_S)
    assert known is not None
    return known


def test_run_that_was_lost_is_dated_by_the_boot_under_which_its_pod_was_seen() -> None:
    assert folded((shows(first()), FIRST), (shows(lost()), FIRST)).lost_boot == "b1"


@pytest.mark.parametrize(
    "node", [None, NODE, replace(FIRST, is_out_of_service=True)], ids=["none", "tells no boot", "out of service"]
)
def test_run_that_was_lost_under_a_boot_that_is_not_known_may_live_under_any(node: NodeView | None) -> None:
    """Also where the node was known before: it may have booted since."""
    found = folded((shows(first()), FIRST), (shows(first()), node), (shows(lost()), FIRST))
    assert found.lost_boot == UNKNOWN_BOOT
    assert folded((shows(lost()), FIRST)).lost_boot == UNKNOWN_BOOT
    assert (
        fold(found, shows(lost(), resource_version=200), SECOND, from_birth=True, now_s=NOW_S).lost_boot == UNKNOWN_BOOT
    )


def test_next_loss_proves_nothing_about_one_under_an_unknown_boot() -> None:
    assert folded((shows(lost()), FIRST), (shows(lost()), FIRST), (shows(lost(2)), FIRST)).lost_boot == UNKNOWN_BOOT


def test_reboot_ends_every_run_that_was_lost_before() -> None:
    by_reboot = folded((shows(first()), FIRST), (shows(lost()), SECOND))
    assert not by_reboot.has_lost
    known_late = folded((shows(first()), FIRST), (shows(lost()), FIRST), (shows(lost()), SECOND))
    assert not known_late.has_lost


def test_run_that_is_lost_after_a_reboot_that_lost_one_is_another_loss() -> None:
    """Whether or not a version came between the two."""
    reboot = [(shows(first()), FIRST), (shows(lost()), SECOND)]
    again = (shows(lost(2)), SECOND)
    assert folded(*reboot, again).lost_boot == "b2"
    assert folded(*reboot, (shows(lost()), SECOND), again).lost_boot == "b2"
    assert not folded(*reboot, again, (shows(lost(2)), replace(NODE, boot="b3"))).has_lost


def test_later_runs_take_no_loss_back() -> None:
    found = folded(
        (shows(first()), FIRST), (shows(lost()), FIRST), (shows(crashed(run="1", restarts=1)), FIRST),
        (shows(runs(run="2", restarts=2, after="1")), FIRST), (shows(runs(run="3", restarts=3, after="2")), FIRST),
    )
    assert found.lost_boot == "b1"


def test_loss_of_one_container_is_not_dated_by_that_of_another() -> None:
    both = [(shows(first(), first("side")), FIRST), (shows(lost(), first("side")), FIRST)]
    later = folded(*both, (shows(lost(), runs("side", run="0")), SECOND), (shows(lost(), lost(name="side")), SECOND))
    assert later.lost_boot == "b2"


NOT_FOUND = EndView(container_id="", finished_at_s=None, reason=STATUS_UNKNOWN)
"""What a kubelet writes of a run that its runtime does not list."""


@pytest.mark.parametrize(
    "after",
    [
        (lost(), crashed(run="1", restarts=1, was_lost=True), runs(run="2", restarts=2, after="1")),
        (crashed(run="0", last_end=UNKNOWN), backs_off(run="0", last_end=UNKNOWN, was_lost=True), lost()),
        (
            ContainerView(name="app", phase=ContainerPhase.WAITING, restart_count=1, last_end=NOT_FOUND, was_lost=True),
            runs(run="1", restarts=1, after=NOT_FOUND, was_lost=True),
        ),
    ],
    ids=["runs, ends, runs again", "ended, backs off, runs again", "waits, runs again"],
)
def test_one_loss_is_one_however_its_versions_show_it(after: tuple[ContainerView, ...]) -> None:
    """A reboot has ended it, and no later version of the same loss may hold the pod."""
    assert not folded((shows(first()), FIRST), *((shows(container), SECOND) for container in after)).has_lost


ENDED = {"phase": "Succeeded", "is_deleting": True}


def test_end_of_the_last_run_proves_nothing_of_one_that_was_lost_in_the_same_version() -> None:
    """As the first version that a process sees may be the last."""
    terminal = shows(crashed(run="1", restarts=1, was_lost=True), **ENDED)
    found = folded((shows(first()), FIRST), (terminal, FIRST))
    assert (found.state, found.refusal_reason, found.lost_boot) == (PodState.LIVE, "ContainerLost", "b1")


def test_pod_that_ends_after_a_reboot_has_ended_whatever_was_lost_before() -> None:
    terminal = shows(crashed(run="1", restarts=1, was_lost=True), **ENDED)
    assert folded((shows(first()), FIRST), (shows(lost()), SECOND), (terminal, SECOND)).state is PodState.DEAD
    assert folded((shows(first()), FIRST), (shows(lost()), FIRST), (terminal, SECOND)).state is PodState.DEAD
