"""`python -m support.demo`: set up, perform, show, report, take down.

The one idea: the phases run in a thread while the main thread draws, so Ctrl-C arrives where everything is taken down.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from support.demo import report
from support.demo.ending import DIFFERS, KEPT, perform_and_finish
from support.demo.ground import CLUSTER, bring_up, take_down
from support.demo.phases import Show, perform
from support.demo.picture import Gatherer
from support.demo.role import FILES, Role
from support.demo.roles import ROLES, WORKLOADS, role_of
from support.demo.view import clock, draw, plain
from support.devcluster.kafka_log import now_ms
from support.devcluster.progress import say

DRAW_S = 0.25
PLAIN_EVERY_S = 5.0
LOGS = report.REPORT.with_name("demo-operator.log")
DESCRIPTION = f"""\
Show a rolling restart and a scale-down of real Kafka consumers on a real Kubernetes, without and with StaticGroup;
with --role, of Kafka Connect workers or of Kafka Streams pods; with --workload deployment, of consumers in Deployments.

Everything runs on this machine: a Kubernetes cluster of two nodes ({CLUSTER}), a Kafka broker, the operator from its
chart with default values, and StatefulSets of three pods: five of consumers, two of which have state and
poll slowly, two of the others; or two Deployments of four pods. It is all taken away
at the end. The first run builds Kubernetes from source, which takes most of its time; later runs take about four
minutes for consumers and about five for the others, which have longer to wait without StaticGroup.
"""
EPILOG = """\
exit code: 0 when the promise was kept (no rebalance and no rebuilt state in rolling restarts with StaticGroup,
partitions taken over in less than 10 s, no record missed; --role connect and streams: at most 1 rebalance, which moves
nothing, no task twice and no record restored in the rolling restart), 1 when something differed (the output says what),
2 when the demo could not be run.
The figures are also written to build/demo.json.
"""


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m support.demo", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--role", choices=ROLES, default="consumer", help="what the pods are (default: %(default)s)")
    parser.add_argument(
        "--workload", choices=WORKLOADS, default="statefulset",
        help="what holds the pods; a deployment is for --role consumer (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="leave cluster and broker running for inspection")
    parser.add_argument("--plain", action="store_true", help="print lines instead of the live view")
    options = parser.parse_args(arguments)
    try:
        role_of(options.role, options.workload)
    except ValueError as refused:
        parser.error(str(refused))
    return options


def watch(show: Show, console: Console, *, is_live: bool) -> None:
    """Perform in a thread and show it until the end; raises what the performance raised."""
    trouble: list[BaseException] = []

    def run() -> None:
        try:
            perform(show)
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=run, daemon=True, name="performance")
    gatherer = Gatherer(show).start()
    thread.start()
    try:
        if is_live:
            _draw(thread, gatherer, console)
        else:
            _print(thread, gatherer, show)
    finally:
        gatherer.stop()
    if trouble:
        raise trouble[0]


def _draw(thread: threading.Thread, gatherer: Gatherer, console: Console) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while thread.is_alive():
            if gatherer.latest is not None:
                live.update(draw(gatherer.latest, console.width, console.height), refresh=True)
            thread.join(DRAW_S)


def _print(thread: threading.Thread, gatherer: Gatherer, show: Show) -> None:
    printed = events = 0
    next_s = time.monotonic() + PLAIN_EVERY_S
    while thread.is_alive() or printed < len(show.lines):
        for at_ms, text in show.lines[printed:]:
            print(f"{clock(at_ms - show.started_at_ms)} {text}", flush=True)
            printed += 1
        picture = gatherer.latest
        if picture is not None:
            for event in picture.events[events:]:
                print(f"{clock(picture.at_ms - show.started_at_ms)}   operator: {event}", flush=True)
            events = max(events, len(picture.events))
            if picture.groups and time.monotonic() >= next_s:
                print(plain(picture), flush=True)
                next_s = time.monotonic() + PLAIN_EVERY_S
        thread.join(DRAW_S)


def tell_all(show: Show, console: Console) -> None:
    """Print what was narrated in the live view, which has vanished with its screen."""
    for at_ms, text in show.lines:
        console.print(f"{clock(at_ms - show.started_at_ms)} {text}", highlight=False)


def run(options: argparse.Namespace, role: Role, console: Console) -> int:
    """Set up, perform and report; return the exit code."""
    is_live = console.is_terminal and not options.plain
    begun_ms = now_ms()
    stage = bring_up(role)
    show = Show(stage=stage, role=role)
    say(f"The stage is ready after {(show.started_at_ms - begun_ms) / 1000:.0f} s.")
    try:
        watch(show, console, is_live=is_live)
    except AssertionError as difference:
        LOGS.parent.mkdir(exist_ok=True)
        LOGS.write_text(stage.operator_logs())
        if is_live:
            tell_all(show, console)
        console.print(f"DIFFERS: {difference}", style="bold red", highlight=False)
        console.print(f"What the operator logged is in build/{LOGS.name}.")
        return DIFFERS
    finally:
        show.close()
    if is_live:
        tell_all(show, console)
    assert show.figures is not None
    found = report.differences(show.figures, role.wording)
    report.write(
        show.figures, found, role=role.wording.role, workload=options.workload, replicas=role.replicas, ended_at_ms=now_ms(),
        set_up_s=round((show.started_at_ms - begun_ms) / 1000, 1),
        performance_s=round((now_ms() - show.started_at_ms) / 1000, 1),
    )  # fmt: skip
    console.print(report.table(show.figures, role.wording), highlight=False)
    for each in found:
        console.print(f"DIFFERS: {each}", style="bold red", highlight=False)
    if not found:
        console.print(role.wording.promise)
    return DIFFERS if found else KEPT


def finish(options: argparse.Namespace) -> bool:
    """Take everything away; return whether nothing is left behind."""
    if options.keep:
        say(
            f"Kept: cluster and broker {CLUSTER}. The next demo uses the cluster again and, without --keep, removes it."
        )
        if any(FILES.glob("*")):
            say(f"Kept: what the pods wrote, in {FILES}.")
        return True
    left = take_down()
    for each in left:
        say(f"left behind: {each}")
    return not left


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return its exit code."""
    options = options_of(arguments)
    role, console = role_of(options.role, options.workload), Console()
    return perform_and_finish(lambda: run(options, role, console), lambda: finish(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
