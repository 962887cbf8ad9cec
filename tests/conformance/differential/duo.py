"""Play a history on both sides at once and compare after every step, up to the names of member ids.

One idea: the model says which requests wait, so the real broker is waited for exactly as long as it must answer; what
the model leaves waiting must still wait there after the groups' descriptions agree. Two things only are Kafka's free
choice and are taken from the broker: member ids, and the leader after the old one is lost (the order of a Java map).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from conformance.differential.history import CLASSIC, CONSUMER, History
from conformance.differential.sides import ModelSide, RealSide
from conformance.wire.conversation import subscription
from coordinator_model.assignors.subscription import decode_assignment
from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode as E
from coordinator_model.base.offset_messages import OffsetCommitResponse, OffsetFetchResponse

MAX_SIZE = 4
LONG_MS = 600_000
SHORT_MS = 1_500
ANSWER_S = 15.0
SETTLE_S = 6.0
STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling")
Name = Callable[[str], str]
Build = Callable[[Name], m.Request]


class Difference(Exception):
    """Model and broker did not agree."""


@dataclass(slots=True)
class Slot:
    """One member as its client knows it; equal on both sides up to names.

    Parameters
    ----------
    current: the symbol of its member id; None when it is in no group.
    stale: symbols of ids that it had before.
    listed: the broker's ids of the members that it must assign to as the leader.
    """

    index: int
    instance: str | None
    ids: int = 0
    current: str | None = None
    stale: list[str] = field(default_factory=list)
    protocol: str = ""
    generation: int = -1
    leads: bool = False
    listed: tuple[str, ...] = ()
    variant: int = 0
    offers: tuple[str, ...] = ("range", "roundrobin")
    topics: tuple[str, ...] = ("orders",)
    assignor: str | None = "range"
    owned: m.TopicPartitions = ()
    dead: bool = False
    waits: bool = False

    def forget(self) -> None:
        """Make the current id a stale one."""
        if self.current:
            self.stale.append(self.current)
        self.current, self.owned, self.leads, self.generation = None, (), False, -1


@dataclass(slots=True)
class _Waiting:
    slot: Slot
    task: asyncio.Task[m.Response]
    text: str


class Duo:
    """One group on both sides, and what its members know.

    Parameters
    ----------
    park_s: how long a waiting request is given to arrive at the broker before the next step.
    """

    def __init__(self, history: History, model: ModelSide, real: RealSide, group: str, park_s: float) -> None:
        self.history = history
        self.model, self.real, self.group, self.park_s = model, real, group, park_s
        self.slots = [Slot(i, f"x{i}" if static else None) for i, static in enumerate(history.static)]
        self.model_ids: dict[str, str] = {}
        self.real_ids: dict[str, str] = {}
        self.waiting: dict[int, _Waiting] = {}
        self.leader: str | None = None
        self.led: dict[int, str] = {}
        self.was_consumer = False
        self.leader_is_open = False
        self.transcript: list[str] = []
        self.seen: Counter[str] = Counter()

    # one request on both sides -----------------------------------------------------------------------------------

    async def _send(self, slot: Slot, build: Build) -> m.Response | None:
        """Send one request to both and compare; returns the model's answer, None while it waits."""
        request = build(lambda symbol: self.model_ids.get(symbol, symbol))
        answer, ticket = self.model.ask(request)
        text = _short(build(lambda symbol: symbol))
        task = self.real.start(build(lambda symbol: self.real_ids.get(symbol, symbol)))
        if answer is None:
            assert ticket is not None
            self.waiting[ticket] = _Waiting(slot, task, text)
            slot.waits = True
            self.transcript.append(f"      {text} → waits")
            await asyncio.sleep(self.park_s)
        else:
            await self._compare(slot, task, text, answer)
        await self._finish_waiting()
        await self._compare_groups()
        await self._find_leader(slot)
        return answer

    async def _find_leader(self, actor: Slot) -> None:
        """Take the broker's leader of a group that has just become classic: any member may be it."""
        group = self.model.coordinator.groups.get(self.group)
        kind = getattr(group, "group_type", "")
        if self.was_consumer and kind == CLASSIC:
            self.leader, self.leader_is_open = None, True
            self.led.clear()
        self.was_consumer = kind == CONSUMER
        if not self.leader_is_open or kind != CLASSIC or cast(Any, group).state != "Stable":
            return
        away = next((s for s in self.slots if s.instance and s.current and not s.waits and s is not actor), actor)
        if len(cast(Any, group).members) < MAX_SIZE and away.instance:
            await self._send(away, self._join_request(away, ""))
        elif away.instance:
            await self._send(away, self._leave_request(("", away.instance)))
            away.forget()

    async def _finish_waiting(self) -> None:
        """Take what this step has answered of what had waited."""
        while done := [ticket for ticket in self.waiting if ticket in self.model.completed]:
            for ticket in done:
                waiting = self.waiting.pop(ticket)
                waiting.slot.waits = any(w.slot is waiting.slot for w in self.waiting.values())
                await self._compare(waiting.slot, waiting.task, waiting.text, self.model.completed.pop(ticket))
        self.model.completed.clear()

    async def _compare(self, slot: Slot, task: asyncio.Task[m.Response], text: str, ours: m.Response) -> None:
        try:
            theirs = await asyncio.wait_for(task, ANSWER_S)
        except TimeoutError:
            raise self._difference(text, _short(ours), f"no answer for {ANSWER_S:.0f} s") from None
        was_open = self.leader_is_open
        if isinstance(ours, m.JoinGroupResponse):
            self._learn(slot, ours, cast(m.JoinGroupResponse, theirs))
        if was_open and isinstance(ours, m.JoinGroupResponse) and isinstance(theirs, m.JoinGroupResponse):
            ours = dataclasses.replace(ours, skip_assignment=theirs.skip_assignment)  # it follows from the leader
        model_says, real_says = self._canon(ours, self.model_ids), self._canon(theirs, self.real_ids)
        self.transcript.append(f"      {text} → {_short(model_says)}")
        self.seen[f"{type(ours).__name__.removesuffix('Response')} {ours.error_code.name}"] += 1
        if model_says != real_says:
            raise self._difference(text, _short(model_says), _short(real_says))

    def _learn(self, slot: Slot, ours: m.JoinGroupResponse, theirs: m.JoinGroupResponse) -> None:
        """Name the member id that a join brought, take over the answer, and let the broker choose a new leader."""
        known = set(self.model_ids.values())
        if ours.member_id and theirs.member_id and ours.member_id not in known:
            symbol = self._new_symbol(slot)
            self.model_ids[symbol], self.real_ids[symbol] = ours.member_id, theirs.member_id
        if ours.error_code is not E.NONE or theirs.error_code is not E.NONE:
            return
        symbol = self._symbol(ours.member_id, self.model_ids)
        if slot.current != symbol:
            slot.forget()
        slot.current, slot.protocol, slot.dead = symbol, CLASSIC, False
        slot.generation = theirs.generation_id
        led = self._symbol(theirs.leader, self.real_ids)
        self._agree_on_leader(led, self._symbol(ours.leader, self.model_ids))
        self.led[theirs.generation_id] = led
        slot.leads = bool(theirs.leader) and led == symbol
        if theirs.members:
            slot.listed = tuple(each.member_id for each in theirs.members)

    def _agree_on_leader(self, real: str, model: str) -> None:
        group = self.model.coordinator.groups.get(self.group)
        if real != model and getattr(group, "group_type", "") == CLASSIC and real in self.model_ids:
            if self.leader == model:  # it was not lost, so there was nothing to choose
                raise self._difference("leader", model, real)
            cast(Any, group).leader = self.model_ids[real]
        self.leader, self.leader_is_open = real, False

    def _new_symbol(self, slot: Slot) -> str:
        slot.ids += 1
        return f"s{slot.index}.{slot.ids}"

    @staticmethod
    def _symbol(member_id: str, ids: dict[str, str]) -> str:
        return next((symbol for symbol, each in ids.items() if each == member_id), member_id)

    def _canon(self, answer: m.Response, ids: dict[str, str]) -> m.Response:
        """Return an answer with symbols for ids, sorted, without texts, addresses and the leader's private part."""
        back = {each: symbol for symbol, each in ids.items()}
        plain = cast(m.Response, _renamed(answer, back))
        plain = dataclasses.replace(plain, error_message=None)
        if isinstance(plain, m.JoinGroupResponse):
            member_id = plain.member_id if plain.error_code in (E.NONE, E.MEMBER_ID_REQUIRED) else ""
            plain = dataclasses.replace(plain, leader="", members=(), member_id=member_id)
        if isinstance(plain, m.SyncGroupResponse):
            plain = dataclasses.replace(plain, assignment=_partitions(plain.assignment).encode())
        if isinstance(plain, OffsetFetchResponse | OffsetCommitResponse):
            plain = dataclasses.replace(plain, error_code=E.NONE)
        return plain

    # the groups themselves ---------------------------------------------------------------------------------------

    async def _compare_groups(self) -> None:
        """Wait until both sides describe the group alike, then make sure that what waits still waits."""
        asked: list[m.Request] = []
        if self.history.family != CONSUMER:
            asked.append(m.DescribeGroupsRequest(groups=(self.group,)))
        if self.history.family != CLASSIC:
            asked.append(m.ConsumerGroupDescribeRequest(group_ids=(self.group,)))
        ours = [self._described(cast(m.Response, self.model.ask(each)[0]), self.model_ids) for each in asked]
        until_s = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            answers = [await self.real.client.ask(each) for each in asked]
            theirs = [self._described(answer, self.real_ids) for answer in answers]
            if ours == theirs:
                break
            if asyncio.get_running_loop().time() > until_s:
                raise self._difference("the group", "\n        ".join(ours), "\n        ".join(theirs))
            await asyncio.sleep(0.02)
        self.transcript.append(f"      = {' | '.join(ours)}")
        self.seen.update(state for state in STATES if any(state in text for text in ours))
        for waiting in self.waiting.values():
            if waiting.task.done():
                said = _short(waiting.task.result())
                raise self._difference(waiting.text, "waits", said)

    def _described(self, answer: m.Response, ids: dict[str, str]) -> str:
        back = {each: symbol for symbol, each in ids.items()}
        if isinstance(answer, m.DescribeGroupsResponse):
            group = answer.groups[0]
            stable = group.group_state == "Stable"
            members = sorted(
                f"{back.get(e.member_id, '?')}/{e.group_instance_id}"
                + (f"/{_partitions(e.member_assignment)}" if stable else "")
                for e in group.members
            )
            head = f"{group.error_code.name} {group.group_state} {group.protocol_type} {group.protocol_data}"
            return f"{head} {members}"
        (shown,) = cast(m.ConsumerGroupDescribeResponse, answer).groups
        rows = sorted(
            f"{back.get(e.member_id, e.member_id if e.member_type == 1 else '?')}/{e.instance_id}"
            f"@{e.member_epoch} {e.assignment}→{e.target_assignment}"
            f" {e.subscribed_topic_names} type {e.member_type}"
            for e in shown.members
        )
        if shown.error_code is not E.NONE:
            return shown.error_code.name
        head = f"{shown.group_state} {shown.group_epoch}/{shown.assignment_epoch} {shown.assignor_name}"
        return f"{head} {rows}"

    def _difference(self, what: str, model: str, real: str) -> Difference:
        self.transcript += [f"  !!  {what}", f"      model: {model}", f"      real:  {real}"]
        return Difference(f"{what}\n  model: {model}\n  real:  {real}")

    # requests that several kinds of steps need ------------------------------------------------------------------

    def _join_request(self, slot: Slot, symbol: str, **changes: Any) -> Build:
        metadata = subscription("orders") if slot.variant == 0 else subscription("orders", "payments")
        protocols = tuple(m.Protocol(name, metadata) for name in slot.offers)

        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group, "member_id": name(symbol) if symbol else "", "group_instance_id": slot.instance,
                "session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS, "protocols": protocols,
            }
            return m.JoinGroupRequest(**{**fields, **changes})

        return build

    def _leave_request(self, *entries: tuple[str, str | None]) -> Build:
        def build(name: Name) -> m.Request:
            members = tuple(
                m.MemberIdentity(member_id=name(symbol) if symbol else "", group_instance_id=instance)
                for symbol, instance in entries
            )
            return m.LeaveGroupRequest(group_id=self.group, members=members)

        return build

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.model.advance(seconds)
        await self._finish_waiting()
        await self._compare_groups()


def _partitions(content: bytes) -> str:
    """Return an assignment with its topics sorted: a broker writes them in the order of a map by topic id."""
    if not content:
        return "nothing"
    decoded = decode_assignment(content)
    return f"{sorted(decoded.partitions)} {decoded.user_data!r}"


def _renamed(value: Any, back: dict[str, str]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _renamed(getattr(value, f.name), back) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(_renamed(each, back) for each in value)
    return back.get(value, value) if isinstance(value, str) else value


def _short(message: Any) -> str:
    """Say a message without what is at its default."""
    if not dataclasses.is_dataclass(message):
        return repr(message)
    shown = [
        f"{f.name}={_short(value)}"
        for f in dataclasses.fields(message)
        if (value := getattr(message, f.name)) != f.default
        and f.name not in ("group_id", "protocols", "rebalance_timeout_ms", "session_timeout_ms")
    ]
    name = type(message).__name__.removesuffix("Response").removesuffix("Request")
    return f"{name}({', '.join(shown)})".replace("<ErrorCode.", "").replace(">", "")
