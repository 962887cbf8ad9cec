"""The command line: run the operator, and ask it what it sees, plans and may.

`plan` and `explain` call the same `plan` function as the operator, so what they say is what would happen.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .runtime.process.settings import Settings, SettingsError

EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 good, 1 a finding or failure, 2 wrong usage)."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except SettingsError as error:
        print(f"staticgroup: {error}", file=sys.stderr)
        return EXIT_USAGE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="staticgroup",
        description="Makes Kafka static membership on Kubernetes safe and automatic.",
        epilog="Settings are environment variables named STATICGROUP_*; see docs/reference/settings.md.",
    )
    parser.add_argument("-n", "--namespace", default="", help="namespace, for doctor")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run the operator", description="Run the operator until SIGTERM.")
    run.set_defaults(command=_run)
    webhook = commands.add_parser(
        "webhook",
        help="give new pods their ids where the API server serves no admission policy",
        description="Answer API servers about pods that are being created, until SIGTERM.",
    )
    webhook.set_defaults(command=_webhook)
    plan = commands.add_parser(
        "plan",
        help="plan from a file",
        description="Print what would be done in a world that `explain --snapshot` recorded.",
    )
    plan.add_argument("-f", "--filename", type=Path, required=True, metavar="SNAPSHOT.json")
    plan.set_defaults(command=_plan)
    explain = commands.add_parser(
        "explain",
        help="say what is seen, planned and held back",
        description="Explain one StaticGroup, member by member. Writes nothing.",
    )
    explain.add_argument("group", metavar="NAMESPACE/NAME")
    explain.add_argument("--snapshot", type=Path, metavar="FILE", help="also write what was seen, for `plan -f`")
    explain.set_defaults(command=_explain)
    doctor = commands.add_parser(
        "doctor",
        help="check rights, CRDs, injection and Kafka",
        description="Check everything the operator needs; exit 1 when something is missing.",
    )
    doctor.add_argument(
        "-n",
        "--namespace",
        default=argparse.SUPPRESS,
        help="check KafkaConnections of this namespace only (default: all that are served)",
    )
    doctor.set_defaults(command=_doctor)
    crds = commands.add_parser(
        "crds",
        help="print the CustomResourceDefinitions",
        description="Print the CustomResourceDefinitions as YAML, for kubectl apply.",
    )
    crds.set_defaults(command=_crds)
    return parser


def _settings() -> Settings:
    from .runtime.process.run import default_identity

    environment = {"STATICGROUP_IDENTITY": default_identity(), **os.environ}
    return Settings.from_environment(environment)


def _webhook(_: argparse.Namespace) -> int:
    from .runtime.webhook.process import WebhookSettings, run

    return asyncio.run(run(WebhookSettings.from_environment(os.environ)))


def _run(_: argparse.Namespace) -> int:
    from .runtime.process.run import run

    return asyncio.run(run(_settings()))


def _plan(options: argparse.Namespace) -> int:
    from .core.plan import plan
    from .runtime.commands.explanation import explained
    from .runtime.commands.snapshot_file import SnapshotFileError, read_snapshot_file

    try:
        taken = read_snapshot_file(options.filename)
    except SnapshotFileError as error:
        print(f"staticgroup: {error}", file=sys.stderr)
        return EXIT_USAGE
    decided = plan(taken.spec, taken.snapshot, taken.history, taken.now_s)
    print(explained(taken.spec, taken.snapshot, decided, taken.now_s), end="")
    return 0


def _explain(options: argparse.Namespace) -> int:
    from .runtime.commands.inquiry import explain

    namespace, slash, name = options.group.partition("/")
    if not slash or not namespace or not name:
        print("staticgroup: name the StaticGroup as NAMESPACE/NAME", file=sys.stderr)
        return EXIT_USAGE
    return asyncio.run(explain(_settings(), namespace, name, options.snapshot))


def _doctor(options: argparse.Namespace) -> int:
    from .runtime.commands.doctor import examine

    return asyncio.run(examine(_settings(), options.namespace))


def _crds(_: argparse.Namespace) -> int:
    from .api import crd

    print(
        crd.to_yaml(
            crd.static_group_crd(),
            crd.kafka_connection_crd(),
            crd.cluster_kafka_connection_crd(),
        ),
        end="",
    )
    return 0
