"""The report as one file of HTML: no script, no font, no picture from anywhere else.

The one idea: a page that can be mailed, printed and opened in ten years. A content security policy in the file forbids
every request and every script, all text is escaped, and what folds is a plain `details` element. A link into a folded
group opens it, because the target lies inside (HTML standard, "ancestor details revealing algorithm").
"""

from __future__ import annotations

from collections.abc import Iterable

from . import charts, svg
from .axis import amount, count, day, duration, minute, partition_time, percent
from .group_page import anchor, group_section
from .model import Counts, GroupRow, QualityCheck, Report
from .style import STYLE
from .text import quantity, words

ROWS_MAX = 2000
"""Groups in the table of the page; with all their markup some 500 bytes each."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def to_html(report: Report) -> str:
    """Write the whole page.

    Returns
    -------
    A complete HTML document; about 0.7 KB per group and 25 KB per group page.
    """
    sections = (
        _summary(report),
        _to_do(report),
        _group_pages(report),
        _all_groups(report),
        _quality(report),
        _methods(report),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Restarts and rebalances, {words(_span(report))}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _span(report: Report) -> str:
    """Write the window with its first and its last day."""
    window = report.window
    return f"{day(window.start_ms)} to {day(window.end_ms - 1)} {minute(window.end_ms - 1)[:4]}"


def _card(name: str, value: str, note: str = "") -> str:
    extra = f'<span class="note">{words(note)}</span>' if note else ""
    return f'<div class="card"><dt>{words(name)}</dt><dd>{quantity(value)}{extra}</dd></div>'


def _summary(report: Report) -> str:
    counts, lost_ms = report.counts, report.lost_partition_ms_per_day
    cards = (
        _card("Groups", amount(report.groups), _fleet_note(report)),
        _card("Restarts", amount(counts.restarts), f"{percent(_share(counts))} absorbed without a rebalance"),
        _card("Rebalances", amount(counts.rebalances), _dynamic_note(counts)),
        _card("Lost per day", "not watched" if lost_ms is None else partition_time(lost_ms), _lost_note(counts)),
        _card(
            "Avoidable per day",
            partition_time(report.avoidable_partition_ms_per_day),
            f"in {count(sum(1 for r in report.rows if r.advice.is_action), 'group')} worth acting on",
        ),
        _card("Watched", percent(report.coverage), _watched_note(report)),
    )
    return (
        f"<header><h1>Restarts, rebalances and session timeouts</h1>"
        f'<p class="quiet">{words(_span(report))}, as of {minute(report.created_ms)}, run {words(report.run_id)}</p>'
        '<nav aria-label="Sections"><a href="#act">What to do</a><a href="#pages">Groups worth acting on</a>'
        '<a href="#all">All groups</a><a href="#data">Data quality</a><a href="#methods">Methods</a></nav></header>'
        f'<main><section id="summary"><dl class="cards">{"".join(cards)}</dl>'
        f'<div class="lead"><figure><figcaption>What the fleet lost per day</figcaption>'
        f"{charts.day_costs(report.days, report.window)}</figure><div>{_first_steps(report)}</div></div></section>"
    )


def _fleet_note(report: Report) -> str:
    return f"{amount(report.members)} members in {count(report.kafka_clusters, 'Kafka cluster')}"


def _share(counts: Counts) -> float:
    return counts.absorbed_restarts / counts.restarts if counts.restarts else 0.0


def _dynamic_note(counts: Counts) -> str:
    if counts.rebalances_if_dynamic is None:
        return "not compared with dynamic members"
    return f"with dynamic members: {amount(counts.rebalances_if_dynamic)}"


def _watched_note(report: Report) -> str:
    silent = sum(row.coverage == 0 for row in report.rows)
    if silent:
        return f"of group-time; {count(silent, 'group')} not watched at all"
    return "of group-time, by a live operator"


def _lost_note(counts: Counts) -> str:
    waiting = counts.lost_partition_ms - counts.rebalance_cost_partition_ms
    whole = max(counts.lost_partition_ms, 1)
    return f"{percent(counts.rebalance_cost_partition_ms / whole)} rebalances, {percent(waiting / whole)} waiting"


def _first_steps(report: Report) -> str:
    """Write the three things to do first, in the summary's own screen."""
    steps = [words(c.advice.action) for c in report.clusters if c.advice.is_action]
    steps += [_linked(row, has_page=row.key in _page_keys(report)) for row in report.rows if row.advice.is_action]
    if not steps:
        return "<h3>Nothing to do</h3><p>No group of this fleet would gain from another session timeout.</p>"
    return f'<h3>Do this first</h3><ol class="todo">{"".join(f"<li>{s}</li>" for s in steps[:3])}</ol>'


def _page_keys(report: Report) -> set[object]:
    return {page.row.key for page in report.pages}


def _linked(row: GroupRow, *, has_page: bool) -> str:
    action = words(row.advice.action)
    return f'<a href="#{anchor(row.key)}">{action}</a>' if has_page else action


def _to_do(report: Report) -> str:
    clusters = "".join(f"<li><b>{words(c.advice.action)}</b> {words(c.advice.why)}</li>" for c in report.clusters)
    acting = [row for row in report.rows if row.advice.is_action]
    left = len(acting) - len(report.pages)
    shown = "".join(
        f"<li><b>{_linked(page.row, has_page=True)}</b> {words(page.row.advice.why)}</li>" for page in report.pages
    )
    more = f"<p>{count(left, 'more group')} would gain less each: see the table of all groups.</p>" if left > 0 else ""
    return (
        '<section id="act"><h2>What to do</h2>'
        + (f'<h3>On the Kafka clusters</h3><ol class="todo">{clusters}</ol>' if clusters else "")
        + (f'<h3>In the groups, the greatest gain first</h3><ol class="todo">{shown}</ol>{more}' if shown else "")
        + ("" if clusters or shown else "<p>Nothing: every group is at its best timeout, or has too few restarts.</p>")
        + _drift(report)
        + "</section>"
    )


def _drift(report: Report) -> str:
    if not report.drift:
        return ""
    lines = "".join(
        f"<li><b>Look at image {words(d.image_digest[:19] or 'unknown')} of {words(d.key.group_id)}.</b> Since "
        f"{day(d.since_ms)} a restart takes {words(duration(d.median_after_ms))}, before {words(duration(d.median_before_ms))} "
        "(medians).</li>"
        for d in report.drift
    )
    return f'<h3>Images that changed the restarts</h3><ul class="todo">{lines}</ul>'


def _group_pages(report: Report) -> str:
    if not report.pages:
        return ""
    body = "".join(group_section(page, is_open=index == 0) for index, page in enumerate(report.pages))
    return f'<section id="pages"><h2>Groups worth acting on</h2>{body}</section>'


_HEADINGS = (
    ("Group", ""),
    ("Timeout", ""),
    ("Avoidable per day", "n"),
    ("Lost, day by day", "extra"),
    ("Restarts", "n"),
    ("Rebalances", "n"),
    ("Watched", "n"),
    ("Advice", ""),
)


def _all_groups(report: Report) -> str:
    keys = _page_keys(report)
    shown = report.rows[:ROWS_MAX]
    left = len(report.rows) - len(shown)
    heads = "".join(_heading(name, kind) for name, kind in _HEADINGS)
    note = (
        f" {count(left, 'group')} with less to gain are left out here and are in the JSON and Parquet files."
        if left
        else ""
    )
    return (
        '<section id="all"><h2>All groups</h2>'
        f'<p class="quiet small">Sorted by what is avoidable.{note}</p>'
        f'<table class="fold"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(_row(row, row.key in keys) for row in shown)}</tbody></table></section>"
    )


def _heading(name: str, kind: str) -> str:
    """Write a column's heading; the one that the rows are sorted by says so, to the eye and to a screen reader."""
    order = ' aria-sort="descending"' if name == "Avoidable per day" else ""
    style = f' class="{kind}"' if kind else ""
    return f'<th scope="col"{style}{order}>{name}</th>'


def _cell(name: str, value: str, kind: str = "") -> str:
    label = f' data-name="{name}"' if name else ""
    style = f' class="{kind}"' if kind else ""
    return f"<td{style}{label}>{value}</td>"


def _row(row: GroupRow, has_page: bool) -> str:
    name = words(row.key.group_id)
    linked = f'<a href="#{anchor(row.key)}">{name}</a>' if has_page else name
    avoidable = row.avoidable_partition_ms_per_day
    cells = (
        _cell("", f'{linked} <span class="quiet">{words(row.key.kafka_cluster_id)}</span>', "all"),
        _cell("timeout", words(timeouts(row))),
        _cell("avoidable", words(partition_time(avoidable)) if avoidable is not None else "unknown", "n"),
        _cell("lost", _days(row), "extra"),
        _cell("restarts", words(amount(row.counts.restarts)), "n"),
        _cell("rebalances", words(amount(row.counts.rebalances)), "n"),
        _cell("watched", words(percent(row.coverage)), "n"),
        _cell("", words(row.advice.action if row.advice.is_action else row.advice.why), "all small"),
    )
    return f"<tr>{''.join(cells)}</tr>"


def _days(row: GroupRow) -> str:
    worst = max(row.lost_partition_ms_by_day, default=0)
    if not worst:
        return "nothing"
    return svg.sparkline(row.lost_partition_ms_by_day, f"lost per day, at worst {partition_time(worst)}")


def timeouts(row: GroupRow) -> str:
    """Write the timeout in force and the recommended one: `45 s → 2 min`, or one of them when they agree."""
    now = duration(row.session_timeout_ms) if row.session_timeout_ms is not None else "unknown"
    if row.recommended_timeout_ms is None or row.recommended_timeout_ms == row.session_timeout_ms:
        return now
    return f"{now} → {duration(row.recommended_timeout_ms)}"


def _quality(report: Report) -> str:
    rows = "".join(_quality_row(check) for check in report.quality)
    return (
        '<section id="data"><h2>Data coverage and quality</h2>'
        f"<p>An operator was watching for {words(percent(report.coverage))} of the time of all groups. What happened in the "
        "rest is not in any figure of this page.</p>"
        f'<table class="fold"><thead><tr><th scope="col">Check</th><th scope="col">Found</th>'
        f'<th scope="col">Meaning</th></tr></thead><tbody>{rows}</tbody></table></section>'
    )


def _quality_row(check: QualityCheck) -> str:
    verdict = {"good": "good", "warning": "warning"}.get(check.verdict, "bad")
    return (
        f'<tr><td class="all"><span class="{verdict}"></span>{words(check.name)}</td>'
        f'<td>{words(check.value)}</td><td class="all quiet">{words(check.meaning)}</td></tr>'
    )


def _methods(report: Report) -> str:
    items: Iterable[str] = (f"<dt><b>{words(m.name)}</b></dt><dd>{words(m.text)}</dd>" for m in report.methods)
    return f'<section id="methods"><h2>Methods</h2><dl>{"".join(items)}</dl></section></main>'
