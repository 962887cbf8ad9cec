"""Know the facts of every node, even after it is gone.

The end of a pod rests on the report of its kubelet, so its certificate needs that kubelet's version, even after the
node has left: a node that is gone is remembered with the taints it last had. Without the right to list nodes nothing is
known of any, and no certificate is given.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ...core.evidence.pod import CLOCKS_APART_S, NodeView
from ..problem import KubeProblem, KubeProblemKind
from ..translate import node_view

VANISHED_MAX: Final = 1_000


class NodeStore:
    """The facts of nodes.

    Parameters
    ----------
    on_change: (node name) facts are new or different.
    now_s: seconds since the Unix epoch.
    """

    def __init__(self, *, on_change: Callable[[str], None], now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._on_change = on_change
        self._nodes: dict[str, NodeView] = {}
        self._vanished: dict[str, NodeView] = {}
        self._is_readable = True

    def node_of(self, name: str) -> NodeView | None:
        """Return the last known facts of a node, present or vanished; None when there are none (yet)."""
        return self._nodes.get(name) or self._vanished.get(name) if self._is_readable else None

    def oldest(self) -> NodeView | None:
        """Return a Node that exists: a virtual one, else that with an unknown or the oldest kubelet; None: none."""
        known = self._nodes.values() if self._is_readable else ()
        return min(known, key=lambda n: (not n.is_virtual, n.kubelet_minor or 0), default=None)

    def is_present(self, name: str) -> bool:
        """True for a Node that exists, as far as the watch has shown."""
        return name in self._nodes

    def readable(self, problem: KubeProblem | None) -> None:
        """Note that nodes may not be listed, or with None that they were."""
        self._is_readable = problem is None or problem.kind is not KubeProblemKind.FORBIDDEN

    def changed(self, raw: dict[str, Any], *, is_deleted: bool) -> None:
        """Take a node as it is now, or the end of one; see `informer.OnObject`."""
        view = node_view(raw)
        if is_deleted:
            self._remember_vanished(raw["metadata"]["name"])
        elif isinstance(view, NodeView):  # one that cannot be read is there all the same
            self._put(view)

    def _put(self, view: NodeView) -> None:
        """Take the facts of a Node that exists."""
        known, before = self._nodes.get(view.name), self._nodes.get(view.name) or self._vanished.get(view.name)
        is_same = before is not None and before.machine == view.machine
        view = replace(view, machine_since_s=before.machine_since_s if before and is_same else self._now_s())
        if before is not None:
            is_other = before.machine not in ("", view.machine)
            view = replace(view, other_until_s=self._now_s() + CLOCKS_APART_S if is_other else before.other_until_s)
        self._nodes[view.name] = view
        self._vanished.pop(view.name, None)
        if known != view:
            self._on_change(view.name)

    def _remember_vanished(self, name: str) -> None:
        if name not in self._nodes:
            return
        self._vanished[name] = self._nodes.pop(name)
        self._on_change(name)
        if len(self._vanished) > VANISHED_MAX:
            del self._vanished[next(iter(self._vanished))]
