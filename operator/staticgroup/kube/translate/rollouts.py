"""A Rollout of Argo as the decisions use it: a Deployment that may stop half-way, or begin its new pods beside the old.

A canary without steps is a rolling update. Between steps it stands still, perhaps for days, so no slot is kept for pods
of later steps. Other colours, canaries under a traffic router and steps with a surge begin pods beside as many old ones
as are wanted, which end once those are Ready: so no pod waits for a slot that nobody is giving up.
Sources: RolloutSpec and RolloutStatus; resolveFenceposts in utils/replicaset, whose default "25" is a percentage;
CalculateReplicaCountsForBasicCanary and CalculateReplicaCountsForTrafficRoutedCanary.
"""

from ...api.workloads import ARGO_ROLLOUT, DEPLOYMENT
from ...core.workload import WorkloadView
from .deployments import rollout_of, slotted_view
from .shape import Json, MalformedObject, WrongShapeError, object_of, objects_of, text_of, translated


def rollout_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a Rollout as the API server sent it, or say which field has the wrong shape."""
    return translated(ARGO_ROLLOUT.kind, raw, _rollout_view)


def deployment_of(raw: Json) -> str:
    """Return the Deployment whose pod template a Rollout has; "" where it has its own, or that of another kind."""
    spec = raw.get("spec")
    ref = spec.get("workloadRef") if isinstance(spec, dict) else None
    return str(ref.get("name") or "") if isinstance(ref, dict) and ref.get("kind") == DEPLOYMENT.kind else ""


def _rollout_view(raw: Json) -> WorkloadView:
    spec, status = object_of(raw, "spec", ""), object_of(raw, "status", "")
    if not object_of(spec, "template", "spec"):
        raise WrongShapeError("spec.template", None)
    observed = text_of(status, "observedGeneration", "status") or "0"
    if not (observed.isascii() and observed.isdigit()) or len(observed) > 18:
        raise WrongShapeError("status.observedGeneration", observed)
    strategy, path = object_of(spec, "strategy", "spec"), "spec.strategy.canary"
    canary = object_of(strategy, "canary", "spec.strategy")
    steps = objects_of(canary, "steps", path)
    others = (strategy.get("blueGreen"), canary.get("trafficRouting"))
    has_surge = canary.get("maxSurge") not in (0, "0", "0%")
    begins_beside = any(each is not None for each in others) or bool(steps and has_surge)
    stops = bool(begins_beside or steps or status.get("abort") or status.get("pauseConditions"))
    rollout = rollout_of(spec, canary, path, is_paused=stops, begins_beside=begins_beside)
    return slotted_view(raw, status | {"observedGeneration": int(observed)}, ARGO_ROLLOUT, rollout)
