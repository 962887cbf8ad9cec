"""The part of the page about one group: what to do, why, four charts and a what-if table."""

from __future__ import annotations

import hashlib

from . import charts
from .axis import amount, count, duration, partition_time, percent
from .model import Counts, GroupKey, GroupPage, GroupRow, WhatIf
from .text import words


def anchor(key: GroupKey) -> str:
    """Return the fragment of a group's page; a digest, because a group id may hold any character."""
    return "g" + hashlib.sha256(f"{key.kafka_cluster_id}/{key.group_id}".encode()).hexdigest()[:12]


def group_section(page: GroupPage, *, is_open: bool = False) -> str:
    """Write one group, folded to its advice unless it is open."""
    row = page.row
    body = (
        f"<p>{words(row.advice.why)}</p>{_facts(page)}"
        f'<div class="charts">{"".join(_figures(page))}</div>{_what_if(page)}'
    )
    return (
        f"<details{' open' if is_open else ''}><summary><b>{words(row.key.group_id)}</b> "
        f'{words(row.advice.action)}</summary><div id="{anchor(row.key)}">{body}</div></details>'
    )


def _figures(page: GroupPage) -> list[str]:
    drawn = []
    if any(p.gap_ms > 0 for p in page.survival):
        drawn.append(("How long members stay away", charts.survival(page)))
    if page.cost:
        drawn.append(("What a timeout costs", charts.cost(page)))
    if page.hazard and page.indifference_per_second:
        drawn.append(("When waiting stops paying", charts.hazard(page)))
    drawn.append(("Rollouts, restarts, generations", charts.timeline(page)))
    return [f"<figure><figcaption>{name}</figcaption>{chart}</figure>" for name, chart in drawn]


def _facts(page: GroupPage) -> str:
    row, counts = page.row, page.row.counts
    place = f"{row.key.namespace}/{row.key.static_group}" if row.key.static_group else row.key.namespace
    lines = (
        ("Where", f"{place}, Kafka cluster {row.key.kafka_cluster_id}, workload {row.key.workload or 'unknown'}"),
        ("Group", f"{row.protocol} protocol, {count(row.members, 'member')}, {count(row.partitions, 'partition')}"),
        ("Recommended timeout", f"{_recommended(row)}. {page.method}"),
        (
            "Evidence",
            f"{count(page.samples, 'stop')}, the end of {amount(page.censored)} of them not seen; watched for "
            f"{percent(row.coverage)} of the window",
        ),
        ("Lost in the window", _losses(counts)),
    )
    rows = "".join(f'<tr><th scope="row">{name}</th><td>{words(text)}</td></tr>' for name, text in lines)
    return f"<table><tbody>{rows}</tbody></table>"


def _recommended(row: GroupRow) -> str:
    if row.recommended_timeout_ms is None:
        return "None"
    text = duration(row.recommended_timeout_ms)
    if row.goal_timeout_ms not in (None, row.recommended_timeout_ms):
        text += f" now, {duration(row.goal_timeout_ms or 0)} in the end"
    if row.timeout_low_ms is not None and row.timeout_high_ms is not None:
        text += f"; the cheapest lies between {duration(row.timeout_low_ms)} and {duration(row.timeout_high_ms)}"
    return text


def _losses(counts: Counts) -> str:
    """Write what was lost to what, without the kinds that lost nothing."""
    kinds = (
        (counts.rebalance_cost_partition_ms, "by rebalances"),
        (counts.ghost_wanted_partition_ms, "waiting for members that were to return"),
        (counts.ghost_late_partition_ms, "waiting past the timeout"),
        (counts.ghost_fault_partition_ms, "waiting for members that never would"),
    )
    return ", ".join(f"{partition_time(lost)} {how}" for lost, how in kinds if lost) or "nothing"


def _what_if(page: GroupPage) -> str:
    if not page.what_if:
        return ""
    rows = "".join(_what_if_row(line, page) for line in page.what_if)
    heads = "".join(
        f'<th scope="col"{kind}>{name}</th>'
        for name, kind in (
            ("What if", ""),
            ("Evictions per day", ' class="n"'),
            ("Rebalances per day", ' class="n"'),
            ("Lost per day", ' class="n"'),
        )
    )
    return f'<h3>What if</h3><table class="fold"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _what_if_row(line: WhatIf, page: GroupPage) -> str:
    is_chosen = line.timeout_ms is not None and line.timeout_ms == page.row.recommended_timeout_ms
    style = ' class="chosen"' if is_chosen else ""
    return (
        f'<tr{style}><td class="all">{words(line.label)}</td>'
        f'<td class="n" data-name="evictions">{words(amount(line.evictions_per_day))}</td>'
        f'<td class="n" data-name="rebalances">{words(amount(line.rebalances_per_day))}</td>'
        f'<td class="n" data-name="lost">{words(partition_time(line.lost_partition_ms_per_day))}</td></tr>'
    )
