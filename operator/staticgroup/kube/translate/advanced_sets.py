"""A StatefulSet of OpenKruise as the decisions use it: one of Kubernetes that may leave out ordinals.

Its controller makes as many pods as wanted and skips the ordinals that are reserved. It may roll in place: containers
restart with another image in the same pod, which keeps its uid and its id.
Sources: StatefulSetSpec, getStatefulSetReplicasRange and GetReserveOrdinalIntSet of OpenKruise.
"""

import re
from dataclasses import replace

from ...api.identifiers import EXPECTED_IDS_MAX
from ...api.workloads import ADVANCED_STATEFUL_SET
from ...core.workload import WorkloadView
from .shape import Json, MalformedObject, WrongShapeError, object_of, text_of, translated
from .workloads import stateful_set


def advanced_set_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a StatefulSet of OpenKruise as the API server sent it, or say which field has the wrong shape."""
    return translated(ADVANCED_STATEFUL_SET.kind, raw, _advanced_set_view)


def _advanced_set_view(raw: Json) -> WorkloadView:
    view, spec = stateful_set(raw), object_of(raw, "spec", "")
    rolling = object_of(object_of(spec, "updateStrategy", "spec"), "rollingUpdate", "spec.updateStrategy")
    # Only a new pod gets an id, so to a pod without one a roll in place is none.
    is_in_place = text_of(rolling, "podUpdatePolicy", "spec.updateStrategy.rollingUpdate") not in ("", "ReCreate")
    listed = _unreserved(view.start, view.replicas, _reserved(spec))
    return replace(
        view,
        kind=ADVANCED_STATEFUL_SET,
        listed=listed,
        start=listed[0] if listed else view.start,
        update_strategy="OnDelete" if is_in_place else view.update_strategy,
    )


def _reserved(spec: Json) -> list[range]:
    """Return the reserved ordinals, numbers and texts such as 3-5; as its controller none where one is malformed."""
    found = spec.get("reserveOrdinals") or []
    if not isinstance(found, list):
        raise WrongShapeError("spec.reserveOrdinals", found)
    texts = [each if isinstance(each, str) else f"{each}-{each}" for each in found]
    pairs = [re.fullmatch(r"([0-9]{1,10})-([0-9]{1,10})", text) for text in texts]
    ranges = [range(int(pair[1]), int(pair[2]) + 1) for pair in pairs if pair is not None]
    return sorted(ranges, key=lambda r: r.start) if len(ranges) == len(texts) and all(ranges) else []


def _unreserved(start: int, replicas: int, reserved: list[range]) -> tuple[int, ...] | None:
    """Return the ordinals that are wanted, as many as replicas; None where they are one range, or too many to list."""
    if replicas > EXPECTED_IDS_MAX or not any(r.start < start + replicas and start < r.stop for r in reserved):
        return None
    wanted: list[int] = []
    for hole in reserved:
        wanted += range(start, min(hole.start, start + replicas - len(wanted)))
        start = max(start, hole.stop)
    return (*wanted, *range(start, start + replicas - len(wanted)))
