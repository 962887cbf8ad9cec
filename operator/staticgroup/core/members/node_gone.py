"""What the deletion of a Node object says of the pods that ran on it.

A suspect is ended when no Node has the name of its node, where Node objects are deleted only after the machine is off.
A Node made again under that name says nothing: its machine may have started the pod again.

Sources: k8s.io/cloud-provider, CloudNodeLifecycleController.MonitorNodes (a Node goes when InstanceExistsByProviderID
says no); InstanceExists of cloud-provider-aws (false once terminated), cloud-provider-gcp and cloud-provider-azure.
Karpenter let Node objects go once TerminateInstances had returned, until kubernetes-sigs/karpenter#1195 (issue 947).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ..evidence.pod import NodeView
from .carriers import Suspect

CLOUDS: Final = frozenset({"aws", "gce", "azure"})
"""Schemes of spec.providerID whose cloud controller deletes a Node only after its machine."""


class NodeLifecycle(StrEnum):
    """What the deletion of a Node object says of its machine."""

    AUTO = "Auto"
    CLOUD = "Cloud"
    FIXED = "Fixed"
    UNTRUSTED = "Untrusted"


def may_be_gone(suspect: Suspect, lifecycle: NodeLifecycle) -> bool:
    """True where the absence of the Node that a suspect ran on would tell that its machine is off."""
    if not suspect.node_name or lifecycle is NodeLifecycle.UNTRUSTED:
        return False
    return lifecycle is not NodeLifecycle.AUTO or suspect.provider in CLOUDS


def was_node_taken_over(suspect: Suspect, known: NodeView | None) -> bool:
    """True when another machine has taken over the Node of a suspect, so its deletion does not end the suspect.

    Parameters
    ----------
    known: what is known of the Node of that name, present or gone; None: nothing.
    """
    return known is not None and known.other_until_s > 0 and suspect.placed_at_s < known.other_until_s
