"""What the absence of a Node says of a suspect that ran there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import CLOCKS_APART_S
from staticgroup.core.members.node_gone import CLOUDS, WATCHED_S, NodeLifecycle, machine_of, may_be_gone
from unit.core.builders import NODE, NOW_S, known_pod, suspect

LOST = known_pod(state=PodState.SUSPECT, since_s=NOW_S, placed_at_s=NOW_S - 600)
WATCHED = replace(NODE, machine_since_s=NOW_S - WATCHED_S)
ON_CLOUD = suspect(node_name="n7", provider="aws", machine=machine_of(LOST, WATCHED))


@pytest.mark.parametrize("provider", sorted(CLOUDS))
def test_gone_node_is_evidence_by_default_where_the_cloud_deletes_it_after_its_machine(provider: str) -> None:
    assert may_be_gone(replace(ON_CLOUD, provider=provider), WATCHED, NodeLifecycle.AUTO)


@pytest.mark.parametrize("provider", ["", "kind", "openstack", "vsphere"])
def test_any_other_gone_node_is_no_evidence_by_default(provider: str) -> None:
    """Another client may delete its object while the machine runs on."""
    assert not may_be_gone(replace(ON_CLOUD, provider=provider), WATCHED, NodeLifecycle.AUTO)


@pytest.mark.parametrize("lifecycle", [NodeLifecycle.CLOUD, NodeLifecycle.FIXED])
def test_every_gone_node_is_evidence_where_the_user_says_so(lifecycle: NodeLifecycle) -> None:
    assert may_be_gone(replace(ON_CLOUD, provider=""), WATCHED, lifecycle)


def test_no_gone_node_is_evidence_where_the_user_trusts_none() -> None:
    assert not may_be_gone(ON_CLOUD, WATCHED, NodeLifecycle.UNTRUSTED)


@pytest.mark.parametrize("lifecycle", list(NodeLifecycle))
@pytest.mark.parametrize(
    ("found", "known"),
    [
        (replace(ON_CLOUD, machine=""), WATCHED),
        (ON_CLOUD, replace(WATCHED, machine="m2")),
        (ON_CLOUD, None),
    ],
    ids=["machine not known", "another machine had the Node last", "Node never seen by this process"],
)
def test_machine_that_is_not_known_for_sure_is_never_gone(found: Any, known: Any, lifecycle: NodeLifecycle) -> None:
    """What took the Node over while no operator lived is off, and the machine of the suspect runs on."""
    assert not may_be_gone(found, known, lifecycle)


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (LOST, replace(WATCHED, machine_since_s=NOW_S - WATCHED_S + 1)),
        (LOST, replace(WATCHED, other_until_s=NOW_S - 600 + CLOCKS_APART_S)),
        (LOST, replace(WATCHED, machine="")),
        (LOST, None),
        (replace(LOST, has_lost_run=True), WATCHED),
    ],
    ids=["lost too soon after it was first seen", "taken over since", "not registered", "never seen", "lost run"],
)
def test_machine_of_a_pod_is_known_only_where_its_node_was_watched(pod: Any, node: Any) -> None:
    assert machine_of(pod, node) == ""
