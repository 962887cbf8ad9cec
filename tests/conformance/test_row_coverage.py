"""Every row of the catalogue has a test, and no test claims a row that the catalogue does not have."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from conformance.wire import all_rows

ROWS = {
    "C": (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 14, 15, 17, 19, 21, 22, 23, 24, 25, 28, 29, 30),
    "L": (1, 2, 3, 4, 5, 6, 7, 9, 11, 12),
    "N": (1, 2, 4, 6, 7, 8, 9, 10, 11, 13, 15, 16, 17, 19, 21, 23),
    "M": (1, 2, 3, 6, 7, 8),
    "S": (1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14),
    "I": (1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13),
    "Y": (1, 2, 3, 5, 6, 7, 8, 9, 10, 11),
    "K": (1, 2, 3, 5, 7, 8, 9, 12, 14, 15),
    "A": tuple(range(1, 13)),
    "X": tuple(range(1, 6)),
}
"""Family → the rows that the catalogue spells out; X: tests of Kafka's that it has not, under names of our own."""
LAST = {"C": 30, "L": 12, "N": 23, "M": 8, "S": 14, "I": 13, "Y": 11, "K": 15, "A": 12, "X": 5}
"""Family → its last row; the ids in between that are not spelled out exist too and may be claimed."""
OTHERS = {"C5", "K10", "M4", "M5", "N20"}
"""Rows that stand in the catalogue for rules that no test here shows: a claim would be a mistake, as X1 to X5 were."""
CLAIM = re.compile(r"(?:test_)?([A-Z])0?(\d+)_")


@cache
def claims() -> dict[str, list[str]]:
    """Return row → the tests and wire rows that claim it by their names."""
    names = [
        node.name
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"test_[A-Z]\d", node.name)
    ]
    claimed: dict[str, list[str]] = {}
    for name in [*names, *all_rows()]:
        found = CLAIM.match(name)
        assert found, f"{name} is named like a row's test, but names no row"
        claimed.setdefault(f"{found[1]}{int(found[2])}", []).append(name)
    return claimed


@pytest.mark.parametrize("row", [f"{family}{number}" for family, numbers in ROWS.items() for number in numbers])
def test_row_has_a_test(row: str) -> None:
    assert claims().get(row)


def test_no_test_claims_a_row_that_does_not_exist() -> None:
    known = {f"{family}{number}" for family, last in LAST.items() for number in range(1, last + 1)}
    assert set(claims()) <= known - OTHERS
