"""Know the facts of every node, also of those that are gone.

The end of a pod rests on the word of a kubelet, so it needs that kubelet's version, and it may be asked for after
the node has left. Three ways to know, the best that the operator's rights allow: LIST and WATCH; a GET per name, kept
for a minute, since a taint may have come meanwhile; nothing at all, and then no certificate is given. A node that is gone is remembered as it was last seen, with the taints it had.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from ...core.evidence.pod import NodeView
from ..outage import Backoff
from ..pages import PageLimit, pages
from ..problem import KubeProblem, KubeProblemKind
from ..translate import node_view
from ..transport import CONNECTION_ERRORS, NODES, Transport, is_gone

VANISHED_MAX: Final = 1_000
_RETRY_DELAY_S: Final = 1.0
_FORBIDDEN_DELAY_MAX_S: Final = 60.0
"""A right to list nodes that is missing was hardly taken by mistake, and each name can be asked for meanwhile."""
_STALL_TIMEOUT_S: Final = 75.0
ASK_AGAIN_S: Final = 60.0


class NodeStore:
    """Follow nodes.

    Parameters
    ----------
    on_change: (node name) facts are new, different or read afresh; certificates that waited for them can be judged.
    rng: spreads retries.
    clock_s: monotonic seconds.
    now_s: seconds since the Unix epoch.
    """

    def __init__(
        self, transport: Transport, *, on_change: Callable[[str], None], rng: Random, clock_s: Callable[[], float],
        sleep: Callable[[float], Any] = asyncio.sleep, retry_delay_s: float = _RETRY_DELAY_S, now_s: Callable[[], float] = time.time,
    ) -> None:
        self._now_s = now_s
        self._transport = transport
        self._on_change = on_change
        self._clock_s = clock_s
        self._sleep = sleep
        self._backoff = Backoff(rng, first_s=retry_delay_s)
        self._forbidden_backoff = Backoff(rng, first_s=retry_delay_s, max_s=_FORBIDDEN_DELAY_MAX_S)
        self._page_limit = PageLimit()
        self._nodes: dict[str, NodeView] = {}
        self._vanished: dict[str, NodeView] = {}
        self._asked_s: dict[str, float] = {}
        self._answered_s: dict[str, float] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._asks_by_name = False
        self._listed = asyncio.Event()

    def node_of(self, name: str) -> NodeView | None:
        """Return the last known facts of a node, present or vanished; None when there are none (yet).

        Notes
        -----
        Without the right to list nodes a question for a name starts a GET unless its last answer is younger than
        `ASK_AGAIN_S`; `on_change` tells its answer.
        """
        if not name:
            return None
        if self._asks_by_name and self._clock_s() - self._answered_s.get(name, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._ask(name)
            return None
        return self._nodes.get(name) or self._vanished.get(name)

    def is_present(self, name: str) -> bool:
        """True for a Node that exists, as far as was heard."""
        return name in self._nodes

    async def wait_listed(self) -> None:
        """Wait until nodes were listed, or it is known that they cannot be."""
        await self._listed.wait()

    async def run(self) -> None:
        """Follow nodes until cancelled."""
        try:
            while True:
                resource_version = await self._list()
                if isinstance(resource_version, KubeProblem):
                    is_forbidden = resource_version.kind is KubeProblemKind.FORBIDDEN
                    if is_forbidden:
                        self._asks_by_name = True
                        self._listed.set()
                    await self._sleep((self._forbidden_backoff if is_forbidden else self._backoff).next_s())
                    continue
                self._forbidden_backoff.reset()
                self._asks_by_name = False
                self._listed.set()
                await self._follow(resource_version)
                await self._sleep(self._backoff.next_s())
        finally:
            for task in self._asking:
                task.cancel()

    async def _list(self) -> str | KubeProblem:
        found: dict[str, NodeView] = {}
        resource_version, unreadable = "", set[str]()
        async for page in pages(self._transport, NODES, self._page_limit):
            if isinstance(page, KubeProblem):
                return page
            for raw in page.get("items") or ():
                view = node_view(raw)
                if isinstance(view, NodeView):
                    found[view.name] = view
                else:
                    unreadable.add(str((raw.get("metadata") or {}).get("name", "")))
            resource_version = str(page["metadata"]["resourceVersion"])
        for name in self._nodes.keys() - found.keys() - unreadable:  # one that cannot be read is there all the same
            self._remember_vanished(name)
        for view in found.values():
            self._put(view)
        return resource_version

    async def _follow(self, resource_version: str) -> None:
        """Watch until the server has lost our place; returns to LIST again."""
        while True:
            query = {"resourceVersion": resource_version, "timeoutSeconds": "300"}
            try:
                async with self._transport.watch(NODES, query=query) as stream:
                    if isinstance(stream, KubeProblem):
                        if is_gone(stream) or stream.kind is KubeProblemKind.FORBIDDEN:
                            return
                    else:
                        self._backoff.reset()
                        while (event := await stream.next_event(_STALL_TIMEOUT_S)) is not None:
                            if event.get("type") == "ERROR":
                                return
                            resource_version = self._take(event) or resource_version
            except CONNECTION_ERRORS:
                pass  # the watch is opened again from where it was
            await self._sleep(self._backoff.next_s())

    def _take(self, event: dict[str, Any]) -> str:
        raw = event.get("object")
        if not isinstance(raw, dict):
            return ""
        if event.get("type") != "BOOKMARK":
            view = node_view(raw)
            if isinstance(view, NodeView):
                self._put(view)
                if event.get("type") == "DELETED":
                    self._remember_vanished(view.name)
        return str((raw.get("metadata") or {}).get("resourceVersion") or "")

    def _put(self, view: NodeView) -> bool:
        """Take the facts of a Node that exists; True when they are new, which is told."""
        known, before = self._nodes.get(view.name), self._nodes.get(view.name) or self._vanished.get(view.name)
        if before is not None:
            is_other = before.uid == view.uid and before.machine not in ("", view.machine)
            view = replace(view, other_until_s=self._now_s() if is_other else before.other_until_s)
        self._nodes[view.name] = view
        self._vanished.pop(view.name, None)
        if known != view:
            self._on_change(view.name)
        return known != view

    def _remember_vanished(self, name: str) -> None:
        self._vanished[name] = self._nodes.pop(name)
        self._on_change(name)
        if len(self._vanished) > VANISHED_MAX:
            del self._vanished[next(iter(self._vanished))]

    def _ask(self, name: str) -> None:
        now_s = self._clock_s()
        if now_s - self._asked_s.get(name, -ASK_AGAIN_S) < ASK_AGAIN_S:
            return
        self._asked_s[name] = now_s
        task = asyncio.create_task(self._get(name))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _get(self, name: str) -> None:
        raw = await self._transport.call("get", NODES, name=name)
        if isinstance(raw, KubeProblem):
            self._take_refusal(name, raw)
            return
        view = node_view(raw)
        if isinstance(view, NodeView):
            self._answered_s[name] = self._clock_s()
            if not self._put(view):
                self._on_change(name)  # it may be judged by what is confirmed

    def _take_refusal(self, name: str, problem: KubeProblem) -> None:
        if problem.kind is KubeProblemKind.NOT_FOUND:
            self._answered_s[name] = self._clock_s()
            if name in self._nodes:
                self._remember_vanished(name)
            else:
                self._on_change(name)
        elif problem.kind is not KubeProblemKind.FORBIDDEN:
            del self._asked_s[name]
