"""Read the fields of a raw object, each with the shape that its type has.

An absent field is empty. Each reader takes the object, the key and the path of the object, and raises WrongShapeError,
which names a field of another shape by its path and never by its value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any, Final, TypeVar

Json = dict[str, Any]
View = TypeVar("View")
Shape = TypeVar("Shape")
NAMES_MAX: Final = 4096
LENGTH_MAX: Final = 256
"""Characters of a name that is remembered; the longest of a framework has some 60."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedObject:
    """An object whose shape is not that of its type.

    Parameters
    ----------
    kind: Pod, Node or the kind of a workload.
    field: path of the field that has the wrong shape.
    found: name of the JSON type found there; never the value, which may be a secret.
    """

    kind: str
    field: str
    found: str


class WrongShapeError(Exception):
    """Carry the path of the offending field up to the function that translates the object."""

    def __init__(self, field: str, found: object) -> None:
        super().__init__(field)
        self.field = field
        self.found = "nothing" if found is None else type(found).__name__


def translated(kind: str, raw: object, read: Callable[[Json], View]) -> View | MalformedObject:
    """Return what a reader makes of a raw object of a kind, or which field has the wrong shape."""
    if not isinstance(raw, dict):
        return MalformedObject(kind=kind, field="", found=type(raw).__name__)
    try:
        return read(raw)
    except WrongShapeError as wrong:
        return MalformedObject(kind=kind, field=wrong.field, found=wrong.found)


def _found(parent: Json, key: str, path: str, shape: type[Shape]) -> Shape | None:
    """Return what is under a key; None when it is absent."""
    found = parent.get(key)
    if found is None or isinstance(found, shape):
        return found
    raise WrongShapeError(f"{path}.{key}", found)


def object_of(parent: Json, key: str, path: str) -> Json:
    """Return the object under a key; an empty one when it is absent."""
    return _found(parent, key, path, dict) or {}


def objects_of(parent: Json, key: str, path: str) -> list[Json]:
    """Return the list of objects under a key; an empty one when it is absent."""
    found = _found(parent, key, path, list) or []
    for entry in found:
        if not isinstance(entry, dict):
            raise WrongShapeError(f"{path}.{key}[]", entry)
    return found


def text_of(parent: Json, key: str, path: str) -> str:
    """Return the text under a key; "" when it is absent."""
    return _found(parent, key, path, str) or ""


def required_text_of(parent: Json, key: str, path: str) -> str:
    """Return the text under a key that has to be there and to say something."""
    found = text_of(parent, key, path)
    if not found:
        raise WrongShapeError(f"{path}.{key}", None)
    return found


def whole_of(parent: Json, key: str, path: str, default: int = 0) -> int:
    """Return the whole number under a key, or the default when it is absent."""
    found = _found(parent, key, path, int)
    if isinstance(found, bool):
        raise WrongShapeError(f"{path}.{key}", found)
    return default if found is None else found


def time_s_of(parent: Json, key: str, path: str) -> float | None:
    """Return the time under a key in seconds since the Unix epoch; None when it is absent."""
    found = text_of(parent, key, path)
    if not found:
        return None
    try:
        return datetime.fromisoformat(found).timestamp()
    except ValueError as error:
        raise WrongShapeError(f"{path}.{key}", found) from error


def remembered(say: Callable[[str], bool]) -> Callable[[str], bool]:
    """Cache the results of a function for the last NAMES_MAX names that are not too long.

    The same few names of variables come with every pod. But only the size of its pod limits a name (IsEnvVarName bounds
    letters, not length), and anybody may make pods: thousands of cached names of a MiB would take gigabytes.
    """
    known = lru_cache(maxsize=NAMES_MAX)(say)

    @wraps(say)
    def said(name: str) -> bool:
        return known(name) if len(name) <= LENGTH_MAX else say(name)

    return said
