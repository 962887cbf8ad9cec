"""A listener in a process of its own, real clients on it, and what tests read of its groups."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from staticgroup.core.group import GroupView, LeaveEntry, LeaveResult
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from support.devcluster.kafka_member import Member
from support.waiting import until

T = TypeVar("T")

OPERATOR = Path(__file__).parents[2] / "operator"

PARTITIONS = 6

SETTINGS = (
    *("--set", "group.initial.rebalance.delay.ms=200", "--set", "group.min.session.timeout.ms=1000"),
    *("--set", "group.consumer.min.heartbeat.interval.ms=200", "--set", "group.consumer.heartbeat.interval.ms=300"),
)

EVENTUALLY_S = 300.0  # these tests run on what other programs leave of the machine


@dataclass
class Server:
    """The command in a process of its own, with the lines that it printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    @property
    def address(self) -> str:
        """The address of the start line."""
        found = re.search(r"listens on (\S+:\d+);", wait(lambda: self.lines and self.lines[0]))
        assert found
        return found[1]


def wait(condition: Callable[[], T | None]) -> T:
    """Return the first true answer."""
    return until(condition, deadline_s=EVENTUALLY_S, what="what the server or its consumers do", poll_s=0.05)


def start(*arguments: str) -> Server:
    command = [sys.executable, "-m", "coordinator_model", "serve", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(OPERATOR)}
    return Server(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    )


class Group:
    """The members of one group, ended with the test."""

    def __init__(self, server: Server, name: str, protocol: str) -> None:
        self.name = f"{name}-{os.urandom(2).hex()}"
        self.server = server
        timeouts = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300} if protocol == "classic" else {}
        self._settings: dict[str, str | int] = {
            **{"bootstrap.servers": server.address, "group.id": self.name, "group.protocol": protocol},
            **{"enable.auto.commit": "false", "auto.offset.reset": "earliest", **timeouts},
        }
        self.members: list[Member] = []

    def start(self, instance: str | None = None) -> Member:
        static = {"group.instance.id": instance} if instance else {}
        self.members.append(Member({**self._settings, **static}, "orders"))
        return self.members[-1]

    def end(self) -> None:
        for member in self.members:
            if member.is_running:
                member.kill()


def owned(member: Member) -> frozenset[int]:
    """Return the partitions that a consumer has by the callbacks it got so far."""
    held: set[int] = set()
    for event in member.history():
        if event.kind == "assigned":
            held |= event.partitions
        elif event.kind in ("revoked", "lost"):
            held -= event.partitions
    return frozenset(held)


def settled(*members: Member) -> bool:
    """Say whether the members own every partition, each once."""
    held = [owned(member) for member in members]
    return all(held) and sum(map(len, held)) == PARTITIONS and len(frozenset().union(*held)) == PARTITIONS


def errors(group: Group) -> list[str]:
    return [f"{event.error} {event.text}" for member in group.members for event in member.history() if event.error]


def view(server: Server, group: str) -> GroupView:
    """Describe a group by the operator's own gateway."""

    async def ask() -> object:
        gateway = KioGateway()
        try:
            return await gateway.describe(connection_of(server), group)
        finally:
            await gateway.close()

    seen = asyncio.run(ask())
    assert isinstance(seen, GroupView), seen
    return seen


def remove(server: Server, group: str, entries: list[LeaveEntry]) -> LeaveResult:
    """Remove members by the operator's own gateway."""

    async def ask() -> object:
        gateway = KioGateway()
        try:
            return await gateway.leave(connection_of(server), group, entries)
        finally:
            await gateway.close()

    result = asyncio.run(ask())
    assert isinstance(result, LeaveResult), result
    return result


def connection_of(server: Server) -> ConnectionSettings:
    return ConnectionSettings(bootstrap_servers=(server.address,), allow_loopback=True)
