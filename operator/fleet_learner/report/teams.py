"""The groups of a report by team: a team is a namespace.

The one idea: whoever owns a namespace sees his groups, in the report's order, and nothing is told twice: the greatest
are rows in full, of a fleet of thousands the rest are a line each.
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
"""Groups with a row in full in the table of the whole report; with all their markup some 700 bytes each."""
LINES_MAX: Final = 20_000
"""Groups with a line of their own below those; some 150 bytes each."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """One namespace's groups, in the order of the report.

    Parameters
    ----------
    full, short: rows to write in full, and those that get a line; left_out: how many get neither.
    groups: all of them.
    lost_partition_ms_per_week: by the days on which each was watched, as for the whole fleet; None: none was.
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
        """Return what the team is called."""
        return self.namespace or "no namespace"

    @property
    def anchor(self) -> str:
        """Return the fragment of its section."""
        return f"team-{self.slug}"

    @property
    def slug(self) -> str:
        """Return its name for files and fragments: no path, no character that a browser or a file system minds."""
        if _NAMESPACE.fullmatch(self.namespace):
            return self.namespace
        # An underscore is in no namespace, so nobody else has this name.
        return f"_{hashlib.sha256(self.namespace.encode()).hexdigest()[:12]}" if self.namespace else "_none"


def anchor(key: GroupKey) -> str:
    """Return the fragment of a group's page; a digest, because a group id may hold any character."""
    return "g" + hashlib.sha256(f"{key.kafka_cluster_id}/{key.group_id}".encode()).hexdigest()[:12]


def teams(report: Report, *, rows_max: int = ROWS_MAX, lines_max: int = LINES_MAX) -> tuple[Team, ...]:
    """Return the teams in the order of their names.

    Parameters
    ----------
    rows_max, lines_max: of the whole report: its first groups are told in full, wherever they belong.
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
