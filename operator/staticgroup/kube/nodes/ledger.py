"""Which machine each Node object stood for, as this process and those before it saw it, and what of that is still to be written.

The node watch feeds it; `kube/nodes/records.py` keeps it. Whoever holds the Lease merges what is written before it judges by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...core.evidence.machines import NODES_MAX, Fleet, NodeRecord, bounded, gone, merged, seen, shared_texts
from ...core.evidence.pod import NodeView


class NodeLedger:
    """Remember nodes.

    Parameters
    ----------
    now_s: operator's clock, seconds since the Unix epoch.
    limit: most nodes that are remembered.

    Attributes
    ----------
    on_news: (node name) is told when what is remembered of a node is other than before.
    unbroken_since_s: nodes that came and went since were all seen; infinite while the watch is broken.
    is_listed: every node that exists is among the records.
    """

    def __init__(self, *, now_s: Callable[[], float], limit: int = NODES_MAX) -> None:
        self._now_s = now_s
        self.on_news: Callable[[str], None] = lambda name: None
        self._limit = limit
        self._records: dict[str, NodeRecord] = {}
        self._complete_since_s = 0.0
        self._shared: frozenset[str] | None = None
        self.unbroken_since_s = float("inf")
        self.is_listed = False

    def record_of(self, name: str) -> NodeRecord | None:
        """Return what is remembered of a name; None when nothing is."""
        return self._records.get(name)

    def records(self) -> Iterable[NodeRecord]:
        """Return what is remembered, present and gone."""
        return self._records.values()

    def fleet(self) -> Fleet:
        """Return what decisions ask."""
        if self._shared is None:
            self._shared = shared_texts(self._records.values())
        return Fleet(
            records=self._records, complete_since_s=self._complete_since_s, unbroken_since_s=self.unbroken_since_s,
            is_listed=self.is_listed, shared=self._shared,
        )

    def take(self, view: NodeView, *, is_birth: bool = False) -> None:
        """Take a node as it is now; `is_birth` in the event by which an unbroken watch tells that it was created."""
        self._put(seen(self._records.get(view.name), view, is_birth=is_birth, now_s=self._now_s()))

    def take_gone(self, name: str) -> None:
        """Take the news that there is no node of a name."""
        known = self._records.get(name)
        if known is not None:
            self._put(gone(known, now_s=self._now_s()))

    def began(self, at_s: float, present: Iterable[str]) -> None:
        """Take the news that a complete LIST, asked for at a time, shows these nodes, and a watch goes on from it."""
        for name in self._records.keys() - set(present):
            self.take_gone(name)
        self.unbroken_since_s, self.is_listed = at_s, True

    def broke(self, *, is_listed: bool = True) -> None:
        """Take the news that events may be lost, or with `is_listed` False that nodes cannot be listed at all."""
        self.unbroken_since_s = float("inf")
        self.is_listed = self.is_listed and is_listed

    def merge(self, written: Iterable[NodeRecord]) -> None:
        """Add what is written down; of a name that was not seen here it is taken as it is, gone where every node was listed."""
        for record in written:
            mine = self._records.get(record.name)
            if mine is not None:
                self._put(merged(mine, record))
            else:
                self._put(gone(record, now_s=self._now_s()) if self.is_listed else record)

    def now_s(self) -> float:
        """Return the operator's clock, seconds since the Unix epoch."""
        return self._now_s()

    def _put(self, record: NodeRecord) -> None:
        if self._records.get(record.name) == record:
            return
        self._records[record.name] = record
        self._shared = None
        self.on_news(record.name)
        if len(self._records) > self._limit:
            kept, dropped_until_s = bounded(self._records, limit=self._limit)
            dropped = self._records.keys() - kept.keys()
            self._records, self._complete_since_s = kept, max(self._complete_since_s, dropped_until_s)
            for name in dropped:
                self.on_news(name)
