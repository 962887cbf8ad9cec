"""Evaluate the rules of our CRDs in Python, as far as they go: logic, sizes, texts and lists, in CEL's words.

What an API server says of them is asked in `tests/operator/test_manifests.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, SimpleNamespace
from typing import Any

_STRING = re.compile(r"'[^']*'")
_PART = r"(?:[^()?:]|\([^()]*\))*"
_CHOICE = re.compile(rf"\(({_PART}) \? ({_PART}) : ({_PART})\)")


class _Text(str):
    __slots__ = ()

    def contains(self, part: str) -> bool:
        return part in self

    def matches(self, pattern: str) -> bool:
        return re.search(pattern, self) is not None

    def substring(self, start: int) -> _Text:
        return _Text(self[start:])

    def upperAscii(self) -> _Text:
        return _Text(self.upper())


class _List(list[Any]):
    def all(self, holds: Callable[[Any], bool]) -> bool:
        return all(map(holds, self))

    def exists(self, holds: Callable[[Any], bool]) -> bool:
        return any(map(holds, self))

    def exists_one(self, holds: Callable[[Any], bool]) -> bool:
        return sum(map(holds, self)) == 1


def _typed(value: Any) -> Any:
    match value:
        case dict():
            return SimpleNamespace(**{key: _typed(each) for key, each in value.items()})
        case list():
            return _List(map(_typed, value))
        case str():
            return _Text(value)
        case _:
            return value


@lru_cache(maxsize=1024)
def _translated(rule: str) -> tuple[CodeType, tuple[str, ...]]:
    """Write a rule in Python, with names in place of its texts."""
    texts: list[str] = []

    def named(found: re.Match[str]) -> str:
        texts.append(found[0][1:-1])
        return f"text{len(texts) - 1}"

    logic = _STRING.sub(named, rule)
    logic = re.sub(r"has\((\w+(?:\.\w+)*)\.(\w+)\)", r'has(\1, "\2")', logic)
    logic = _CHOICE.sub(r"((\2) if (\1) else (\3))", logic)
    logic = re.sub(r"\.(all|exists|exists_one)\((\w+), ", r".\1(lambda \2: ", logic)
    logic = re.sub(r"!(?!=)", " not ", logic.replace("||", " or ").replace("&&", " and "))
    return compile(logic.strip(), rule, "eval"), tuple(texts)


def holds(rule: str, value: Any) -> bool:
    """Tell whether a rule holds for a value in JSON types, in which every default is filled in.

    Parameters
    ----------
    rule: without `oldSelf`.
    """
    code, texts = _translated(rule)
    known = {f"text{number}": _Text(text) for number, text in enumerate(texts)}
    return bool(eval(code, {"__builtins__": {}, "has": hasattr, "size": len, "self": _typed(value)} | known))
