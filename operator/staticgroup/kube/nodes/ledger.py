"""Which machine each Node object stood for, as this process and those before it saw it, and what of that is still to be written.

The node watch feeds it; `kube/nodes/records.py` keeps it. Whoever holds the Lease merges what is written before it judges by it. It is
about one cluster and one timeline of its API server: on another one a Node of the same name or uid is another Node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...core.evidence.machines import NODES_MAX, Fleet, NodeRecord, bounded, gone, merged, seen, shared_texts
from ...core.evidence.pod import NodeView
from ...core.evidence.spans import CLOCKS_APART_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScope:
    """What records are about, besides nodes.

    Parameters
    ----------
    cluster_uid: of the kube-system namespace. timeline: of the pod watch; another one since the API server went back in time.
    timeline_since_s: since when it is that one, as far as is written down, seconds since the Unix epoch.
    trusted_since_s: since when a deleted Node says that its machine is gone, likewise; None while it does not.
    """

    cluster_uid: str
    timeline: str
    timeline_since_s: float
    trusted_since_s: float | None

    def is_of(self, other: NodeScope) -> bool:
        """True for the same cluster and timeline."""
        return (self.cluster_uid, self.timeline) == (other.cluster_uid, other.timeline)


class NodeLedger:
    """Remember nodes.

    Parameters
    ----------
    now_s: operator's clock, seconds since the Unix epoch.
    limit: most nodes that are remembered.
    cluster_uid, timeline: as they are now; "" while that is not known.
    trusts_deletion: a deleted Node says that its machine is gone.
    clock_apart_s: by how much the API server's clock is ahead of the operator's, as far as is known.

    Attributes
    ----------
    on_news: (node name) is told when what is remembered of a node is other than before.
    unbroken_since_s: nodes that came and went since were all seen; infinite while the watch is broken.
    is_listed: every node that exists is among the records.
    is_outdated: nodes have to be listed again, because what was seen of them was on another timeline.
    """

    def __init__(
        self, *, now_s: Callable[[], float], limit: int = NODES_MAX, cluster_uid: Callable[[], str] = lambda: "",
        timeline: Callable[[], str] = lambda: "", trusts_deletion: bool = False, clock_apart_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._now_s = now_s
        self.on_news: Callable[[str], None] = lambda name: None
        self._limit = limit
        self._cluster_uid = cluster_uid
        self._timeline_of = timeline
        self._clock_apart_s = clock_apart_s
        self._timeline = ""
        self._timeline_since_s = now_s()
        self._trusted_since_s = now_s() if trusts_deletion else None
        self._records: dict[str, NodeRecord] = {}
        self._shown_until_s: dict[str, float] = {}
        self._complete_since_s = 0.0
        self._shared: frozenset[str] | None = None
        self.unbroken_since_s = float("inf")
        self.is_listed = self.is_outdated = False

    def record_of(self, name: str) -> NodeRecord | None:
        """Return what is remembered of a name; None when nothing is."""
        return self._records.get(name)

    def records(self) -> Iterable[NodeRecord]:
        """Return what is remembered, present and gone."""
        return self._records.values()

    def scope(self) -> NodeScope:
        """Return what the records are about; on a new timeline there are none."""
        self._follow_timeline()
        return NodeScope(
            cluster_uid=self._cluster_uid(), timeline=self._timeline, timeline_since_s=self._timeline_since_s,
            trusted_since_s=self._trusted_since_s,
        )

    def fleet(self) -> Fleet:
        """Return what decisions ask."""
        self._follow_timeline()
        if self._shared is None:
            self._shared = shared_texts(self._records.values())
        return Fleet(
            records=self._records, complete_since_s=self._complete_since_s, unbroken_since_s=self.unbroken_since_s,
            is_listed=self.is_listed, shared=self._shared, timeline_since_s=self._timeline_since_s,
            trusted_since_s=float("inf") if self._trusted_since_s is None else self._trusted_since_s,
            clock_apart_s=self._clock_apart_s(),
        )

    def _follow_timeline(self) -> None:
        """Forget everything when the API server has gone back in time: what it shows of nodes has to be learnt again."""
        timeline = self._timeline_of()
        if timeline == self._timeline:
            return
        was, self._timeline = self._timeline, timeline
        self._timeline_since_s = self._now_s()
        if not was:
            self._trusted_since_s = None if self._trusted_since_s is None else self._timeline_since_s
        else:
            names = tuple(self._records)
            self._complete_since_s = self._timeline_since_s
            self._records, self._shared = {}, None
            self._shown_until_s.clear()
            self.unbroken_since_s = float("inf")
            self.is_listed, self.is_outdated = False, True
            for name in names:
                self.on_news(name)

    def take(self, view: NodeView, *, is_birth: bool = False, is_next: bool = False, at_s: float = 0.0) -> None:
        """Take a node as it is now.

        Parameters
        ----------
        is_birth: in the event by which an unbroken watch tells that it was created. is_next: in any event of one.
        at_s: when a consistent read of it began; 0.0 in an event, which may be old.
        """
        self._follow_timeline()
        known = self._records.get(view.name)
        shown_until_s = self._shown_until_s.get(view.name, 0.0)
        self._put(seen(known, view, is_birth=is_birth, is_next=is_next, shown_until_s=shown_until_s, now_s=self._now_s()))
        is_of_boot = known is not None and known.machine.boot_id == self._records[view.name].machine.boot_id
        self._shown_until_s[view.name] = max(view.written_at_s, at_s, shown_until_s if is_of_boot else 0.0)

    def take_gone(self, name: str) -> None:
        """Take the news that there is no node of a name."""
        self._follow_timeline()
        known = self._records.get(name)
        if known is not None:
            self._put(gone(known, now_s=self._now_s()))

    def began(self, at_s: float, present: Iterable[str]) -> None:
        """Take the news that a complete LIST, asked for at a time, shows these nodes, and a watch goes on from it."""
        for name in self._records.keys() - set(present):
            self.take_gone(name)
        self.unbroken_since_s, self.is_listed, self.is_outdated = at_s, True, False

    def broke(self, *, is_listed: bool = True) -> None:
        """Take the news that events may be lost, or with `is_listed` False that nodes cannot be listed at all."""
        self.unbroken_since_s = float("inf")
        self.is_listed = self.is_listed and is_listed

    def merge(self, written: Iterable[NodeRecord], scope: NodeScope | None = None) -> None:
        """Add what is written down; of a name that was not seen here it is taken as it is, gone where every node was listed.

        Parameters
        ----------
        scope: what it is about; of another cluster or timeline nothing is added. None when that is not known, as nothing is written.
        """
        mine = self.scope()
        if scope is None or not scope.is_of(mine):
            return
        self._timeline_since_s = min(mine.timeline_since_s, scope.timeline_since_s)
        if mine.trusted_since_s is not None and scope.trusted_since_s is not None:
            self._trusted_since_s = min(mine.trusted_since_s, scope.trusted_since_s)
        went_unseen = False
        for record in written:
            known = self._records.get(record.name)
            if known is not None:
                self._put(merged(known, record, now_s=self._now_s()))
            else:
                went_unseen = went_unseen or (self.is_listed and record.gone_since_s is None)
                self._put(gone(record, now_s=self._now_s()) if self.is_listed else record)
        if went_unseen and self._trusted_since_s is not None and scope.trusted_since_s is None:
            # Whoever wrote it did not know what a deletion says, and it may have been deleted while that was so.
            self._trusted_since_s = max(self._trusted_since_s, self._now_s() + CLOCKS_APART_S)

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
                self._shown_until_s.pop(name, None)
                self.on_news(name)
