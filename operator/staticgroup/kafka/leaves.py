"""Remove static members, or let one leave for a while: sent once, and only what the answer shows is believed.

Why: a coordinator that may have acted must not be asked again. LeaveGroup removes many members by one request; a
streams group, which it does not serve, takes a request for each member, all at once over the coordinator's connection.
Source: KIP-345 (LeaveGroup v3), KIP-1071 (member epoch -1); GroupMetadataManager of Kafka 4.4 compares both ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..core.group import LeaveCall, LeaveEntry, LeaveOutcome, LeaveResult, ReleaseOutcome
from .calls.leaving import leave_group, streams_leave, temporary_leave
from .connection import BrokerConnection, too_old
from .errors import ACTED_MAYBE, LEAVE_OUTCOMES, RELEASE_OUTCOMES, STREAMS_LEAVE_OUTCOMES, Code, Refusal, refusal_by
from .pool import Attempt, ClusterPool
from .wire import PINNED, Api, Call, negotiate

Outcome = TypeVar("Outcome", LeaveOutcome, ReleaseOutcome)


def refuse_old_broker(connection: BrokerConnection) -> None:
    """Refuse a broker that cannot do what keeps live members safe: compare-and-set removal, static joins."""
    versions = connection.versions
    if negotiate(Api.LEAVE_GROUP, versions) is None:
        raise Refusal(too_old(connection.target, Api.LEAVE_GROUP))
    if versions.get(Api.JOIN_GROUP, (0, 0))[1] < PINNED[Api.JOIN_GROUP][0]:
        raise Refusal(too_old(connection.target, Api.JOIN_GROUP))


def all_together(group_id: str, entries: Sequence[LeaveEntry]) -> Attempt[LeaveResult]:
    """Return the attempt to remove members by one LeaveGroup.

    Raises
    ------
    ValueError: on an empty list or an entry without both ids. Refusal, from the attempt: nothing was removed.
    """
    call = leave_group(group_id, entries)

    async def attempt(pool: ClusterPool, deadline_s: float) -> LeaveResult:
        node, connection = await pool.coordinator(group_id, deadline_s)
        refuse_old_broker(connection)
        unknown = LeaveResult(coordinator=str(node), outcomes=(LeaveOutcome.RETRY,) * len(entries))
        try:
            code, answers = await connection.call(call, deadline_s)
        except Refusal as refusal:
            pool.forget_broker(node)
            if refusal.sent:
                return unknown
            raise
        if code in ACTED_MAYBE:
            pool.forget_coordinators((group_id,))
            return unknown
        if code != Code.none:
            raise refusal_by(call.api, code, group_id, pool.settings.principal)
        # Only instance ids are compared: some brokers echo the member id that they resolved, not the one that was sent.
        if [instance_id for instance_id, _ in answers] != [entry.instance_id for entry in entries]:
            return unknown
        outcomes = tuple(LEAVE_OUTCOMES.get(code, LeaveOutcome.RETRY) for _, code in answers)
        return LeaveResult(coordinator=str(node), outcomes=outcomes)

    return attempt


def one_by_one(group_id: str, entries: Sequence[LeaveEntry]) -> Attempt[LeaveResult]:
    """Return the attempt to remove members of a streams group; ValueError as for `all_together`."""
    if not entries:
        raise ValueError("a leave of nobody is refused")
    calls = [streams_leave(group_id, entry) for entry in entries]

    async def attempt(pool: ClusterPool, deadline_s: float) -> LeaveResult:
        meanings, retry = STREAMS_LEAVE_OUTCOMES, LeaveOutcome.RETRY
        coordinator, outcomes = await _send_all(pool, group_id, calls, meanings, retry, deadline_s)
        return LeaveResult(coordinator=coordinator, outcomes=outcomes)

    return attempt


def for_a_while(group_id: str, entry: LeaveEntry, by: LeaveCall) -> Attempt[ReleaseOutcome]:
    """Return the attempt to let a member leave for a while; ValueError on an entry without both ids."""
    call = temporary_leave(group_id, entry, by)

    async def attempt(pool: ClusterPool, deadline_s: float) -> ReleaseOutcome:
        meanings, retry = RELEASE_OUTCOMES, ReleaseOutcome.RETRY
        _, (outcome,) = await _send_all(pool, group_id, [call], meanings, retry, deadline_s)
        return outcome

    return attempt


async def _send_all(
    pool: ClusterPool, group_id: str, calls: Sequence[Call[int]],
    meanings: Mapping[int, Outcome], retry: Outcome, deadline_s: float,
) -> tuple[str, tuple[Outcome, ...]]:
    """Send all at once; return the coordinator, and what each answer means or `retry`; Refusal: nothing was done."""
    node, connection = await pool.coordinator(group_id, deadline_s)

    async def send(call: Call[int]) -> Outcome | Refusal:
        try:
            code = await connection.call(call, deadline_s)
        except Refusal as refusal:
            return retry if refusal.sent else refusal
        if code in ACTED_MAYBE:
            return retry
        return meanings.get(code) or refusal_by(call.api, code, group_id, pool.settings.principal)

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(send(call)) for call in calls]
    answers = [task.result() for task in asked]
    refusals = [answer for answer in answers if isinstance(answer, Refusal)]
    if retry in answers:
        pool.forget_broker(node)
    if refusals:
        pool.forget_coordinators((group_id,))
    if len(refusals) == len(answers):
        raise refusals[0]
    # One that is refused beside others that were carried out is described again and decided afresh.
    return str(node), tuple(retry if isinstance(answer, Refusal) else answer for answer in answers)
