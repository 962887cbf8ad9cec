"""Know the facts of every node, even after it is gone.

The end of a pod rests on the report of its kubelet, so its certificate needs that kubelet's version, even after the
node has left. The operator's rights decide how to read it: an informer; a GET per name, kept for a minute, because a
taint may be added; or not at all, and then no certificate is given. A node that is gone is remembered with the taints
it last had.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ...core.evidence.pod import CLOCKS_APART_S, NodeView
from ..problem import KubeProblem, KubeProblemKind
from ..translate import node_view
from ..transport import NODES, Transport

VANISHED_MAX: Final = 1_000
ASK_AGAIN_S: Final = 60.0


class NodeStore:
    """The facts of nodes.

    Parameters
    ----------
    on_change: (node name) facts are new, different or read again; certificates that waited for them can be judged.
    clock_s: monotonic seconds.
    now_s: seconds since the Unix epoch.
    """

    def __init__(
        self, transport: Transport, *, on_change: Callable[[str], None], clock_s: Callable[[], float],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._now_s = now_s
        self._transport = transport
        self._on_change = on_change
        self._clock_s = clock_s
        self._nodes: dict[str, NodeView] = {}
        self._vanished: dict[str, NodeView] = {}
        self._asked_s: dict[str, float] = {}
        self._answered_s: dict[str, float] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._asks_by_name = False

    def node_of(self, name: str) -> NodeView | None:
        """Return the last known facts of a node, present or vanished; None when there are none (yet).

        Without the right to list nodes this starts a GET, unless the last answer is younger than `ASK_AGAIN_S`;
        `on_change` follows the answer.
        """
        if not name:
            return None
        if self._asks_by_name and self._clock_s() - self._answered_s.get(name, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._ask(name)
            return None
        return self._nodes.get(name) or self._vanished.get(name)

    def is_present(self, name: str) -> bool:
        """True for a Node that exists, as far as the watch has shown."""
        return name in self._nodes

    def readable(self, problem: KubeProblem | None) -> None:
        """Note that nodes cannot be listed, or with None that they can."""
        self._asks_by_name = problem is not None and problem.kind is KubeProblemKind.FORBIDDEN

    def changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a node as it is now, or the end of one; see `informer.OnObject`."""
        view = node_view(raw)
        if is_deleted:
            self._remember_vanished(raw["metadata"]["name"])
        elif isinstance(view, NodeView):  # one that cannot be read is there all the same
            self._put(view)

    def stop(self) -> None:
        """Cancel every GET that is under way."""
        for task in self._asking:
            task.cancel()

    def _put(self, view: NodeView) -> bool:
        """Take the facts of a Node that exists; True when they are new, and then `on_change` was called."""
        known, before = self._nodes.get(view.name), self._nodes.get(view.name) or self._vanished.get(view.name)
        if before is not None:
            is_other = before.uid == view.uid and before.machine not in ("", view.machine)
            view = replace(view, other_until_s=self._now_s() + CLOCKS_APART_S if is_other else before.other_until_s)
        self._nodes[view.name] = view
        self._vanished.pop(view.name, None)
        if known != view:
            self._on_change(view.name)
        return known != view

    def _remember_vanished(self, name: str) -> None:
        if name not in self._nodes:
            return
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
        if isinstance(raw, KubeProblem) and raw.kind is KubeProblemKind.NOT_FOUND:
            self._answered_s[name] = self._clock_s()
            if name in self._nodes:
                self._remember_vanished(name)
            else:
                self._on_change(name)
        elif isinstance(raw, KubeProblem):
            if raw.kind is not KubeProblemKind.FORBIDDEN:
                del self._asked_s[name]
        elif isinstance(view := node_view(raw), NodeView):
            self._answered_s[name] = self._clock_s()
            if not self._put(view):
                self._on_change(name)  # it may be judged by what is confirmed
