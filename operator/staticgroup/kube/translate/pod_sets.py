"""A StrimziPodSet as the decisions use it: what it wants are the pods that it lists, each a whole pod.

A listed pod with another name than its pods have makes the object malformed: it would have no seat, and its place would
seem departed.
Source: StrimziPodSetSpec, StrimziPodSetStatus and StrimziPodSetController of Strimzi.
"""

from ...api.workloads import STRIMZI_POD_SET
from ...core.ids.naming import ordinal_of_pod
from ...core.workload import WorkloadView
from .shape import Json, MalformedObject, WrongShapeError, object_of, objects_of, required_text_of, translated, whole_of
from .workloads import common_fields, with_pod_spec


def pod_set_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a StrimziPodSet as the API server sent it, or say which field has the wrong shape."""
    return translated(STRIMZI_POD_SET.kind, raw, _pod_set_view)


def _pod_set_view(raw: Json) -> WorkloadView:
    metadata, spec, status = (object_of(raw, key, "") for key in ("metadata", "spec", "status"))
    name = required_text_of(metadata, "name", "metadata")
    if not isinstance(spec.get("pods"), list):
        raise WrongShapeError("spec.pods", spec.get("pods"))
    pods = objects_of(spec, "pods", "spec")
    listed = {_ordinal(name, pod): pod for pod in pods}
    if len(listed) < len(pods):
        raise WrongShapeError("spec.pods[].metadata.name", pods)
    view = WorkloadView(
        **common_fields(metadata, status),
        kind=STRIMZI_POD_SET,
        replicas=len(listed),
        listed=tuple(sorted(listed)),
        start=min(listed, default=0),
        # Counts what is wanted and what is still to be deleted: never less than what exists.
        status_replicas=whole_of(status, "pods", "status"),
        ready_replicas=whole_of(status, "readyPods", "status"),
        updated_replicas=whole_of(status, "currentPods", "status"),
    )
    first = listed[min(listed)] if listed else {}
    return with_pod_spec(view, object_of(first, "spec", "spec.pods[]"), "spec.pods[].spec")


def _ordinal(name: str, pod: Json) -> int:
    """Return the ordinal of a listed pod."""
    pod_name = required_text_of(object_of(pod, "metadata", "spec.pods[]"), "name", "spec.pods[].metadata")
    ordinal = ordinal_of_pod(name, pod_name)
    if ordinal is None:
        raise WrongShapeError("spec.pods[].metadata.name", pod_name)
    return ordinal
