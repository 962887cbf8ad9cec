"""Benchmarks of the fleet learner: `make bench-pipeline`.

The one idea: the same work, from the same files to the same digest, in Spark and in the fastest single-machine engines,
each in fresh processes that take turns. The work is that of `fleet_learner.sessions`: take out copies, put every
member's events in order, pair each end with what followed, censor what nobody saw, and sum up per group.

Spark's price is stated as a share of DuckDB's rate per core. A target says what we aim for and is reported as met or
not; a budget lies below what was measured and breaks the run, because it means that something became worse.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.pipeline.watch import Watched, watch

REPOSITORY: Final = Path(__file__).parents[3]
PAGE: Final = REPOSITORY / "docs" / "reference" / "fleet-learner.md"
MARKS: Final = ("<!-- benchmark: begin -->", "<!-- benchmark: end -->")
HEAP_MB: Final = 2048
SMALL_HEAP_MB: Final = 1024
FULL_EVENTS: Final = 100_000_000
SIDES: Final = tuple((engine, cores) for cores in (1, 2) for engine in ("spark", "duckdb", "polars"))
FULL_SIDES: Final = (("spark", 2), ("duckdb", 2))
MB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One process.

    Parameters
    ----------
    cold_s, warm_s: the first and the last time through the work; the same when there was one.
    warm_cpu_s: of all its threads.
    """

    engine: str
    cores: int
    rows: int
    cold_s: float
    warm_s: float
    warm_cpu_s: float
    pss_bytes_max: int
    spilled_bytes: int | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One target: what was measured, what we aim for, and what must not be undercut.

    Parameters
    ----------
    at_least: False turns both comparisons around.
    """

    what: str
    measured: float
    target: float
    budget: float
    at_least: bool = True
    detail: str = ""

    def reaches(self, limit: float) -> bool:
        """Return whether the measured figure is on the good side of a limit."""
        return self.measured >= limit if self.at_least else self.measured <= limit


def passes_for(events: int) -> int:
    """Return how often a process does the work: the JVM compiles for a while, but large inputs give it time to."""
    return 3 if events <= 10_000_000 else 2 if events < FULL_EVENTS else 1


class Bench:
    """The runs, and the folder that they work in."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed

    def history(self, events: int) -> tuple[Path, int]:
        """Return the folder of a generated history, and its number of rows."""
        folder = self.folder / f"history-{events}"
        command = ["-m", "bench.pipeline.events", str(folder), "--events", str(events), "--seed", str(self.seed)]
        return folder, int(watch(command).last_line)

    def sample(self, engine: str, cores: int, events: int, heap_mb: int = HEAP_MB) -> Sample:
        """Run one engine in a fresh process."""
        folder, rows = self.history(events)
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        options = {"rows": rows, "cores": cores, "heap-mb": heap_mb, "passes": passes_for(events), "scratch": scratch}
        command = ["-m", "bench.pipeline.job", engine, str(folder)]
        try:
            watched = watch(command + [part for name, value in options.items() for part in (f"--{name}", str(value))])
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return _sample(engine, cores, rows, watched)


def _sample(engine: str, cores: int, rows: int, watched: Watched) -> Sample:
    told: dict[str, Any] = json.loads(watched.last_line)
    first, last = told["passes"][0], told["passes"][-1]
    return Sample(
        engine=engine,
        cores=cores,
        rows=rows,
        cold_s=first["wall_s"],
        warm_s=last["wall_s"],
        warm_cpu_s=last["cpu_s"],
        pss_bytes_max=watched.pss_bytes_max,
        spilled_bytes=told["spilled_bytes"],
        digest=told["digest"],
    )


class Results:
    """All samples, and the figures made of them."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.small_heap: list[Sample] = []

    def of(self, engine: str, cores: int, rows: int) -> list[Sample]:
        """Return one side's samples."""
        return [s for s in self.samples if (s.engine, s.cores, s.rows) == (engine, cores, rows)]

    def warm_s(self, engine: str, cores: int, rows: int) -> float:
        """Return the median of one side's warm times."""
        return statistics.median(s.warm_s for s in self.of(engine, cores, rows))

    def cpu_s(self, engine: str, cores: int, rows: int) -> float:
        """Return the median of one side's CPU times."""
        return statistics.median(s.warm_cpu_s for s in self.of(engine, cores, rows))

    def pss_bytes(self, engine: str, cores: int, rows: int) -> int:
        """Return the most memory that one side took in any run."""
        return max(s.pss_bytes_max for s in self.of(engine, cores, rows))

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of rows, ascending."""
        return sorted({s.rows for s in self.samples})

    @property
    def compared_sizes(self) -> list[int]:
        """Return the sizes that all sides have done."""
        return [rows for rows in self.sizes if all(self.of(*side, rows) for side in SIDES)]

    def digests_differ(self) -> list[str]:
        """Return a line for every size at which engines disagree."""
        found = []
        for rows in self.sizes:
            known = {s.digest: s.engine for s in [*self.samples, *self.small_heap] if s.rows == rows}
            if len(known) != 1:
                found.append(f"{rows} rows: results differ: {known}")
        return found


def verdicts(results: Results, what_if: dict[str, float]) -> Iterator[Verdict]:
    """Compare the largest size that all engines did with the targets of the design."""
    rows = results.compared_sizes[-1]
    share = results.warm_s("duckdb", 2, rows) / results.warm_s("spark", 2, rows)
    of_cpu = results.cpu_s("duckdb", 2, rows) / results.cpu_s("spark", 2, rows)
    yield Verdict(
        what="Spark's rows/s/core as a share of DuckDB's", measured=share, target=0.25, budget=0.12,
        detail=f"two cores each, {rows / 1e6:.1f} M rows, warm; per CPU second {of_cpu:.2f}",
    )  # fmt: skip
    alone, both = results.warm_s("spark", 1, rows), results.warm_s("spark", 2, rows)
    yield Verdict(
        what="Spark's gain from 1 to 2 cores", measured=alone / both, target=1.5, budget=1.2,
        detail=f"{alone:.1f} s and {both:.1f} s",
    )  # fmt: skip
    base = next((r for r in results.sizes if r >= 9_000_000), results.sizes[0])
    largest = results.sizes[-1]
    small, large = results.pss_bytes("spark", 2, base), results.pss_bytes("spark", 2, largest)
    yield Verdict(
        what="Spark's peak memory, largest size to 10 M", measured=large / small, target=1.25, budget=1.5,
        at_least=False, detail=f"{base / 1e6:.1f} M: {small / MB:,.0f} MB, {largest / 1e6:.1f} M: {large / MB:,.0f} MB",
    )  # fmt: skip
    yield Verdict(
        what="what-if: gaps/s as a share of NumPy's lognormal", measured=what_if["simulated"] / what_if["lognormal"],
        target=0.9, budget=0.25,
        detail=f"{what_if['simulated'] / 1e6:.0f} M/s of {what_if['lognormal'] / 1e6:.0f} M/s; its own random numbers "
        f"alone {what_if['own_draws'] / 1e6:.0f} M/s; {what_if['groups']:,.0f} groups/s",
    )  # fmt: skip


def table(results: Results) -> Iterator[str]:
    """Write the samples as Markdown."""
    yield "| rows | engine | cores | cold s | warm s, median (min–max) | rows/s/core | rows per CPU second | peak PSS |"
    yield "|---|---|---|---|---|---|---|---|"
    for rows in results.sizes:
        for engine, cores in SIDES:
            found = results.of(engine, cores, rows)
            if not found:
                continue
            warm = [s.warm_s for s in found]
            median, cpu = statistics.median(warm), results.cpu_s(engine, cores, rows)
            cold = statistics.median(s.cold_s for s in found)
            yield (
                f"| {rows / 1e6:.1f} M | {engine} | {cores} | {cold:.1f} | {median:.1f} ({min(warm):.1f}–{max(warm):.1f}) "
                f"| {rows / median / cores / 1e3:,.0f} k | {rows / cpu / 1e3:,.0f} k "
                f"| {results.pss_bytes(engine, cores, rows) / MB:,.0f} MB |"
            )
    for s in results.small_heap:
        usual = results.warm_s("spark", s.cores, s.rows)
        yield ""
        yield (
            f"Spark with a heap of {SMALL_HEAP_MB} MB, {s.cores} cores, {s.rows / 1e6:.1f} M rows: {s.warm_s:.1f} s "
            f"(with {HEAP_MB} MB {usual:.1f} s), peak {s.pss_bytes_max / MB:,.0f} MB, {(s.spilled_bytes or 0) / MB:,.0f} MB "
            "spilled to disk, same result."
        )


def verdict_lines(found: Sequence[Verdict]) -> Iterator[str]:
    """Write the targets as Markdown."""
    yield "| | measured | target | | budget | |"
    yield "|---|---|---|---|---|---|"
    for v in found:
        sign = "≥" if v.at_least else "≤"
        met = "met" if v.reaches(v.target) else "**not met**"
        kept = "kept" if v.reaches(v.budget) else "**BROKEN**"
        yield f"| {v.what} | {v.measured:.2f} ({v.detail}) | {sign} {v.target:g} | {met} | {sign} {v.budget:g} | {kept} |"


def take(bench: Bench, sizes: Sequence[int], runs: int, full: bool) -> Results:
    """Take all samples; the sides of a size take turns."""
    results = Results()
    plan = [(events, *side) for events in sizes for _ in range(runs) for side in SIDES]
    plan += [(FULL_EVENTS, *side) for side in FULL_SIDES] if full else []
    for number, (events, engine, cores) in enumerate(plan, start=1):
        sample = bench.sample(engine, cores, events)
        results.samples.append(sample)
        said = f"{sample.warm_s:.1f} s, {sample.warm_cpu_s:.1f} CPU s, {sample.pss_bytes_max / MB:,.0f} MB"
        print(f"[{number}/{len(plan)}] {sample.rows:>11,} rows {engine} on {cores}: {said}", file=sys.stderr)
    results.small_heap.append(bench.sample("spark", 2, max(sizes), SMALL_HEAP_MB))
    return results


def main() -> int:
    """Print the tables; 1 when results differ or a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000, 30_000_000])
    parser.add_argument("--runs", type=int, default=5, help="processes for each engine and size (default: %(default)s)")
    parser.add_argument("--full", action="store_true", help=f"{FULL_EVENTS:,} events, once, too (about 4 GB of files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep generated histories here (default: a temporary folder)")
    parser.add_argument("--note", default="", help="a sentence about the machine for the page")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.relative_to(REPOSITORY)}")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(str(REPOSITORY / name) for name in ("operator", "tests"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = take(Bench(folder, options.seed), options.events, options.runs, options.full)
        what_if: dict[str, float] = json.loads(watch(["-m", "bench.pipeline.what_if"]).last_line)
    found = list(verdicts(results, what_if))
    differences = results.digests_differ()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; runs: {options.runs}."
    lines = [f"{machine} {options.note}".strip(), "", *verdict_lines(found), "", *table(results), "", *differences]
    print("\n".join(lines))
    if options.write:
        write(lines)
    return 0 if not differences and all(v.reaches(v.budget) for v in found) else 1


def write(lines: Sequence[str]) -> None:
    """Replace what stands between the marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    body = "\n".join(lines).strip()
    PAGE.write_text(f"{before}{MARKS[0]}\n{body}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
