"""Whose the history in a status is, as the API server notes who wrote which field last (metadata.managedFields, KEP-555).

A copy of before, put back while no operator ran (a backup, an edit undone), is whole in itself and yet lacks what was learned since.
Where somebody has cleared the owners, nothing is noted until the next apply (seen on 1.36.3), so a history that nobody owns is no better
than another manager's.
"""

from __future__ import annotations

from typing import Any

from ...api import names


def digest_of(body: dict[str, Any]) -> str:
    """Return the digest of the history that the status of a StaticGroup tells; "" where it tells none."""
    return str(((body.get("status") or {}).get("continuity") or {}).get("digest") or "")


def has_history(body: dict[str, Any]) -> bool:
    """True when the status of a StaticGroup tells a history that another process may go on from."""
    return bool(digest_of(body))


def is_put_back(body: dict[str, Any]) -> bool:
    """True when the operator is not known to have written the history in a status."""
    if not has_history(body):
        return False
    owners = {
        entry.get("manager")
        for entry in body["metadata"].get("managedFields") or ()
        if "f:digest" in (((entry.get("fieldsV1") or {}).get("f:status") or {}).get("f:continuity") or {})
    }
    # Who writes another value takes the field from us; of fields with the same value both remain owners.
    return names.FIELD_MANAGER not in owners
