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

from ..evidence.chain import KnownPod
from ..evidence.pod import NodeView
from .carriers import Suspect, digest_of

CLOUDS: Final = frozenset({"aws", "gce", "azure"})
"""Schemes of spec.providerID whose cloud controller deletes a Node only after its machine."""
WATCHED_S: Final = 60.0
"""A kubelet that takes over a Node shows what it does not run within seconds of its start."""


class NodeLifecycle(StrEnum):
    """What the deletion of a Node object says of its machine."""

    AUTO = "Auto"
    CLOUD = "Cloud"
    FIXED = "Fixed"
    UNTRUSTED = "Untrusted"


def machine_of(pod: KnownPod, node: NodeView | None) -> str:
    """Return what stands for the machine that a pod ran on whose object is gone; "" where that is not known for sure.

    Parameters
    ----------
    node: what is known of the Node of the pod's name, present or gone; None: nothing.

    Notes
    -----
    Another machine may have taken the Node over, while nobody watched or before this process saw it. Its kubelet shows
    the runs of pods that it finds bound to it as lost, unless their objects were gone before; so the Node has to be
    watched for a minute before the object goes.
    """
    if node is None or not node.machine or pod.has_lost_run:
        return ""
    is_watched = node.machine_since_s + WATCHED_S <= pod.since_s
    was_taken_over = pod.placed_at_s < node.other_until_s
    return digest_of(node.machine) if is_watched and not was_taken_over else ""


def may_be_gone(suspect: Suspect, known: NodeView | None, lifecycle: NodeLifecycle) -> bool:
    """Return True where the absence of the Node that a suspect ran on would tell that its machine is off.

    Parameters
    ----------
    known: what this process has seen of the Node of that name, present or gone. None: nothing, so that another machine
        may have taken it over before it went.
    """
    if known is None or not suspect.machine or suspect.machine != digest_of(known.machine):
        return False
    if lifecycle is NodeLifecycle.UNTRUSTED:
        return False
    return lifecycle is not NodeLifecycle.AUTO or suspect.provider in CLOUDS
