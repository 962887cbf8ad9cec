"""The report as HTML: one file for the fleet and one for each team, without scripts and external resources.

The one idea: a page can be mailed, printed and opened in ten years. A content security policy in the file forbids every
request and every script, Jinja escapes all text, and folding parts are plain `details` elements. A link into a folded
group opens it, because the target lies inside (HTML standard, "ancestor details revealing algorithm").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from . import charts, views
from .model import GroupKey, GroupPage, Report
from .teams import anchor, of_team, teams
from .text import code, quantity, words

if TYPE_CHECKING:
    from jinja2 import Environment

UNKNOWN_MAX = 20
"""Groups with missing evidence that are listed one by one."""
Drawings = Mapping[GroupKey, tuple[tuple[str, str], ...]]
"""Caption and chart, by group."""


@lru_cache(maxsize=1)
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("fleet_learner.report", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.globals.update(views.FUNCTIONS)
    made.globals["anchor"] = anchor
    made.filters.update(words=words, quantity=quantity, code=code)
    return made


def draw(report: Report) -> Drawings:
    """Draw the charts of every group that has a page."""
    return {page.row.key: tuple(_drawn(page)) for page in report.pages}


def _drawn(page: GroupPage) -> Iterator[tuple[str, str]]:
    name = anchor(page.row.key)
    assumed = " (by an assumed price)" if page.row.advice.price_source == "assumed" else ""
    for caption, chart in (
        ("How long members stay away", charts.survival(page, f"{name}-survival")),
        (f"What a timeout costs{assumed}", charts.cost(page, f"{name}-cost")),
        (f"When waiting stops paying{assumed}", charts.hazard(page, f"{name}-hazard")),
        ("Rollouts, restarts, generations", charts.timeline(page, f"{name}-timeline")),
    ):
        if chart is not None:
            yield caption, chart


def to_html(report: Report, drawings: Drawings | None = None) -> str:
    """Write the page of the whole fleet.

    Parameters
    ----------
    drawings: of `draw`; None draws them.

    Returns
    -------
    A complete HTML document; about 0.7 KB per group and 25 KB per group page.
    """
    return _templates().get_template("report.html").render(
        report=report,
        steps=views.steps(report),
        first=views.FIRST,
        steps_max=views.STEPS_MAX,
        unknown=views.unknown(report.rows),
        unknown_max=UNKNOWN_MAX,
        teams=teams(report),
        paged={page.row.key for page in report.pages},
        drawings=draw(report) if drawings is None else drawings,
        day_chart=charts.day_costs(report.days, report.window),
    )  # fmt: skip


def team_pages(report: Report, drawings: Drawings) -> Iterator[tuple[str, str]]:
    """Write a page for each team, with its groups only.

    Returns
    -------
    (file name, document) in the order of the teams' names.
    """
    for namespace in sorted({row.key.namespace for row in report.rows}):
        team, rows, pages = of_team(report, namespace)
        document = _templates().get_template("team.html").render(
            report=report,
            team=team,
            rows=rows,
            acting=[row for row in rows if row.advice.is_action],
            unknown=views.unknown(rows),
            unknown_max=UNKNOWN_MAX,
            pages=pages,
            paged={page.row.key for page in pages},
            drawings=drawings,
        )  # fmt: skip
        yield f"{team.slug}.html", document
