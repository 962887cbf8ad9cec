"""For which seats no pod can have come and gone unseen, carried over gaps of the pod watch.

Names are unique in Kubernetes: at any moment one object has a name, and on one timeline a uid never comes back. So a gap
says nothing against a name that has the same object afterwards (the uid rule), nor against one outside of the range of a
StatefulSet that wanted the same before and after, and had no unknown object at either end (the generation rule). Every
other name is blind over the gap, until a person says that what came and went in that time has ended, and no pod that may have
taken another id in it lives on.

Pure: a `Checkpoint` is what the status remembers, a `WatchView` what this process knows now, and `carried_over` makes the
next checkpoint of them.

Source: docs/design.md, "Continuity, per pod name"; the exhaustive model (docs/reference/evidence-model.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...api.ordinals import Ordinals
from ...api.resources.continuity import BLIND_SPANS_MAX, SEATS_MAX
from ...api.schema import INT32_MAX
from ..workload import WorkloadView
from .spans import EVERY_ORDINAL, BlindSpan, EditablePod, GapWord, SpanReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatedPod:
    """The object that has the name of an ordinal.

    Parameters
    ----------
    restarts: of all its containers; None when every id it carries comes from fields that cannot be edited.
    has_other_ids: it carries other ids than those that are issued now.
    """

    ordinal: int
    uid: str
    node_name: str = ""
    restarts: int | None = None
    has_other_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledWorkload:
    """What a StatefulSet wanted when its controller had observed that (observedGeneration = generation)."""

    uid: str
    generation: int
    start: int
    replicas: int

    def wants(self, ordinal: int) -> bool:
        """True for an ordinal in [start, start + replicas) (KEP-3335)."""
        return self.start <= ordinal < self.start + self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What is remembered of the history of a workload's pod names.

    Parameters
    ----------
    epoch: of the watch under which this was written. timeline: see `WatchView`.
    at_s: when it was so, seconds since the Unix epoch.
    seats: the objects that had the names, ascending; `is_complete` when no other existed.
    workload: read consistently before the absence of other names was known; None while that is not certain.
    group_uid: of the StaticGroup. ids_by_hand: as `WatchView.are_ids_by_hand` was.
    """

    epoch: str
    timeline: str
    at_s: float
    workload_name: str
    group_uid: str = ""
    ids_by_hand: bool = False
    seats: tuple[SeatedPod, ...] = ()
    is_complete: bool = True
    workload: SettledWorkload | None = None
    blind: tuple[BlindSpan, ...] = ()

    def spans_of(self, ordinal: int) -> tuple[BlindSpan, ...]:
        """Return the times in which a pod of this ordinal can have come and gone unseen; what no StatefulSet makes is told as the last."""
        return tuple(s for s in self.blind if min(ordinal, INT32_MAX) in s.ordinals)

    def is_unbroken(self, ordinal: int) -> bool:
        """True when no pod of this ordinal's name can have come and gone unseen since ids were first issued."""
        return not self.spans_of(ordinal)

    def blinded(self, reason: SpanReason, *, since_s: float, until_s: float) -> Checkpoint:
        """Return it with every ordinal blind over a time."""
        span = BlindSpan(
            ordinals=EVERY_ORDINAL, since_s=math.floor(since_s), until_s=math.ceil(until_s), reason=reason.value
        )
        return replace(self, blind=_joined((*self.blind, span)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchView:
    """What this process knows now of the pod names of one workload.

    Parameters
    ----------
    epoch: continuity epoch of the pod watch; never "".
    timeline: another one since the API server was seen to go back in time; uids compare only within one.
    was_restored: this process saw, or was told, that the API server went back in time.
    silent_s: how long the watch has said nothing; so much of the past is not known yet.
    everywhere: epochs since which every name that can carry an id is unbroken, the present one included.
    of_every_workload: of these, epochs since which every name of the namespace is unbroken.
    unbroken: per ordinal with a known pod, the epochs since which its name is.
    seats: the objects that have the names now.
    seen: uids that this process itself saw, under an epoch since which their name is unbroken.
    gone: uids that are known and have no object any more.
    ended_at_s: when epochs ended, where that is known.
    read: the StatefulSet as read consistently after the watch was complete; None when that failed or was not needed.
    settled: the same, with a barrier of the pod watch passed after the read; None when there was none in this round.
    are_ids_by_hand: ids may be carried under any name, so no rule about a name says anything.
    editable: the pods of which no word can tell what they took unseen.
    swept: spans in which no pod of the namespace that nobody saw can run on, by evidence of every node (`nodes.swept`).
    """

    epoch: str
    timeline: str
    workload_name: str
    everywhere: frozenset[str]
    of_every_workload: frozenset[str]
    group_uid: str = ""
    silent_s: float = 0.0
    was_restored: bool = False
    unbroken: Mapping[int, frozenset[str]] = field(default_factory=dict)
    seats: tuple[SeatedPod, ...] = ()
    seen: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    ended_at_s: Mapping[str, float] = field(default_factory=dict)
    read: SettledWorkload | None = None
    settled: SettledWorkload | None = None
    are_ids_by_hand: bool = False
    words: tuple[GapWord, ...] = ()
    editable: tuple[EditablePod, ...] = ()
    swept: frozenset[BlindSpan] = frozenset()

    def is_closed(self, span: BlindSpan, before: Checkpoint) -> bool:
        """True when a word or a sweep closes a span, and no pod lives that may have taken another id in it.

        Notes
        -----
        A sweep looks for pods by their names, so it says nothing where ids can be under any name.
        """
        is_swept = span in self.swept and not (self.are_ids_by_hand or before.ids_by_hand)
        is_over = is_swept or any(w.closes(span) for w in self.words)
        return is_over and not any(p.may_have_taken_ids(span) for p in self.editable)

    def goes_on(self, before: Checkpoint) -> bool:
        """True when no gap lies between a checkpoint and now."""
        return before.timeline == self.timeline and before.epoch in self.everywhere


def settled_workload(view: WorkloadView | None) -> SettledWorkload | None:
    """Return the facts that the generation rule compares.

    Parameters
    ----------
    view: as read consistently; None when the StatefulSet does not exist.

    Returns
    -------
    None while the controller has not observed the generation, or the object is being deleted: then pods outside of its
    range may still be made, or those inside taken away. Never those of a kind whose status does not tell that.
    """
    if view is None or not view.is_settled:
        return None
    return SettledWorkload(
        uid=view.uid, generation=view.metadata_generation, start=view.start, replicas=view.replicas
    )


def first_checkpoint(view: WatchView, now_s: float) -> Checkpoint:
    """Return the checkpoint of a StaticGroup whose ids were never carried before now."""
    return _written(view, now_s, blind=(), workload=view.settled)


def carried_over(before: Checkpoint, view: WatchView, now_s: float) -> Checkpoint:
    """Carry what is remembered over whatever happened to the watch since.

    Parameters
    ----------
    now_s: seconds since the Unix epoch; from now on the history is complete.

    Returns
    -------
    The checkpoint of now; `before` itself when only time has passed.
    """
    # Ids may have been under any name when it began, so only what shows every name of that time covers it.
    blind = tuple(s for s in before.blind if not s.after_epoch or s.after_epoch not in view.of_every_workload)
    workload = view.settled
    if view.goes_on(before):
        workload = workload or before.workload
    else:
        # A generation says nothing over a restore: another edit may come to the same number.
        if workload is None and view.read == before.workload and before.timeline == view.timeline:
            workload = before.workload
        kept = _kept(before, view)
        lost = _complement(kept)
        is_same_timeline = before.timeline == view.timeline
        changed = SpanReason.RESTORED if view.was_restored else SpanReason.MEMORY_LOST
        reason = SpanReason.WATCH_GAP if is_same_timeline else changed
        ended_at_s = view.ended_at_s.get(before.epoch, before.at_s)
        # What was so at a time that is still to come was so before the clock was set back, nobody knows when.
        since_s = ended_at_s if before.at_s > now_s else max(before.at_s, ended_at_s)
        span = BlindSpan(
            ordinals=lost,
            since_s=math.floor(min(now_s, since_s)),
            until_s=math.ceil(now_s),
            reason=reason.value,
            after_epoch=before.epoch if is_same_timeline else "",
        )
        blind = (*blind, span) if lost else blind
    open_spans = tuple(s for s in blind if not view.is_closed(s, before))
    after = _written(view, now_s, blind=_joined(open_spans), workload=workload)
    return before if replace(after, at_s=before.at_s) == before else after


def with_spans_of(known: Checkpoint | None, other: Checkpoint | None) -> Checkpoint | None:
    """Add the blind spans that another writer knew of; a span leaves the memory only by a word or a better watch."""
    if known is None or other is None or set(other.blind) <= set(known.blind):
        return known
    return replace(known, blind=_joined((*known.blind, *other.blind)))


def forgetting(
    known: Checkpoint | None, ended_s: Iterable[float], words: Iterable[GapWord], *, now_s: float
) -> Checkpoint | None:
    """Return it with every ordinal blind over the time in which suspects ended that find no room in the ledger.

    Parameters
    ----------
    ended_s: since when each of them is a suspect, seconds since the Unix epoch; later than now for one that lives.
    words: what people have said; such a time that one of them covers is not blind.
    now_s: where nothing that lives is left out any more, such a time ends now, so that a word can be said about it.
    """
    ended = sorted(ended_s)
    known = _over_by(known, math.floor(now_s) + 1) if known is not None else None
    if known is None or not ended:
        return known
    span = BlindSpan(
        ordinals=EVERY_ORDINAL, since_s=math.floor(ended[0]), until_s=math.floor(ended[-1]) + 1, reason=SpanReason.LEDGER_FULL.value
    )
    if any(w.closes(span) for w in words):
        return known
    told = [s for s in known.blind if s.reason == span.reason]
    since_s, until_s = min(s.since_s for s in (span, *told)), max(s.until_s for s in (span, *told))
    rest = (s for s in known.blind if s not in told)
    return replace(known, blind=_joined((*rest, replace(span, since_s=since_s, until_s=until_s))))


def _over_by(known: Checkpoint, until_s: float) -> Checkpoint:
    """Return it with no time of a full ledger that ends later."""
    blind = tuple(replace(s, until_s=min(s.until_s, until_s)) if s.reason == SpanReason.LEDGER_FULL else s for s in known.blind)
    return known if blind == known.blind else replace(known, blind=blind)


def closed_by_words(
    before: Checkpoint | None, after: Checkpoint | None, words: Iterable[GapWord]
) -> tuple[tuple[BlindSpan, GapWord], ...]:
    """Return the spans that words closed between two checkpoints, each with the first word that does."""
    if before is None or after is None:
        return ()
    said = sorted(words, key=lambda w: w.said_at_s)
    gone = [s for s in before.blind if s not in after.blind]
    return tuple((s, w) for s in gone for w in [next((w for w in said if w.closes(s)), None)] if w is not None)


def closed_by_sweeps(before: Checkpoint | None, after: Checkpoint | None, swept: Collection[BlindSpan]) -> tuple[BlindSpan, ...]:
    """Return the spans that sweeps closed between two checkpoints."""
    if before is None or after is None:
        return ()
    return tuple(s for s in before.blind if s in swept and s not in after.blind)


def _written(
    view: WatchView, now_s: float, *, blind: tuple[BlindSpan, ...], workload: SettledWorkload | None
) -> Checkpoint:
    seats = tuple(sorted(view.seats, key=lambda s: s.ordinal))
    return Checkpoint(
        epoch=view.epoch,
        timeline=view.timeline,
        at_s=now_s - view.silent_s,
        workload_name=view.workload_name,
        group_uid=view.group_uid,
        ids_by_hand=view.are_ids_by_hand,
        seats=seats[:SEATS_MAX],
        is_complete=len(seats) <= SEATS_MAX,
        workload=workload,
        blind=blind,
    )


def _kept(before: Checkpoint, view: WatchView) -> _Kept:
    """Return the ordinals that the two rules keep clear over a gap."""
    if view.are_ids_by_hand or before.ids_by_hand or before.timeline != view.timeline or before.workload_name != view.workload_name:
        return _Kept()
    by_watch = frozenset(o for o, epochs in view.unbroken.items() if before.epoch in epochs)
    if _may_have_swapped(before, view):
        return _Kept()
    same = frozenset(s.ordinal for s in before.seats if s.uid in view.seen)
    return _Kept(ordinals=by_watch | same, outside=_settled_outside(before, view), but=_touched(before, view))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Some ordinals, and all that a settled StatefulSet does not want, but for some."""

    ordinals: frozenset[int] = frozenset()
    outside: SettledWorkload | None = None
    but: frozenset[int] = frozenset()


def _settled_outside(before: Checkpoint, view: WatchView) -> SettledWorkload | None:
    """Return the StatefulSet outside of whose range nothing can have been made; None when that is not known."""
    return before.workload if before.is_complete and before.workload == view.read else None


def _touched(before: Checkpoint, view: WatchView) -> frozenset[int]:
    """Return the ordinals of which an object existed at one of the ends that the other end does not explain."""
    unexplained = {s.ordinal for s in before.seats if s.uid not in view.gone}
    return frozenset(min(o, INT32_MAX) for o in unexplained | {s.ordinal for s in view.seats})


def _may_have_swapped(before: Checkpoint, view: WatchView) -> bool:
    """True when a pod whose ids can be edited may have carried another seat's for a while.

    Notes
    -----
    It takes a container that was started again, or a pod that nobody saw: one that came and went, which it can not have
    where every wanted name had its pod all the while and the StatefulSet wanted no other.
    """
    now = {s.uid: s.restarts for s in view.seats}
    if any(s.restarts is not None and now.get(s.uid) != s.restarts for s in before.seats):
        return True
    if before.seats and all(s.restarts is None for s in (*before.seats, *view.seats)):
        return False
    wanted = _settled_outside(before, view)
    seated = [s for s in before.seats if wanted is not None and wanted.wants(s.ordinal) and s.uid in now]
    return wanted is None or len(seated) != wanted.replicas


def _complement(kept: _Kept) -> Ordinals:
    """Return every ordinal that is not kept; when there are too many ranges to tell, more of them."""
    clear = set(kept.ordinals)
    runs: list[range] = []
    if kept.outside is not None:
        inside = range(kept.outside.start, kept.outside.start + kept.outside.replicas)
        runs.append(inside)
        runs.extend(range(o, o + 1) for o in kept.but)
    else:
        runs.append(range(INT32_MAX + 1))
    return Ordinals.of(*_without(runs, clear))


def _without(runs: Iterable[range], clear: set[int]) -> Iterable[range]:
    """Cut single ordinals out of ranges."""
    cuts = sorted(clear)
    for run in runs:
        start = run.start
        for cut in cuts:
            if start <= cut < run.stop:
                yield range(start, cut)
                start = cut + 1
        yield range(start, run.stop)


def _joined(spans: Iterable[BlindSpan]) -> tuple[BlindSpan, ...]:
    """Return spans in order; when there are too many, the two oldest are told as one, which says more than either.

    Notes
    -----
    A gap of the watch hides least, and alone may be swept (`nodes.may_be_swept`), so it never gives the reason for more than gaps.
    """
    ordered = sorted(dict.fromkeys(spans), key=lambda s: (s.since_s, s.until_s, s.ordinals.text))
    while len(ordered) > BLIND_SPANS_MAX:
        first, second, *rest = ordered
        both = BlindSpan(
            ordinals=Ordinals.of(*first.ordinals.runs, *second.ordinals.runs),
            since_s=min(first.since_s, second.since_s),
            until_s=max(first.until_s, second.until_s),
            reason=second.reason if first.reason == SpanReason.WATCH_GAP else first.reason,
        )
        ordered = [both, *rest]
    return tuple(ordered)
