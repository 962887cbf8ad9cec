"""The variants that are searched, and what each of them is about."""

from __future__ import annotations

from typing import Final

from .state import Left, Scenario

QUICK: Final = (
    Scenario(name="force", says="a force delete, a pod that nobody answers", left=Left(force=1, silence=1)),
    Scenario(name="gap", says="the watch breaks, a force delete", left=Left(force=1, gap=1)),
    Scenario(name="crash", says="the operator begins anew, a force delete", left=Left(force=1, crash=1)),
    Scenario(name="late proof", says="an end that is proven after a LIST, a force delete",
             left=Left(force=1, crash=1, late=1)),
    Scenario(name="two leaders", says="two operators that both lead, a pod that nobody answers", operators=2,
             left=Left(silence=1)),
    Scenario(name="two leaders, force", says="the same with a force delete and three requests", operators=2, patches=3,
             left=Left(force=1)),
    Scenario(name="two leaders, gap", says="the watch of one breaks, a force delete", operators=2,
             left=Left(force=1, gap=1)),
    Scenario(name="two leaders, crash", says="one begins anew, a force delete", operators=2,
             left=Left(force=1, crash=1)),
    Scenario(name="four pods", says="two operators that both lead", pods=4, operators=2),
)  # fmt: skip
"""Each is exhausted, and in none of them two living processes have one slot."""

DEEP: Final = (
    Scenario(name="deep: two force deletes", says="two gaps, a crash", left=Left(force=2, gap=2, crash=1),
             is_deep=True),
    Scenario(name="deep: four pods, faults", says="a gap, a force delete", pods=4, left=Left(force=1, gap=1),
             is_deep=True),
    Scenario(name="deep: four pods, two leaders", says="a force delete, a pod that nobody answers", pods=4, operators=2,
             left=Left(force=1, silence=1), is_deep=True),
)  # fmt: skip
