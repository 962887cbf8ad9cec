"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found.

    Parameters
    ----------
    removals: transitions that remove a dead member. inside: those that remove a live one by a broken assumption.
    trace: the shortest way to a live removal outside of the assumptions, a sentence a step; () where there is none.
    inside_trace: the same inside of them.
    is_exhausted: every state was visited.
    """

    scenario: str
    states: int
    removals: int
    inside: int
    seconds: float
    questions: int
    trace: tuple[str, ...] = ()
    inside_trace: tuple[str, ...] = ()
    is_exhausted: bool = True
