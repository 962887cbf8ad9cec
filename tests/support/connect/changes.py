"""Whether a topic of change events tells what happened in a table: every change, in order for each key, and how often.

One idea: a trigger writes each change of a table into a history, in the transaction that makes it, and every version of
a row has a number of its own. So an event is one line of the history or it is wrong, and what a connector's snapshot
saw must be the table as it was at one moment, no earlier than right before the first change that was streamed: nothing
between the two can be lost unseen. At least once is what Debezium promises after a restart, so a connector may go back
and tell again, and a snapshot that was cut off is begun again on the same slot; a stream may never skip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

READ, CREATE, UPDATE, DELETE, TOMBSTONE = "r", "c", "u", "d", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the history; versions are None where there was or is no row."""

    number: int
    op: str
    key: int
    before: int | None
    after: int | None
    committed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record of the topic; a tombstone has no op and no versions."""

    op: str
    key: int
    before: int | None = None
    after: int | None = None
    body: str = ""
    appended_ms: int = 0


@dataclass(slots=True)
class Account:
    """The changes of a table that a topic contains.

    Parameters
    ----------
    snapshot, streamed: rows that were read, and changes that were streamed, each counted once.
    again: events that repeat an earlier one.
    wrong: what is lost, skipped, unknown to the database or without its tombstone, as text; empty when all is right.
    delays_ms: of each streamed change, when it was committed and how long after that its first event was appended.
    """

    snapshot: int = 0
    streamed: int = 0
    again: int = 0
    wrong: list[str] = field(default_factory=list)
    delays_ms: list[tuple[int, int]] = field(default_factory=list)


def judge(history: Sequence[Change], events: Iterable[Event], *, snapshots: int = 1) -> Account:
    """Compare a table's history with its events, which stand for each key in the order of their offsets.

    Parameters
    ----------
    snapshots: how often a snapshot was begun, by the connector's own log. One that was cut off is begun again on the
        same slot at a later moment; a single one is the table right before the first change that was streamed, to the
        row.
    """
    account = Account()
    lives: dict[int, list[Change]] = {}
    for change in history:
        lives.setdefault(change.key, []).append(change)
    by_key: dict[int, list[Event]] = {}
    for event in events:
        by_key.setdefault(event.key, []).append(event)
    read: set[tuple[int, int | None]] = set()
    streamed: dict[int, Event] = {}
    for key, of_key in by_key.items():
        _walk(lives.get(key, []), of_key, account, read, streamed)
    _find_lost(history, read, streamed, account, is_exact=snapshots == 1)
    account.snapshot, account.streamed = len(read), len(streamed)
    by_number = {change.number: change for change in history}
    for number, event in streamed.items():
        committed_ms = by_number[number].committed_ms
        account.delays_ms.append((committed_ms, event.appended_ms - committed_ms))
    return account


def _walk(
    life: Sequence[Change], events: Sequence[Event], account: Account, read: set[tuple[int, int | None]],
    streamed: dict[int, Event],
) -> None:  # fmt: skip
    """Follow one key: each event is the next change of its life, or a repetition of an earlier one."""
    at: int | None = None
    previous = ""
    for event in events:
        if event.op == TOMBSTONE:
            if previous != DELETE:
                account.wrong.append(f"{event.key}: a tombstone after {previous or 'nothing'}")
            previous = event.op
            continue
        place = _place(life, event)
        if place is None:
            account.wrong.append(f"{event.key}: not in the database: {event}")
            continue
        if at is not None and place > at + 1 and event.op != READ:
            account.wrong.append(f"{event.key}: skipped from change {at} to {place} of its life")
        if previous == DELETE and at is not None and place > at:
            account.wrong.append(f"{event.key}: a delete without tombstone")
        if event.op == READ:
            identity = (event.key, event.after)
            account.again += identity in read
            read.add(identity)
        else:
            number = life[place].number
            account.again += number in streamed
            streamed.setdefault(number, event)
        at, previous = place, event.op
    if previous == DELETE:
        account.wrong.append(f"{events[-1].key}: the last delete is without tombstone")


def _place(life: Sequence[Change], event: Event) -> int | None:
    """Return which change of its life an event tells, or brought about what was read."""
    for place, change in enumerate(life):
        if event.op == READ and event.after is not None and change.after == event.after:
            return place
        if (change.op, change.before, change.after) == (event.op, event.before, event.after):
            return place
    return None


def _find_lost(
    history: Sequence[Change], read: set[tuple[int, int | None]], streamed: Mapping[int, Event], account: Account, *,
    is_exact: bool,
) -> None:  # fmt: skip
    first = min(streamed, default=history[-1].number + 1 if history else 0)
    table: dict[int, int] = {}
    for change in history:
        if change.number < first:
            _apply(change, table)
        elif change.number not in streamed:
            account.wrong.append(f"{change.key}: lost: {change}")
    unread = sorted(table.items() - read)
    was_read = not unread
    for change in () if is_exact else history:
        if was_read:
            break
        if change.number >= first:
            _apply(change, table)
            was_read = table.items() <= read
    if not was_read:
        account.wrong += [
            f"{key}: version {version} was in the table before the stream, unread" for key, version in unread
        ]


def _apply(change: Change, table: dict[int, int]) -> None:
    if change.after is None:
        table.pop(change.key)
    else:
        table[change.key] = change.after


def replayed(events: Iterable[Event]) -> dict[int, tuple[int, str]]:
    """Return the table that a reader of the topic has in the end: version and body by key."""
    table: dict[int, tuple[int, str]] = {}
    for event in events:
        if event.op in (DELETE, TOMBSTONE):
            table.pop(event.key, None)
        elif event.after is not None:
            table[event.key] = (event.after, event.body)
    return table
