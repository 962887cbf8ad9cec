"""Name the kinds of workload that a StaticGroup may point at, and what is known of each.

The one idea: what differs between kinds and no object says (who serves it, what its status means, how its pods are
rolled) stands here once; everything else is read from an object into one `core.workload.WorkloadView`.
Sources: StatefulSet of apps/v1; Strimzi's StrimziPodSetSpec, StrimziPodSetStatus, StrimziPodSetController and Labels;
RolloutSpec and createDesiredReplicaSet of Argo Rollouts.
"""

from dataclasses import dataclass
from typing import Final

from . import names

NAMED_DIGITS_MAX: Final = 9
"""Digits of an ordinal that the injection reads out of a pod's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKind:
    """Know one kind of workload.

    Parameters
    ----------
    group, plural: Where it is served.
    indexes_pods: Its controller labels each pod with its ordinal (KEP-4017); else the pod's name alone tells it.
    provider: What to install where it is not served.
    chart_value: Which chart value lets the operator read it and gives its pods ids.
    has_slots: Its pods get slots, because their names do not come back.
    hash_label: Of such a kind: the label of a pod that ends the name of its ReplicaSet, `<workload>-<hash>`.
    """

    kind: str
    group: str
    plural: str
    indexes_pods: bool
    provider: str
    chart_value: str
    has_slots: bool = False
    hash_label: str = ""


STATEFUL_SET: Final = WorkloadKind(
    kind="StatefulSet", group="apps", plural="statefulsets", indexes_pods=True,
    provider="Kubernetes", chart_value="watchNamespaces",
)  # fmt: skip
STRIMZI_POD_SET: Final = WorkloadKind(
    kind="StrimziPodSet", group="core.strimzi.io", plural="strimzipodsets",
    indexes_pods=False,
    provider="Strimzi's cluster operator with its CustomResourceDefinitions", chart_value="workloads.strimzi",
)  # fmt: skip
DEPLOYMENT: Final = WorkloadKind(
    kind="Deployment", group="apps", plural="deployments", indexes_pods=False,
    provider="Kubernetes", chart_value="workloads.deployments",
    has_slots=True, hash_label=names.POD_TEMPLATE_HASH_LABEL,
)  # fmt: skip
ARGO_ROLLOUT: Final = WorkloadKind(
    kind="Rollout", group="argoproj.io", plural="rollouts", indexes_pods=False,
    provider="Argo Rollouts with its CustomResourceDefinitions", chart_value="workloads.argoRollouts",
    has_slots=True, hash_label=names.ROLLOUT_HASH_LABEL,
)  # fmt: skip
WORKLOAD_KINDS: Final = (STATEFUL_SET, STRIMZI_POD_SET, DEPLOYMENT, ARGO_ROLLOUT)
SLOT_KINDS: Final = tuple(known for known in WORKLOAD_KINDS if known.has_slots)
KIND_OF: Final = {known.kind: known for known in WORKLOAD_KINDS}
"""By the name of the kind; the API server refuses a workloadRef of any other."""
