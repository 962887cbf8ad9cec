"""`python -m bench.scale`: how the operator does with up to 10,000 StaticGroups; 1 when a budget is not kept."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.devcluster.progress import say

from . import report
from .api import ApiServer, StatusWatch
from .budgets import is_kept
from .ground import PLAIN, REPOSITORY, STATICGROUP, Coordinator, OperatorProcess, Subject, ground
from .population import PODS_PER_NODE, Fleet, Group, namespace_count
from .run import Run, Size

RESULTS = REPOSITORY / "build" / "scale.json"
PAGE = REPOSITORY / "docs" / "reference" / "scale.md"
SUBJECTS = {subject.name: subject for subject in (STATICGROUP, PLAIN)}


def main() -> int:
    """Measure what is asked, tell it, and return 1 when a budget of the operator is not kept."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that every process is taken away
    results: list[dict[str, Any]] = []
    for groups in options.groups:
        for name in options.operator:
            size = Size(
                groups=groups, pods_per_group=options.pods_per_group, scale_downs=options.scale_downs,
                idle_s=options.idle_seconds, edits_s=options.edit_seconds, part_limit_s=options.part_limit_seconds,
                roll_limit_s=options.roll_limit_seconds,
            )  # fmt: skip
            result = measured(size, SUBJECTS[name], options.keep)
            results.append(result)
            print(f"\n{name}, {groups} StaticGroups of {size.pods_per_group} pods, load {result['load_average']}")
            print("\n".join(report.lines(result)), flush=True)
            _write(results, is_page_wanted=options.write)
    ours = [r for r in results if r["subject"] == STATICGROUP.name]
    return 0 if all(is_kept(r["groups"], r["figures"]) for r in ours) else 1


def _write(results: list[dict[str, Any]], *, is_page_wanted: bool) -> None:
    """Write what was measured so far, because a size may take an hour."""
    known = _with_earlier(results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    if is_page_wanted:
        PAGE.write_text(report.page(known).rstrip() + "\n")
        say(f"written: {PAGE.relative_to(REPOSITORY)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--groups", type=_count, nargs="+", default=[100], metavar="N", help="StaticGroups (default 100)"
    )
    parser.add_argument("--pods-per-group", type=_count, default=10, metavar="M", help="default %(default)s")
    parser.add_argument(
        "--operator", nargs="+", choices=tuple(SUBJECTS), default=[STATICGROUP.name], help="default %(default)s"
    )
    parser.add_argument(
        "--scale-downs", type=_count, default=1_000, metavar="N",
        help="at once; at most one a group (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--idle-seconds", type=float, default=60.0, metavar="S", help="default %(default)s")
    parser.add_argument(
        "--edit-seconds", type=float, default=20.0, metavar="S", help="at each rate (default %(default)s)"
    )
    parser.add_argument(
        "--part-limit-seconds", type=float, default=600.0, metavar="S",
        help="a part that takes longer is ended (default %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--roll-limit-seconds", type=float, default=240.0, metavar="S",
        help="no further StatefulSet is rolled after (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put logs of the processes there and leave them")
    parser.add_argument(
        "--write", action="store_true",
        help=f"write {PAGE.relative_to(REPOSITORY)}, with earlier sizes of build/scale.json",
    )  # fmt: skip
    options = parser.parse_args()
    kept = [_kept(options.keep, name, groups) for groups in options.groups for name in options.operator if options.keep]
    if found := next((str(folder) for folder in kept if folder.exists()), None):
        parser.error(f"{found} has the logs of an earlier run; remove it, or keep these elsewhere")
    return options


def _kept(keep: Path, name: str, groups: int) -> Path:
    return keep / f"{name}-{groups}"


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"a number from 1 to 10000, not {text!r}")
    return int(text)


def measured(size: Size, subject: Subject, keep: Path | None) -> dict[str, Any]:
    """Measure one operator at one size, and take everything away afterwards."""
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory(prefix="sg-scale-") as temporary:
        folder = (_kept(keep, subject.name, size.groups) if keep else Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with ground(folder) as stage:
            coordinator = Coordinator()
            operator = OperatorProcess(subject=subject, ground=stage, environment=_passed_on())
            try:
                run = asyncio.run(_played(size, operator, coordinator))
            finally:
                operator.stop()
                coordinator.stop()
    load.append(round(os.getloadavg()[0], 1))
    return {
        "subject": subject.name, "groups": size.groups, "pods_per_group": size.pods_per_group, "load_average": load,
        "figures": run.figures, "details": run.details,
    }  # fmt: skip


def _passed_on() -> dict[str, str]:
    """Return what of this process's environment is the operator's: its settings, and a place for a profile."""
    return {name: value for name, value in os.environ.items() if name.startswith(("STATICGROUP_", "BENCH_"))}


async def _played(size: Size, operator: OperatorProcess, coordinator: Coordinator) -> Run:
    async with ApiServer.connected(operator.ground.client) as api:
        groups = [Group(number=n, namespaces=namespace_count(size.groups)) for n in range(size.groups)]
        nodes = max(1, size.groups * size.pods_per_group // PODS_PER_NODE)
        fleet = Fleet(api=api, groups=groups, node_count=nodes)
        run = Run(size, api, operator, coordinator, StatusWatch(api), groups, fleet)
        await run.play()
        return run


def _with_earlier(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results with those of earlier runs of other sizes and operators."""
    key = ("subject", "groups", "pods_per_group")
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    new = {tuple(r[k] for k in key) for r in results}
    return [r for r in earlier if tuple(r[k] for k in key) not in new] + results


if __name__ == "__main__":
    sys.exit(main())
