"""A word about a time in which the operator saw no pods: which times there are, what is refused, written and told.

The one idea: `staticgroup confirm-gap` and `kubectl staticgroup confirm-gap` are this module with two ways to the API server. It
refuses where the word would close nothing, so that nobody believes to have said something.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...api import names
from ...api.ordinals import Ordinals
from ...api.remedies import LIST_GAPS
from ...core.evidence.spans import BlindSpan, GapWord, SpanReason
from ...kube.problem import KubeProblem
from .person import (
    STATEMENT_TO_FILL,
    Json,
    Person,
    Refused,
    moment_of,
    plain,
    refuse_placeholder,
    time_text,
    why_not_created,
)

CONFIRMATIONS = f"{names.GAP_CONFIRMATION_PLURAL}.{names.GROUP}"
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


async def list_spans(person: Person, namespace: str) -> None:
    """Print the open spans, those that one word closes together, each with the command to type.

    Parameters
    ----------
    namespace: "" for all.

    Raises
    ------
    Refused: When they cannot be read.
    """
    spans = await _spans(person, namespace)
    now_s = time.time()
    waiting = [s for s in spans if s.said_by]
    for cover in covers((s for s in spans if not s.said_by), now_s):
        print(f"{_time(cover.since_s)} to {_time(cover.until_s)}")
        for each in cover.spans:
            print(f"  {each}")
        for text in dict.fromkeys(TELLS_MORE[r] for r in TELLS_MORE if any(each.span.reason == r for each in cover.spans)):
            print(f"  {text}")
        print(f"    {person.program} confirm-gap {cover.times} --statement '{STATEMENT_TO_FILL}'")
    for each in spans:
        if not is_over(each, now_s):
            print(f"since {_time(each.span.since_s)}, not over yet\n  {each}\n  {_to_make_room(person.program, each)}")
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


def _to_make_room(program: str, each: OpenSpan) -> str:
    """Say what to do about a ledger that is full."""
    some = ", ".join(each.fills[:NAMED_MAX]) + (" …" if len(each.fills) > NAMED_MAX else "")
    return (
        f"its status.ledger has room for no more pods that live with other ids than those of their names, or were lost: it names "
        f"{len(each.fills)}, such as {some}. Give the ids a {{scope}}, end copies that nobody needs, and confirm the lost ones "
        f"({program} confirm --list); once there is room, this list has the command"
    )


async def say_gone(person: Person, since: str, until: str, statement: str, by: str) -> None:
    """Say that whatever ran unseen in a time has ended.

    Parameters
    ----------
    since, until: RFC 3339 times with a zone.
    by: who says so; "" asks the API server who the person is.

    Raises
    ------
    Refused: When it was not said, or does not count.
    """
    refuse_placeholder(statement)
    begin, end = _moment(since, "--since"), _moment(until, "--until")
    said_by = by or await person.user()
    name = f"gap-{begin:%Y%m%dt%H%M%Sz}-{end:%Y%m%dt%H%M%Sz}"
    body: Json = {
        "apiVersion": names.API_VERSION,
        "kind": names.GAP_CONFIRMATION_KIND,
        "metadata": {"name": name},
        "spec": {"since": time_text(begin), "until": time_text(end), "statement": statement, "by": said_by},
    }
    person.refuse_out_of_bounds(body)
    if end.timestamp() > time.time():
        raise Refused(f"--until {time_text(end)} lies in the future, and nobody can know what has not happened yet")
    spans = [s for s in await _spans(person, "") if not s.said_by]
    word = GapWord(since_s=begin.timestamp(), until_s=end.timestamp(), said_at_s=time.time())
    meant = _meant(spans, word)
    answer = await person.say(names.GAP_CONFIRMATION_PLURAL, "", body)
    if isinstance(answer, KubeProblem):
        raise Refused(_why_not(answer, name, is_named=bool(by)))
    _tell(_word_of(answer), name, said_by, meant, spans)


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


async def _spans(person: Person, namespace: str) -> list[OpenSpan]:
    """Read the spans that the statuses show, and whose word closes which already."""
    bodies = await person.static_groups(namespace)
    if isinstance(bodies, KubeProblem):
        raise Refused(f"the times without sight cannot be read: {plain(bodies)}")
    listed = await person.gap_words()
    # Nothing, where it may not be read or the kind is not installed.
    words = [_word_of(body) for body in listed] if not isinstance(listed, KubeProblem) else []
    found: list[OpenSpan] = []
    for body in bodies:
        continuity = (body.get("status") or {}).get("continuity") or {}
        for span in (s for each in continuity.get("blind") or () if (s := _span_of(each)) is not None):
            said_by = next((w.said_by for w in words if w.closes(span)), "")
            label = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
            found.append(OpenSpan(group=label, span=span, said_by=said_by, fills=_unproven(body)))
    return found


def _span_of(entry: Json) -> BlindSpan | None:
    """Read a span; None for one stored under another schema, which the operator reports."""
    since, until = moment_of(entry.get("since")), moment_of(entry.get("until"))
    try:
        ordinals = Ordinals.parse(str(entry.get("ordinals")))
    except ValueError:
        return None
    if since is None or until is None:
        return None
    reason, epoch = str(entry.get("reason")), str(entry.get("watchEpoch") or "")
    return BlindSpan(ordinals=ordinals, since_s=since.timestamp(), until_s=until.timestamp(), reason=reason, after_epoch=epoch)


def _unproven(body: Json) -> tuple[str, ...]:
    """Return the pods of a ledger whose end is not proven."""
    ledger = (body.get("status") or {}).get("ledger") or {}
    return tuple(
        f"{i.get('namespace') or body['metadata']['namespace']}/{i.get('podName')}"
        for i in ledger.get("incarnations") or ()
        if i.get("state") != "Dead"
    )


def _word_of(body: Json) -> GapWord:
    """Read a word; one that cannot be understood closes nothing."""
    spec, created = body.get("spec") or {}, moment_of((body.get("metadata") or {}).get("creationTimestamp"))
    since, until = moment_of(spec.get("since")), moment_of(spec.get("until"))
    is_known = since is not None and until is not None and created is not None
    return GapWord(
        since_s=since.timestamp() if since is not None else 0.0,
        until_s=until.timestamp() if until is not None else 0.0,
        said_at_s=created.timestamp() if is_known and created is not None else float("-inf"),
        said_by=" ".join(str(spec.get("by")).split()),
        statement=" ".join(str(spec.get("statement")).split()),
    )


def _why_not(problem: KubeProblem, name: str, *, is_named: bool) -> str:
    return why_not_created(
        problem,
        said=f"kubectl get {names.GAP_CONFIRMATION_PLURAL} {name}",
        place=CONFIRMATIONS,
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
