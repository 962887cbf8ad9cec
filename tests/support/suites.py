"""The suites of `make check`, `make e2e`, `make test` and the like: what runs, in which order, and in what time.

One table says it all. Each suite has a budget that is printed beside the time it took; a suite that overruns is
reported, not failed, because a busy machine proves nothing. The figures that the end-to-end tests measured are printed
at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).parents[2]
FIGURES = REPOSITORY / "build" / "figures.jsonl"
PYTHON = sys.executable
BIN = Path(PYTHON).parent
E2E_CLUSTER = os.environ.get("E2E_CLUSTER", "sg-e2e")
RESOURCES_CLUSTER = f"{E2E_CLUSTER}-resources"
INSTALL_CLUSTER = f"{E2E_CLUSTER}-install"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One command with its budget.

    Parameters
    ----------
    budget_s: seconds on two cores, builds cached.
    beside: keeps one core busy, so it runs at the same time as the suite before it; its output follows.
    """

    name: str
    command: tuple[str, ...]
    budget_s: int
    beside: bool = False


def pytest(*arguments: str) -> tuple[str, ...]:
    """Return a pytest command."""
    return (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


def with_cluster(name: str, *command: str) -> tuple[str, ...]:
    """Return a command that runs another one while a cluster of its own is there."""
    return (PYTHON, "-m", "support.scene", "with-cluster", name, "--", *command)


SUITES: dict[str, tuple[Suite, ...]] = {
    "check": (
        Suite(name="lint", command=(str(BIN / "ruff"), "check", "."), budget_s=5),
        Suite(name="types", command=(str(BIN / "mypy"),), budget_s=40),
        Suite(name="rings", command=(str(BIN / "lint-imports"),), budget_s=15),
        Suite(name="generated", command=(PYTHON, "-m", "staticgroup.api.crd", "--check", "crds/"), budget_s=5),
        Suite(
            name="journal",
            command=(PYTHON, "-m", "staticgroup.api.journal", "--check", "docs/reference/journal"),
            budget_s=5,
        ),
        Suite(name="reference", command=(PYTHON, "docs/reference/generate.py", "--check"), budget_s=5),
        Suite(
            name="unit", command=pytest("tests/unit", "--ignore=tests/unit/fleet_learner", "--timeout=120"), budget_s=90
        ),
    ),
    "models": (
        Suite(
            name="models",
            command=pytest("tests/conformance", "tests/simulation", "-m", "not broker", "--timeout=300"),
            budget_s=180,
            beside=True,
        ),
    ),
    "pipeline": (
        Suite(name="pipeline, pure", command=pytest("tests/unit/fleet_learner", "--timeout=300"), budget_s=60),
        Suite(name="pipeline, Spark", command=pytest("tests/pipeline", "--timeout=900"), budget_s=360),
    ),
    "simulate": (
        Suite(name="exhaustive model", command=(PYTHON, "-m", "simulator.evidence"), budget_s=90),
        Suite(name="schedules", command=(PYTHON, "-m", "simulator", "soak", "--schedules", "500"), budget_s=180),
        Suite(name="crash at every await", command=(PYTHON, "-m", "simulator", "crash"), budget_s=240),
    ),
    "brokers": (
        Suite(name="conformance", command=pytest("tests/conformance", "-m", "broker", "--timeout=600"), budget_s=240),
    ),
    "e2e": (
        Suite(name="ground up", command=(PYTHON, "-m", "support.scene", "up", E2E_CLUSTER), budget_s=90),
        Suite(
            name="kafka gateway",
            command=pytest("tests/e2e/test_kafka_gateway.py", "tests/e2e/test_journal.py", "--timeout=300"),
            budget_s=90,
        ),
        Suite(
            name="operator",
            command=pytest(
                "tests/e2e",
                "--timeout=900",
                *(
                    f"--ignore=tests/e2e/{f}.py"
                    for f in ("test_kafka_gateway", "test_journal", "test_brokers", "test_ground", "test_install")
                ),
                "--ignore=tests/e2e/pipeline",
            ),
            budget_s=1200,
        ),
        Suite(name="audit", command=pytest("tests/e2e/pipeline/test_audit.py", "--timeout=900"), budget_s=300),
        Suite(name="ground down", command=(PYTHON, "-m", "support.scene", "down", E2E_CLUSTER), budget_s=20),
        Suite(
            name="resources and chart",
            command=with_cluster(RESOURCES_CLUSTER, *pytest("tests/operator", "--timeout=300")),
            budget_s=150,
        ),
        Suite(
            name="install",
            command=with_cluster(INSTALL_CLUSTER, *pytest("tests/e2e/test_install.py", "--timeout=600")),
            budget_s=240,
        ),
        Suite(
            name="kind", command=pytest("tests/e2e/test_ground.py", "-k", "pytest_kind", "--timeout=300"), budget_s=60
        ),
    ),
    "pods": (
        Suite(name="pods", command=pytest("tests/e2e/pipeline/test_on_cluster.py", "--timeout=1800"), budget_s=750),
    ),
    "ground": (
        Suite(name="ground", command=pytest("tests/e2e/test_ground.py", "--timeout=600"), budget_s=300),
        Suite(name="brokers", command=pytest("tests/e2e/test_brokers.py"), budget_s=240),
        Suite(name="workload", command=pytest("tests/support/workload/test_workload.py", "--timeout=300"), budget_s=60),
    ),
}


def cluster_environment(name: str) -> dict[str, str]:
    """Return the variables by which tests find a running development cluster."""
    from support.devcluster.cluster import Cluster
    from support.devcluster.programs import helm_program

    state = Cluster.load(name).state
    return {
        "KUBECTL": f"{state.bin_directory}/kubectl",
        "KUBECONFIG": state.kubeconfig,
        "HELM": str(helm_program()),
        "OPERATOR_IMAGE": "localhost/staticgroup:0.1.0",
    }


def start(suite: Suite, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start one suite, its output to the terminal or to a file."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'tests'}", "E2E_CLUSTER": E2E_CLUSTER}
    return subprocess.Popen(suite.command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)


def run(suites: Sequence[Suite]) -> list[tuple[Suite, int, float]]:
    """Run one suite and those that go beside it; returns their exit statuses and seconds."""
    began_s = time.monotonic()
    first, *others = suites
    with ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in others]
        processes = [start(s, output) for s, output in zip(others, outputs, strict=True)]
        _announce(first)
        rows = [(first, start(first).wait(), time.monotonic() - began_s)]
        for suite, process, output in zip(others, processes, outputs, strict=True):
            rows.append((suite, process.wait(), time.monotonic() - began_s))
            _announce(suite)
            output.seek(0)
            print(output.read().decode(errors="replace"), flush=True)
    return rows


def _announce(suite: Suite) -> None:
    print(f"\n=== {suite.name} (budget {suite.budget_s} s): {shlex.join(suite.command)[:160]}", flush=True)


def stages(names: Sequence[str]) -> Iterator[list[Suite]]:
    """Yield what runs at the same time, in order."""
    stage: list[Suite] = []
    for suite in (s for name in names for s in SUITES[name]):
        if stage and not suite.beside:
            yield stage
            stage = []
        stage.append(suite)
    yield stage


def main(names: Sequence[str]) -> int:
    """Run the named groups of suites; stops at the first failure, except for what takes the ground away."""
    unknown = [n for n in names if n not in SUITES]
    if unknown or not names:
        print(f"usage: python -m support.suites {' '.join(SUITES)}; unknown: {unknown}", file=sys.stderr)
        return 2
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.unlink(missing_ok=True)
    rows: list[tuple[Suite, int, float]] = []
    for stage in stages(names):
        if any(status for _, status, _ in rows) and stage[0].name != "ground down":
            continue
        rows += run(stage)
    _print_figures()
    print("\nsuite                 seconds  budget")
    for suite, status, seconds in rows:
        over = "  over budget" if seconds > suite.budget_s else ""
        print(f"{suite.name:20} {seconds:8.1f} {suite.budget_s:7d}  {'FAILED' if status else 'passed'}{over}")
    failed = sum(1 for _, status, _ in rows if status)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _print_figures() -> None:
    """Print what the end-to-end tests measured in this run."""
    if not FIGURES.exists():
        return
    print("\nfigures of this run")
    for line in FIGURES.read_text().splitlines():
        row = json.loads(line)
        name = row.pop("name")
        row.pop("at_ms", None)
        print(f"  {name}: " + ", ".join(f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
