"""Records the writers of fields in metadata.managedFields, as an API server does (KEP-555)."""

from __future__ import annotations

from typing import Final

from .objects import STATIC_GROUPS, Json, time_text

OWNED_FIELDS: Final = ("phase", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
"""Fields of a pod's status whose writer matters; lists of containers are owned as a whole."""


def with_owner_of_history(resource: str, after: Json, before: Json, manager: str, *, is_apply: bool) -> Json:
    """Record the writer of another history in the managedFields of a StaticGroup.

    Source: seen on 1.36.3: where they were cleared nothing is recorded until the next apply.
    """
    if resource != STATIC_GROUPS:
        return after
    digest, old = (((o.get("status") or {}).get("continuity") or {}).get("digest") for o in (after, before))
    is_noted = is_apply or old is None or bool(before["metadata"].get("managedFields"))
    if not is_noted or (digest == old and before["metadata"].get("managedFields")):
        return after
    entry = {"manager": manager, "subresource": "status", "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}}}
    return {**after, "metadata": {**after["metadata"], "managedFields": [entry] if digest is not None else []}}


def with_owners(after: Json, before: Json, manager: str, at_s: float) -> Json:
    """Record in metadata.managedFields who changed which of `OWNED_FIELDS`.

    Source: seen on 1.36.3: an Update that changes a field takes it from its owner; one that repeats its value does not.
    """
    new, old = after.get("status") or {}, before.get("status") or {}
    changed = [name for name in OWNED_FIELDS if new.get(name) != old.get(name)]
    if not changed:
        return after
    entries = [
        e | {"fieldsV1": {"f:status": kept}}
        for e in after["metadata"].get("managedFields") or ()
        if (kept := {k: v for k, v in e["fieldsV1"]["f:status"].items() if k.removeprefix("f:") not in changed})
    ]
    mine = [e for e in entries if e["manager"] == manager]
    owned = {k: v for e in mine for k, v in e["fieldsV1"]["f:status"].items()}
    owned |= {f"f:{name}": {} for name in changed if new.get(name) is not None}
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time_text(at_s),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": owned},
        "subresource": "status",
    }
    others = [e for e in entries if e["manager"] != manager]
    return {**after, "metadata": {**after["metadata"], "managedFields": [*others, entry] if owned else others}}
