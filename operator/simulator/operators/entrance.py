"""What brings an operator its events in kopf's stead, in a model world and in tests of several operators in one loop.

kopf asks an informer for a LIST and for the changes after it, again and again, and hands each change to the informer.
Source: staticgroup.runtime.process.session, staticgroup.runtime.handlers.
"""

from __future__ import annotations

import asyncio

from staticgroup.kube.informer import Informer
from staticgroup.runtime.operator import Operator


async def entered(operator: Operator) -> None:
    """Run an operator, and bring it its events, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(operator.run(), name="operator")
        await operator.reached.wait()
        for informer in operator.informers.all:
            tasks.create_task(follow(informer), name=informer.name)


async def follow(informer: Informer) -> None:
    """Bring one informer its events, until cancelled."""
    while True:
        async for event in informer.changes(await informer.list()):
            informer.take(event)
