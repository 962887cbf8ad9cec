"""The command line: the story, and subcommands for the development of StaticGroup.

`python -m simulator` shows what a group goes through with and without StaticGroup; nothing but this package is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from .crashes.crash import SCENARIOS, scenario_named
from .crashes.suite import replay_crash, run_suite
from .schedules.soak import replay, soak
from .story.scenario import Scenario, ScenarioError, content_of, made
from .story.timeline import tell

PROGRAM = "python -m simulator"
EXAMPLES = """\
examples:
  {program}                                              the story, with and without StaticGroup
  {program} --pods 12 --restart-seconds 20 45            the same with your own numbers
  {program} --scenario mine.yaml --picture mine.svg      with your own happenings, and as a picture
"""
DEVELOPERS = """\
  {program} soak --schedules 500            busy ten minutes with faults, 500 times
  {program} replay --seed 17                one of them again, with its history
  {program} crash                           the operator killed at every await
  {program} crash --scenario roll --at 17   one of these again, with its history
"""
USAGE_ERROR = 2
NUMBERS: Final[tuple[tuple[str, Callable[[str], Any], str], ...]] = (
    ("pods", int, "pods of the workload"),
    ("partitions", int, "partitions of its topic"),
    ("protocol", str.capitalize, "Classic, or Consumer (KIP-848)"),
    ("library", str, "java, librdkafka or sarama"),
    ("restart_seconds", float, "from the start of a container to its first join"),
    ("stop_seconds", float, "from SIGTERM to the end of the process"),
    ("session_timeout_seconds", float, "of static members, with StaticGroup; Classic only"),
    ("dynamic_session_timeout_seconds", float, "of dynamic members, without it"),
    ("heartbeat_seconds", float, "between two heartbeats"),
)
"""Fields of `Scenario` that are flags, each with its type and what it is."""


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Parameters
    ----------
    program: how it was called; the commands for developers belong to `PROGRAM` alone.
    """
    is_for_developers = program == PROGRAM
    root = argparse.ArgumentParser(
        prog=program,
        description="Show what a Kafka group goes through with and without StaticGroup, in simulated time. Takes two "
        "seconds, and needs neither Kubernetes nor Kafka.",
        epilog=(EXAMPLES + (DEVELOPERS if is_for_developers else "")).format(program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_numbers(root)
    root.add_argument(
        "--scenario", metavar="FILE", type=Path,
        help="YAML with these numbers and your own happenings, as docs/guide/scenario-example.yaml; flags win over it",
    )  # fmt: skip
    root.add_argument("--picture", metavar="FILE", type=Path, help="also write both timelines as an SVG")
    root.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    if not is_for_developers:
        root.set_defaults(command=None)
        return root
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


def _add_numbers(root: argparse.ArgumentParser) -> None:
    """Add a flag for each number of a workload; what is left out is as in the scenario, or as by default."""
    numbers = root.add_argument_group("your own numbers")
    standard = Scenario()
    for name, kind, text in NUMBERS:
        default = getattr(standard, name)
        shown = " ".join(f"{each:g}" for each in default) if isinstance(default, tuple) else default
        flag: dict[str, Any] = {"nargs": 2, "metavar": ("LEAST", "MOST")} if isinstance(default, tuple) else {}
        if kind in (int, float) and not flag:
            flag = {"metavar": "N"}
        numbers.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{text} (default: {shown})", **flag)


def _scenario(chosen: argparse.Namespace) -> Scenario:
    """Return the scenario of the flags over that of the file.

    Raises
    ------
    ScenarioError: the file or a number is wrong.
    """
    flags = {name: getattr(chosen, name) for name, _, _ in NUMBERS if getattr(chosen, name) is not None}
    return made({**(content_of(chosen.scenario) if chosen.scenario else {}), **flags}, str(chosen.scenario or "flags"))


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None, *, program: str = PROGRAM) -> int:
    """Run the command line.

    Parameters
    ----------
    program: how it was called, as its help shows it.

    Returns
    -------
    0, 1 when something was violated, 2 when the input was wrong.
    """
    root = parser(program)
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
        scenario = _scenario(chosen)
    except ScenarioError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return USAGE_ERROR
    return tell(scenario, is_colored=_is_colored(chosen.color), picture=chosen.picture)


def _is_colored(choice: str) -> bool:
    """Decide about colours; NO_COLOR is the convention of no-color.org."""
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


if __name__ == "__main__":
    sys.exit(main())
