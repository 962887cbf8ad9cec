"""Play a history on both sides at once and compare after every step, up to the names of member ids.

One idea: the model says which requests wait, so the real broker is waited for exactly as long as it must answer; what
the model leaves waiting must still wait there after the groups' descriptions agree. Two things only are Kafka's free
choice and are taken from the broker: member ids, and who leads after the leader is lost (the order of a Java map).
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from conformance.differential.history import CLASSIC, CONSUMER, History, Op
from conformance.differential.sides import ModelSide, RealSide
from conformance.wire.conversation import assignment, subscription
from coordinator_model import messages as m
from coordinator_model.assignors.subscription import decode_assignment
from coordinator_model.errors import ErrorCode as E

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
    speaks: str = ""
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


class Player:
    """One run of one history.

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
        self.was_consumer = False
        self.leader_is_open = False
        self.transcript: list[str] = []
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        """Play all steps.

        Raises
        ------
        Difference: the sides do not agree; the transcript ends with where.
        """
        try:
            for number, op in enumerate(self.history.ops):
                self.transcript.append(f"{number:3} {op}")
                await cast("Awaitable[None]", getattr(self, f"_{op.kind}")(self.slots[op.slot], op))
        finally:
            for waiting in self.waiting.values():
                waiting.task.cancel()
            await asyncio.gather(*(w.task for w in self.waiting.values()), return_exceptions=True)

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
        """Let the broker say whom it made the leader of a group that has just become classic: any member may be it."""
        group = self.model.coordinator.groups.get(self.group)
        kind = getattr(group, "group_type", "")
        if self.was_consumer and kind == CLASSIC:
            self.leader, self.leader_is_open = None, True
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
            ours = dataclasses.replace(ours, skip_assignment=theirs.skip_assignment)  # it follows from who leads
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
        slot.current, slot.speaks, slot.dead = symbol, CLASSIC, False
        slot.generation = theirs.generation_id
        led = self._symbol(theirs.leader, self.real_ids)
        self._agree_on_leader(led, self._symbol(ours.leader, self.model_ids))
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
        if isinstance(plain, m.OffsetFetchResponse | m.OffsetCommitResponse):
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
            f"{back.get(e.member_id, e.member_id if e.member_type == 1 else '?')}/{e.instance_id}@{e.member_epoch} {e.assignment}→{e.target_assignment}"
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

    # the classic protocol ----------------------------------------------------------------------------------------

    def _join_request(self, slot: Slot, symbol: str, **changes: Any) -> Build:
        metadata = subscription("orders") if slot.variant == 0 else subscription("orders", "payments")
        protocols = tuple(m.Protocol(name, metadata) for name in slot.offers)

        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group,
                "member_id": name(symbol) if symbol else "",
                "group_instance_id": slot.instance,
                "session_timeout_ms": LONG_MS,
                "rebalance_timeout_ms": LONG_MS,
                "protocols": protocols,
            }
            return m.JoinGroupRequest(**{**fields, **changes})

        return build

    async def _join(self, slot: Slot, _op: Op, **changes: Any) -> None:
        """A new process: without member id, for a dynamic one in two rounds."""
        if slot.waits and not slot.instance:
            return
        slot.dead = False
        answer = await self._send(slot, self._join_request(slot, "", **changes))
        if isinstance(answer, m.JoinGroupResponse) and answer.error_code is E.MEMBER_ID_REQUIRED:
            symbol = self._symbol(answer.member_id, self.model_ids)
            slot.forget()
            await self._send(slot, self._join_request(slot, symbol, **changes))

    async def _rejoin(self, slot: Slot, _op: Op) -> None:
        if slot.current and not slot.waits and not slot.dead:
            await self._send(slot, self._join_request(slot, slot.current))

    async def _rejoin_changed(self, slot: Slot, op: Op) -> None:
        slot.variant = 1 - slot.variant
        await self._rejoin(slot, op)

    async def _other_protocol(self, slot: Slot, op: Op) -> None:
        slot.offers = (("range", "roundrobin"), ("roundrobin",), ("roundrobin", "range"))[op.arg % 3]
        await (self._join(slot, op) if op.arg % 2 and slot.instance else self._rejoin(slot, op))

    async def _join_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        await self._send(slot, self._join_request(slot, symbol))

    async def _join_foreign(self, slot: Slot, op: Op) -> None:
        other = self.slots[(slot.index + 1 + op.arg) % len(self.slots)]
        if slot.current and other is not slot and other.instance:
            await self._send(slot, self._join_request(slot, slot.current, group_instance_id=other.instance))

    async def _wrong_type(self, slot: Slot, _op: Op) -> None:
        if slot.instance and any(each.current for each in self.slots):
            await self._send(slot, self._join_request(slot, "made-up", protocol_type="connect"))

    async def _bad_session(self, slot: Slot, op: Op) -> None:
        session_ms = (499, 1_800_001)[op.arg % 2]
        await self._send(slot, self._join_request(slot, "", session_timeout_ms=session_ms))

    def _sync_request(self, slot: Slot, symbol: str) -> Build:
        def build(name: Name) -> m.Request:
            rows: tuple[tuple[str, bytes], ...] = ()
            if slot.leads:
                everybody = sorted(self._symbol(each, self.real_ids) for each in slot.listed)
                rows = tuple((name(each), assignment(("orders", (number,)))) for number, each in enumerate(everybody))
            return m.SyncGroupRequest(
                group_id=self.group,
                generation_id=slot.generation,
                member_id=name(symbol),
                group_instance_id=slot.instance,
                protocol_type="consumer",
                protocol_name=self._selected(),
                assignments=rows,
            )

        return build

    def _selected(self) -> str:
        group = self.model.coordinator.groups.get(self.group)
        return getattr(group, "protocol_name", None) or "range"

    async def _sync(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.speaks == CLASSIC and not slot.waits and not slot.dead:
            await self._send(slot, self._sync_request(slot, slot.current))

    def _beat_request(self, slot: Slot, symbol: str, **changes: Any) -> Build:
        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group,
                "generation_id": slot.generation,
                "member_id": name(symbol),
                "group_instance_id": slot.instance,
            }
            return m.HeartbeatRequest(**{**fields, **changes})

        return build

    async def _beat(self, slot: Slot, _op: Op) -> None:
        if slot.current and not slot.dead:
            await self._send(slot, self._beat_request(slot, slot.current))

    async def _beat_wrong(self, slot: Slot, op: Op) -> None:
        if slot.current:
            wrong = slot.generation + (1, -1)[op.arg % 2]
            await self._send(slot, self._beat_request(slot, slot.current, generation_id=wrong))

    async def _beat_alone(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            await self._send(slot, self._beat_request(slot, slot.current, group_instance_id=None))

    async def _beat_stale(self, slot: Slot, op: Op) -> None:
        if slot.stale:
            await self._send(slot, self._beat_request(slot, slot.stale[op.arg % len(slot.stale)]))

    async def _kill(self, slot: Slot, _op: Op) -> None:
        slot.dead = True

    async def _settle(self, _slot: Slot, op: Op) -> None:
        """Let everybody who lives rejoin if the group asks for it, then sync."""
        for _ in range(2):
            for slot in self.slots:
                group = self.model.coordinator.groups.get(self.group)
                if slot.speaks == CLASSIC and getattr(group, "state", "") == "PreparingRebalance":
                    await self._rejoin(slot, op)
            for slot in self.slots:
                group = self.model.coordinator.groups.get(self.group)
                if getattr(group, "state", "") == "CompletingRebalance":
                    await self._sync(slot, op)

    async def _lapse(self, slot: Slot, op: Op) -> None:
        """A static member comes back with a short session, beats once and falls silent."""
        group = self.model.coordinator.groups.get(self.group)
        if not slot.instance or not slot.current or getattr(group, "state", "") != "Stable" or slot.waits:
            return
        if getattr(group, "group_type", "") != CLASSIC:
            return
        await self._join(slot, op, session_timeout_ms=SHORT_MS)
        if getattr(self.model.coordinator.groups.get(self.group), "state", "") != "Stable" or not slot.current:
            await self._send(slot, self._leave_request(("", slot.instance)))
            return
        await self._send(slot, self._beat_request(slot, slot.current))
        await self._wait(SHORT_MS / 1000 + 1.0)
        slot.forget()

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.model.advance(seconds)
        await self._finish_waiting()
        await self._compare_groups()

    def _commit_request(self, slot: Slot, symbol: str, epoch: int) -> Build:
        def build(name: Name) -> m.Request:
            return m.OffsetCommitRequest(
                api_version=9,
                group_id=self.group,
                generation_id_or_member_epoch=epoch,
                member_id=name(symbol) if symbol else "",
                group_instance_id=slot.instance,
                offsets=(("orders", slot.index, 7),),
            )

        return build

    async def _commit(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            await self._send(slot, self._commit_request(slot, slot.current, slot.generation))

    async def _commit_wrong(self, slot: Slot, op: Op) -> None:
        symbol = (slot.stale or ["made-up"])[-1] if op.arg % 3 else (slot.current or "made-up")
        await self._send(slot, self._commit_request(slot, symbol, slot.generation + op.arg % 2))

    # removal -----------------------------------------------------------------------------------------------------

    def _leave_request(self, *entries: tuple[str, str | None]) -> Build:
        def build(name: Name) -> m.Request:
            members = tuple(
                m.MemberIdentity(member_id=name(symbol) if symbol else "", group_instance_id=instance)
                for symbol, instance in entries
            )
            return m.LeaveGroupRequest(group_id=self.group, members=members)

        return build

    async def _leave(self, slot: Slot, op: Op) -> None:
        if slot.current:
            await self._send(slot, self._leave_request((slot.current, slot.instance if op.arg % 4 else None)))
            slot.forget()

    async def _leave_instance(self, slot: Slot, _op: Op) -> None:
        if slot.instance:
            await self._send(slot, self._leave_request(("", slot.instance)))
            slot.forget()

    async def _leave_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        await self._send(slot, self._leave_request((symbol, slot.instance if op.arg % 3 else None)))

    async def _leave_batch(self, _slot: Slot, op: Op) -> None:
        rng = random.Random(op.arg)
        entries: list[tuple[str, str | None]] = []
        removed = []
        for slot in rng.sample(self.slots, rng.randint(1, 3)):
            forms = [("", slot.instance), ("made-up", slot.instance), ("", "nobody"), (slot.current or "no", None)]
            forms += [(slot.current or "no", slot.instance)] * 3
            entries.append(rng.choice(forms))
            removed.append(slot)
        if rng.random() < 0.3:
            entries.append(entries[0])
        await self._send(removed[0], self._leave_request(*entries))
        answer = self.model.ask(m.DescribeGroupsRequest(groups=(self.group,)))[0]
        shown = self.model.ask(m.ConsumerGroupDescribeRequest(group_ids=(self.group,)))[0]
        left = {each.member_id for g in cast(Any, answer).groups + cast(Any, shown).groups for each in g.members}
        for slot in removed:
            if slot.current and self.model_ids.get(slot.current, slot.current) not in left:
                slot.forget()

    async def _delete(self, slot: Slot, _op: Op) -> None:
        await self._send(slot, lambda _name: m.DeleteGroupsRequest(group_ids=(self.group,)))

    # KIP-848 -----------------------------------------------------------------------------------------------------

    def _consumer_request(self, slot: Slot, symbol: str, epoch: int, **changes: Any) -> Build:
        def build(name: Name) -> m.Request:
            fields: dict[str, Any] = {
                "group_id": self.group,
                "member_id": name(symbol),
                "member_epoch": epoch,
                "group_instance_id": slot.instance,
                "rebalance_timeout_ms": LONG_MS,
                "subscribed_topic_names": slot.topics,
                "server_assignor": slot.assignor,
                "topic_partitions": slot.owned,
            }
            return m.ConsumerGroupHeartbeatRequest(**{**fields, **changes})

        return build

    async def _beat_consumer(self, slot: Slot, symbol: str, epoch: int, **changes: Any) -> m.Response | None:
        answer = await self._send(slot, self._consumer_request(slot, symbol, epoch, **changes))
        if isinstance(answer, m.ConsumerGroupHeartbeatResponse) and answer.error_code is E.NONE and epoch >= 0:
            if slot.current != symbol:
                slot.forget()
            slot.current, slot.speaks, slot.dead, slot.generation = symbol, CONSUMER, False, answer.member_epoch
            slot.owned = slot.owned if answer.assignment is None else answer.assignment
        return answer

    async def _cjoin(self, slot: Slot, _op: Op) -> None:
        """A new process with an id of its own."""
        if slot.waits:
            return
        owned, slot.owned = slot.owned, ()
        answer = await self._beat_consumer(slot, self._new_symbol(slot), 0)
        if answer is None or answer.error_code is not E.NONE:
            slot.owned = owned

    async def _crejoin(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.speaks == CONSUMER:
            slot.owned = ()
            await self._beat_consumer(slot, slot.current, 0)

    async def _away(self, slot: Slot, _op: Op) -> None:
        if slot.current:
            bare = {"subscribed_topic_names": None, "topic_partitions": None, "server_assignor": None}
            await self._beat_consumer(slot, slot.current, -2, **bare, rebalance_timeout_ms=-1)
            slot.dead = True

    async def _cbounce(self, slot: Slot, op: Op) -> None:
        await self._away(slot, op)
        await self._cjoin(slot, op)

    async def _cleave(self, slot: Slot, op: Op) -> None:
        if slot.current:
            instance = slot.instance if op.arg % 3 else None
            await self._beat_consumer(slot, slot.current, -1, group_instance_id=instance)
            slot.forget()

    async def _cbeat(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.speaks == CONSUMER and not slot.dead:
            await self._beat_consumer(slot, slot.current, slot.generation)

    async def _cbeat_slim(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.speaks == CONSUMER:
            bare = {"subscribed_topic_names": None, "topic_partitions": None, "server_assignor": None}
            await self._beat_consumer(slot, slot.current, max(1, slot.generation), **bare, rebalance_timeout_ms=-1)

    async def _cbeat_ahead(self, slot: Slot, _op: Op) -> None:
        if slot.current and slot.generation >= 0:
            await self._send(slot, self._consumer_request(slot, slot.current, slot.generation + 1))

    async def _cbeat_behind(self, slot: Slot, op: Op) -> None:
        if slot.current and slot.speaks == CONSUMER and slot.generation > 1:
            owned = slot.owned if op.arg % 2 else ()
            before = slot.generation - 1
            await self._beat_consumer(slot, slot.current, before, topic_partitions=owned)

    async def _cbeat_stale(self, slot: Slot, op: Op) -> None:
        symbol = slot.stale[op.arg % len(slot.stale)] if slot.stale else "made-up"
        epoch = (max(1, slot.generation), -1, -2)[op.arg % 3]
        if epoch != -2 or slot.instance:
            await self._send(slot, self._consumer_request(slot, symbol, epoch))

    async def _cinvalid(self, slot: Slot, op: Op) -> None:
        changes: tuple[dict[str, Any], ...] = (
            {"group_instance_id": ""},
            {"member_epoch": -3},
            {"server_assignor": "nope"},
            {"rebalance_timeout_ms": 0},
        )
        await self._send(slot, self._consumer_request(slot, slot.current or "new", 0, **changes[op.arg % 4]))

    async def _subscribe(self, slot: Slot, op: Op) -> None:
        choices = (("orders",), ("orders", "payments"), ("payments",), ("orders", "absent"))
        slot.topics = choices[op.arg % 4]
        await self._cbeat(slot, op)

    async def _assignor(self, slot: Slot, op: Op) -> None:
        slot.assignor = ("range", None)[op.arg % 2]
        await self._cbeat(slot, op)

    async def _csettle(self, _slot: Slot, op: Op) -> None:
        """Let everybody who lives heartbeat until nothing changes."""
        for _ in range(6):
            before = [(slot.generation, slot.owned) for slot in self.slots]
            for slot in self.slots:
                await self._cbeat(slot, op)
            if before == [(slot.generation, slot.owned) for slot in self.slots]:
                return

    def _config_request(self, **values: int | None) -> Build:
        pairs = tuple((name.replace("_", "."), None if v is None else str(v)) for name, v in values.items())
        return lambda _name: m.AlterGroupConfigRequest(group_id=self.group, configs=pairs)

    async def _config(self, slot: Slot, op: Op) -> None:
        interval_ms = (600, 700, 800, None)[op.arg % 4]
        await self._send(slot, self._config_request(consumer_heartbeat_interval_ms=interval_ms))
        await self._wait(0.5)

    async def _config_bad(self, slot: Slot, op: Op) -> None:
        values = ({"consumer_session_timeout_ms": 999}, {"consumer_nonsense": 1}, {"consumer_heartbeat_interval_ms": 1})
        await self._send(slot, self._config_request(**values[op.arg % 3]))

    async def _clapse(self, slot: Slot, op: Op) -> None:
        """A member beats once under a short session and falls silent."""
        if not slot.current or slot.speaks != CONSUMER or slot.dead:
            return
        await self._send(slot, self._config_request(consumer_session_timeout_ms=SHORT_MS))
        await self._wait(0.5)
        await self._cbeat(slot, op)
        await self._send(slot, self._config_request(consumer_session_timeout_ms=None))
        await self._wait(SHORT_MS / 1000 + 1.0)
        slot.forget()

    async def _ccommit(self, slot: Slot, op: Op) -> None:
        await self._commit(slot, op)

    async def _ccommit_wrong(self, slot: Slot, op: Op) -> None:
        await self._commit_wrong(slot, op)


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
