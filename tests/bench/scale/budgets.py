"""What the operator may cost at a size, and whether it kept to it.

One idea: a budget is a bound on one figure; a figure that was not measured keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

SMALL_GROUPS = 1_000
"""Up to so many groups the smaller budgets hold, beyond it the larger ones."""
WRITING_VERBS = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
POLL_S = 30.0
"""A quiet group may be asked for so often."""


class Verdict(StrEnum):
    """Say what became of a budget."""

    KEPT = "kept"
    NOT_KEPT = "NOT KEPT"
    NOT_MEASURED = "NOT MEASURED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A bound on one figure.

    Parameters
    ----------
    figure: its name among the figures of a run.
    most: the greatest value that keeps it, in `unit`.
    """

    figure: str
    what: str
    most: float
    unit: str

    def verdict(self, figures: Mapping[str, float | None]) -> Verdict:
        """Judge the figures of a run."""
        seen = figures.get(self.figure)
        if seen is None:
            return Verdict.NOT_MEASURED
        return Verdict.KEPT if seen <= self.most else Verdict.NOT_KEPT


def budgets(groups: int) -> tuple[Budget, ...]:
    """Return what holds at a size."""
    is_small = groups <= SMALL_GROUPS
    return (
        Budget(
            figure="rss_max_mib", what="memory of the operator, peak RSS", most=200 if is_small else 512, unit="MiB"
        ),
        Budget(
            figure="cold_start_s", what="cold start: every status says what is", most=15 if is_small else 60, unit="s"
        ),
        Budget(figure="edits_20_p99_s", what="an edit is in the status, p99 at 20/s", most=1, unit="s"),
        Budget(figure="edits_50_p99_s", what="an edit is in the status, p99 at 50/s", most=1, unit="s"),
        Budget(figure="scale_down_p99_s", what="scale-downs at once: ended until removed, p99", most=30, unit="s"),
        Budget(figure="scale_down_lost", what="scale-downs whose member was not removed", most=0, unit=""),
        Budget(figure="idle_api_writes", what="writes to the API server while idle, without Leases", most=0, unit=""),
        Budget(figure="idle_kafka_calls_per_s", what="calls to Kafka while idle", most=groups / POLL_S, unit="/s"),
        Budget(figure="roll_leaves", what="LeaveGroup requests during a rolling restart", most=0, unit=""),
    )


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that a share of all values does not exceed (nearest rank); None of no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[min(len(ordered), int(rank)) - 1]


def is_kept(groups: int, figures: Mapping[str, float | None]) -> bool:
    """True when every budget of a size is kept."""
    return all(budget.verdict(figures) is Verdict.KEPT for budget in budgets(groups))
