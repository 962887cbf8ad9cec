"""A session of the shell: one coordinator, a clock and some clients, and what can happen in it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..base import messages as m
from ..base.broker_config import UnknownProperty, parse_pairs, with_properties
from ..base.config_messages import AlterGroupConfigRequest
from ..base.errors import ErrorCode
from ..base.image import TopicImage
from ..base.records import Record
from ..base.result import Result
from ..base.settings import BrokerSettings
from ..classic.future import PlanGroupRequest
from ..coordinator import GroupCoordinator
from ..share.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ..streams.messages import (
    DescribedTasks,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
)
from . import text
from .clients import CLIENTS, Client, StreamsClient

BEAT_MS = 3_000
"""How often running clients heartbeat while `tick … --beating` passes time."""


_HOLDERS: dict[str, Any] = {"consumer": m.ConsumerGroupHeartbeatRequest, "streams": StreamsGroupHeartbeatRequest}


class CommandError(Exception):
    """What was typed cannot be done; the text says why."""


class ShellSession:
    """The state of one shell session.

    Parameters
    ----------
    say: takes each line of the story.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._ids = 0
        self.now_ms = 0
        self.clients: dict[tuple[str, str], Client] = {}
        self.waiting: dict[int, Client] = {}
        self.log: list[Record] = []
        self.coordinator = GroupCoordinator(BrokerSettings(), image=TopicImage({"orders": 6}), new_uuid=self._uuid)
        self._quiet = False

    # the network of the clients

    @property
    def image(self) -> TopicImage:
        """Return the topics."""
        return self.coordinator.image

    def new_member_id(self, client: Client) -> str:
        """Return a new member id, as clients make it themselves (KIP-1082); real ones are random."""
        return f"{client.name}-{self._uuid()}"

    def send(self, client: Client, request: m.Request) -> m.Response | None:
        """Carry a client's request to the coordinator and tell what comes of it."""
        result = self.coordinator.handle(request, self.now_ms)
        if result.ticket is not None:
            self.waiting[result.ticket] = client
        name = type(request).__name__.removesuffix("Request")
        said = "waits" if result.response is None else text.answer(result.response)
        ok = result.response is not None and result.response.error_code is ErrorCode.NONE
        routine = ok and name.endswith("Heartbeat") and not result.records
        if not (self._quiet and routine):
            self._tell(f"{client.name}: {name}{_epoch(request)} → {said}")
        self._follow(result)
        return result.response

    # commands

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic or give it more partitions."""
        before = self.image.partitions.get(name, 0)
        if partitions <= before:
            raise CommandError(f"topic {name} has {before} partitions; their number can only grow")
        self.coordinator.image = self.image.with_topic(name, partitions)
        self._tell(f"topic {name}: {partitions} partitions")

    def join(self, options: argparse.Namespace) -> None:
        """Start a new client, or a new process under the name of one that stopped."""
        name = options.instance or options.name or f"client-{len(self.clients) + 1}"
        old = self.clients.get((options.group, name))
        if old is not None and old.state in ("running", "starting") and not options.second:
            raise CommandError(f"{name} runs already; add --second to start a duplicate of it")
        if old is not None and options.second:
            name = f"{name}'"
        unknown = [topic for topic in options.topics if topic not in self.image.partitions]
        if unknown:
            self._tell(f"note: no topic {', '.join(unknown)} yet")
        extra: dict[str, Any] = {"process_id": options.process or name} if options.protocol == "streams" else {}
        client = CLIENTS[options.protocol](
            network=self,
            name=name,
            group_id=options.group,
            instance_id=options.instance,
            topics=tuple(options.topics),
            session_ms=options.session,
            rebalance_ms=options.rebalance,
            **extra,
        )
        self.clients[options.group, name] = client
        client.start()

    def heartbeat(self, options: argparse.Namespace) -> None:
        """Let clients heartbeat once: one, or all of a group that run."""
        for client in self._chosen(options.group, options.name):
            client.beat()

    def leave(self, options: argparse.Namespace) -> None:
        """Remove a member by LeaveGroup, as an operator would, or let it close by itself."""
        client = self._client(options.group, options.name)
        if options.close:
            client.stop(for_good=options.for_good)
        elif options.instance_only:
            if client.instance_id is None:
                raise CommandError(f"{client.name} has no instance id")
            identity = m.MemberIdentity(group_instance_id=client.instance_id, reason="shell")
            self.send(client, m.LeaveGroupRequest(group_id=client.group_id, members=(identity,)))
        else:
            self.send(client, client.leave_request())

    def crash(self, options: argparse.Namespace) -> None:
        """Stop a client without a leave request."""
        client = self._client(options.group, options.name)
        client.state = "stopped"
        self._tell(f"{client.name}: crashed")

    def bounce(self, options: argparse.Namespace) -> None:
        """Close a client as its protocol does by default, let time pass, and start it again as a new process."""
        client = self._client(options.group, options.name)
        client.stop(for_good=False)
        self._tell(f"{client.name}: down for {text.seconds(options.down)}")
        self._pass(options.down, beating=True)
        self._tell(f"{client.name}: starts again")
        if isinstance(client, StreamsClient) and options.new_process:
            client.process_id = f"{client.name}-{self._uuid()}"
        client.state = "starting"
        client.start()

    def release(self, options: argparse.Namespace) -> None:
        """Send epoch -2 in the name of a static member whose process is dead, so that its successor may join."""
        group = self.coordinator.groups.get(options.group)
        if group is None or group.group_type not in _HOLDERS:
            raise CommandError(f"{options.group} is no group in which an instance id can be unreleased")
        _, members = self._described(options.group, group)
        holder = next((member_id for member_id, instance_id, *_ in members if instance_id == options.name), None)
        if holder is None:
            raise CommandError(f"no member holds {options.name} in {options.group}")
        client = self._client(options.group, options.name)
        heartbeat = _HOLDERS[group.group_type]
        ids = {"group_id": options.group, "member_id": holder, "group_instance_id": options.name}
        self.send(client, heartbeat(**ids, member_epoch=-2))

    def tick(self, options: argparse.Namespace) -> None:
        """Let time pass; timers fire in order."""
        self._pass(options.duration, beating=options.beating)
        self._tell("")

    def failover(self) -> None:
        """Give the groups to another broker, which knows what the log says and nothing else."""
        before, self.waiting = self.coordinator, {}
        self.coordinator = GroupCoordinator(before.settings, image=before.image, new_uuid=self._uuid)
        self.coordinator.group_configs = before.group_configs
        self.coordinator.replay(self.log, self.now_ms)
        self._tell(f"failover: {len(self.log)} records loaded, {len(self.coordinator.timers)} timers started in full")
        for client in list(self.clients.values()):
            client.again()

    def config(self, group_id: str, pairs: Sequence[str]) -> None:
        """Change settings of a group, such as consumer.session.timeout.ms=50000; an empty value deletes one."""
        changes = tuple((name, value or None) for name, value in _pairs(pairs).items())
        request = AlterGroupConfigRequest(group_id=group_id, configs=changes)
        answer = self.coordinator.handle(request, self.now_ms).response
        if answer is None or answer.error_code is not ErrorCode.NONE:
            reason = "" if answer is None else answer.error_message or answer.error_code.name
            raise CommandError(f"refused: {reason}")
        self._tell(f"group {group_id}: {', '.join(pairs)}")

    def plan(self, options: argparse.Namespace) -> None:
        """Announce what a classic group is to become (future work of KIP-345; see the switches)."""
        request = PlanGroupRequest(
            group_id=options.group,
            expected_instance_ids=None if options.expect is None else tuple(options.expect),
            wait_ms=options.wait,
            target_group_size=options.target,
        )
        result = self.coordinator.handle(request, self.now_ms)
        if result.response is None or result.response.error_code is not ErrorCode.NONE:
            raise CommandError("refused" if result.response is None else text.answer(result.response))
        self._tell(f"plan for {options.group}: {text.answer(result.response)}")
        self._follow(result)

    def switch(self, pairs: Sequence[str]) -> None:
        """Show or change broker settings; a field's name or the property's name will do."""
        if not pairs:
            for field in dataclasses.fields(BrokerSettings):
                if field.name != "is_denied":
                    self._say(f"  {field.name} = {text.brief(getattr(self.coordinator.settings, field.name))}")
            return
        fields = {field.name for field in dataclasses.fields(BrokerSettings)}
        settings = self.coordinator.settings
        for name, value in _pairs(pairs).items():
            settings = _switched(settings, name, value) if name in fields else _with_property(settings, name, value)
        self.coordinator.settings = settings
        self._tell(f"broker: {', '.join(pairs)}")

    def show(self, group_id: str | None) -> None:
        """Show groups and their members as the coordinator describes them."""
        if group_id is not None and group_id not in self.coordinator.groups:
            raise CommandError(f"no group {group_id}")
        groups = [group_id] if group_id is not None else sorted(self.coordinator.groups)
        if not groups:
            self._say("  no groups")
        for each in groups:
            self._show_group(each)

    def records(self, count: int | None) -> None:
        """Show the log, or its last entries."""
        start = 0 if count is None else max(0, len(self.log) - count)
        for offset, entry in enumerate(self.log[start:], start):
            self._say(f"  {offset:4} {text.record(entry)}")
        if not self.log:
            self._say("  the log is empty")

    def timers(self) -> None:
        """Show what is due when."""
        armed = self.coordinator.timers
        due = sorted((armed.deadline_ms(key) or 0, key) for key in armed.keys())  # noqa: SIM118  # a method of its own
        for deadline_ms, key in due:
            self._say(f"  in {text.seconds(deadline_ms - self.now_ms):>10}  {' '.join(key)}")
        if not due:
            self._say("  no timers")

    # inside

    def _uuid(self) -> str:
        self._ids += 1
        return f"{self._ids:04d}"

    def _tell(self, line: str) -> None:
        self._say(f"{text.seconds(self.now_ms):>12}  {line}".rstrip())

    def _client(self, group_id: str, name: str) -> Client:
        client = self.clients.get((group_id, name))
        if client is None:
            known = sorted(n for g, n in self.clients if g == group_id)
            raise CommandError(f"no client {name} in {group_id}; known: {', '.join(known) or 'none'}")
        return client

    def _chosen(self, group_id: str, name: str | None) -> list[Client]:
        if name is not None:
            client = self._client(group_id, name)
            if client.state != "running":
                raise CommandError(f"{name} is {client.state}; only running clients heartbeat")
            return [client]
        return [c for (g, _), c in self.clients.items() if g == group_id and c.state == "running"]

    def _follow(self, result: Result) -> None:
        """Tell the records of a step and hand late answers to those that wait for them."""
        self.log += result.records
        for entry in result.records:
            self._say(text.cut(f"{'':14}+ {text.record(entry)}"))
        for done in result.completed:
            client = self.waiting.pop(done.ticket, None)
            if client is None:
                continue
            name = type(done.response).__name__.removesuffix("Response")
            self._tell(f"{client.name}: {name} ⇢ {text.answer(done.response)}")
            if client.state == "starting":
                client.receive(done.response)

    def _pass(self, duration_ms: int, *, beating: bool) -> None:
        """Move the clock from event to event: timers as they are due, heartbeats of running clients in between."""
        end_ms = self.now_ms + duration_ms
        next_beat_ms = self.now_ms + BEAT_MS
        while True:
            due_ms = self.coordinator.timers.next_deadline_ms()
            moment_ms = min(x for x in (due_ms, next_beat_ms if beating else None, end_ms + 1) if x is not None)
            if moment_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, moment_ms)
            if due_ms is not None and due_ms <= self.now_ms:
                for key in self.coordinator.timers.due(self.now_ms):
                    self._tell(f"timer {' '.join(key)}")
                self._follow(self.coordinator.expire(self.now_ms))
            else:
                next_beat_ms += BEAT_MS
                self._beat_all()
        self.now_ms = end_ms

    def _beat_all(self) -> None:
        self._quiet = True
        for client in list(self.clients.values()):
            if client.state == "running":
                client.beat()
        self._quiet = False

    def _show_group(self, group_id: str) -> None:
        group = self.coordinator.groups[group_id]
        epoch, members = self._described(group_id, group)
        self._say(f"  {group_id}: {group.group_type}, {group.state}, {epoch}, members: {len(members)}")
        for member_id, instance_id, member_epoch, owned in members:
            deadline_ms = self.coordinator.timers.deadline_ms((f"{group.group_type}-session", group_id, member_id))
            left = "-" if deadline_ms is None else text.seconds(deadline_ms - self.now_ms)
            ids = f"{instance_id or '(dynamic)':<12} {member_id:<20}"
            self._say(f"    {ids} epoch {member_epoch:<3} session {left:>9}  {text.partitions(owned)}")
        present = {member[0] for member in members}
        for (g, name), client in self.clients.items():
            if g == group_id and client.member_id not in present and client.state != "starting":
                self._say(f"    {name}: {client.state}, not a member")

    def _described(self, group_id: str, group: Any) -> tuple[str, list[tuple[str, str | None, int, m.TopicPartitions]]]:
        """Return the group's epochs as text and (member id, instance id, epoch, what it owns) of every member."""
        if group.group_type == "classic":
            owned = {c.member_id: c.owned for c in self.clients.values() if c.group_id == group_id}
            generation = group.generation_id
            members = [(i, x.group_instance_id, generation, owned.get(i, ())) for i, x in group.members.items()]
            return f"generation {generation}, {group.protocol_name or 'no protocol'}", members
        kind = {
            "consumer": m.ConsumerGroupDescribeRequest,
            "streams": StreamsGroupDescribeRequest,
            "share": ShareGroupDescribeRequest,
        }[group.group_type]
        response = self.coordinator.handle(kind(group_ids=(group_id,)), self.now_ms).response
        assert isinstance(
            response, m.ConsumerGroupDescribeResponse | StreamsGroupDescribeResponse | ShareGroupDescribeResponse
        )
        shown = response.groups[0]
        return f"group epoch {shown.group_epoch}, assignment epoch {shown.assignment_epoch}", [
            (member.member_id, getattr(member, "instance_id", None), member.member_epoch, _owned(member.assignment))
            for member in shown.members
        ]


def _owned(assignment: m.TopicPartitions | DescribedTasks) -> m.TopicPartitions:
    return assignment.active_tasks if isinstance(assignment, DescribedTasks) else assignment


def _epoch(request: m.Request) -> str:
    epoch = getattr(request, "member_epoch", getattr(request, "generation_id", None))
    return "" if epoch is None else f"({epoch})"


def _pairs(pairs: Sequence[str]) -> dict[str, str]:
    try:
        return parse_pairs(pairs)
    except UnknownProperty as error:
        raise CommandError(str(error)) from error


def _switched(settings: BrokerSettings, name: str, value: str) -> BrokerSettings:
    before = getattr(settings, name)
    new: Any = value
    if isinstance(before, bool):
        if value not in ("true", "false"):
            raise CommandError(f"{name} is true or false")
        new = value == "true"
    elif isinstance(before, int):
        if not value.isdigit():
            raise CommandError(f"{name} takes a number, not {value!r}")
        new = int(value)
    elif isinstance(before, tuple):
        new = tuple(value.split(","))
    elif not isinstance(before, str):
        raise CommandError(f"{name} cannot be set here")
    return dataclasses.replace(settings, **{name: new})


def _with_property(settings: BrokerSettings, name: str, value: str) -> BrokerSettings:
    try:
        return with_properties(settings, {name: value})
    except UnknownProperty as error:
        raise CommandError(str(error).partition(";")[0] + "; `switch` alone lists them") from error
