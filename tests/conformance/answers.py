"""Answers that have come, and of which kind they are."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def answered(answer: T | None) -> T:
    assert answer is not None, "the request still waits"
    return answer


def expect(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind)
    return answer
