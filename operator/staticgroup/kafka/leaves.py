"""Remove static members where each is told by a request of its own: in a streams group, which LeaveGroup does not serve.

Why: what some of the answers say must not hide what the others do not. One idea: all requests go out at once over the
coordinator's connection; each is sent at most once unless the broker has done nothing about any of them.
Source: KIP-1071 (member epoch -1); GroupMetadataManager.streamsGroupLeave of Kafka 4.4, a compare-and-set of both ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ..core.group import LeaveEntry, LeaveOutcome, LeaveResult
from .answers import LeaveAnswer
from .calls.leaving import streams_leave
from .connection import BrokerConnection
from .errors import (
    ACTED_MAYBE,
    DID_NOTHING,
    STREAMS_LEAVE_OUTCOMES,
    Recovery,
    Refusal,
    leave_outcome,
    problem_of,
    verdict_of,
)
from .pool import ClusterPool
from .wire import Api, Call

Answer = LeaveOutcome | Refusal
"""Of one member; a refusal says that nothing was done about it."""


def one_by_one(
    group_id: str, entries: Sequence[LeaveEntry]
) -> Callable[[ClusterPool, float], Awaitable[LeaveResult]]:
    """Return the attempt to remove members of a streams group, for `KioGateway`.

    Raises
    ------
    ValueError: on an empty list or an entry without both ids. Refusal, from the attempt: nothing was done about any member.
    """
    if not entries:
        raise ValueError("a leave of nobody is refused")
    calls = [streams_leave(group_id, entry) for entry in entries]

    async def attempt(pool: ClusterPool, deadline_s: float) -> LeaveResult:
        node = await pool.coordinator(group_id, deadline_s)
        connection = await pool.connection_to(node, deadline_s)
        principal = pool.settings.principal
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(_leave(connection, call, group_id, principal, deadline_s)) for call in calls]
        answers = [task.result() for task in asked]
        refusals = [answer for answer in answers if isinstance(answer, Refusal)]
        if LeaveOutcome.RETRY in answers:
            pool.forget_broker(node)
        if refusals:
            pool.forget_coordinators((group_id,))
        if len(refusals) == len(answers):
            raise refusals[0]
        # One that is refused beside others that were carried out is described again and decided afresh.
        return LeaveResult(
            coordinator=str(node),
            outcomes=tuple(LeaveOutcome.RETRY if isinstance(answer, Refusal) else answer for answer in answers),
        )

    return attempt


async def _leave(
    connection: BrokerConnection, call: Call[int], group_id: str, principal: str, deadline_s: float
) -> Answer:
    """Send one leave; RETRY when it may have been carried out and nobody knows."""
    try:
        code = await connection.call(call, deadline_s)
    except Refusal as refusal:
        return LeaveOutcome.RETRY if refusal.sent else refusal
    if code in ACTED_MAYBE:
        return LeaveOutcome.RETRY
    outcome = STREAMS_LEAVE_OUTCOMES.get(code)
    if outcome is not None:
        return outcome
    api = Api.STREAMS_GROUP_HEARTBEAT
    recovery = verdict_of(api, code).recovery if code in DID_NOTHING else Recovery.NONE
    return Refusal(problem_of(api, code, group_id=group_id, principal=principal), recovery=recovery)


def outcomes_of(entries: Sequence[LeaveEntry], answer: LeaveAnswer) -> tuple[LeaveOutcome, ...]:
    """Match answers to entries by position; when the answer does not line up, nothing in it is believed.

    Notes
    -----
    Only the instance id is compared: some brokers echo the member id that they resolved, not the one that was sent.
    """
    echoed = [member.instance_id for member in answer.members]
    if echoed != [entry.instance_id for entry in entries]:
        return (LeaveOutcome.RETRY,) * len(entries)
    return tuple(leave_outcome(member.error_code) for member in answer.members)
