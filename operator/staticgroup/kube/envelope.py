"""Check that an answer is an object of Kubernetes of any kind: it has metadata, whose well-known fields are texts.

An answer without metadata, whatever its HTTP status, came from a load balancer, a proxy or another web server. It
counts as no answer, so that the readers of objects need not check again.
Source: ObjectMeta and ListMeta of meta/v1; resourceVersion as a number: KEP-5504.
"""

from typing import Any, Final, TypeGuard

Json = dict[str, Any]

_TEXTS: Final = ("namespace", "name", "uid", "resourceVersion", "continue")
_OBJECTS: Final = ("spec", "status", "data")
_OF_METADATA: Final = ("labels", "annotations")
_REVIEWS: Final = ("authorization.k8s.io", "authentication.k8s.io")
"""Groups of what is asked and not stored: what counts is its status."""
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_VERSION_DIGITS_MAX: Final = 20
"""Of an unsigned number of 64 bits."""


def is_version(text: object) -> bool:
    """Return whether something is a resourceVersion that can be compared."""
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX


def is_object(raw: object) -> TypeGuard[Json]:
    """Return whether something is an object of some kind."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(metadata, dict):
        return False
    return (
        all(metadata.get(key) is None or isinstance(metadata[key], str) for key in _TEXTS)
        and all(metadata.get(key) is None or isinstance(metadata[key], dict) for key in _OF_METADATA)
        and all(raw.get(key) is None or isinstance(raw[key], dict) for key in _OBJECTS)
        and is_version(metadata.get("resourceVersion"))
    )


def is_list(raw: object) -> bool:
    """Return whether something is a list of objects."""
    if not is_object(raw):
        return False
    items = raw.get("items")
    return items is None or (isinstance(items, list) and all(is_object(item) for item in items))


def is_event(event: Json) -> bool:
    """Return whether something is an event of a watch: a change with its object, or an ERROR with whatever it says."""
    kind = event.get("type")
    return kind == "ERROR" or (kind in _CHANGES and is_object(event.get("object")))


def is_answer(decoded: object, *, verb: str, group: str) -> bool:
    """Return whether something answers a call of a resource."""
    if group in _REVIEWS:
        return isinstance(decoded, dict) and isinstance(decoded.get("status"), dict)
    return is_list(decoded) if verb == "list" else is_object(decoded)
