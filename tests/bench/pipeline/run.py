"""Benchmarks of the fleet learner: `make bench-pipeline`.

The one idea: the same work, from the same files to the same digest, in Spark and in the fastest single-machine engine,
each in fresh, alternating processes. The work is that of `fleet_learner.intake.sessions`: remove copies, order every
member's events, pair each end with the next return, censor unseen ends, and sum up per group.

Spark's price is stated as a share of DuckDB's rate per core; `bench.pipeline.results` has the targets and the budgets.
`--samples` keeps every sample in a file, so that a long benchmark can be continued.

`--whole` does whole runs instead, from journal files to recommendations and the next day after them
(`bench.pipeline.whole`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.pipeline.results import SIDES, Results, Sample, table, verdict_lines, verdicts
from bench.pipeline.watch import Watched, watch
from bench.pipeline.whole import lines as whole_lines
from bench.pipeline.whole import measure

REPOSITORY: Final = Path(__file__).parents[3]
PAGE: Final = REPOSITORY / "docs" / "reference" / "fleet-learner.md"
MARKS: Final = ("<!-- benchmark: begin -->", "<!-- benchmark: end -->")
WHOLE_MARKS: Final = ("<!-- whole runs: begin -->", "<!-- whole runs: end -->")
WHOLE_EVENTS: Final = (1_000_000, 10_000_000)
MONTH_EVENTS: Final = 7_500_000
"""Facts about members; with all other facts of 10,000 groups in 30 days some 10 M records."""
WHOLE_FULL_EVENTS: Final = (*WHOLE_EVENTS, MONTH_EVENTS, 100_000_000)
BASELINE_EVENTS_MAX: Final = 10_000_000
HEAP_MB: Final = 2048
SMALL_HEAP_MB: Final = 1024
USUAL_EVENTS: Final = (1_000_000, 10_000_000)
FULL_EVENTS: Final = (1_000_000, 10_000_000, 30_000_000, 100_000_000)
LARGE_SIDES: Final = (("spark", 2), ("duckdb", 2))
ALL_SIDES_EVENTS_MAX: Final = 30_000_000
PRICES: Final = {"spark": 6.0, "duckdb": 2.0}
"""Rough core-seconds per million events and pass, only to estimate the remaining time."""
START_PRICES: Final = {"spark": 25.0, "duckdb": 1.0}
"""The same for starting a process and compiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One planned sample."""

    events: int
    engine: str
    cores: int
    heap_mb: int = HEAP_MB

    @property
    def price(self) -> float:
        """Return about how many seconds it takes."""
        work = PRICES[self.engine] * self.events / 1e6 * passes_for(self.events)
        return (START_PRICES[self.engine] + work) / self.cores


def passes_for(events: int) -> int:
    """Return how often a process does the work: the JVM needs time to compile, which large inputs give it."""
    return 3 if events < 10_000_000 else 2 if events < 100_000_000 else 1


def runs_for(events: int, runs: int) -> int:
    """Return the number of processes of each side: as requested up to 1 M, three for 10 and 30 M, then one."""
    return runs if events <= 1_000_000 else min(runs, 3) if events <= ALL_SIDES_EVENTS_MAX else 1


def steps(sizes: Sequence[int], runs: int) -> Iterator[Step]:
    """Yield the samples; the sides of a size alternate, and Spark spills once on the size that all sides did."""
    for events in sizes:
        sides = SIDES if events <= ALL_SIDES_EVENTS_MAX else LARGE_SIDES
        for _ in range(runs_for(events, runs)):
            yield from (Step(events=events, engine=engine, cores=cores) for engine, cores in sides)
    largest = max(events for events in sizes if events <= ALL_SIDES_EVENTS_MAX)
    yield Step(events=largest, engine="spark", cores=2, heap_mb=SMALL_HEAP_MB)


class Benchmark:
    """The runs, the folder that they work in, and the file that remembers them."""

    def __init__(self, folder: Path, seed: int, kept: Path | None) -> None:
        self.folder = folder
        self.seed = seed
        self.kept = kept
        lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
        self.known = [Sample(**json.loads(line)) for line in lines]

    def history(self, events: int) -> tuple[Path, int]:
        """Return the folder of a generated history, and its number of rows."""
        folder = self.folder / f"history-{events}"
        command = ["-m", "bench.pipeline.events", str(folder), "--events", str(events), "--seed", str(self.seed)]
        return folder, int(watch(command).last_line)

    def sample(self, step: Step) -> Sample:
        """Run one engine in a fresh process, unless the sample is kept already."""
        key = (step.engine, step.cores, step.heap_mb, step.events)
        found = next((s for s in self.known if (s.engine, s.cores, s.heap_mb, s.events) == key), None)
        if found is not None:
            self.known.remove(found)
            return found
        folder, rows = self.history(step.events)
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        options = {"rows": rows, "cores": step.cores, "heap-mb": step.heap_mb, "passes": passes_for(step.events)}
        command = ["-m", "bench.pipeline.job", step.engine, str(folder), "--scratch", str(scratch)]
        try:
            watched = watch(command + [part for name, value in options.items() for part in (f"--{name}", str(value))])
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        sample = _sample(step, rows, watched)
        if self.kept is not None:
            with self.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(sample)) + "\n")
        return sample

    def take(self, plan: Sequence[Step]) -> list[Sample]:
        """Take all samples, and print the remaining time."""
        samples = []
        started, done = time.monotonic(), 0.0
        for number, step in enumerate(plan, start=1):
            is_new = len(self.known)
            sample = self.sample(step)
            samples.append(sample)
            done += step.price if len(self.known) == is_new else 0.0
            left = sum(later.price for later in plan[number:])
            said = f"{sample.warm_s:.1f} s, {sample.warm_cpu_s:.1f} CPU s, {sample.pss_bytes_max / 2**20:,.0f} MB"
            minutes = left * ((time.monotonic() - started) / done if done else 1.0) / 60
            place = f"[{number}/{len(plan)}] {sample.rows:>11,} rows {step.engine} on {step.cores}"
            print(f"{place}: {said}; about {minutes:.0f} min left", file=sys.stderr, flush=True)
        return samples


def _sample(step: Step, rows: int, watched: Watched) -> Sample:
    result: dict[str, Any] = json.loads(watched.last_line)
    first, last = result["passes"][0], result["passes"][-1]
    return Sample(
        engine=step.engine, cores=step.cores, heap_mb=step.heap_mb, events=step.events, rows=rows,
        cold_s=first["wall_s"], warm_s=last["wall_s"], warm_cpu_s=last["cpu_s"], pss_bytes_max=watched.pss_bytes_max,
        spilled_bytes=result["spilled_bytes"], digest=result["digest"],
    )  # fmt: skip


def machine() -> str:
    """Return the machine of the figures, without names."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model or platform.machine()}), {memory_gb:.0f} GB, {versions}."


def main() -> int:
    """Print the tables; 1 when results differ or a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", help="sizes, up to 30 M by all sides (default: 1 M and 10 M)")
    parser.add_argument("--runs", type=int, default=5, help="processes for each engine; 10 M and more: 3 at most")
    parser.add_argument("--full", action="store_true", help="30 M and, once, 100 M events, too (about 5 GB of files)")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="whole runs, 1 M and 10 M events; --full: 10,000 groups, and 100 M (about 150 GB)",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep generated histories here (default: a temporary folder)")
    parser.add_argument("--samples", type=Path, help="keep samples in this file, and do not take again what is in it")
    parser.add_argument("--note", default="", help="a sentence about the machine for the page")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.relative_to(REPOSITORY)}")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(str(REPOSITORY / name) for name in ("operator", "tests"))
    if options.whole:
        return whole_runs(options)
    plan = list(steps(options.events or (FULL_EVENTS if options.full else USUAL_EVENTS), options.runs))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = Results(Benchmark(folder, options.seed, options.samples).take(plan), HEAP_MB)
    what_if: dict[str, float] = json.loads(watch(["-m", "bench.pipeline.what_if"]).last_line)
    found = list(verdicts(results, what_if))
    differences = results.digests_differ()
    head = f"{machine()}\n{options.note}".strip()
    lines = [head, "", *verdict_lines(found), "", *table(results), "", *differences]
    print("\n".join(lines))
    if options.write:
        write(lines, MARKS)
    return 0 if not differences and all(v.reaches(v.budget) for v in found) else 1


def whole_runs(options: argparse.Namespace) -> int:
    """Print whole runs; 1 when the two engines differ or the next day costs as much as the month."""
    sizes = options.events or (WHOLE_FULL_EVENTS if options.full else WHOLE_EVENTS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for events in sorted(sizes):
            found.append(measure(folder, events, options.seed, has_baseline=events <= BASELINE_EVENTS_MAX))
            print("\n".join(whole_lines(found[-1:])), file=sys.stderr, flush=True)
    differences = [text for each in found for text in each.differences]
    head = f"{machine()}\n{options.note}".strip()
    lines = [head, "", *whole_lines(found)]
    print("\n".join([*lines, *differences[:20]]))
    if options.write:
        write(lines, WHOLE_MARKS)
    is_incremental = all(each.next_day.cpu_s < each.month.cpu_s for each in found)
    return 0 if not differences and is_incremental else 1


def write(lines: Sequence[str], marks: tuple[str, str]) -> None:
    """Replace the text between two marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(marks[0])
    _, after = rest.split(marks[1])
    body = "\n".join(lines).strip()
    PAGE.write_text(f"{before}{marks[0]}\n{body}\n{marks[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
