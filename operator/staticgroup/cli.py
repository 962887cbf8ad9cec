"""The command line: run the operator, and ask it what it sees, plans and may; confirm what it cannot see.

`plan` and `explain` call the same `plan` function as the operator, so what they say is what would happen.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .runtime.process.settings import Settings, SettingsError, from_environment

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
    parser.add_argument("-n", "--namespace", default="", help="namespace, for doctor, confirm and confirm-gap")
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
    _add_confirm(commands)
    _add_confirm_gap(commands)
    _add_restored(commands)
    crds = commands.add_parser(
        "crds",
        help="print the CustomResourceDefinitions",
        description="Print the CustomResourceDefinitions as YAML, for kubectl apply.",
    )
    crds.set_defaults(command=_crds)
    return parser


def _add_confirm(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    confirm = commands.add_parser(
        "confirm",
        help="say that the process of a lost pod has ended",
        description="Give your word, with your own rights, that no process of a pod that was lost or force-deleted runs or "
        "will run again. Members that waited for this proof are then removed: if you are wrong, a living one.",
    )
    confirm.add_argument("pod", nargs="?", metavar="POD", help="name of the pod")
    confirm.add_argument("--uid", help="uid of that pod, as --list shows it")
    confirm.add_argument("--statement", help="why it is sure, 1 to 500 characters")
    confirm.add_argument("--by", default="", help="who says it (default: as whom the API server knows you)")
    confirm.add_argument("--list", action="store_true", help="show the suspects, each with the command to type")
    confirm.add_argument(
        "-n", "--namespace", default=argparse.SUPPRESS, help="namespace of the pod, also before the command"
    )
    confirm.set_defaults(command=_confirm)


def _add_confirm_gap(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    gap = commands.add_parser(
        "confirm-gap",
        help="say that what ran unseen in a time has ended",
        description="Give your word, with your own rights and for every namespace, that no process of a pod that came and "
        "went, or went, in a time unseen by the operator runs any more: no machine that left the cluster or was cut off in "
        "that time still runs pods; and that no pod which is still here took another id then. Members that waited for this are then removed: if you are wrong, a living one.",
    )
    gap.add_argument("--since", metavar="TIME", help="beginning of that time, such as 2026-11-21T10:00:00Z")
    gap.add_argument("--until", metavar="TIME", help="its end, not in the future")
    gap.add_argument("--statement", help="why it is sure, 1 to 500 characters")
    gap.add_argument("--by", default="", help="who says it (default: as whom the API server knows you)")
    gap.add_argument("--list", action="store_true", help="show the times without sight, with the commands to type")
    gap.add_argument(
        "-n", "--namespace", default=argparse.SUPPRESS, help="list StaticGroups of this namespace only (default: all)"
    )
    gap.set_defaults(command=_confirm_gap)


def _add_restored(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    restored = commands.add_parser(
        "restored",
        help="say that etcd was restored from a backup",
        description="Tell the operator, with your own rights, that etcd was restored: every seat of every StaticGroup counts "
        "as blind then, and its departed members wait for their sessions until words are said (confirm-gap).",
    )
    restored.add_argument("--statement", required=True, help="what happened, 1 to 500 characters")
    restored.add_argument("--by", default="", help="who says it (default: as whom the API server knows you)")
    restored.add_argument("--lease-namespace", help="of the operator's Lease (default: STATICGROUP_NAMESPACE)")
    restored.add_argument("--lease-name", help="its name (default: STATICGROUP_LEASE_NAME)")
    restored.set_defaults(command=_restored)


def _settings() -> Settings:
    from .runtime.process.run import default_identity

    environment = {"STATICGROUP_IDENTITY": default_identity(), **os.environ}
    return from_environment(environment)


def _webhook(_: argparse.Namespace) -> int:
    from .runtime.webhook.process import from_environment as webhook_settings
    from .runtime.webhook.process import run

    return asyncio.run(run(webhook_settings(os.environ)))


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


def _confirm(options: argparse.Namespace) -> int:
    from .runtime.commands.confirm import confirm, list_suspects

    if not options.namespace:
        print("staticgroup: name the namespace with -n", file=sys.stderr)
        return EXIT_USAGE
    if options.list:
        return asyncio.run(list_suspects(options.namespace))
    if not (options.pod and options.uid and options.statement):
        print("staticgroup: name POD, --uid and --statement, or see the suspects with --list", file=sys.stderr)
        return EXIT_USAGE
    return asyncio.run(confirm(options.namespace, options.pod, options.uid, options.statement, options.by))


def _confirm_gap(options: argparse.Namespace) -> int:
    from .runtime.commands.confirm_gap import confirm_gap, list_spans

    if options.list:
        return asyncio.run(list_spans(options.namespace))
    if options.namespace:
        print("staticgroup: a word about a gap counts for every namespace; -n is for --list", file=sys.stderr)
        return EXIT_USAGE
    if not (options.since and options.until and options.statement):
        print("staticgroup: name --since, --until and --statement, or see the times with --list", file=sys.stderr)
        return EXIT_USAGE
    return asyncio.run(confirm_gap(options.since, options.until, options.statement, options.by))


def _restored(options: argparse.Namespace) -> int:
    from .runtime.commands.restored import say_restored

    settings = _settings()
    namespace, name = options.lease_namespace or settings.namespace, options.lease_name or settings.lease_name
    return asyncio.run(say_restored(options.statement, options.by, namespace, name))


def _crds(_: argparse.Namespace) -> int:
    from .api import crd

    print(
        crd.to_yaml(
            crd.static_group_crd(),
            crd.kafka_connection_crd(),
            crd.cluster_kafka_connection_crd(),
            crd.confirmation_crd(),
            crd.gap_confirmation_crd(),
        ),
        end="",
    )
    return 0
