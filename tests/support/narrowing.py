"""Values of which a test expects that they are there, or of one type."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def some(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value


def of_type(kind: type[T], value: Any) -> T:
    """Return a value that must be of a type."""
    assert isinstance(value, kind), value
    return value
