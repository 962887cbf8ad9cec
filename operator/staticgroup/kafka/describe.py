"""Read groups from their coordinators, many at a time, so that no trap of the describe calls becomes a wrong reading.

Why: DescribeGroups answers "Dead, no error" for a KIP-848 group, ConsumerGroupDescribe hides members without DESCRIBE
on topics, ListGroups silently omits groups. One idea: a type is believed only when the describe of that type confirms
it; absence only when ListGroups omits the group *and* DescribeGroups, which checks rights, knows none either. A list that is too
large to be read costs the types and the absences, no more.
Source: KIP-848, KIP-1071, KIP-1043 (DescribeGroups v6), KafkaApis.handleDescribeGroupsRequest,
GroupCoordinatorService.listGroups.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind
from .answers import BrokerNode, DescribedGroup, ListGroupsAnswer
from .batch_sizes import BatchSizes
from .calls.reading import consumer_group_describe, describe_groups, streams_group_describe
from .connection import FRAME_MAX_MIB, BrokerConnection
from .errors import Code, Recovery, Refusal, problem_of, refusal, verdict_of
from .listings import Listings
from .pool import ClusterPool
from .retries import back_off_s, may_retry
from .wire import ELEMENTS_MAX, Api, Call

WINDOW_S = 0.005
"""Calls that begin within this time share requests."""

_NEEDS_MEMBERS = frozenset({"CompletingRebalance", "Stable", "Assigning", "Reconciling", "NotReady"})


@dataclass(frozen=True, slots=True)
class _How:
    """By which call a group of one type is described, and the states that it may be in."""

    api: Api
    make: Callable[[Sequence[str]], Call[tuple[DescribedGroup, ...]]]
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
_HINTED: Final = {group_type.value.lower(): group_type for group_type in _HOW}
"""What a describe can prove or belie."""

Pause = Callable[[float], Awaitable[None]]
Described = GroupView | KafkaProblem
Reading = GroupView | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What ListGroups said about one group before it is described.

    Parameters
    ----------
    group_type: None when the broker is too old to tell (before ListGroups v5, Kafka 3.8).
    """

    group_type: GroupType | None
    is_listed: bool


class GroupReader:
    """Describe groups of one cluster; calls made within a few milliseconds share requests."""

    def __init__(self, pool: ClusterPool, *, pause: Pause, rng: random.Random) -> None:
        self._pool = pool
        self._pause = pause
        self._rng = rng
        self._sizes = BatchSizes()
        self._listings = Listings(pool)
        self._waiting: dict[str, asyncio.Future[Described]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def describe(self, group_id: str) -> Described:
        """Read one group completely, or say why not.

        Notes
        -----
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
            async with self._pool.operation() as deadline_s:
                await self._read(batch, 0, deadline_s)
        except BaseException as error:
            for future in batch.values():
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise

    async def _read(self, batch: Mapping[str, asyncio.Future[Described]], attempt: int, deadline_s: float) -> None:
        try:
            located = await self._pool.coordinators(tuple(batch), deadline_s)
        except Refusal as refused:
            located = dict.fromkeys(batch, refused.with_traceback(None))  # which would lead back to this dict
        by_node: dict[BrokerNode, list[str]] = {}
        lost: dict[str, Reading] = {}
        for group_id, location in located.items():
            if isinstance(location, BrokerNode):
                by_node.setdefault(location, []).append(group_id)
            else:
                lost[group_id] = location
        async with asyncio.TaskGroup() as tasks:  # one slow broker delays only its own groups
            tasks.create_task(self._conclude(batch, lost, attempt, deadline_s))
            for node, group_ids in by_node.items():
                tasks.create_task(self._read_from(node, group_ids, batch, attempt, deadline_s))

    async def _read_from(
        self,
        node: BrokerNode,
        group_ids: Sequence[str],
        batch: Mapping[str, asyncio.Future[Described]],
        attempt: int,
        deadline_s: float,
    ) -> None:
        try:
            readings = await self._ask(node, group_ids, deadline_s)
        except Refusal as refused:
            self._pool.forget_broker(node)
            readings = dict.fromkeys(group_ids, refused.with_traceback(None))
        await self._conclude(batch, readings, attempt, deadline_s)

    async def _conclude(
        self,
        batch: Mapping[str, asyncio.Future[Described]],
        readings: Mapping[str, Reading],
        attempt: int,
        deadline_s: float,
    ) -> None:
        """Hand out what is final and ask again for the rest."""
        pause_s = back_off_s(attempt, self._rng)
        in_time = asyncio.get_running_loop().time() + pause_s < deadline_s
        again: dict[str, asyncio.Future[Described]] = {}
        for group_id, reading in readings.items():
            if isinstance(reading, GroupView):
                _settle(batch[group_id], reading)
            elif in_time and may_retry(reading, attempt):
                again[group_id] = batch[group_id]
                if reading.recovery is Recovery.FIND_COORDINATOR:
                    self._pool.forget_coordinators((group_id,))
            else:
                self._pool.forget_coordinators((group_id,))
                _settle(batch[group_id], reading.problem)
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
                self._pool.types.pop(group_id, None)
            readings |= await self._ask_once(node, changed, deadline_s)
        for group_id, reading in readings.items():
            # A call that is not served any more tells nothing of a group that has another type by now.
            if isinstance(reading, Refusal) and reading.problem.kind is KafkaProblemKind.BROKER_TOO_OLD:
                self._listings.forget()
                self._pool.types.pop(group_id, None)
        return {group_id: _without_read_type(reading) for group_id, reading in readings.items()}

    async def _ask_once(self, node: BrokerNode, group_ids: Sequence[str], deadline_s: float) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        listings = await self._list(node, group_ids, deadline_s)
        by_type: dict[GroupType, list[str]] = {group_type: [] for group_type in _HOW}
        for group_id in group_ids:
            listing = listings[group_id]
            if isinstance(listing, Refusal):
                readings[group_id] = listing
            elif listing.group_type in (None, GroupType.ABSENT):  # older brokers do not tell types, and had none but this
                by_type[GroupType.CLASSIC].append(group_id)
            elif listing.group_type in by_type:
                by_type[listing.group_type].append(group_id)
            else:
                readings[group_id] = _unsupported(group_id, listing.group_type)
        for group_type, wanted in by_type.items():
            known = {g: listing for g in wanted if isinstance(listing := listings[g], Listing)}
            readings |= await self._read_as(group_type, node, known, deadline_s)
        unlisted = {
            g: listing
            for g, listing in listings.items()
            if isinstance(listing, Refusal) and listing.problem.kind is KafkaProblemKind.ANSWER_TOO_LARGE
        }
        return readings | await self._find(node, unlisted, deadline_s)

    async def _read_as(
        self, group_type: GroupType, node: BrokerNode, listings: Mapping[str, Listing], deadline_s: float
    ) -> dict[str, Reading]:
        """Describe groups as ones of one type."""
        readings: dict[str, Reading] = {}
        for chunk in self._sizes.batches(listings):
            for group_id, found in (await self._describe(_HOW[group_type], node, chunk, deadline_s)).items():
                judged = found if isinstance(found, Refusal) else self._judge(group_type, node, found, listings[group_id])
                readings[group_id] = judged
        return readings

    async def _find(self, node: BrokerNode, unlisted: Mapping[str, Refusal], deadline_s: float) -> dict[str, Reading]:
        """Describe groups by each call in turn, because a listing that cannot be read tells no types.

        Notes
        -----
        Whom no call knows keeps its Refusal and is not called absent: it may be of a type that none of them describes.
        """
        readings: dict[str, Reading] = dict(unlisted)
        for group_type in _HOW:
            left = {g: Listing(group_type=group_type, is_listed=True) for g in unlisted if readings[g] is unlisted[g]}
            told = await self._read_as(group_type, node, left, deadline_s)
            readings |= {g: reading for g, reading in told.items() if not _is_of_another_type(reading)}
        return readings

    async def _list(
        self, node: BrokerNode, group_ids: Sequence[str], deadline_s: float
    ) -> dict[str, Listing | Refusal]:
        """Take the types that are known, then those that others have heard of lately, and ask ListGroups for the rest."""
        known = self._pool.types
        listings: dict[str, Listing | Refusal] = {
            g: Listing(group_type=known[g], is_listed=True) for g in group_ids if g in known
        }
        listings |= {
            g: Listing(group_type=_HINTED[told.lower()], is_listed=True)
            for g in group_ids
            if g not in listings and (told := self._listings.hint(node, g)).lower() in _HINTED
        }
        unknown = [g for g in group_ids if g not in listings]
        if not unknown:
            return listings
        try:
            answer = await self._listings.ask(node, deadline_s)
        except Refusal as refused:
            if refused.problem.kind is not KafkaProblemKind.ANSWER_TOO_LARGE:
                raise
            return listings | {g: _unlisted(g, refused.problem) for g in unknown}
        if answer.error_code != Code.NONE:
            return listings | {g: self._refuse(Api.LIST_GROUPS, answer.error_code, g) for g in unknown}
        return listings | _read_listing(answer, unknown)

    async def _describe(
        self, how: _How, node: BrokerNode, group_ids: Sequence[str], deadline_s: float
    ) -> dict[str, DescribedGroup | Refusal]:
        """Describe groups in one request; when its answer cannot be read, in halves: one bad group stays alone.

        Notes
        -----
        An answer about one group cannot be had in parts: one that is too large is a problem of this group.
        """
        connection: BrokerConnection = await self._pool.connection_to(node, deadline_s)
        try:
            answers = {a.group_id: a for a in await connection.call(how.make(group_ids), deadline_s)}
        except Refusal as refused:
            if refused.problem.kind is KafkaProblemKind.BROKER_TOO_OLD:  # to describe this type; other types it does
                return dict.fromkeys(group_ids, refused)
            is_too_large = refused.problem.kind is KafkaProblemKind.ANSWER_TOO_LARGE
            if not is_too_large and refused.problem.kind is not KafkaProblemKind.UNEXPECTED_ANSWER:
                raise
            if is_too_large:
                self._sizes.was_too_large(group_ids)
            if len(group_ids) == 1:
                return {group_ids[0]: _too_large(group_ids[0]) if is_too_large else refused}
            half = len(group_ids) // 2
            first = await self._describe(how, node, group_ids[:half], deadline_s)
            return first | await self._describe(how, node, group_ids[half:], deadline_s)
        self._sizes.did_fit(group_ids)
        return {g: answers.get(g) or _unexpected(g, f"is missing from the answer to {how.api.name}") for g in group_ids}

    def _judge(self, group_type: GroupType, node: BrokerNode, found: DescribedGroup, listing: Listing) -> Reading:
        how = _HOW[group_type]
        if found.error_code == Code.GROUP_ID_NOT_FOUND or (found.error_code == Code.NONE and found.state == "Dead"):
            return self._judge_unknown(how.api, node, found, listing)
        if found.error_code != Code.NONE:
            return self._refuse(how.api, found.error_code, found.group_id)
        if found.state not in how.states:
            return _unexpected(found.group_id, "is in a state that is not known")
        if (found.state == "Empty") == bool(found.members) and (found.members or found.state in _NEEDS_MEMBERS):
            return _unexpected(found.group_id, "is described with members that do not fit its state")
        self._pool.remember_type(found.group_id, group_type)
        return GroupView(
            group_id=found.group_id,
            group_type=group_type,
            state=found.state,
            coordinator=str(node),
            protocol_type=found.protocol_type,
            members=found.members,
            group_epoch=found.group_epoch,
            assignment_epoch=found.assignment_epoch,
        )

    def _judge_unknown(self, api: Api, node: BrokerNode, found: DescribedGroup, listing: Listing) -> Reading:
        """Read "no such group of this type": absent only if ListGroups did not show it either."""
        if listing.is_listed and listing.group_type is None:
            text = "is listed but not a classic group, and brokers before Kafka 3.8 do not tell the type; upgrade them"
            return refusal(KafkaProblemKind.BROKER_TOO_OLD, f"group {found.group_id!r} {text}")
        if listing.is_listed:
            return self._refuse(api, Code.GROUP_ID_NOT_FOUND, found.group_id)
        if not self._pool.believes_absence(found.group_id):
            text = f"the coordinator does not show group {found.group_id!r}, which was seen before; it is asked again"
            return refusal(KafkaProblemKind.COORDINATOR_UNAVAILABLE, text, recovery=Recovery.BACK_OFF)
        return GroupView(group_id=found.group_id, group_type=GroupType.ABSENT, state="Dead", coordinator=str(node))

    def _refuse(self, api: Api, code: int, group_id: str) -> Refusal:
        problem = problem_of(api, code, group_id=group_id, principal=self._pool.settings.principal)
        return Refusal(problem, recovery=verdict_of(api, code).recovery)


def _read_listing(answer: ListGroupsAnswer, group_ids: Sequence[str]) -> dict[str, Listing | Refusal]:
    listings: dict[str, Listing | Refusal] = {}
    for group_id in group_ids:
        told = answer.types.get(group_id)
        if answer.version < 5:
            listings[group_id] = Listing(group_type=None, is_listed=told is not None)
        elif told is None:
            listings[group_id] = Listing(group_type=GroupType.ABSENT, is_listed=False)
        elif told.lower() in _TYPES:
            listings[group_id] = Listing(group_type=_TYPES[told.lower()], is_listed=True)
        else:
            listings[group_id] = _unsupported(group_id, None)
    return listings


def _settle(future: asyncio.Future[Described], outcome: Described) -> None:
    if not future.done():
        future.set_result(outcome)


def _without_read_type(reading: Reading) -> Reading:
    """End the search for the type after the second contradiction; the next round of the caller looks again."""
    if isinstance(reading, Refusal) and reading.recovery is Recovery.READ_TYPE:
        return Refusal(reading.problem)
    return reading


def _unexpected(group_id: str, text: str) -> Refusal:
    return refusal(KafkaProblemKind.UNEXPECTED_ANSWER, f"group {group_id!r} {text}; nothing is decided on such an answer")


def _too_large(group_id: str) -> Refusal:
    text = (
        f"the description of group {group_id!r} takes more than {FRAME_MAX_MIB} MiB or {ELEMENTS_MAX} entries, which is not read, "
        "so nothing is decided about it; divide its members among several groups, or let consumers subscribe to fewer topics"
    )
    return refusal(KafkaProblemKind.ANSWER_TOO_LARGE, text)


def _unlisted(group_id: str, listing: KafkaProblem) -> Refusal:
    """Word that a listing could not be read (KafkaApis.handleListGroupsRequest of Kafka 4.4: what may be described is listed)."""
    text = (
        f"{listing.message}, and group {group_id!r} is none that it describes, so nobody can tell whether it exists; delete groups that "
        "are not used any more, or grant DESCRIBE on the groups of StaticGroups in place of DESCRIBE on the Cluster: brokers list only "
        "what the operator may describe"
    )
    return refusal(KafkaProblemKind.ANSWER_TOO_LARGE, text)


def _is_of_another_type(reading: Reading) -> bool:
    """Tell whether a describe did not know a group as one of its type, or the broker has no such type."""
    if not isinstance(reading, Refusal):
        return False
    return reading.recovery is Recovery.READ_TYPE or reading.problem.kind is KafkaProblemKind.BROKER_TOO_OLD


def _unsupported(group_id: str, group_type: GroupType | None) -> Refusal:
    kind = f"a {group_type} group" if group_type else "of a type that this operator does not know"
    text = f"group {group_id!r} is {kind}; only classic groups, KIP-848 consumer groups and streams groups are supported"
    return refusal(KafkaProblemKind.UNSUPPORTED_GROUP, text)
