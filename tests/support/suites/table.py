"""The suites of `make check`, `make e2e`, `make test` and the like: what runs, in which order, and in what time.

One table says it all. Suites that keep one core busy come first, two at a time; after them each has the machine to itself,
since most of those measure times or run a cluster. What all of those leave of it, for they wait much, goes to suites that only
compute: the system runs them when nobody else wants a core. With LONG_DRILLS=1 nothing is left out: `make full`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.long_drills import are_drills_long, by_length

PYTHON = sys.executable
BIN = Path(PYTHON).parent
E2E_CLUSTER = os.environ.get("E2E_CLUSTER", "sg-e2e")
RESOURCES_CLUSTER = f"{E2E_CLUSTER}-resources"
INSTALL_CLUSTER = f"{E2E_CLUSTER}-install"
FAST_S = 40
"""What takes no longer by its budget runs before the others, so that a slip shows at once."""
ALWAYS = "ground down"
"""Runs whatever failed before, or a cluster would be left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One command with its budget.

    Parameters
    ----------
    budget_s: seconds on two cores, builds cached.
    one_core: keeps one core busy and measures no time, so another one runs beside it; its output follows its end.
    spare: computes and has no deadline, so it takes what other suites leave of the machine; where none has it to itself, it is as
        the others are.
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
EXHAUSTIVE = ("tests/simulation/test_carriers_model.py", "tests/simulation/test_carriers_mutants.py")
SPARK_WHOLE = "tests/pipeline/test_cli.py"
"""From a fleet's journal to report and recommendations, each command once; what single jobs do belongs to `make pipeline`."""
SPARK_JOBS = tuple(f"tests/pipeline/test_{name}.py" for name in ("exactly_once", "lake", "waves"))
"""Half of the other tests on Spark by the time that they take."""
BILL = "tests/pipeline/test_bill.py"
"""Consumers of a real broker keep time in it, so it has the machine to itself, in `make full`."""

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
            command=(PYTHON, "-m", "journal", "--check", "docs/reference/journal"),
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
            budget_s=400,
            one_core=True,
        ),
        Suite(name="unit, runtime", command=pytest(SHELL, "--timeout=120"), budget_s=280, one_core=True),
    ),
    "models": (
        # Every state of every variant, and the mutants that the search finds: `python -m simulator.carriers`.
        Suite(name="carriers", command=pytest(*EXHAUSTIVE, "--timeout=600"), budget_s=150, one_core=True, spare=True),
        Suite(
            name="models",
            command=pytest(
                "tests/conformance",
                "tests/simulation",
                *(f"--ignore={path}" for path in EXHAUSTIVE),
                "--timeout=300",
                only="not broker",
            ),
            budget_s=440,
            one_core=True,
        ),
    ),
    "learner": (
        Suite(
            name="pipeline, pure",
            command=pytest("tests/unit/fleet_learner", "--timeout=300"),
            budget_s=180,
            one_core=True,
        ),
    ),
    "spark": (
        Suite(name="Spark, whole", command=pytest(SPARK_WHOLE, "--timeout=1800"), budget_s=150, one_core=True, spare=True),
    ),
    "pipeline": (
        Suite(name="Spark, jobs", command=pytest(*SPARK_JOBS, "--timeout=1800"), budget_s=200, one_core=True, spare=True),
        Suite(
            name="Spark, the rest",
            command=pytest("tests/pipeline", *(f"--ignore={path}" for path in (SPARK_WHOLE, *SPARK_JOBS, BILL)), "--timeout=1800"),
            budget_s=340,
            one_core=True,
            spare=True,
        ),
    ),
    "simulate": (
        Suite(
            name="schedules",
            command=(PYTHON, "-m", "simulator", "soak", "--schedules", by_length(short="60", long="500")),
            budget_s=130,
            spare=True,
        ),
        Suite(
            name="crash at awaits",
            command=(PYTHON, "-m", "simulator", "crash", "--every", by_length(short="3", long="1")),
            budget_s=130,
            spare=True,
        ),
    ),
    "brokers": (
        Suite(name="conformance", command=pytest("tests/conformance", "--timeout=600", only="broker"), budget_s=130),
    ),
    "bill": (Suite(name="bill", command=pytest(BILL, "--timeout=600"), budget_s=200),),
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
                "--ignore=tests/e2e/pipeline/test_on_cluster.py",
            ),
            budget_s=620,
        ),
        Suite(
            name="node drills",
            command=pytest(*(f"tests/e2e/{f}.py" for f in NODE_DRILLS), "--timeout=900", "--durations=10"),
            budget_s=by_length(short=100, long=9_000),
        ),
        Suite(name="ground down", command=(PYTHON, "-m", "support.scene", "down", E2E_CLUSTER), budget_s=20),
        Suite(
            name="resources and chart",
            command=with_cluster(RESOURCES_CLUSTER, *pytest("tests/operator", "--timeout=300")),
            budget_s=650,
            one_core=True,
        ),
        Suite(
            name="install",
            command=with_cluster(INSTALL_CLUSTER, *pytest("tests/e2e/test_install.py", "--timeout=600")),
            budget_s=250,
            one_core=True,
        ),
        Suite(
            name="kind",
            command=pytest("tests/e2e/test_ground.py", "-k", "pytest_kind", "--timeout=300"),
            budget_s=30,
            one_core=True,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What runs when.

    Parameters
    ----------
    beside: first, as many at a time as there are cores. alone: then, one after the other. spare: all the while, when nobody else wants a core.
    """

    beside: tuple[Suite, ...]
    alone: tuple[Suite, ...]
    spare: tuple[Suite, ...]


def order_of(names: Sequence[str]) -> Order:
    """Return the order in which the named groups of suites run."""
    chosen = [suite for name in names for suite in SUITES[name]]
    # In the long forms times are held against their budgets, so nothing runs beside what has the machine to itself.
    leave_some = not are_drills_long() and any(not suite.one_core and not suite.spare for suite in chosen)
    spare = [suite for suite in chosen if suite.spare and leave_some]
    beside = [suite for suite in chosen if suite.one_core and suite not in spare]
    # What fails fast comes first; then the longest, so that no core waits long for the other one in the end.
    beside.sort(key=lambda suite: (suite.budget_s > FAST_S, -suite.budget_s if suite.budget_s > FAST_S else 0))
    spare.sort(key=lambda suite: -suite.budget_s)
    alone = [suite for suite in chosen if not suite.one_core and suite not in spare]
    return Order(beside=tuple(beside), alone=tuple(alone), spare=tuple(spare))
