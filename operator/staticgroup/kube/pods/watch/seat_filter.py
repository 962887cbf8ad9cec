"""Choose the pods that are looked at: all are watched, and those that cannot sit on a seat are dropped on arrival.

A pod that once could is looked at until its object goes, whatever it looks like later: its process may hold the id that an
annotation gave it, and only its end tells when no more. So the book holds as many pods as ever carried an id and still
exist, and of those that are gone no more than a bound (`book`).

A label selector would leave gaps just where harm begins: a pod whose label was never there (made by hand, or by
a controller before 1.28) or was taken off; and it shows a label edit as a deletion.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from ....api.names import INSTANCE_ID_ANNOTATION
from ...translate.carried_ids import names_an_id

_SEAT_NAME: Final = re.compile(r".+-(?:0|[1-9][0-9]*)")


def may_hold_a_seat(raw: object) -> bool:
    """True for a pod with a name as StatefulSets give them, or with an id of whatever kind; and for what has no name."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict):
        return True
    name, annotations = metadata.get("name"), metadata.get("annotations")
    if not isinstance(name, str) or _SEAT_NAME.fullmatch(name):
        return True
    if isinstance(annotations, dict) and any(key.startswith(INSTANCE_ID_ANNOTATION) for key in annotations):
        return True
    return any(names_an_id(name) for name in _variables(raw))


def uid_in(raw: object) -> str:
    """Return the uid of a raw pod; "" when it cannot be read."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _variables(raw: Any) -> Iterator[str]:
    """Yield the names of the environment variables of a pod's containers."""
    spec = raw.get("spec") if isinstance(raw, dict) else None
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in (spec.get(kind) or ()) if isinstance(spec, dict) else ():
            for variable in (container.get("env") or ()) if isinstance(container, dict) else ():
                if isinstance(variable, dict) and isinstance(variable.get("name"), str):
                    yield variable["name"]
