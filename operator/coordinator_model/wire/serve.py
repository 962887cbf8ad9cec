"""`python -m coordinator_model serve`: the model as a broker for clients of consumer groups.

Topics are named on the command line and stay empty; groups are real in every rule. It stands in for a broker where a
Java runtime is too much: real consumers of both protocols join, bounce and are removed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

from ..base import messages as m
from ..base.broker_config import UnknownProperty, parse_pairs, with_properties
from ..base.errors import ErrorCode
from ..base.settings import BrokerSettings
from .cluster import INVALID_TOPIC_EXCEPTION, MAX_PARTITIONS, topic_refusal
from .listener import Listener

MAX_PORT = 65_535
_EXAMPLE = """example:
  python -m coordinator_model serve --listen 127.0.0.1:9092 --topic orders:12 \\
      --set group.initial.rebalance.delay.ms=0 --set group.consumer.session.timeout.ms=45000
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code of the process."""
    parser = argparse.ArgumentParser(
        prog="coordinator_model serve",
        description="Kafka's group coordinator on a TCP port: no JVM, empty topics, real consumer groups.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:9092", metavar="HOST:PORT", help="default %(default)s; port 0: any"
    )
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a broker property")
    parser.add_argument("--quiet", action="store_true", help="do not tell what members do")
    options = parser.parse_args(argv)
    try:
        host, port = _pair(options.listen, "--listen HOST:PORT")
        if port > MAX_PORT:
            raise ValueError(f"--listen: a port is at most {MAX_PORT}, not {port}")
        topics = _topics(options.topic)
        settings = with_properties(BrokerSettings(), parse_pairs(options.set))
    except (UnknownProperty, ValueError) as error:
        parser.error(str(error))
    try:
        asyncio.run(_serve(settings, topics, host, port, quiet=options.quiet))
    except OSError as error:
        parser.exit(1, f"cannot listen on {options.listen}: {error.strerror or error}\n")
    return 0


def narrate(request: m.Request, answer: m.Response) -> str | None:
    """Say in a line what a request did to its group; None for what happens all the time."""
    code = answer.error_code
    trouble = "" if code is ErrorCode.NONE else f" {code.name}"
    if isinstance(request, m.JoinGroupRequest) and isinstance(answer, m.JoinGroupResponse):
        member = request.group_instance_id or request.member_id or request.client_id
        role = ", leads" if answer.leader == answer.member_id else ""
        joined = f" generation {answer.generation_id}, member {answer.member_id}{role}"
        return f"{request.group_id}: {member} joins:{trouble or joined}"
    if isinstance(request, m.LeaveGroupRequest) and isinstance(answer, m.LeaveGroupResponse):
        fates = (f"{e.group_instance_id or e.member_id} {e.error_code.name}" for e in answer.members)
        return f"{request.group_id}: leave:{trouble} {', '.join(fates)}".rstrip()
    if isinstance(request, m.ConsumerGroupHeartbeatRequest):
        return _narrate_consumer(request, answer, trouble)
    if isinstance(request, m.HeartbeatRequest | m.SyncGroupRequest) and trouble:
        verb = "heartbeats" if isinstance(request, m.HeartbeatRequest) else "syncs"
        return f"{request.group_id}: {request.group_instance_id or request.member_id} {verb}:{trouble}"
    return None


def _narrate_consumer(request: m.ConsumerGroupHeartbeatRequest, answer: m.Response, trouble: str) -> str | None:
    assert isinstance(answer, m.ConsumerGroupHeartbeatResponse)
    sender = f"{request.group_id}: {request.group_instance_id or request.member_id}"
    verbs = {0: "joins", -1: "leaves", -2: "leaves for a while"}
    verb = verbs.get(request.member_epoch, "heartbeats")
    if trouble or request.member_epoch < 0:
        return f"{sender} {verb}:{trouble}".rstrip(":")
    if answer.assignment is None and answer.member_epoch == request.member_epoch:
        return None
    assigned = "" if answer.assignment is None else f", assigned {_partitions(answer.assignment)}"
    return f"{sender} {verb}: epoch {answer.member_epoch}{assigned}"


def _partitions(assignment: m.TopicPartitions) -> str:
    return " ".join(f"{topic}{list(partitions)}" for topic, partitions in assignment) or "nothing"


def _pair(text: str, form: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not name or not number.isdigit():
        raise ValueError(f"{text!r} is not {form}")
    return name, int(number)


def _topics(texts: Sequence[str]) -> dict[str, int]:
    """Read the topics; refuses what Kafka's Topic.validate refuses, and more partitions than a model should hold."""
    topics: dict[str, int] = {}
    for text in texts:
        name, count = _pair(text, "--topic NAME:PARTITIONS")
        refusal = topic_refusal(name, count)
        if refusal == INVALID_TOPIC_EXCEPTION:
            raise ValueError(f"--topic: {name!r} is no name of a topic: at most 249 letters, digits, '.', '_' and '-'")
        if refusal is not None:
            raise ValueError(f"--topic: {name} needs 1 to {MAX_PARTITIONS} partitions, not {count}")
        if name in topics:
            raise ValueError(f"--topic: {name} is given twice")
        topics[name] = count
    return topics


async def _serve(settings: BrokerSettings, topics: dict[str, int], host: str, port: int, *, quiet: bool) -> None:
    def observe(request: m.Request, answer: m.Response) -> None:
        line = narrate(request, answer)
        if line:
            _say(line)

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    listener = Listener(settings, topics=topics, observe=None if quiet else observe, complain=_say)
    bound = await listener.start(host, port)
    listed = ", ".join(f"{name} ({count} partitions)" for name, count in topics.items()) or "none: use --topic"
    _say(f"coordinator model listens on {bound[0]}:{bound[1]}; topics: {listed}; Ctrl-C ends it")
    await ended.wait()
    await listener.stop()
    _say("ended")


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
