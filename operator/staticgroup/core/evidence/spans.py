"""Times in which pods can have come and gone unseen, what a person says of one, and who stands against such a word."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ...api.ordinals import INT32_MAX, Ordinals

EVERY_ORDINAL: Final = Ordinals.of(range(INT32_MAX + 1))
SINCE_EVER_S: Final = 0.0
"""Where a time begins of which nobody knows the beginning: a word that closes it has to name it."""
CLOCKS_APART_S: Final = 60.0
"""The clocks of operators, API server and nodes may differ by this much."""


class SpanReason(StrEnum):
    """Why nobody saw what happened."""

    WATCH_GAP = "WatchGap"
    RESTORED = "Restored"
    MEMORY_LOST = "MemoryLost"
    LEDGER_FULL = "LedgerFull"
    SCOPE_WRITTEN = "ScopeWritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpan:
    """A time in which pods of some ordinals can have come and gone unseen.

    Parameters
    ----------
    since_s, until_s: the history is complete up to the one and again from the other on, whole seconds since the Unix
        epoch, rounded away from each other.
    after_epoch: continuity epoch of the watch that ended at `since_s`; "" when it is not known.
    """

    ordinals: Ordinals
    since_s: float
    until_s: float
    reason: str
    after_epoch: str = ""

    @property
    def words(self) -> str:
        """Say it for people."""
        since = "any time" if self.since_s <= SINCE_EVER_S else _time(self.since_s)
        return f"{since} to {_time(self.until_s)} ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapWord:
    """A person's word that whatever came and went unseen in a time has ended, and that no pod that is still here took another id.

    It closes the spans that lie within, once no pod lives that may have done so (`EditablePod`).

    Parameters
    ----------
    said_at_s: by the API server's clock; a span that was not over by then is not meant. Minus infinity, by which nothing is
        closed, when it is not known.
    """

    since_s: float
    until_s: float
    said_at_s: float
    said_by: str = ""
    statement: str = ""

    def closes(self, span: BlindSpan) -> bool:
        """True for a span that lies within, compared in whole seconds as people copy them."""
        return int(self.since_s) <= int(span.since_s) and int(span.until_s) <= min(self.until_s, self.said_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditablePod:
    """A pod that lives, of the workload or with an id of it, whose ids can be edited.

    Parameters
    ----------
    name: `<namespace>/<name>`.
    created_at_s: seconds since the Unix epoch, the API server's clock.
    ready_since_s: the same by its kubelet's clock, where none of its containers was ever started again; None where one was, or it
        is not Ready.
    """

    name: str
    created_at_s: float
    ready_since_s: float | None

    def may_have_taken_ids(self, span: BlindSpan) -> bool:
        """True unless it was made after a span, or every container has run since before it: an id is read when one starts."""
        is_younger = self.created_at_s - CLOCKS_APART_S > span.until_s
        runs_on = self.ready_since_s is not None and self.ready_since_s + CLOCKS_APART_S < span.since_s
        return not (is_younger or runs_on)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
