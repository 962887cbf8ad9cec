"""What the absence of a Node says of a suspect that ran there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.core.members.node_gone import CLOUDS, NodeLifecycle, may_be_gone
from unit.core.builders import NOW_S, suspect

ON_CLOUD = suspect(node_name="n7", provider="aws", placed_at_s=NOW_S - 600)


@pytest.mark.parametrize("provider", sorted(CLOUDS))
def test_gone_node_is_evidence_by_default_where_the_cloud_deletes_it_after_its_machine(provider: str) -> None:
    assert may_be_gone(replace(ON_CLOUD, provider=provider), NodeLifecycle.AUTO)


@pytest.mark.parametrize("provider", ["", "kind", "openstack", "vsphere"])
def test_any_other_gone_node_is_no_evidence_by_default(provider: str) -> None:
    """Another client may delete its object while the machine runs on."""
    assert not may_be_gone(replace(ON_CLOUD, provider=provider), NodeLifecycle.AUTO)


@pytest.mark.parametrize("lifecycle", [NodeLifecycle.CLOUD, NodeLifecycle.FIXED])
def test_every_gone_node_is_evidence_where_the_user_says_so(lifecycle: NodeLifecycle) -> None:
    assert may_be_gone(replace(ON_CLOUD, provider=""), lifecycle)


def test_no_gone_node_is_evidence_where_the_user_trusts_none() -> None:
    assert not may_be_gone(ON_CLOUD, NodeLifecycle.UNTRUSTED)


@pytest.mark.parametrize("lifecycle", list(NodeLifecycle))
def test_suspect_that_was_bound_to_no_node_or_several_has_none_to_be_gone(lifecycle: NodeLifecycle) -> None:
    assert not may_be_gone(replace(ON_CLOUD, node_name=""), lifecycle)
