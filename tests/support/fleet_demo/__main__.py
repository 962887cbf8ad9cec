"""`python -m support.fleet_demo`: set up, perform, report, take down.

The one idea: every printed line has its time; on a terminal the last line shows the current step.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from support.demo.ending import DIFFERS, FAILED, KEPT, perform_and_finish
from support.demo.view import clock
from support.devcluster.kafka_log import now_ms
from support.devcluster.progress import say
from support.scene.__main__ import down

DESCRIPTION = """\
Show the fleet learner from end to end: a simulated fleet's journal in a topic of a real Kafka broker, the learner on
Spark, its report and recommendations, and an operator on a real Kubernetes that gives one of them to the next pod.

Everything runs on this machine and is taken away at the end, but build/pipeline-demo with tables, report and
recommendations, and build/pipeline-demo.json with the figures. The first run builds Kubernetes from source, which takes
most of its time.
"""
EPILOG = """\
exit code: 0 when the next pod runs with the recommended session timeout and nothing was rebalanced, 1 when something
differed (it is said what), 2 when the demo could not be run, 130 when it was interrupted.
"""


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m support.fleet_demo", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--groups", type=_count, default=500, help="groups of the simulated fleet (default: %(default)s)"
    )
    parser.add_argument("--days", type=_count, default=30, help="days of its past (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave cluster and broker running for inspection")
    parser.add_argument("--plain", action="store_true", help="print lines only, without a status line")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


class Teller:
    """Print lines with the time since the beginning; keep the latest as the status of a terminal."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console = console
        self._status = status
        self._began_ms = now_ms()

    def __call__(self, text: str) -> None:
        at = clock(now_ms() - self._began_ms)
        self._console.print(f"{at} {text}", highlight=False, markup=False, soft_wrap=True)
        if self._status is not None:
            self._status.update(escape(text.strip()))


def run(options: argparse.Namespace, console: Console) -> int:
    """Set up, perform and report; return the exit code."""
    from support.fleet_demo import figures as report
    from support.fleet_demo.ground import FOLDER, bring_up
    from support.fleet_demo.phases import Show, perform

    began_s = time.monotonic()
    status = console.status("setting up") if console.is_terminal and not options.plain else None
    with status or nullcontext():
        tell = Teller(console, status)
        ground = bring_up()
        show = Show(ground=ground, groups=options.groups, days=options.days, began_s=began_s, tell=tell)
        show.stages_s["set up"] = round(time.monotonic() - began_s, 1)
        tell("Cluster, broker and operator are up; nothing is recommended yet.")
        try:
            figures = perform(show)
            found = report.differences(figures)
        except AssertionError as difference:
            figures, found = None, [str(difference)]
        finally:
            ground.close()
    if found:
        log = FOLDER / "operator.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(ground.stage.operator_logs())
    if figures is not None:
        report.write(figures, found, ended_at_ms=now_ms())
        console.print(report.table(figures), highlight=False)
    for each in found:
        console.print(f"DIFFERS: {each}", style="bold red", highlight=False, markup=False, soft_wrap=True)
    if found:
        console.print(f"What the operator logged is in {FOLDER}/operator.log.", highlight=False, soft_wrap=True)
    else:
        console.print(
            "As expected: the next pod has the fleet's session timeout, and nothing was rebalanced.", soft_wrap=True
        )
    return DIFFERS if found else KEPT


def finish(options: argparse.Namespace) -> bool:
    """Remove everything; return whether nothing is left behind."""
    from support.fleet_demo.ground import CLUSTER

    if options.keep:
        say(
            f"Kept: cluster and broker {CLUSTER}, without the file server; the operator keeps what it read. The next "
            "run uses the cluster again and, without --keep, removes it."
        )
        return True
    return down(CLUSTER) == 0


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return its exit code."""
    options = options_of(arguments)
    if importlib.util.find_spec("pyspark") is None:
        say("ERROR: pyspark is not installed: make pipeline-demo installs what is needed")
        return FAILED
    console = Console()
    return perform_and_finish(lambda: run(options, console), lambda: finish(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
