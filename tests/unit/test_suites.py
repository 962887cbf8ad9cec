"""The table of suites leaves nothing out: every test file is in a suite, and `make full` runs what `make test` does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from support.long_drills import VARIABLE, by_length
from support.scene.figures import prompt_s
from support.suites import __main__ as report
from support.suites import running, table
from support.suites.running import run_alone, run_beside_each_other, run_in_order
from support.suites.table import ALWAYS, SUITES, Order, Suite, order_of
from support.waiting import until

REPOSITORY = Path(__file__).parents[2]
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
BY_HAND = {"tests/bench", "tests/mutants"}
"""Folders with targets of their own."""


def recipe(target: str) -> str:
    """Return the commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    return found[1]


def groups_of(target: str) -> list[str]:
    """Return the groups of suites that a target names."""
    return recipe(target).partition("support.suites ")[2].splitlines()[0].split()


def files(suite: Suite) -> Iterator[Path]:
    """Yield the test files that a suite collects."""
    arguments = [a for a in suite.command if a.startswith(("tests/", "--ignore="))]
    left_out = [REPOSITORY / a.removeprefix("--ignore=") for a in arguments if a.startswith("--ignore=")]
    for argument in arguments:
        path = REPOSITORY / argument
        if argument.startswith("tests/"):
            for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
                if not any(file == out or out in file.parents for out in left_out):
                    yield file


def test_every_path_of_the_table_exists() -> None:
    """A renamed file would drop out of its suite, or come back into one that leaves it to another."""
    named = [a.removeprefix("--ignore=") for group in SUITES.values() for s in group for a in s.command]
    paths = [REPOSITORY / a for a in named if a.startswith("tests/")]
    assert len(paths) > 10
    assert [p for p in paths if not p.exists()] == []


def test_every_test_file_is_in_a_suite_of_make_full() -> None:
    known = {file for group in groups_of("full") for suite in SUITES[group] for file in files(suite)}
    every = {
        file
        for file in (REPOSITORY / "tests").rglob("test_*.py")
        if not any(file.is_relative_to(REPOSITORY / folder) for folder in BY_HAND)
    }
    assert every - known == set()


def test_make_full_runs_all_of_make_test_and_all_in_its_long_form() -> None:
    assert set(groups_of("test")) <= set(groups_of("full"))
    assert f"{VARIABLE}=1 " in recipe("full")
    assert VARIABLE not in recipe("test")


def test_the_exhaustive_models_are_searched_once_in_make_test() -> None:
    """Their command line would search every variant a second time, and no other suite on one core is as long."""
    in_test = [suite for group in groups_of("test") for suite in SUITES[group]]
    found = [file for suite in in_test for file in files(suite)]
    assert {path: found.count(REPOSITORY / path) for path in table.EXHAUSTIVE} == dict.fromkeys(table.EXHAUSTIVE, 1)
    assert [suite.name for suite in in_test if "simulator.carriers" in suite.command] == []


def test_long_tests_are_left_out_unless_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert table.pytest("tests/e2e")[-2:] == ("-m", "not long")
    assert table.pytest("tests/conformance", only="broker")[-1] == "broker and not long"
    assert by_length(short=1, long=2) == 1
    monkeypatch.setenv(VARIABLE, "1")
    assert "-m" not in table.pytest("tests/e2e")[3:]
    assert table.pytest("tests/conformance", only="broker")[-1] == "broker"
    assert by_length(short=1, long=2) == 2


def test_only_what_keeps_one_core_busy_has_company() -> None:
    """What measures time would be disturbed; three suites have clusters of their own, and measure none."""
    order = order_of(list(SUITES))
    every = {suite.name for group in SUITES.values() for suite in group}
    parts = [{suite.name for suite in part} for part in (order.beside, order.alone, order.spare)]
    assert set.union(*parts) == every
    assert sum(map(len, parts)) == len(every)
    assert all(suite.one_core for suite in order.beside)
    assert not any(suite.one_core for suite in order.alone)
    measure_none = {"resources and chart", "install", "kind"}
    assert {s.name for group in ("brokers", "e2e", "pods", "ground") for s in SUITES[group]} <= parts[1] | measure_none


@pytest.mark.parametrize("group", ["pipeline", "simulate"])
def test_what_takes_the_rest_of_the_machine_has_all_of_it_where_it_is_alone(group: str) -> None:
    order = order_of([group])
    assert order.spare == ()
    assert {*order.beside, *order.alone} == {suite for suite in SUITES[group] if suite.spare}
    assert {suite for suite in order_of([group, "e2e"]).spare} == {*SUITES[group]}


def test_nothing_runs_beside_what_has_the_machine_to_itself_in_the_long_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold times against their budgets, which a busy machine would break."""
    names = groups_of("test")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert [suite.budget_s for suite in order_of(names).spare] == sorted((s.budget_s for s in order_of(names).spare), reverse=True)
    assert (prompt_s(3, otherwise_s=30), order_of(names).spare != ()) == (30, True)
    monkeypatch.setenv(VARIABLE, "1")
    assert (prompt_s(3, otherwise_s=30), order_of(names).spare) == (3, ())


def exiting(name: str, status: int, *, code: str = "") -> Suite:
    command = (sys.executable, "-c", f"{code}\nprint('{name} speaks'); raise SystemExit({status})")
    return Suite(name=name, command=command, budget_s=1, one_core=True)


def test_nothing_more_begins_after_a_failure(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CORES", 1)
    done = run_beside_each_other([exiting("first", 0), exiting("second", 3), exiting("third", 0)], Event())
    assert [(ran.suite.name, ran.status) for ran in done] == [("first", 0), ("second", 3)]
    shown = capfd.readouterr().out
    assert "second speaks" in shown
    assert "third" not in shown


@pytest.mark.parametrize("beside", [False, True])
def test_what_failed_is_said_again_at_the_end(
    beside: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is shown the end of a long log only must find there what went wrong."""
    said = "print('E   assert 1 == 2')\nprint('FAILED test_x.py::test_y')\nprint('and much more' * 9)"
    failing = replace(exiting("failing", 1, code=said), one_core=beside)
    monkeypatch.setitem(SUITES, "group", (failing,))
    monkeypatch.setattr(report, "FIGURES", tmp_path / "build" / "figures.jsonl")
    assert report.main(["group"]) == 1
    whole, _, end = capfd.readouterr().out.partition("suite                 seconds")
    assert "failing speaks" in whole
    assert "failing failed:\n  E   assert 1 == 2\n  FAILED test_x.py::test_y\n0 passed, 1 failed" in end


def test_the_output_of_a_suite_that_has_the_machine_is_shown_while_it_runs(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And what it leaves running does not keep the next one waiting."""
    flag = tmp_path / "flag"
    waits = f"import pathlib, time\nprint('begun', flush=True)\nwhile not pathlib.Path({str(flag)!r}).exists(): time.sleep(0.01)"
    leaves = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(2)'])"
    with ThreadPoolExecutor(1) as worker:
        running = worker.submit(run_alone, exiting("waiting", 0, code=f"{waits}\n{leaves}"))
        shown = until(lambda: capfd.readouterr().out.partition("begun")[1], deadline_s=10, what="its first line")
        assert not running.done()
        flag.touch()
        assert running.result().seconds < 10
    assert shown == "begun"
    assert "waiting speaks" in capfd.readouterr().out


def test_spare_suites_and_what_they_start_run_only_when_nobody_else_wants_a_core(capfd: pytest.CaptureFixture[str]) -> None:
    def telling(name: str) -> Suite:
        # A shell, not Python: on a busy machine what has the rest of it takes minutes for a second's work.
        return Suite(name=name, command=("sh", "-c", f"sh -c 'chrt -p $$'; echo {name} speaks"), budget_s=1)

    done = run_in_order(Order(beside=(), alone=(telling("alone"),), spare=(telling("spare"),)))
    assert [(ran.suite.name, ran.status) for ran in done] == [("alone", 0), ("spare", 0)]
    shown = capfd.readouterr().out
    assert re.search(r"policy: SCHED_IDLE\n.*\nspare speaks", shown)
    assert re.search(r"policy: SCHED_OTHER\n.*\nalone speaks", shown)


@pytest.mark.parametrize("failing", ["beside", "alone", "spare"])
def test_after_a_failure_anywhere_only_the_ground_is_taken_away_where_it_may_be_there(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs on the rest of the machine is ended; what has it to itself ends by itself."""
    monkeypatch.setattr(running, "CORES", 1)
    flag, pid_file = str(tmp_path / "other runs"), str(tmp_path / "pid")
    waits = f"import os, pathlib, time\nwhile not pathlib.Path({flag!r}).exists(): time.sleep(0.01)"
    first = exiting(failing, 3, code=f"{waits}\npathlib.Path({pid_file!r}).write_text(str(os.getpid()) + ' ')")
    ends = "time.sleep(600)" if failing != "spare" else (
        f"file = pathlib.Path({pid_file!r})\n"
        "while not file.exists() or not file.read_text().endswith(' '): time.sleep(0.01)\n"
        "while pathlib.Path('/proc', file.read_text().strip()).exists(): time.sleep(0.01)"
    )  # fmt: skip
    other = exiting("other", 0, code=f"import pathlib, time\npathlib.Path({flag!r}).touch()\n{ends}")
    ground, never = exiting(ALWAYS, 0), exiting("never", 0)
    order = {
        "beside": Order(beside=(first, never), alone=(never, ground), spare=(other, never)),
        "alone": Order(beside=(), alone=(first, never, ground), spare=(other, never)),
        "spare": Order(beside=(), alone=(other, never, ground), spare=(first, never)),
    }[failing]
    ran = {r.suite.name: r.status for r in run_in_order(order)}
    assert ran == {
        "beside": {"beside": 3}, "alone": {"alone": 3, ALWAYS: 0}, "spare": {"spare": 3, "other": 0, ALWAYS: 0},
    }[failing]  # fmt: skip


def test_what_takes_the_rest_of_the_machine_begins_with_the_first(tmp_path: Path) -> None:
    """Suites that have a cluster wait for it much, two at a time or not."""
    flag = str(tmp_path / "spare runs")
    waits = f"import pathlib, time\nwhile not pathlib.Path({flag!r}).exists(): time.sleep(0.01)"
    spare = exiting("spare", 0, code=f"import pathlib\npathlib.Path({flag!r}).touch()")
    done = run_in_order(Order(beside=(exiting("beside", 0, code=waits),), alone=(), spare=(spare,)))
    assert [(ran.suite.name, ran.status) for ran in done] == [("beside", 0), ("spare", 0)]
