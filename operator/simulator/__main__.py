"""The command line: the story, and subcommands for the development of StaticGroup.

`python -m simulator` shows what a group goes through with and without StaticGroup; nothing but this package is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .crashes.crash import SCENARIOS, scenario_named
from .crashes.suite import replay_crash, run_suite
from .schedules.soak import replay, soak
from .story.scenario import Scenario, ScenarioError, load
from .story.timeline import tell

PROGRAM = "python -m simulator"
EXAMPLES = f"""\
examples:
  {PROGRAM}                                 the story, with and without StaticGroup
  {PROGRAM} --scenario mine.yaml            the same with your own numbers
  {PROGRAM} soak --schedules 500            busy ten minutes with faults, 500 times
  {PROGRAM} replay --seed 17                one of them again, with its history
  {PROGRAM} crash                           the operator killed at every await
  {PROGRAM} crash --scenario roll --at 17   one of these again, with its history
"""
USAGE_ERROR = 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    root = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Show what a Kafka group goes through with and without StaticGroup, in simulated time.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--scenario", metavar="FILE", type=Path, help="YAML with the numbers of your own workload")
    root.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", title="commands for developers")
    command = commands.add_parser("soak", help="run many schedules with faults and judge them")
    command.add_argument("--schedules", type=_positive, default=500, metavar="N", help="default: 500")
    command.add_argument("--jobs", type=_positive, default=2, metavar="N", help="processes; default: 2")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="of the first schedule; default: 0")
    command = commands.add_parser("replay", help="run one schedule again and print its history")
    command.add_argument("--seed", type=int, required=True, metavar="S")
    command = commands.add_parser(
        "crash",
        help="kill the operator at every await of short scenarios",
        epilog="scenarios:\n" + "\n".join(f"  {s.name:18} {s.says}" for s in SCENARIOS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--scenario", dest="crash", choices=[s.name for s in SCENARIOS], metavar="NAME", help="only this one"
    )
    command.add_argument("--at", type=_positive, metavar="N", help="only the N-th await, and print the history")
    command.add_argument("--every", type=_positive, default=1, metavar="N", help="at every N-th await only; default: 1")
    command.add_argument("--jobs", type=_positive, default=2, metavar="N", help="processes; default: 2")
    return root


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    0, 1 when something was violated, 2 when the input was wrong.
    """
    root = parser()
    chosen = root.parse_args(arguments)
    if chosen.command == "soak":
        return soak(schedules=chosen.schedules, jobs=chosen.jobs, first_seed=chosen.seed)
    if chosen.command == "replay":
        return replay(chosen.seed)
    if chosen.command == "crash":
        if chosen.at and not chosen.crash:
            root.error("crash --at N needs --scenario NAME")
        scenarios = (scenario_named(chosen.crash),) if chosen.crash else SCENARIOS
        return (
            replay_crash(scenarios[0], chosen.at)
            if chosen.at
            else run_suite(scenarios, jobs=chosen.jobs, every=chosen.every)
        )
    try:
        scenario = load(chosen.scenario) if chosen.scenario else Scenario()
    except ScenarioError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return USAGE_ERROR
    return tell(scenario, is_colored=_is_colored(chosen.color))


def _is_colored(choice: str) -> bool:
    """Decide about colours; NO_COLOR is the convention of no-color.org."""
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


if __name__ == "__main__":
    sys.exit(main())
