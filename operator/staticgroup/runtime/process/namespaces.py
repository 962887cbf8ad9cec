"""Determine which of the namespaces that the operator is configured to serve it can serve.

A namespace's deletion or its administrator can take the operator's rights away, which must not affect the others. So a
process serves the namespaces that exist and that it may read, and restarts when they change. It gives the Lease up, and
the next process resumes the watches. Only a namespace that comes back begins a new watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import NAMESPACES, PODS, STATEFULSETS, Transport
from .informers import KAFKA_CONNECTIONS, STATIC_GROUPS
from .settings import Settings

log = logging.getLogger(__name__)

CHECK_EVERY_S: Final = 30.0
FOLLOWED: Final = (PODS, STATEFULSETS, STATIC_GROUPS, KAFKA_CONNECTIONS)
"""What a process has to read in each of its namespaces before it begins."""
CHECKS: Final = 2
"""One answer may be that of an API server which is being restored, or come between a Role and its binding."""
_REFUSED: Final = (KubeProblemKind.FORBIDDEN, KubeProblemKind.NOT_FOUND)


async def serving(transport: Transport, settings: Settings) -> Settings:
    """Return the settings with those of their namespaces that can be served."""
    return settings.model_copy(update={"watch_namespaces": await there(transport, settings.watch_namespaces)})


async def there(transport: Transport, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of some namespaces of which the API server does not say that they are gone, or may not be read.

    Returns
    -------
    In their order. All of them where none is left, because none means all to the parts of the operator.
    """
    found = await asyncio.gather(*(_can_be_served(transport, name) for name in wanted))
    return tuple(name for name, can_be in zip(wanted, found, strict=True) if can_be is not False) or tuple(wanted)


async def until_others(
    transport: Transport, wanted: Sequence[str], served: Sequence[str], *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Wait until a namespace that is served can be no longer, or one that could not be can.

    Parameters
    ----------
    wanted: all that are to be served. served: those of them that are.
    """
    for name in sorted(set(wanted) - set(served)):
        log.warning(
            "a namespace does not exist or may not be read, and is served once it can be", extra={"namespace": name}
        )
    counts: dict[str, int] = {}
    while not any(count >= CHECKS for count in counts.values()):
        await sleep(CHECK_EVERY_S)
        for name in wanted:
            is_other = await _can_be_served(transport, name) is (name not in served)
            counts[name] = counts.get(name, 0) + 1 if is_other else 0
        if set(wanted) == set(served) and all(counts.values()):
            counts.clear()  # none can be: nothing else could be served
    for name in (name for name, count in counts.items() if count >= CHECKS):
        found = "it is gone, or may not be read" if name in served else "can be read"
        log.warning("ending, to serve other namespaces from now on", extra={"namespace": name, "found": found})


async def _can_be_served(transport: Transport, name: str) -> bool | None:
    """Return whether a namespace is there, with a Role in it; None when the API server does not say, as when busy."""
    answer = await transport.call("get", NAMESPACES, name=name)
    if isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.NOT_FOUND:
        return False
    asked = (transport.call("list", resource, namespace=name, query={"limit": "1"}) for resource in FOLLOWED)
    answers = await asyncio.gather(*asked)
    if any(isinstance(each, KubeProblem) and each.kind in _REFUSED for each in answers):
        return False
    # Without the right to ask whether it is there: others may let all service accounts view the pods of any namespace.
    return None if any(isinstance(each, KubeProblem) for each in (answer, *answers)) else True
