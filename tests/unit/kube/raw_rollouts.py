"""Raw Rollouts of Argo, in the middle of an update."""

from __future__ import annotations

from typing import Any

from unit.kube.raw_objects import Json


def argo_rollout(*, strategy: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"terminationGracePeriodSeconds": 45, "containers": [{"name": "app"}]}}
    return {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"namespace": "shop", "name": "web", "uid": "r-1", "generation": 4},
        "spec": {"replicas": 5, "template": template, "strategy": strategy or {"canary": {}}, **spec},
        "status": {"observedGeneration": "3", "replicas": 6, "readyReplicas": 4, "updatedReplicas": 2, **(status or {})},
    }  # fmt: skip
