"""Answer one AdmissionReview: which ids a pod that is being created gets.

Nothing is remembered between two reviews. Each reads the StaticGroups of the pod's namespace consistently, so no answer
rests on the past: an id that must not be issued any more would let two members fence each other. Whatever goes wrong,
the pod is admitted as it is, counted, and named by the operator; it is a dynamic member then and fences no other.
Sources: AdmissionReview of admission.k8s.io/v1; `staticgroup.api.rendering`, to which the policy's CEL is held equal.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ...api.rendering import AgentImage, is_meant, json_patch, rendered
from ...api.resources.injected import InjectedMethod
from ...api.workloads import WORKLOAD_KINDS
from ...kube.problem import KubeProblem

log = logging.getLogger(__name__)

Json = dict[str, Any]
Read = Callable[[str], Awaitable[list[Json] | KubeProblem]]

_OWNERS: Final = frozenset(known.kind if not known.has_slots else "ReplicaSet" for known in WORKLOAD_KINDS)
"""A Deployment or Rollout has its pods by ReplicaSets."""


class Outcome(StrEnum):
    """What became of a review; the label of a metric."""

    INJECTED = "injected"
    NOTHING_MEANT = "nothing_meant"
    UNREADABLE = "unreadable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """Answer reviews.

    Parameters
    ----------
    read: lists the StaticGroups of a namespace consistently, as the API server gives them.
    agent, waiter: see `api.rendering.AgentImage`.
    """

    read: Read
    agent: AgentImage
    waiter: AgentImage

    async def answer(self, review: Json) -> tuple[Json, Outcome]:
        """Return the AdmissionReview that answers another one.

        Raises
        ------
        ValueError: the review has no uid, so no answer to it can be written.
        """
        request = review.get("request")
        if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
            raise ValueError("the review has no request with a uid")
        patch: list[Json] = []
        try:
            patch, outcome = await self._patch(request)
        except Exception:  # whatever it is: a pod must never be kept from starting
            log.exception("a pod is admitted without an id, because its review failed")
            outcome = Outcome.FAILED
        return _review(review, request["uid"], patch), outcome

    async def _patch(self, request: Json) -> tuple[list[Json], Outcome]:
        pod = request.get("object")
        is_new = request.get("operation") == "CREATE" and request.get("resource", {}).get("resource") == "pods"
        if not is_new or request.get("subResource") or not isinstance(pod, dict) or not _is_of_a_workload(pod):
            return [], Outcome.NOTHING_MEANT
        namespace = request["namespace"]
        # A pod that is being created has a namespace only where its creator wrote one.
        pod = pod | {"metadata": {"name": request.get("name", "")} | pod["metadata"] | {"namespace": namespace}}
        groups = await self.read(namespace)
        if isinstance(groups, KubeProblem):
            log.warning(
                "a pod is admitted without an id, because StaticGroups cannot be read",
                extra={"pod": f"{namespace}/{pod['metadata']['name']}", "problem": groups.message},
            )
            return [], Outcome.UNREADABLE
        given, has_failed = pod, False
        for group in sorted(groups, key=lambda g: g["metadata"]["name"]):
            try:
                if is_meant(pod, group, InjectedMethod.WEBHOOK):
                    given = rendered(given, group["status"]["injected"], self.agent, self.waiter)
            except Exception:  # as with the policy, a StaticGroup that fails takes no id from the others
                name = f"{namespace}/{group['metadata']['name']}"
                log.exception("a StaticGroup gives a pod nothing", extra={"static_group": name})
                has_failed = True
        patch = json_patch(pod, given)
        if has_failed:
            return patch, Outcome.FAILED
        return patch, Outcome.INJECTED if given is not pod else Outcome.NOTHING_MEANT


def _is_of_a_workload(pod: Json) -> bool:
    """Return whether a StaticGroup can mean a pod at all, before anything is read for it."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return any(o.get("controller") and o.get("kind") in _OWNERS for o in owners)


def _review(review: Json, uid: str, patch: list[Json]) -> Json:
    response: Json = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    return {
        "apiVersion": review.get("apiVersion", "admission.k8s.io/v1"), "kind": "AdmissionReview", "response": response
    }
