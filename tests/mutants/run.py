"""Kill the mutants: break each rule of the safety argument on purpose and see what notices.

`python tests/mutants/run.py [NAME ...]` applies each mutant of the catalog to a copy of `operator/`, runs only the
tests that should notice, and prints which one did. It ends with 1 when a mutant survives, when its text is gone from
the source (a mutant that is not applied proves nothing), or when tests fail without any mutant. Those of the
explicit-state models are killed by search (tests/simulation).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# For this process and for those it spawns.
for folder in ("tests", "operator"):
    sys.path.insert(0, str(REPOSITORY / folder))

from mutants.catalog import MUTANTS, Mutant, MutantNotApplicable  # noqa: E402 - the path is set above
from mutants.verdict import Fate, Verdict  # noqa: E402
from support.long_drills import VARIABLE  # noqa: E402

AT_ONCE = 2
TIMEOUT_S = 240
"""Of the tests of one mutant."""
UNCHANGED_TIMEOUT_S = 1_800
"""Of all tests, without any mutant."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def tested(operator: Path, tests: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run tests against one copy of `operator/`; returns pytest's exit status and its output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "mutants.loaded", "--timeout=60", "-o", f"pythonpath={operator} {REPOSITORY / 'tests'}", *tests]
    environment = os.environ | {
        "PYTHONPATH": str(REPOSITORY / "tests"),
        "MUTATED_OPERATOR": str(operator),
        VARIABLE: "1",
    }
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"did not end within {timeout_s:.0f} s"
    return done.returncode, done.stdout + done.stderr


def judged(mutant: Mutant, room: Path) -> Verdict:
    """Apply one mutant to a copy of its own and see whether a test fails."""
    began_s = time.monotonic()
    operator = room / re.sub(r"[^A-Za-z0-9]+", "-", mutant.name) / "operator"
    # With byte code and times, so that only the mutated file is compiled again.
    shutil.copytree(REPOSITORY / "operator", operator)
    try:
        mutant.apply(operator)
        status, output = tested(operator, mutant.tests, TIMEOUT_S)
    except MutantNotApplicable as error:
        return Verdict(name=mutant.name, fate=Fate.BROKEN, by=str(error), took_s=0.0)
    finally:
        shutil.rmtree(operator.parent)
    took_s = time.monotonic() - began_s
    failed = FAILED.search(output)
    if status == 1 and failed is not None:
        return Verdict(name=mutant.name, fate=Fate.KILLED, by=failed.group(1), took_s=took_s)
    if status == 0:
        return Verdict(name=mutant.name, fate=Fate.SURVIVED, by=" ".join(mutant.tests), took_s=took_s)
    tail = " | ".join(output.strip().splitlines()[-3:])
    return Verdict(name=mutant.name, fate=Fate.BROKEN, by=f"pytest ended with {status}: {tail}", took_s=took_s)


def tested_mutants(chosen: Sequence[Mutant]) -> list[Verdict] | None:
    """Judge mutants of the catalog by tests; None when the tests fail without any mutant."""
    everything = sorted({test for mutant in chosen for test in mutant.tests})
    with tempfile.TemporaryDirectory(prefix="mutants-") as room, ThreadPoolExecutor(AT_ONCE) as workers:
        parts = [part for n in range(AT_ONCE) if (part := everything[n::AT_ONCE])]
        for status, output in workers.map(
            lambda part: tested(REPOSITORY / "operator", part, UNCHANGED_TIMEOUT_S), parts
        ):
            if status != 0:
                print(output, "The tests fail without any mutant; a kill would prove nothing.", sep="\n")
                return None
        print(f"{len(everything)} places of tests pass without any mutant", flush=True)
        return [printed(verdict) for verdict in workers.map(lambda mutant: judged(mutant, Path(room)), chosen)]


def printed(verdict: Verdict) -> Verdict:
    """Print a verdict as soon as it is known."""
    print(verdict.text(), flush=True)
    return verdict


def main(names: Sequence[str]) -> int:
    """Judge all mutants, or those named; returns 1 unless every one was killed."""
    chosen = [m for m in MUTANTS if not names or m.name in names]
    if not chosen:
        print("no such mutant; there are:", *(m.name for m in MUTANTS), sep="\n  ")
        return 2
    began_s = time.monotonic()
    verdicts = tested_mutants(chosen)
    if verdicts is None:
        return 1
    killed = sum(v.fate is Fate.KILLED for v in verdicts)
    print(f"{killed} of {len(verdicts)} mutants killed in {time.monotonic() - began_s:.0f} s")
    return 0 if killed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
