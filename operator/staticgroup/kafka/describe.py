"""Read groups from their coordinators, many at a time, so that no trap of the describe calls becomes a wrong reading.

Why: DescribeGroups answers "Dead, no error" for a KIP-848 group, ConsumerGroupDescribe hides members without DESCRIBE
on topics, ListGroups silently omits groups. One idea: a type is believed only when the describe of that type confirms
it; absence only when ListGroups omits the group *and* DescribeGroups, which checks rights, knows none either. A list
that is too large to be read costs the types and the absences, no more.
Source: KIP-848, KIP-1071, KIP-1043 (DescribeGroups v6), KafkaApis.handleDescribeGroupsRequest,
GroupCoordinatorService.listGroups.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ..core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind
from .batch_sizes import BatchSizes
from .calls.reading import BrokerNode, DescribeAnswer, consumer_group_describe, describe_groups, streams_group_describe
from .connection import FRAME_MAX_MIB
from .errors import Code, Recovery, Refusal, back_off_s, refusal, refusal_by
from .listings import Listings
from .pool import ClusterPool
from .wire import ELEMENTS_MAX, Api, Call

WINDOW_S = 0.005
"""Calls that begin within this time share requests."""

_NEEDS_MEMBERS = frozenset({"CompletingRebalance", "Stable", "Assigning", "Reconciling", "NotReady"})


class _How(NamedTuple):
    """By which call a group of one type is described, and the states that it may be in."""

    api: Api
    make: Callable[[Sequence[str]], Call[DescribeAnswer]]
    states: frozenset[str]


_HOW: Final[Mapping[GroupType, _How]] = {
    GroupType.CLASSIC: _How(
        Api.DESCRIBE_GROUPS,
        describe_groups,
        frozenset({"PreparingRebalance", "CompletingRebalance", "Stable", "Empty"}),
    ),
    GroupType.CONSUMER: _How(
        Api.CONSUMER_GROUP_DESCRIBE,
        consumer_group_describe,
        frozenset({"Assigning", "Reconciling", "Stable", "Empty"}),
    ),
    GroupType.STREAMS: _How(
        Api.STREAMS_GROUP_DESCRIBE,
        streams_group_describe,
        frozenset({"NotReady", "Assigning", "Reconciling", "Stable", "Empty"}),
    ),
}
_TYPES: Final = {group_type.value.lower(): group_type for group_type in GroupType}

Described = GroupView | KafkaProblem
Reading = GroupView | Refusal
Batch = Mapping[str, asyncio.Future[Described]]
Listed = GroupType | None
"""ABSENT: ListGroups does not show the group. None: it does, by a broker that does not say types (before Kafka 3.8)."""


class GroupReader:
    """Describe groups of one cluster; calls made within a few milliseconds share requests."""

    def __init__(self, pool: ClusterPool, *, pause: Callable[[float], Awaitable[None]], rng: random.Random) -> None:
        self.pool = pool
        self._pause = pause
        self._rng = rng
        self._sizes = BatchSizes()
        self._listings = Listings(pool)
        self._waiting: dict[str, asyncio.Future[Described]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def describe(self, group_id: str) -> Described:
        """Read one group completely, or say why not.

        Joins only a batch that has not been sent: an answer on its way may be older than this call.
        """
        future = self._waiting.get(group_id)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            if not self._waiting:
                task = asyncio.create_task(self._flush())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            self._waiting[group_id] = future
        return await asyncio.shield(future)

    async def _flush(self) -> None:
        await self._pause(WINDOW_S)
        batch, self._waiting = self._waiting, {}
        try:
            async with self.pool.operation() as deadline_s:
                await self._read(batch, 0, deadline_s)
        except BaseException as error:
            for future in batch.values():
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise

    async def _read(self, batch: Batch, attempt: int, deadline_s: float) -> None:
        """Read each group from its coordinator; one slow broker delays only its own groups."""
        try:
            located = await self.pool.coordinators(tuple(batch), deadline_s)
        except Refusal as refused:
            located = dict.fromkeys(batch, refused.with_traceback(None))  # which would lead back to this dict
        by_node: dict[BrokerNode, list[str]] = {}
        lost: dict[str, Reading] = {}
        for group_id, location in located.items():
            if isinstance(location, BrokerNode):
                by_node.setdefault(location, []).append(group_id)
            else:
                lost[group_id] = location

        async def read_from(node: BrokerNode, group_ids: Sequence[str]) -> None:
            try:
                readings = await self._ask(node, group_ids, deadline_s)
            except Refusal as refused:
                self.pool.forget_broker(node)
                readings = dict.fromkeys(group_ids, refused.with_traceback(None))
            await self._conclude(batch, readings, attempt, deadline_s)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._conclude(batch, lost, attempt, deadline_s))
            for node, group_ids in by_node.items():
                tasks.create_task(read_from(node, group_ids))

    async def _conclude(
        self, batch: Batch, readings: Mapping[str, Reading], attempt: int, deadline_s: float
    ) -> None:
        """Hand out what is final and ask again for the rest."""
        pause_s = back_off_s(attempt, self._rng)
        in_time = asyncio.get_running_loop().time() + pause_s < deadline_s
        again: dict[str, asyncio.Future[Described]] = {}
        for group_id, reading in readings.items():
            is_asked_again = isinstance(reading, Refusal) and in_time and reading.may_retry(attempt)
            if isinstance(reading, Refusal) and (not is_asked_again or reading.recovery is Recovery.FIND_COORDINATOR):
                self.pool.forget_coordinators((group_id,))
            if is_asked_again:
                again[group_id] = batch[group_id]
            elif not batch[group_id].done():
                batch[group_id].set_result(reading if isinstance(reading, GroupView) else reading.problem)
        if again:
            await self._pause(pause_s)
            await self._read(again, attempt + 1, deadline_s)

    async def _ask(self, node: BrokerNode, group_ids: Sequence[str], deadline_s: float) -> dict[str, Reading]:
        """Ask one coordinator; a group whose type turns out to be another is asked once more with a fresh type."""
        readings = await self._ask_once(node, group_ids, deadline_s)
        changed = [g for g, r in readings.items() if isinstance(r, Refusal) and r.recovery is Recovery.READ_TYPE]
        if changed:
            self._listings.forget()
            for group_id in changed:
                self.pool.types.pop(group_id, None)
            readings |= await self._ask_once(node, changed, deadline_s)
        for group_id, reading in readings.items():
            # A call that is not served any more says nothing of a group that has another type by now.
            if isinstance(reading, Refusal) and reading.kind is KafkaProblemKind.BROKER_TOO_OLD:
                self._listings.forget()
                self.pool.types.pop(group_id, None)
            # After the second contradiction the search for the type ends; the caller's next round begins it anew.
            if isinstance(reading, Refusal) and reading.recovery is Recovery.READ_TYPE:
                readings[group_id] = Refusal(reading.problem)
        return readings

    async def _ask_once(self, node: BrokerNode, group_ids: Sequence[str], deadline_s: float) -> dict[str, Reading]:
        # Step 1: the type of each group; brokers that do not say it, and absent groups, are asked as for a classic one.
        listed = await self._list(node, group_ids, deadline_s)
        readings: dict[str, Reading] = {}
        by_type: dict[GroupType, dict[str, Listed]] = {group_type: {} for group_type in _HOW}
        for group_id, found in listed.items():
            if isinstance(found, Refusal):
                readings[group_id] = found
            elif found is None or found is GroupType.ABSENT:
                by_type[GroupType.CLASSIC][group_id] = found
            elif found in _HOW:
                by_type[found][group_id] = found
            else:
                readings[group_id] = _unsupported(group_id, found)

        # Step 2: the describe of that type.
        for group_type, known in by_type.items():
            readings |= await self._read_as(group_type, node, known, deadline_s)

        # Step 3: where the list was too large to be read, each describe in turn. A group that none of them knows keeps
        # its Refusal and is not called absent: it may be of a type that none of them describes.
        too_large = KafkaProblemKind.ANSWER_TOO_LARGE
        unlisted = {g for g, found in listed.items() if isinstance(found, Refusal) and found.kind is too_large}
        for group_type in _HOW:
            left: dict[str, Listed] = {g: group_type for g in unlisted if readings[g] is listed[g]}
            for group_id, reading in (await self._read_as(group_type, node, left, deadline_s)).items():
                is_of_another_type = isinstance(reading, Refusal) and (
                    reading.recovery is Recovery.READ_TYPE or reading.kind is KafkaProblemKind.BROKER_TOO_OLD
                )
                if not is_of_another_type:
                    readings[group_id] = reading
        return readings

    async def _list(
        self, node: BrokerNode, group_ids: Sequence[str], deadline_s: float
    ) -> dict[str, Listed | Refusal]:
        """Take the types that are known, then those in late answers to others, and ask ListGroups for the rest."""
        listed: dict[str, Listed | Refusal] = {}
        for group_id in group_ids:
            known = self.pool.types.get(group_id) or _TYPES.get(self._listings.hint(node, group_id).lower())
            if known in _HOW:  # what a describe can prove or belie
                listed[group_id] = known
        unknown = [g for g in group_ids if g not in listed]
        if not unknown:
            return listed
        try:
            code, types = await self._listings.ask(node, deadline_s)
        except Refusal as refused:
            if refused.kind is not KafkaProblemKind.ANSWER_TOO_LARGE:
                raise
            return listed | {g: _unlisted(g, refused.problem) for g in unknown}
        for group_id in unknown:
            name = types.get(group_id)
            if code != Code.none:
                listed[group_id] = refusal_by(Api.LIST_GROUPS, code, group_id, self.pool.settings.principal)
            elif not name:
                listed[group_id] = GroupType.ABSENT if name is None else None
            else:
                listed[group_id] = _TYPES.get(name.lower()) or _unsupported(group_id, None)
        return listed

    async def _read_as(
        self, group_type: GroupType, node: BrokerNode, listed: Mapping[str, Listed], deadline_s: float
    ) -> dict[str, Reading]:
        """Describe groups as ones of one type."""
        readings: dict[str, Reading] = {}
        for chunk in self._sizes.batches(listed):
            for group_id, found in (await self._describe(_HOW[group_type], node, chunk, deadline_s)).items():
                if isinstance(found, Refusal):
                    readings[group_id] = found
                else:
                    readings[group_id] = self._judge(group_type, node, group_id, found, listed[group_id])
        return readings

    async def _describe(
        self, how: _How, node: BrokerNode, group_ids: Sequence[str], deadline_s: float
    ) -> dict[str, GroupView | int | Refusal]:
        """Describe groups in one request; when its answer cannot be read, in halves: one bad group stays alone.

        An answer about one group cannot be had in parts: one that is too large is a problem of this group.
        """
        connection = await self.pool.connection_to(node, deadline_s)
        try:
            answers = await connection.call(how.make(group_ids), deadline_s)
        except Refusal as refused:
            if refused.kind is KafkaProblemKind.BROKER_TOO_OLD:  # to describe this type; other types it does
                return dict.fromkeys(group_ids, refused)
            is_too_large = refused.kind is KafkaProblemKind.ANSWER_TOO_LARGE
            if not is_too_large and refused.kind is not KafkaProblemKind.UNEXPECTED_ANSWER:
                raise
            if is_too_large:
                self._sizes.was_too_large(group_ids)
            if len(group_ids) == 1:
                return {group_ids[0]: _too_large(group_ids[0]) if is_too_large else refused}
            half = len(group_ids) // 2
            first = await self._describe(how, node, group_ids[:half], deadline_s)
            return first | await self._describe(how, node, group_ids[half:], deadline_s)
        self._sizes.did_fit(group_ids)
        missing = f"is missing from the answer to {how.api.name}"
        return {g: answers[g] if g in answers else _unexpected(g, missing) for g in group_ids}

    def _judge(
        self, group_type: GroupType, node: BrokerNode, group_id: str, found: GroupView | int, listed: Listed
    ) -> Reading:
        how, principal = _HOW[group_type], self.pool.settings.principal
        if found == Code.group_id_not_found or (isinstance(found, GroupView) and found.state == "Dead"):
            # No such group of this type: absent only if ListGroups did not show it either.
            if listed is None:
                text = f"group {group_id!r} is listed but not a classic group, and brokers before Kafka 3.8 "
                return refusal(KafkaProblemKind.BROKER_TOO_OLD, f"{text}do not tell the type; upgrade them")
            if listed is not GroupType.ABSENT:
                return refusal_by(how.api, Code.group_id_not_found, group_id, principal)
            if not self.pool.believes_absence(group_id):
                text = f"the coordinator does not show group {group_id!r}, which was seen before; it is asked again"
                return refusal(KafkaProblemKind.COORDINATOR_UNAVAILABLE, text, recovery=Recovery.BACK_OFF)
            return GroupView(group_id=group_id, group_type=GroupType.ABSENT, state="Dead", coordinator=str(node))
        if isinstance(found, int):
            return refusal_by(how.api, found, group_id, principal)
        if found.state not in how.states:
            return _unexpected(group_id, "is in a state that is not known")
        if (found.state == "Empty") == bool(found.members) and (found.members or found.state in _NEEDS_MEMBERS):
            return _unexpected(group_id, "is described with members that do not fit its state")
        self.pool.remember_type(group_id, group_type)
        return replace(found, coordinator=str(node))


def _unexpected(group_id: str, text: str) -> Refusal:
    text = f"group {group_id!r} {text}; nothing is decided on such an answer"
    return refusal(KafkaProblemKind.UNEXPECTED_ANSWER, text)


def _too_large(group_id: str) -> Refusal:
    text = (
        f"the description of group {group_id!r} takes more than {FRAME_MAX_MIB} MiB or {ELEMENTS_MAX} entries, which "
        "is not read, so nothing is decided about it; divide its members among several groups, or let consumers "
        "subscribe to fewer topics"
    )
    return refusal(KafkaProblemKind.ANSWER_TOO_LARGE, text)


def _unlisted(group_id: str, listing: KafkaProblem) -> Refusal:
    """Word that a listing could not be read; it holds what may be described (KafkaApis.handleListGroupsRequest)."""
    text = (
        f"{listing.message}, and group {group_id!r} is none that it describes, so nobody can tell whether it exists; "
        "delete groups that are not used any more, or grant DESCRIBE on the groups of StaticGroups in place of "
        "DESCRIBE on the Cluster: brokers list only what the operator may describe"
    )
    return refusal(KafkaProblemKind.ANSWER_TOO_LARGE, text)


def _unsupported(group_id: str, group_type: GroupType | None) -> Refusal:
    kind = f"a {group_type} group" if group_type else "of a type that this operator does not know"
    text = "only classic groups, KIP-848 consumer groups and streams groups are supported"
    return refusal(KafkaProblemKind.UNSUPPORTED_GROUP, f"group {group_id!r} is {kind}; {text}")
