"""The brokers from a shell: `python kafka_cli.py up|down|status|topic|user|allow|group|log …`.

Why: demos and Makefiles need brokers without writing Python. One idea: each verb is one call of the library, and what
a script wants to read (bootstrap addresses, names) is alone on standard output; progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":  # as a script: the package is two folders up, and its own folder must not shadow modules
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from support.devcluster import kafka_broker, kafka_state
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings, parse
from support.devcluster.kafka_jars import DEFAULT_VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit status."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        run(options)
    except BrokenPipeError:  # the reader has seen enough
        sys.stdout = None  # or the interpreter complains when it flushes at exit
    except (LookupError, ValueError, RuntimeError, OSError) as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 1
    return 0


def _up(options: argparse.Namespace) -> None:
    existing = kafka_state.load_state(options.name)
    passwords = existing.settings.users if existing else {}
    users = {"admin": passwords.get("admin") or secrets.token_urlsafe(12)} if options.sasl else {}
    settings = BrokerSettings(
        name=options.name,
        version=options.version,
        nodes=options.nodes,
        bind=options.bind,
        profile=options.profile,
        security=options.sasl,
        users={**users, **parse("\n".join(options.user))},
        overrides=parse("\n".join(options.set)),
    )
    brokers = Brokers.up(settings, report=_progress())
    _show(brokers)


def _down(options: argparse.Namespace) -> None:
    kafka_broker.down(options.name, report=_progress())
    remaining = kafka_broker.leftovers(options.name)
    if remaining:
        raise RuntimeError(f"left over: {', '.join(remaining)}")


def _status(options: argparse.Namespace) -> None:
    for name in [options.name] if options.name else kafka_state.cluster_names():
        brokers = Brokers.attach(name)
        print(f"{name}: Kafka {brokers.state.settings.version}, {brokers.state.folder}")
        for node in brokers.nodes:
            pid = brokers.pid(node)
            print(f"  node {node}: {f'running, pid {pid}' if pid else 'not running'}")
        _show(brokers)


def _node(options: argparse.Namespace) -> None:
    brokers = Brokers.attach(options.name, report=_progress())
    act: dict[str, Callable[[int], None]] = {
        "stop": brokers.stop,
        "kill": brokers.kill,
        "restart": brokers.restart,
        "pause": brokers.pause,
        "resume": brokers.resume,
    }
    act[options.act](options.node)


def _topic(options: argparse.Namespace) -> None:
    admin = _admin(options)
    if options.topic:
        admin.create_topic(options.topic, options.partitions)
    else:
        print("\n".join(admin.topics()))


def _user(options: argparse.Namespace) -> None:
    _admin(options).put_user(options.user, sys.stdin.readline().rstrip("\n"), options.mechanism)


def _allow(options: argparse.Namespace) -> None:
    _admin(options).allow(options.user, options.operation, options.kind, options.resource, is_prefix=options.prefix)


def _group(options: argparse.Namespace) -> None:
    admin = _admin(options)
    if options.set:
        admin.alter_group(options.group, parse("\n".join(options.set)))
    if options.settings or options.set:
        print(json.dumps(admin.group_settings(options.group), indent=1, sort_keys=True))
        return
    shown = admin.describe_group(options.group)
    print(f"{options.group}: {shown.state}, {len(shown.members)} members")
    for member in shown.members:
        owned = ",".join(f"{topic}-{partition}" for topic, partition in sorted(member.topic_partitions))
        print(f"  {member.instance_id or '(dynamic)'}  {member.member_id}  {owned}")


def _log(options: argparse.Namespace) -> None:
    group_log = Brokers.attach(options.name).group_log
    shown = 0
    while True:
        events = group_log.events(options.group)
        for event in events[shown:]:
            at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
            number = event.group_generation if event.group_generation is not None else event.group_epoch
            words = (event.group_id, number, event.instance_id, event.member_id, event.reason)
            print(f"{at} node {event.node_id} {event.kind}", *(word for word in words if word is not None), flush=True)
        shown = len(events)
        if not options.follow:
            return
        time.sleep(0.2)


def _coordinator(options: argparse.Namespace) -> None:
    print(Brokers.attach(options.name).coordinator(options.group))


def _certificate(options: argparse.Namespace) -> None:
    files = Brokers.attach(options.name).client_certificate(options.user)
    print(f"certificate={files.certificate}\nkey={files.key}\nca={files.ca}")


def _password(options: argparse.Namespace) -> None:
    """Print a password: what it was asked for, and the only place where this program shows one."""
    users = Brokers.attach(options.name).state.settings.users
    if options.user not in users:
        raise LookupError(f"{options.user} was not among the users at the first start")
    print(users[options.user])


def _admin(options: argparse.Namespace) -> BrokerAdmin:
    return BrokerAdmin(Brokers.attach(options.name).bootstrap)


def _show(brokers: Brokers) -> None:
    for listener in brokers.state.settings.listeners:
        print(f"{listener}={brokers.state.bootstrap(listener)}")
    if brokers.state.settings.security:
        print(f"ca={brokers.ca_path}")


def _progress() -> Callable[[str], None]:
    started_s = time.monotonic()
    return lambda line: print(f"[{time.monotonic() - started_s:5.1f} s] {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Kafka brokers for tests and demos.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("--name", default=None if name == "status" else "demo", help="the cluster (default: demo)")
        return made

    up = verb("up", _up, "start or repair a cluster and print its addresses")
    up.add_argument("--bind", default="127.0.0.1", help="IP address to listen on and to advertise")
    up.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    up.add_argument("--version", default=DEFAULT_VERSION, help="4.4.0, 4.1, 4.0, 3.9, …")
    up.add_argument("--profile", choices=("stock", "fast"), default="stock")
    up.add_argument("--sasl", action="store_true", help="add SASL_SSL and SSL listeners; deny by default")
    up.add_argument("--user", action="append", default=[], metavar="NAME=PASSWORD")
    up.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a server property")
    verb("down", _down, "end all processes of a cluster and remove its files")
    verb("status", _status, "show one cluster or all")
    node = verb("node", _node, "stop, kill, restart, pause or resume one node")
    node.add_argument("act", choices=("stop", "kill", "restart", "pause", "resume"))
    node.add_argument("node", type=int)
    topic = verb("topic", _topic, "create a topic, or list all")
    topic.add_argument("topic", nargs="?")
    topic.add_argument("--partitions", type=int, default=6)
    user = verb("user", _user, "create a SCRAM user or change the password, which is read from standard input")
    user.add_argument("user")
    user.add_argument("--mechanism", default="SCRAM-SHA-512")
    allow = verb("allow", _allow, "allow one operation to a user")
    for name in ("user", "operation"):
        allow.add_argument(name)
    allow.add_argument("kind", choices=("topic", "group", "cluster"))
    allow.add_argument("resource")
    allow.add_argument("--prefix", action="store_true")
    group = verb("group", _group, "describe a group, or show and set its configuration")
    group.add_argument("group")
    group.add_argument("--settings", action="store_true")
    group.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    log = verb("log", _log, "show what the coordinators logged about groups")
    log.add_argument("group", nargs="?")
    log.add_argument("--follow", action="store_true")
    verb("coordinator", _coordinator, "print the node id of a group's coordinator").add_argument("group")
    verb("password", _password, "print the password of a user known from the first start").add_argument("user")
    verb("certificate", _certificate, "make a client certificate and print its files").add_argument("user")
    return parser


if __name__ == "__main__":
    sys.exit(main())
