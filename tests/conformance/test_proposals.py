"""Every numbered mechanism of the proposals is marked, and every test that its line names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from conformance.wire import all_rows

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "proposals.md"
MARKS = ("works", "differs in Kafka", "not in any Kafka")
ITEMS_MAX = 89
ROW = re.compile(r"\b[ACIKLMNSY]\d{1,2}\b")
TEST = re.compile(r"\btest_\w+")


def lines() -> dict[str, tuple[str, str]]:
    """Return number → (mark, what shows it)."""
    cells = [
        line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+b? \|", line)
    ]
    return {c[1].strip(): (c[-3].strip(), c[-2].strip()) for c in cells}


@cache
def known_tests() -> frozenset[str]:
    """Return the names of all test functions, and the rows that the wire suite knows."""
    names = set(all_rows())
    for path in (REPOSITORY / "tests").rglob("*.py"):
        names |= set(re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return frozenset(names)


def test_every_item_has_its_line() -> None:
    assert {int(n) for n in lines() if n.isdigit()} == set(range(1, ITEMS_MAX + 1))


@pytest.mark.parametrize("number", sorted(lines(), key=lambda n: int(n.rstrip("b"))))
def test_line_has_a_mark_and_names_tests_that_exist(number: str) -> None:
    mark, shown_by = lines()[number]
    assert mark.startswith(MARKS), mark
    known = known_tests()
    rows, named = ROW.findall(TEST.sub("", shown_by)), TEST.findall(shown_by)
    assert rows or named or shown_by.startswith("nothing to show: "), "nothing shows it"
    missing = [n for n in named if n not in known]
    missing += [r for r in rows if not any(re.match(rf"(test_)?{r}_", n) for n in known)]
    assert not missing
