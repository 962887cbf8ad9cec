"""The grammar of the shell: what can be typed, with the help for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from . import text
from .clients import CLIENTS
from .commands import CommandError, ShellSession


class Parser(argparse.ArgumentParser):
    """A parser that reports instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the command, with its usage."""
        raise CommandError(f"{message}\n  {' '.join(self.format_usage().split())}")


def _duration(value: str) -> int:
    try:
        return text.parse_duration_ms(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _names(value: str) -> list[str]:
    return [name for name in value.split(",") if name]


def _positive(value: str) -> int:
    if not value.isdigit() or int(value) == 0:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of 1 or more")
    return int(value)


def _of_group(name: str, about: str, *, optional_name: bool = False) -> Parser:
    parser = Parser(prog=name, description=about, add_help=False)
    parser.add_argument("group", help="group id")
    parser.add_argument("name", nargs="?" if optional_name else None, help="the client's name or instance id")
    return parser


def _join_parser() -> Parser:
    parser = _of_group("join", "Start a client.", optional_name=True)
    parser.add_argument("--instance", help="group.instance.id; it is also the client's name")
    parser.add_argument("--protocol", choices=sorted(CLIENTS), default="classic")
    parser.add_argument("--topics", type=_names, default=["orders"], metavar="A,B", help="default orders")
    parser.add_argument("--session", type=_duration, default=45_000, help="session.timeout.ms (classic), default 45s")
    parser.add_argument("--rebalance", type=_duration, default=300_000, help="max.poll.interval.ms, default 5m")
    parser.add_argument("--process", help="process id (streams), default the client's name")
    parser.add_argument("--second", action="store_true", help="a second process with an id in use")
    return parser


def _leave_parser() -> Parser:
    parser = _of_group("leave", "Remove a member by LeaveGroup with both ids.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--instance-only", action="store_true", help="name only the instance id: removes its holder")
    how.add_argument("--close", action="store_true", help="let the client close: a static one keeps its seat")
    parser.add_argument("--for-good", action="store_true", help="with --close: leave, static or not")
    return parser


def _bounce_parser() -> Parser:
    parser = _of_group("bounce", "Stop a client and start it again; the others heartbeat meanwhile.")
    parser.add_argument("--down", type=_duration, default=10_000, help="how long it is away, default 10s")
    parser.add_argument("--new-process", action="store_true", help="a streams client without its state directory")
    return parser


def _tick_parser() -> Parser:
    parser = Parser(prog="tick", description="Let time pass.", add_help=False)
    parser.add_argument("duration", type=_duration, help="500ms, 5s, 2m")
    parser.add_argument("--beating", action="store_true", help="running clients heartbeat every 3 s")
    return parser


def _plan_parser() -> Parser:
    parser = Parser(prog="plan", description="Announce what a classic group will be (future work).", add_help=False)
    parser.add_argument("group")
    parser.add_argument("--expect", type=_names, metavar="A,B", help="instance ids (switch pre_registration=true)")
    parser.add_argument("--wait", type=_duration, default=60_000, help="for these at most, default 1m")
    parser.add_argument("--target", type=int, help="group size beyond which members stand by (switch hot_standby=true)")
    return parser


def _plain(name: str, about: str, *arguments: tuple[str, dict[str, Any]]) -> Parser:
    parser = Parser(prog=name, description=about, add_help=False)
    for argument, options in arguments:
        parser.add_argument(argument, **options)
    return parser


Command = tuple[Parser, Callable[[ShellSession, argparse.Namespace], None]]

COMMANDS: dict[str, Command] = {
    "topic": (
        _plain("topic", "Create a topic or let it grow.", ("name", {}), ("partitions", {"type": _positive})),
        lambda world, o: world.topic(o.name, o.partitions),
    ),
    "join": (_join_parser(), ShellSession.join),
    "heartbeat": (_of_group("heartbeat", "Heartbeat: one client, or all.", optional_name=True), ShellSession.heartbeat),
    "leave": (_leave_parser(), ShellSession.leave),
    "crash": (_of_group("crash", "Stop a client without a leave request."), ShellSession.crash),
    "release": (_of_group("release", "Send epoch -2 for a static member that died."), ShellSession.release),
    "bounce": (_bounce_parser(), ShellSession.bounce),
    "tick": (_tick_parser(), ShellSession.tick),
    "failover": (_plain("failover", "Move the groups to another broker."), lambda world, o: world.failover()),
    "config": (
        _plain("config", "Change group settings.", ("group", {}), ("pairs", {"nargs": "+", "metavar": "NAME=VALUE"})),
        lambda world, o: world.config(o.group, o.pairs),
    ),
    "plan": (_plan_parser(), ShellSession.plan),
    "switch": (
        _plain("switch", "Show or change broker settings.", ("pairs", {"nargs": "*", "metavar": "NAME=VALUE"})),
        lambda world, o: world.switch(o.pairs),
    ),
    "show": (
        _plain("show", "Show groups and members.", ("group", {"nargs": "?"})),
        lambda world, o: world.show(o.group),
    ),
    "records": (
        _plain("records", "Show the log.", ("count", {"nargs": "?", "type": _positive, "help": "only the last ones"})),
        lambda world, o: world.records(o.count),
    ),
    "timers": (_plain("timers", "Show what is due when."), lambda world, o: world.timers()),
}
