"""Set settings of one group at the brokers.

One idea: setting a value again changes nothing, so a lost answer is asked again like a read, and only reading the setting back
tells what holds. Source: IncrementalAlterConfigs (KIP-339) on resources of type GROUP (KIP-848); it needs ALTER_CONFIGS on the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from . import wire
from .errors import Code, Refusal, problem_of, verdict_of
from .pool import ClusterPool
from .wire import Api


def set_config(group_id: str, values: Mapping[str, int]) -> Callable[[ClusterPool, float], Awaitable[None]]:
    """Return the attempt to set all of the values in one request, for `KioGateway`.

    Raises
    ------
    ValueError: there is nothing to set. Refusal, from the attempt: the brokers did not take them.
    """
    if not values:
        raise ValueError("a change of nothing is refused")
    call = wire.alter_group_config(group_id, {key: str(value) for key, value in values.items()})

    async def attempt(pool: ClusterPool, deadline_s: float) -> None:
        node = await pool.coordinator(group_id, deadline_s)
        connection = await pool.connection_to(node, deadline_s)
        code = await connection.call(call, deadline_s)
        if code != Code.NONE:
            problem = problem_of(Api.INCREMENTAL_ALTER_CONFIGS, code, group_id=group_id, principal=pool.settings.principal)
            raise Refusal(problem, recovery=verdict_of(Api.INCREMENTAL_ALTER_CONFIGS, code).recovery)

    return attempt
