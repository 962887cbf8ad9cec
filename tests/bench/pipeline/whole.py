"""A whole run, from journal files to recommendations: the pipeline itself and DuckDB, and then the next day.

The one idea: the pipeline runs as its users run it, in a process of its own, over all days but the last and then over
the last one; DuckDB does everything at once (`duckdb_learner`). Their results are compared: absences, rebalances with
static and with dynamic members, and every recommendation. The machine may be busy, so CPU seconds are given beside
wall-clock seconds.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.pipeline.events import DAY_MS, DAYS, START_MS
from bench.pipeline.journal import LAST_DAY
from bench.pipeline.watch import Watched, watch

MB: Final = 2**20
_TOTALS: Final = {
    "downs": r"restarts: ([\d,]+)",
    "rebalances": r"rebalances: ([\d,]+)",
    "rebalances_dynamic": r"with dynamic members ([\d,]+)",
}
_COMPARED: Final = ("recommended_ms", "goal_ms", "lower_ms", "upper_ms", "evidence", "before", "after", "reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One size.

    Parameters
    ----------
    records, groups: of the journals.
    month, next_day: of the pipeline: all days but the last, then the last one.
    baseline: DuckDB over all days; None if it was skipped.
    differences: between the two; empty if they agree.
    """

    records: int
    groups: int
    month: Watched
    next_day: Watched
    baseline: Watched | None
    differences: tuple[str, ...]


def measure(folder: Path, events: int, seed: int, *, has_baseline: bool = True) -> Whole:
    """Do one size from scratch."""
    journals = folder / f"journals-{events}"
    made = watch(["-m", "bench.pipeline.journal", str(journals), "--events", str(events), "--seed", str(seed)])
    root = folder / f"lake-{events}"
    shutil.rmtree(root, ignore_errors=True)
    source = root / "journal"
    source.mkdir(parents=True)
    _link(journals / "days", source)
    month = _run(root, source, DAYS - 1)
    _link(journals / LAST_DAY, source)
    next_day = _run(root, source, DAYS)
    groups = int(_found(r"recommended: ([\d,]+) groups", next_day.output) or 0)
    baseline, differences = None, ()
    if has_baseline:
        result = folder / f"duckdb-{events}.jsonl"
        options = ["--cores", "2", "--scratch", str(folder / "scratch"), "--result", str(result)]
        baseline = watch(["-m", "bench.pipeline.duckdb_learner", f"{source}/*.jsonl", *options])
        differences = tuple(_differences(next_day, root, json.loads(baseline.last_line), result))
    return Whole(
        records=int(made.last_line), groups=groups, month=month, next_day=next_day, baseline=baseline,
        differences=differences,
    )  # fmt: skip


def _link(files: Path, folder: Path) -> None:
    for path in sorted(files.glob("*.jsonl")):
        (folder / path.name).hardlink_to(path)


def _run(root: Path, source: Path, days: int) -> Watched:
    """Run the pipeline up to the end of a day."""
    as_of = datetime.fromtimestamp((START_MS + days * DAY_MS) / 1000, UTC).isoformat()
    options = ["--root", str(root), "--journal-files", str(source), "--as-of", as_of, "--master", "local[2]"]
    return watch(["-m", "fleet_learner", "run", *options])


def _found(pattern: str, text: str) -> int | None:
    match = re.search(pattern, text)
    return None if match is None else int(match[1].replace(",", ""))


def _differences(watched: Watched, root: Path, totals: dict[str, Any], result: Path) -> Iterator[str]:
    """Compare totals, and every group's recommendation of the pipeline's last snapshot with DuckDB's."""
    for name, pattern in _TOTALS.items():
        if (ours := _found(pattern, watched.output)) != totals[name]:
            yield f"{name}: {ours} and {totals[name]}"
    shards = sorted((root / "output" / "recommendations").glob("run=*1/shard=*.jsonl"))
    ours = {_key(row): row for path in shards for row in map(json.loads, path.read_text().splitlines())}
    others = {_key(row): row for row in map(json.loads, result.read_text().splitlines())}
    if ours.keys() != others.keys():
        yield f"{len(ours)} groups and {len(others)}"
    for key in sorted(ours.keys() & others.keys()):
        unlike = [name for name in _COMPARED if ours[key].get(name) != others[key].get(name)]
        if unlike:
            yield f"{key[1]}: {unlike[0]} {ours[key].get(unlike[0])} and {others[key].get(unlike[0])}"


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["kafka_cluster_id"], row["group_id"]


def lines(found: Sequence[Whole]) -> Iterator[str]:
    """Write what was measured as Markdown."""
    yield "| records | groups | work | wall s | CPU s | records per CPU second | peak PSS |"
    yield "|---|---|---|---|---|---|---|"
    for each in found:
        for work, taken in (
            ("29 days", each.month),
            ("the next day", each.next_day),
            ("DuckDB, 30 days", each.baseline),
        ):
            if taken is not None:
                rate = "" if work == "the next day" else f"{each.records / taken.cpu_s / 1e3:,.1f} k"
                yield (
                    f"| {each.records / 1e6:.2f} M | {each.groups:,} | {work} | {taken.wall_s:,.0f} | "
                    f"{taken.cpu_s:,.0f} | {rate} | {taken.pss_bytes_max / MB:,.0f} MB |"
                )
    yield ""
    for each in found:
        if each.baseline is not None:
            ratio = each.baseline.cpu_s / (each.month.cpu_s + each.next_day.cpu_s)
            same = "the same results" if not each.differences else f"{len(each.differences)} differences"
            share = f"{ratio:.2f} of the pipeline's CPU seconds"
            yield f"{each.records / 1e6:.2f} M records: DuckDB takes {share}, with {same}."
