"""What a run showed, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .budgets import Verdict, budgets

Json = dict[str, Any]
_ALSO = (
    ("pss_max_mib", "memory, peak PSS", "MiB"),
    ("cold_start_first_s", "cold start: first status", "s"),
    ("cold_start_cpu_s", "cold start: processor time", "s"),
    ("cold_start_machine_cpu_s", "cold start: processor time of everybody here", "s"),
    ("edits_20_p50_s", "an edit is in the status, p50 at 20/s", "s"),
    ("edits_50_p50_s", "an edit is in the status, p50 at 50/s", "s"),
    ("edits_50_cpu_ms", "processor time of an edit at 50/s, rounds of others included", "ms"),
    ("edits_50_processors", "processors used at 50/s by everybody here", ""),
    ("scale_down_p50_s", "scale-downs at once, p50", "s"),
    ("scale_down_processors", "processors used in the scale-downs by everybody here", ""),
    ("idle_cpu_share", "processors used while idle", ""),
)


def verdicts(result: Json) -> list[tuple[str, str, str, Verdict]]:
    """Return of one run what was bounded, the figure, the bound, and what became of it."""
    figures = result["figures"]
    return [
        (b.what, _figure(figures.get(b.figure), b.unit), _figure(b.most, b.unit), b.verdict(figures))
        for b in budgets(result["groups"])
    ]


def lines(result: Json) -> list[str]:
    """Return one run for a terminal."""
    shown = [f"{what:58} {seen:>12}  budget {most:>10}  {verdict}" for what, seen, most, verdict in verdicts(result)]
    shown += [f"{what:58} {_figure(result['figures'].get(name), unit):>12}" for name, what, unit in _ALSO]
    if again := result["details"].get("asked_again"):
        shown.append(
            "requests that were made again, by answer: "
            + ", ".join(f"{status}: {count}" for status, count in sorted(again.items()))
        )
    if ended := result["details"].get("ended"):
        shown.append(f"ended early: {ended}")
    return shown


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.3g}"
    return f"{text} {unit}".strip()


def page(results: Sequence[Json]) -> str:
    """Return the reference page of several runs."""
    text = [
        "# The operator at scale",
        "",
        "Written by `python -m bench.scale --write`. A real API server with etcd, the coordinator model behind",
        "Kafka's protocol, the operator and this benchmark share one machine; the benchmark writes in the name of",
        "nodes and controllers, which are absent. *plain* is the same work by a straightforward kopf operator",
        "(`tests/bench/scale/plain.py`), which takes a pod that is gone for a dead process, and so promises less.",
        "Bold: over the budget.",
        "",
        "An edit waits for the answer to the former edit of its object. With few StaticGroups 50 edits a second",
        "are 5 or 50 for each object: many statuses meet a newer edit and are written again, so edits within 0.3 s",
        "of each other are reported together. *plain* overwrites without a check. The rows of the shared programs",
        "show which part of a wait is due to the machine: with all processors busy, the API server and etcd, which",
        "need more for a status write than the operator for its round, have as little time as the operator.",
        "",
        "Where the load of the machine was above the number of its processors (two, as a rule), waits include",
        "other work there; counts, memory and processor time are the operator's own. Sizes are measured one by",
        "one, and not after each change: a size without the rows of the shared programs is older than edits that",
        "are reported together.",
        "",
    ]
    for size in sorted({(r["groups"], r["pods_per_group"]) for r in results}):
        same = [r for r in results if (r["groups"], r["pods_per_group"]) == size]
        text += _table(*size, same)
    return "\n".join(text)


def _table(groups: int, pods_per_group: int, results: Sequence[Json]) -> list[str]:
    text = [
        f"## {groups:,} StaticGroups of {pods_per_group} pods", "",
        "| | budget | " + " | ".join(r["subject"] for r in results) + " |", "|---|---|" + "---|" * len(results),
    ]  # fmt: skip
    for budget in budgets(groups):
        cells = []
        for result in results:
            seen = _figure(result["figures"].get(budget.figure), budget.unit)
            is_broken = budget.verdict(result["figures"]) is not Verdict.KEPT
            cells.append(f"**{seen}**" if is_broken else seen)
        text.append(f"| {budget.what} | {_figure(budget.most, budget.unit)} | " + " | ".join(cells) + " |")
    for name, what, unit in _ALSO:
        text.append(f"| {what} | | " + " | ".join(_figure(r["figures"].get(name), unit) for r in results) + " |")
    text.append("| load of the machine, begin and end | | " + " | ".join(_loads(r) for r in results) + " |")
    text += [
        "",
        *(
            f"{r['subject']}: {r['details']['ended']}, so it was ended there."
            for r in results
            if "ended" in r["details"]
        ),
        "",
    ]
    return text


def _loads(result: Json) -> str:
    return " and ".join(f"{load:.1f}" for load in result["load_average"])
