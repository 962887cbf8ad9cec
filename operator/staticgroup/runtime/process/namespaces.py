"""Which of the namespaces that the operator is told to serve there are.

A namespace that is deleted takes the operator's rights in it along, and a watch that is refused holds everybody back: what cannot be
seen may be alive. But a namespace that the API server does not have has no pods. So a process serves those that there are, and ends,
to be started again, when they are others. It gives the Lease up, and the next one goes on from where its watches were. One that comes
back is another namespace for the watch: until it is served nobody is removed (`PodStore.unfollowed`), and what it had until then nobody
has seen, which is a gap. One that is there and may not be read is waited for, because somebody may have taken the right by mistake.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from ...api import names
from ...kube.namespaces import is_gone
from ...kube.problem import KubeProblem
from ...kube.transport import NAMESPACES, PODS, STATEFULSETS, Transport
from .settings import Settings
from .streams import ours

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 30.0
FOLLOWED: Final = (PODS, STATEFULSETS, ours(names.STATIC_GROUP_PLURAL), ours(names.KAFKA_CONNECTION_PLURAL))
"""What a process has to read in each of its namespaces before it begins."""
LOOKS: Final = 2
"""One answer that a namespace is not there may be that of an API server which is being restored."""


async def serving(transport: Transport, settings: Settings) -> Settings:
    """Return the settings with those of their namespaces that there are, and beside them those that are gone."""
    wanted = settings.watch_namespaces
    served = await there(transport, wanted)
    return replace(settings, watch_namespaces=served, gone_namespaces=tuple(name for name in wanted if name not in served))


async def there(transport: Transport, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of some namespaces of which the API server does not say that they are not there.

    Returns
    -------
    In their order. All of them where none is there, because none means all to the parts of the operator.
    """
    gone = await asyncio.gather(*(is_gone(transport, name) for name in wanted))
    return tuple(name for name, is_missing in zip(wanted, gone, strict=True) if not is_missing) or tuple(wanted)


async def until_others(
    transport: Transport, wanted: Sequence[str], served: Sequence[str], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Wait until a namespace that is served is gone, or one that was not there can be read.

    Parameters
    ----------
    wanted: all that are to be served. served: those of them that are.
    """
    for name in sorted(set(wanted) - set(served)):
        log.warning("a namespace does not exist, and is served once it can be read", extra={"namespace": name})
    looks: dict[str, int] = {}
    while not any(count >= LOOKS for count in looks.values()):
        await sleep(LOOK_EVERY_S)
        for name in wanted:
            is_other = await is_gone(transport, name) if name in served else await _is_readable(transport, name)
            looks[name] = looks.get(name, 0) + 1 if is_other else 0
        if set(wanted) == set(served) and all(looks.values()):
            looks.clear()  # none is there: nothing else could be served
    for name in (name for name, count in looks.items() if count >= LOOKS):
        found = "is gone" if name in served else "can be read"
        log.warning("ending, to serve other namespaces from now on", extra={"namespace": name, "found": found})


async def _is_readable(transport: Transport, name: str) -> bool:
    """True for a namespace that is there, with a Role in it: a process that serves one which it may not read never begins."""
    if isinstance(await transport.call("get", NAMESPACES, name=name), KubeProblem):
        return False
    asked = (transport.call("list", resource, namespace=name, query={"limit": "1"}) for resource in FOLLOWED)
    return not any(isinstance(answer, KubeProblem) for answer in await asyncio.gather(*asked))
