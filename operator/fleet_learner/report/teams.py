"""The groups of a report by team: a team is a namespace.

The one idea: the owners of a namespace see their groups, in the report's order, each exactly once: the first ones as
full rows, in a fleet of thousands the others as a line each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .model import GroupKey, GroupPage, GroupRow, Report, lost_per_watched_day
from .units import WEEK_DAYS

ROWS_MAX: Final = 2_000
"""Groups with a full row in the table of the whole report; with markup some 700 bytes each."""
LINES_MAX: Final = 20_000
"""Groups with a line of their own below those; some 150 bytes each."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """One namespace's groups, in the order of the report.

    Parameters
    ----------
    full, short: rows to write in full, and rows that get a line; left_out: number of rows that get neither.
    groups: all of them.
    lost_partition_ms_per_week: by each group's watched days, as for the whole fleet; None if no group was watched.
    """

    namespace: str
    groups: int
    full: tuple[GroupRow, ...]
    short: tuple[GroupRow, ...]
    left_out: int
    acting: int
    open: int
    saving_partition_ms: int
    lost_partition_ms_per_week: int | None

    @property
    def name(self) -> str:
        """Return the name of the team."""
        return self.namespace or "no namespace"

    @property
    def anchor(self) -> str:
        """Return the fragment of its section."""
        return f"team-{self.slug}"

    @property
    def slug(self) -> str:
        """Return its name for files and fragments, without characters that a browser or a file system rejects."""
        if _NAMESPACE.fullmatch(self.namespace):
            return self.namespace
        # No namespace has an underscore, so this name is unique.
        return f"_{hashlib.sha256(self.namespace.encode()).hexdigest()[:12]}" if self.namespace else "_none"


def anchor(key: GroupKey) -> str:
    """Return the fragment of a group's page; a digest, because a group id may hold any character."""
    return "g" + hashlib.sha256(f"{key.kafka_cluster_id}/{key.group_id}".encode()).hexdigest()[:12]


def teams(report: Report, *, rows_max: int = ROWS_MAX, lines_max: int = LINES_MAX) -> tuple[Team, ...]:
    """Return the teams in the order of their names.

    Parameters
    ----------
    rows_max, lines_max: limits for the whole report: its first groups get full rows, in any team.
    """
    by_name: dict[str, list[tuple[int, GroupRow]]] = {}
    for rank, row in enumerate(report.rows):
        by_name.setdefault(row.key.namespace, []).append((rank, row))
    return tuple(_team(name, found, rows_max, rows_max + lines_max) for name, found in sorted(by_name.items()))


def of_team(report: Report, namespace: str) -> tuple[Team, tuple[GroupRow, ...], tuple[GroupPage, ...]]:
    """Return one namespace as if it were the whole fleet, its rows and its pages."""
    rows = tuple(row for row in report.rows if row.key.namespace == namespace)
    pages = tuple(page for page in report.pages if page.row.key.namespace == namespace)
    return _team(namespace, list(enumerate(rows)), ROWS_MAX, ROWS_MAX + LINES_MAX), rows, pages


def _team(name: str, found: Sequence[tuple[int, GroupRow]], full_max: int, lines_max: int) -> Team:
    rows = [row for _, row in found]
    savings = [row.advice.saving for row in rows if row.advice.saving is not None]
    lost_ms = lost_per_watched_day((row.counts, row.covered_ms) for row in rows)
    return Team(
        namespace=name,
        groups=len(rows),
        full=tuple(row for rank, row in found if rank < full_max),
        short=tuple(row for rank, row in found if full_max <= rank < lines_max),
        left_out=sum(rank >= lines_max for rank, _ in found),
        acting=sum(row.advice.is_action for row in rows),
        open=sum(bool(row.advice.would_tell) for row in rows),
        saving_partition_ms=sum(each.best_partition_ms for each in savings),
        lost_partition_ms_per_week=None if lost_ms is None else lost_ms * WEEK_DAYS,
    )
