"""`confirm-gap`: a person says that whatever ran in a time in which the operator saw no pods has ended.

It runs as the person, never as the operator: it creates one WatchGapConfirmation with the rights of whoever calls it. It
refuses where the word would close nothing, so that nobody believes to have said something.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import ValidationError

from ...api import names
from ...api.remedies import LIST_GAPS
from ...api.resources.durable import IncarnationState
from ...api.resources.gapconfirmation import WatchGapConfirmation
from ...api.resources.staticgroup import StaticGroup
from ...core.evidence.spans import BlindSpan, GapWord, SpanReason
from ...core.evidence.words import gap_word_of
from ...core.status.checkpoints import checkpoint_from
from ...kube.gateway import AioKubeGateway
from ...kube.problem import KubeProblem
from ...kube.transport import Resource, Transport
from .as_person import (
    STATEMENT_TO_FILL,
    Refused,
    caller,
    gateway,
    refuse_placeholder,
    said,
    static_groups,
    time_text,
    why_not_created,
    with_transport,
)

CONFIRMATIONS = Resource(group=names.GROUP, version=names.VERSION, plural=names.GAP_CONFIRMATION_PLURAL)
MEANING = (
    "no process of a pod that came and went, or went, in that time unseen by the operator runs any more: no machine that left "
    "the cluster or was cut off in that time still runs pods; and no pod that is still here took another id in that time, as one "
    "does whose annotation is edited while a container starts"
)
BEYOND_THE_TIMES = (
    "this is more than these times show: after a restore it also says that every pod has ended which the API server forgot, those "
    "made since the backup, and after a lost memory that every pod has which is not here any more"
)
OF_A_FULL_LEDGER = (
    "this is about pods that were seen and found no room in status.ledger: it says that every pod has ended which could hold an id of "
    "the StaticGroup in that time and is not in its ledger"
)
OF_A_WRITTEN_SCOPE = (
    "this is about ids that may be older than their StaticGroup, whose spec.identity.scope was written: it says that every process has "
    "ended that ever got an id with this scope and is not in a pod that is here, in this cluster or another"
)
TELLS_MORE = {
    SpanReason.RESTORED: BEYOND_THE_TIMES,
    SpanReason.MEMORY_LOST: BEYOND_THE_TIMES,
    SpanReason.LEDGER_FULL: OF_A_FULL_LEDGER,
    SpanReason.SCOPE_WRITTEN: OF_A_WRITTEN_SCOPE,
}
NAMED_MAX = 3
"""Pods that a line names of those that fill a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSpan:
    """One time without sight of one StaticGroup.

    Parameters
    ----------
    group: `<namespace>/<name>`.
    said_by: whose word closes it already, which the operator has not taken yet; "" when there is none.
    fills: the pods whose end is not proven in the ledger, `<namespace>/<name>`.
    """

    group: str
    span: BlindSpan
    said_by: str = ""
    fills: tuple[str, ...] = ()

    @property
    def is_full(self) -> bool:
        """True for what a ledger has no room for: it ends when there is room, and is about one StaticGroup."""
        return self.span.reason == SpanReason.LEDGER_FULL

    @property
    def has_own_word(self) -> bool:
        """True for a time that is not put together with others: about one StaticGroup, and longer than what is known of a gap."""
        return self.is_full or self.span.reason == SpanReason.SCOPE_WRITTEN

    def __str__(self) -> str:
        return f"{self.group}: ordinals {self.span.ordinals.words} ({self.span.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """Spans that one word closes: seconds since the Unix epoch, `until_s` after `since_s`."""

    since_s: float
    until_s: float
    spans: tuple[OpenSpan, ...]

    @property
    def times(self) -> str:
        """The two options that name this time."""
        return f"--since {_time(self.since_s)} --until {_time(self.until_s)}"


async def list_spans(namespace: str) -> int:
    """Print the open spans, those that one word closes together, each with the command to type.

    Parameters
    ----------
    namespace: "" for all.

    Returns
    -------
    0; or 1 when they cannot be read.
    """
    return await with_transport(lambda transport: _list(transport, namespace))


async def confirm_gap(since: str, until: str, statement: str, by: str) -> int:
    """Say that whatever ran unseen in a time has ended.

    Parameters
    ----------
    since, until: RFC 3339 times with a zone.
    by: who says so; "" asks the API server who the caller is.

    Returns
    -------
    0; or 1 when it was not said, or does not count.
    """
    return await with_transport(lambda transport: _say(transport, since, until, statement, by))


async def _list(transport: Transport, namespace: str) -> None:
    spans = await _spans(gateway(transport), namespace)
    now_s = time.time()
    waiting = [s for s in spans if s.said_by]
    for cover in covers((s for s in spans if not s.said_by), now_s):
        print(f"{_time(cover.since_s)} to {_time(cover.until_s)}")
        for each in cover.spans:
            print(f"  {each}")
        for text in dict.fromkeys(TELLS_MORE[r] for r in TELLS_MORE if any(each.span.reason == r for each in cover.spans)):
            print(f"  {text}")
        print(f"    staticgroup confirm-gap {cover.times} --statement '{STATEMENT_TO_FILL}'")
    for each in spans:
        if not is_over(each, now_s):
            print(f"since {_time(each.span.since_s)}, not over yet\n  {each}\n  {_to_make_room(each)}")
    for each in waiting:
        print(f"{each.span.words}: {each}: confirmed by {each.said_by}; the operator has not taken that in yet")
    if waiting:
        print(
            "What it does not take in within a minute waits for pods that live and may have taken another id in that time: the "
            "departed members in status.exceptions name one; replace them."
        )
    if not spans:
        where = f"of namespace {namespace} " if namespace else ""
        print(f"no StaticGroup {where}has a time without sight in its status")
        return
    if len(waiting) < len(spans):
        print(
            f"\nA word counts for every namespace and says: {MEANING}. Give as the statement how you know, for example that each "
            "such machine was terminated. A living member would be removed."
        )


def is_over(each: OpenSpan, now_s: float) -> bool:
    """True when a word can be said about a time: a gap has ended, what a full ledger leaves out goes on."""
    return not each.is_full or each.span.until_s <= now_s


def covers(spans: Iterable[OpenSpan], now_s: float) -> tuple[Cover, ...]:
    """Put spans together that overlap, because one word closes them, in the order of time.

    Parameters
    ----------
    now_s: seconds since the Unix epoch; about a time that is not over yet no word can be said.

    Notes
    -----
    What a ledger had no room for has a word of its own, and so has what is older than a StaticGroup: it may last for days, and
    nobody should have to know of all machines of such a time to close another StaticGroup's gap.
    """
    over = sorted((s for s in spans if is_over(s, now_s)), key=lambda s: (s.span.since_s, s.span.until_s, s.group))
    joined = _joined(s for s in over if not s.has_own_word)
    apart = [
        replace(c, spans=(*c.spans, *(s for s in over if s not in c.spans and s.span.since_s >= c.since_s and s.span.until_s <= c.until_s)))
        for s in over
        if s.has_own_word
        for c in _joined([s])
    ]
    return tuple(sorted((*joined, *apart), key=lambda c: (c.since_s, c.until_s)))


def _joined(ordered: Iterable[OpenSpan]) -> list[Cover]:
    """Put spans that overlap into one cover each."""
    found: list[Cover] = []
    for each in ordered:
        since_s, until_s = each.span.since_s, max(each.span.until_s, each.span.since_s + 1)
        last = found[-1] if found else None
        if last is not None and since_s < last.until_s:
            found[-1] = Cover(
                since_s=last.since_s, until_s=max(last.until_s, until_s), spans=(*last.spans, each)
            )
        else:
            found.append(Cover(since_s=since_s, until_s=until_s, spans=(each,)))
    return found


def _to_make_room(each: OpenSpan) -> str:
    """Say what to do about a ledger that is full."""
    some = ", ".join(each.fills[:NAMED_MAX]) + (" …" if len(each.fills) > NAMED_MAX else "")
    return (
        f"its status.ledger has room for no more pods that live with other ids than those of their names, or were lost: it names "
        f"{len(each.fills)}, such as {some}. Give the ids a {{scope}}, end copies that nobody needs, and confirm the lost ones "
        "(staticgroup confirm --list); once there is room, this list has the command"
    )


async def _say(transport: Transport, since: str, until: str, statement: str, by: str) -> None:
    refuse_placeholder(statement)
    begin, end = _moment(since, "--since"), _moment(until, "--until")
    said_by = by or await caller(transport)
    name = f"gap-{begin:%Y%m%dt%H%M%Sz}-{end:%Y%m%dt%H%M%Sz}"
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.GAP_CONFIRMATION_KIND,
        "metadata": {"name": name},
        "spec": {"since": time_text(begin), "until": time_text(end), "statement": statement, "by": said_by},
    }
    said(WatchGapConfirmation, body)
    if end.timestamp() > time.time():
        raise Refused(f"--until {time_text(end)} lies in the future, and nobody can know what has not happened yet")
    spans = [s for s in await _spans(gateway(transport), "") if not s.said_by]
    word = GapWord(since_s=begin.timestamp(), until_s=end.timestamp(), said_at_s=time.time())
    meant = _meant(spans, word)
    answer = await transport.call("create", CONFIRMATIONS, body=body)
    if isinstance(answer, KubeProblem):
        raise Refused(_why_not(answer, name, is_named=bool(by)))
    _tell(gap_word_of(WatchGapConfirmation.from_wire(answer)), name, said_by, meant, spans)


def _meant(spans: Sequence[OpenSpan], word: GapWord) -> list[OpenSpan]:
    """Return the spans that a word would close; refuses when there is none."""
    meant = [s for s in spans if word.closes(s.span)]
    if meant:
        return meant
    near = [s for s in spans if s.span.since_s <= word.until_s and word.since_s <= s.span.until_s]
    if not near:
        raise Refused(
            "no StaticGroup has an open time without sight between "
            f"{_time(word.since_s)} and {_time(word.until_s)}; those that are open: {LIST_GAPS}"
        )
    wider = [
        Cover(since_s=min(word.since_s, s.span.since_s), until_s=max(word.until_s, s.span.until_s), spans=(s,)) for s in near
    ]
    least = min(wider, key=lambda c: (c.until_s - c.since_s, c.since_s))
    raise Refused(
        f"no time without sight lies wholly within, and a part of one cannot be confirmed; the least that takes one in is "
        f"{least.times} ({least.spans[0]})"
    )


def _tell(word: GapWord, name: str, said_by: str, meant: Sequence[OpenSpan], spans: Sequence[OpenSpan]) -> None:
    """Say what was said and what follows; refuses when the API server's clock makes it too early."""
    print(f"{said_by} has said: {MEANING} ({_time(word.since_s)} to {_time(word.until_s)}). Statement: {word.statement}")
    closed = [s for s in meant if word.closes(s.span)]
    for each in closed:
        print(f"  {each}")
    for each in spans:
        is_touched = each.span.since_s < word.until_s and word.since_s < each.span.until_s
        if each not in meant and is_touched:
            print(f"  not closed, because it does not lie wholly within: {each}, {each.span.words}")
    if len(closed) < len(meant):
        raise Refused(
            f"the API server's clock says {_time(word.said_at_s)}, which is before the end of "
            f"{len(meant) - len(closed)} of the times by the operator's clock, so the word does not count for them; later take it "
            f"back and say it again: kubectl delete {names.GAP_CONFIRMATION_PLURAL} {name}"
        )
    print(
        "Within half a minute the operator closes them, posts an Event GapConfirmed on each StaticGroup and writes an audit line; "
        "departed members that waited for this alone are then removed. Where pods live that may have taken another id in that time, it "
        "does so once they are replaced. A suspended StaticGroup hears it when it is resumed."
    )


async def _spans(kube: AioKubeGateway, namespace: str) -> list[OpenSpan]:
    """Read the spans that the statuses show, and whose word closes which already."""
    groups = await static_groups(kube, namespace, what="the times without sight")
    words = await _words(kube)
    found: list[OpenSpan] = []
    for group in groups:
        known = checkpoint_from(group.status.continuity if group.status is not None else None)
        for span in known.blind if known is not None else ():
            said_by = next((w.said_by for w in words if w.closes(span)), "")
            label = f"{group.metadata.namespace}/{group.metadata.name}"
            found.append(OpenSpan(group=label, span=span, said_by=said_by, fills=_unproven(group)))
    return found


def _unproven(group: StaticGroup) -> tuple[str, ...]:
    """Return the pods of a ledger whose end is not proven."""
    ledger = group.status.ledger if group.status is not None else None
    return tuple(
        f"{i.namespace or group.metadata.namespace}/{i.pod_name}"
        for i in (ledger.incarnations if ledger is not None else ())
        if i.state is not IncarnationState.DEAD
    )


async def _words(kube: AioKubeGateway) -> list[GapWord]:
    """Read what was said before; nothing, where that may not be read or the kind is not installed."""
    bodies = await kube.list_objects(names.GAP_CONFIRMATION_PLURAL, "")
    words: list[GapWord] = []
    for body in bodies if not isinstance(bodies, KubeProblem) else ():
        try:
            words.append(gap_word_of(WatchGapConfirmation.from_wire(body)))
        except ValidationError:
            continue
    return words


def _why_not(problem: KubeProblem, name: str, *, is_named: bool) -> str:
    return why_not_created(
        problem,
        said=f"kubectl get {names.GAP_CONFIRMATION_PLURAL} {name}",
        place=CONFIRMATIONS.label(),
        missing=f"the kind {names.GAP_CONFIRMATION_KIND}",
        role="staticgroup-confirm-gap for the whole cluster",
        is_named=is_named,
    )


def _moment(text: str, option: str) -> datetime:
    """Parse a time that somebody typed, in whole seconds."""
    wanted = f"{option} {text!r} is no time with a zone, such as 2026-11-21T10:00:00Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Refused(wanted) from error
    if moment.tzinfo is None:
        raise Refused(wanted)
    return moment.astimezone(UTC).replace(microsecond=0)


def _time(seconds: float) -> str:
    return time_text(datetime.fromtimestamp(seconds, UTC))
