"""`python -m simulator`: the story; and its subcommands for those who develop StaticGroup."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .crash import SCENARIOS, scenario_named
from .crash_suite import replay_crash, run_suite
from .soak import replay, soak


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    c = commands.add_parser("soak")
    c.add_argument("--schedules", type=int, default=500)
    c.add_argument("--jobs", type=int, default=2)
    c.add_argument("--seed", type=int, default=0)
    c = commands.add_parser("replay")
    c.add_argument("--seed", type=int, required=True)
    c = commands.add_parser("crash")
    c.add_argument("--scenario", choices=[s.name for s in SCENARIOS])
    c.add_argument("--at", type=int)
    c.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if chosen.command == "soak":
        return soak(schedules=chosen.schedules, jobs=chosen.jobs, first_seed=chosen.seed)
    if chosen.command == "crash":
        scenarios = (scenario_named(chosen.scenario),) if chosen.scenario else SCENARIOS
        return replay_crash(scenarios[0], chosen.at) if chosen.at else run_suite(scenarios, jobs=chosen.jobs)
    return replay(chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
