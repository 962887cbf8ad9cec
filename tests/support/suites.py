"""The suites of `make check`, `make e2e`, `make test` and the like: what runs, in which order, and in what time.

One table says it all. Each suite has a budget that is printed beside the time it took; a suite that overruns is
reported, not failed, because a busy machine proves nothing. The figures that the end-to-end tests measured are printed
at the end.

Suites that keep one core busy come first, two at a time; after them each has the machine to itself, since most of those
measure times or run a cluster. What those leave of it, for they wait much, goes to suites that only compute: the system runs
them when nobody else wants a core. With LONG_DRILLS=1 nothing is left out: `make full`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from support.long_drills import are_drills_long, by_length

REPOSITORY = Path(__file__).parents[2]
FIGURES = REPOSITORY / "build" / "figures.jsonl"
PYTHON = sys.executable
BIN = Path(PYTHON).parent
E2E_CLUSTER = os.environ.get("E2E_CLUSTER", "sg-e2e")
RESOURCES_CLUSTER = f"{E2E_CLUSTER}-resources"
INSTALL_CLUSTER = f"{E2E_CLUSTER}-install"
CORES = 2
COMPLAINTS = 12
"""So many lines of each suite that failed are said again at the end, where whoever reads only that finds them."""
FAST_S = 40
"""What takes no longer by its budget runs before the others, so that a slip shows at once."""
PRINTING = threading.Lock()
ALWAYS = "ground down"
"""Runs whatever failed before, or a cluster would be left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One command with its budget.

    Parameters
    ----------
    budget_s: seconds on two cores, builds cached.
    one_core: keeps one core busy and measures no time, so another one runs beside it; its output follows its end.
    spare: computes and has no deadline, so it takes what suites that have the machine to themselves leave of it; where there
        are none, it is as the others are.
    """

    name: str
    command: tuple[str, ...]
    budget_s: int
    one_core: bool = False
    spare: bool = False


def pytest(*arguments: str, only: str = "") -> tuple[str, ...]:
    """Return a pytest command for the tests with the marks `only`, without long ones unless those are asked for."""
    marks = " and ".join(each for each in (only, "" if are_drills_long() else "not long") if each)
    return (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *(("-m", marks) if marks else ()))


def with_cluster(name: str, *command: str) -> tuple[str, ...]:
    """Return a command that runs another one while a cluster of its own is there."""
    return (PYTHON, "-m", "support.scene", "with-cluster", name, "--", *command)


SHELL = "tests/unit/runtime"
"""Half of the unit tests by the time that they take, so that both cores have something to do."""
EXHAUSTIVE = (
    "tests/simulation/test_evidence_model.py",
    "tests/simulation/test_evidence_mutants.py",
    "tests/simulation/test_continuity_model.py",
    "tests/simulation/test_node_model.py",
)
SPARK_JOBS = tuple(f"tests/pipeline/test_{name}.py" for name in ("cli", "exactly_once", "waves"))
"""Half of the tests on Spark by the time that they take."""
BILL = "tests/pipeline/test_bill.py"
"""Consumers of a real broker keep time in it, so it has the machine to itself."""

NODE_DRILLS = ("test_node_drills", "test_slow_rolls", "test_restore_drills")
"""Nodes of the cluster fail in them, and its etcd goes back in time, so they come last."""

SUITES: dict[str, tuple[Suite, ...]] = {
    "check": (
        Suite(name="lint", command=(str(BIN / "ruff"), "check", "."), budget_s=5, one_core=True),
        Suite(name="types", command=(str(BIN / "mypy"),), budget_s=40, one_core=True),
        Suite(name="rings", command=(str(BIN / "lint-imports"),), budget_s=15, one_core=True),
        Suite(
            name="generated",
            command=(PYTHON, "-m", "staticgroup.api.crd", "--check", "crds/"),
            budget_s=5,
            one_core=True,
        ),
        Suite(
            name="journal",
            command=(PYTHON, "-m", "staticgroup.api.journal", "--check", "docs/reference/journal"),
            budget_s=5,
            one_core=True,
        ),
        Suite(
            name="reference", command=(PYTHON, "docs/reference/generate.py", "--check"), budget_s=5, one_core=True
        ),
        Suite(
            name="unit",
            command=pytest(
                "tests/unit",
                "tests/support/scene/test_witnesses.py",
                "tests/support/drills/test_drills.py",
                "--ignore=tests/unit/fleet_learner",
                f"--ignore={SHELL}",
                "--timeout=120",
            ),
            budget_s=190,
            one_core=True,
        ),
        Suite(name="unit, runtime", command=pytest(SHELL, "--timeout=120"), budget_s=190, one_core=True),
    ),
    "models": (
        # Every state of every variant, and the mutants that the search finds: `python -m simulator.evidence` and more.
        Suite(
            name="exhaustive model", command=pytest(*EXHAUSTIVE[:2], "--timeout=300"), budget_s=130, one_core=True
        ),
        Suite(
            name="continuity model", command=pytest(EXHAUSTIVE[2], "--timeout=300"), budget_s=40, one_core=True
        ),
        Suite(name="node model", command=pytest(EXHAUSTIVE[3], "--timeout=300"), budget_s=50, one_core=True),
        Suite(
            name="models",
            command=pytest(
                "tests/conformance",
                "tests/simulation",
                *(f"--ignore={path}" for path in EXHAUSTIVE),
                "--timeout=300",
                only="not broker",
            ),
            budget_s=290,
            one_core=True,
        ),
    ),
    "learner": (
        Suite(
            name="pipeline, pure",
            command=pytest("tests/unit/fleet_learner", "--timeout=300"),
            budget_s=70,
            one_core=True,
        ),
    ),
    "pipeline": (
        Suite(name="Spark, jobs", command=pytest(*SPARK_JOBS, "--timeout=1800"), budget_s=400, one_core=True, spare=True),
        Suite(
            name="Spark, the rest",
            command=pytest("tests/pipeline", *(f"--ignore={path}" for path in (*SPARK_JOBS, BILL)), "--timeout=1800"),
            budget_s=900,
            one_core=True,
            spare=True,
        ),
    ),
    "simulate": (
        Suite(
            name="schedules",
            command=(PYTHON, "-m", "simulator", "soak", "--schedules", by_length(short="100", long="500")),
            budget_s=130,
            spare=True,
        ),
        Suite(
            name="crash at awaits",
            command=(PYTHON, "-m", "simulator", "crash", "--every", by_length(short="2", long="1")),
            budget_s=130,
            spare=True,
        ),
    ),
    "brokers": (
        Suite(name="conformance", command=pytest("tests/conformance", "--timeout=600", only="broker"), budget_s=130),
        Suite(name="bill", command=pytest(BILL, "--timeout=600"), budget_s=200),
    ),
    "connect": (
        Suite(
            name="Connect agent",
            command=(PYTHON, "-m", "support.connect.builds"),
            budget_s=40,
            one_core=True,
        ),
        # The jar alone, unless drills are long: then workers of several versions on loopback. In pods they are in "operator".
        Suite(name="Connect", command=pytest("tests/connect", "--timeout=600"), budget_s=by_length(short=40, long=1800)),
    ),
    "e2e": (
        Suite(name="ground up", command=(PYTHON, "-m", "support.scene", "up", E2E_CLUSTER), budget_s=70),
        Suite(
            name="kafka gateway",
            command=pytest(
                "tests/e2e/test_kafka_gateway.py", "tests/e2e/test_group_config.py", "tests/e2e/test_journal.py", "--timeout=300"
            ),
            budget_s=100,
        ),
        Suite(
            name="operator",
            command=pytest(
                "tests/e2e",
                "--timeout=900",
                "--durations=40",
                *(
                    f"--ignore=tests/e2e/{f}.py"
                    for f in (
                        "test_kafka_gateway", "test_group_config", "test_journal", "test_brokers", "test_ground", "test_install",
                        *NODE_DRILLS,
                    )
                ),
                "--ignore=tests/e2e/pipeline",
            ),
            budget_s=950,
        ),
        Suite(name="audit", command=pytest("tests/e2e/pipeline/test_audit.py", "--timeout=900"), budget_s=240),
        Suite(
            name="node drills",
            command=pytest(*(f"tests/e2e/{f}.py" for f in NODE_DRILLS), "--timeout=900", "--durations=10"),
            budget_s=by_length(short=330, long=9_000),
        ),
        Suite(name="ground down", command=(PYTHON, "-m", "support.scene", "down", E2E_CLUSTER), budget_s=20),
        Suite(
            name="resources and chart",
            command=with_cluster(RESOURCES_CLUSTER, *pytest("tests/operator", "--timeout=300")),
            budget_s=400,
            one_core=True,
        ),
        Suite(
            name="install",
            command=with_cluster(INSTALL_CLUSTER, *pytest("tests/e2e/test_install.py", "--timeout=600")),
            budget_s=140,
            one_core=True,
        ),
        Suite(
            name="kind", command=pytest("tests/e2e/test_ground.py", "-k", "pytest_kind", "--timeout=300"), budget_s=30
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


def start(suite: Suite, output: IO[bytes] | None = None, *, is_idle: bool = False) -> subprocess.Popen[bytes]:
    """Start one suite, its output to the terminal or to a file.

    Parameters
    ----------
    is_idle: it and all that it starts run only when nobody else wants a core (SCHED_IDLE, sched(7)).
    """
    paths = os.pathsep.join(str(REPOSITORY / each) for each in ("operator", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, "E2E_CLUSTER": E2E_CLUSTER}
    command = ("chrt", "--idle", "0", *suite.command) if is_idle else suite.command
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a suite.

    Parameters
    ----------
    complaints: the lines of its output that say what failed.
    """

    suite: Suite
    status: int
    seconds: float
    complaints: tuple[str, ...] = ()


def run_alone(suite: Suite) -> Ran:
    """Run one suite, its output to the terminal as it comes.

    Through a file and not a pipe: what a suite leaves running, as a cluster, would hold a pipe open.
    """
    began_s = time.monotonic()
    _announce(suite)
    with tempfile.TemporaryFile() as output:
        process, shown = start(suite, output), 0
        while process.poll() is None:
            shown = _show(output, shown)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        _show(output, shown)
        return Ran(suite, process.returncode, time.monotonic() - began_s, _complaints(output, process.returncode))


def _show(output: IO[bytes], shown: int) -> int:
    """Print what a file has beyond its first `shown` bytes, and return how many it has; the writer's place stays."""
    new = os.pread(output.fileno(), os.fstat(output.fileno()).st_size - shown, shown)
    print(new.decode(errors="replace"), end="", flush=True)
    return shown + len(new)


def _complaints(output: IO[bytes], status: int) -> tuple[str, ...]:
    """Return the lines of a failed suite's output that say what failed, or its last ones where none does."""
    if not status:
        return ()
    lines = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace").splitlines()
    return tuple([line[:200] for line in lines if line.startswith(("E  ", "FAILED ", "ERROR "))] or lines)[-COMPLAINTS:]


def run_beside_each_other(suites: Sequence[Suite]) -> list[Ran]:
    """Run suites as many at a time as there are cores; begins no more once one has failed."""
    waiting, has_failed = _queue(suites), threading.Event()
    with ThreadPoolExecutor(CORES) as workers:
        lanes = [workers.submit(run_next_ones, waiting, has_failed) for _ in range(CORES)]
        return [ran for lane in lanes for ran in lane.result()]


def run_next_ones(waiting: SimpleQueue[Suite], has_failed: threading.Event, *, are_idle: bool = False) -> list[Ran]:
    """Run suites that wait, one after the other, until none does or one has failed, here or elsewhere.

    Parameters
    ----------
    are_idle: they take what others leave of the machine.
    """
    done: list[Ran] = []
    while not has_failed.is_set():
        try:
            suite = waiting.get_nowait()
        except Empty:
            break
        began_s = time.monotonic()
        with tempfile.TemporaryFile() as output:
            status = start(suite, output, is_idle=are_idle).wait()
            seconds = time.monotonic() - began_s
            if status:
                has_failed.set()
            with PRINTING:
                _announce(suite)
                _show(output, 0)
                print(flush=True)
            done.append(Ran(suite, status, seconds, _complaints(output, status)))
    return done


def _queue(suites: Sequence[Suite]) -> SimpleQueue[Suite]:
    waiting: SimpleQueue[Suite] = SimpleQueue()
    for suite in suites:
        waiting.put(suite)
    return waiting


def _announce(suite: Suite) -> None:
    print(f"\n=== {suite.name} (budget {suite.budget_s} s): {shlex.join(suite.command)[:160]}", flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What runs when.

    Parameters
    ----------
    beside: first, as many at a time as there are cores. alone: then, one after the other. spare: meanwhile, when nobody else wants a core.
    """

    beside: tuple[Suite, ...]
    alone: tuple[Suite, ...]
    spare: tuple[Suite, ...]


def order_of(names: Sequence[str]) -> Order:
    """Return the order in which the named groups of suites run."""
    chosen = [suite for name in names for suite in SUITES[name]]
    leave_some = any(not suite.one_core and not suite.spare for suite in chosen)
    spare = [suite for suite in chosen if suite.spare and leave_some]
    beside = [suite for suite in chosen if suite.one_core and suite not in spare]
    # What fails fast comes first; then the longest, so that no core waits long for the other one in the end.
    beside.sort(key=lambda suite: (suite.budget_s > FAST_S, -suite.budget_s if suite.budget_s > FAST_S else 0))
    alone = [suite for suite in chosen if not suite.one_core and suite not in spare]
    return Order(beside=tuple(beside), alone=tuple(alone), spare=tuple(spare))


def run_in_order(order: Order) -> list[Ran]:
    """Run suites; begins no more at the first failure, except for what takes the ground away."""
    done, has_failed = run_beside_each_other(order.beside), threading.Event()
    if any(ran.status for ran in done):
        return done
    waiting = _queue(order.spare)
    with ThreadPoolExecutor(CORES) as workers:
        spare = [workers.submit(run_next_ones, waiting, has_failed, are_idle=True) for _ in range(CORES)]
        for suite in order.alone:
            if has_failed.is_set() and suite.name != ALWAYS:
                continue
            ran = run_alone(suite)
            done.append(ran)
            if ran.status:
                has_failed.set()
        return done + [ran for lane in spare for ran in lane.result()]


def main(names: Sequence[str]) -> int:
    """Run the named groups of suites and return the exit code."""
    unknown = [n for n in names if n not in SUITES]
    if unknown or not names:
        print(f"usage: python -m support.suites {' '.join(SUITES)}; unknown: {unknown}", file=sys.stderr)
        return 2
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.unlink(missing_ok=True)
    began_s = time.monotonic()
    done = run_in_order(order_of(names))
    _print_figures()
    print("\nsuite                 seconds  budget")
    for ran in done:
        over = "  over budget" if ran.seconds > ran.suite.budget_s else ""
        said = f"{'FAILED' if ran.status else 'passed'}{over}"
        print(f"{ran.suite.name:20} {ran.seconds:8.1f} {ran.suite.budget_s:7d}  {said}")
    for ran in done:
        if ran.status:
            print(f"\n{ran.suite.name} failed:", *ran.complaints, sep="\n  ")
    failed = sum(1 for ran in done if ran.status)
    print(f"{len(done) - failed} passed, {failed} failed, in {time.monotonic() - began_s:.0f} s")
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
