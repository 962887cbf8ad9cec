"""The rows that can be spoken over the wire, and how they are run: all at once, each on its own group."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from conformance.wire.client import NotServed
from conformance.wire.conversation import Conversation
from conformance.wire.targets import Target

Body = Callable[[Conversation], Awaitable[None]]
ROW_TIMEOUT_S = 600.0  # these tests run on what other programs leave of the machine
AT_ONCE = 12
"""Rows in flight; more make the timers of short sessions unreliable on a small machine."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the catalogue.

    Parameters
    ----------
    row: the catalogue's id, such as C07.
    kafka: Kafka's own test.
    since: the first version of Kafka in which the row holds.
    fails_over: the row takes the coordinator down, so it runs after the others, alone.
    settings: broker properties other than those of all rows.
    """

    row: str
    kafka: str
    since: tuple[int, int]
    body: Body
    fails_over: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Return the row's name, which begins with its id."""
        return self.body.__name__

    @property
    def given(self) -> str:
        """Return what the row says, from its docstring."""
        return " ".join((inspect.getdoc(self.body) or "").split())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one row on one target.

    Parameters
    ----------
    verdict: agrees, differs, or `absent` when this version of Kafka does not have what the row is about.
    """

    verdict: str
    text: str = ""
    seconds: float = 0.0


ROWS: dict[str, Row] = {}


def row(
    row_id: str, kafka: str, since: str = "3.9", *, fails_over: bool = False, settings: Mapping[str, str] | None = None
) -> Callable[[Body], Body]:
    """Register a row."""
    major, minor = since.split(".")

    def register(body: Body) -> Body:
        entry = Row(row_id, kafka, (int(major), int(minor)), body, fails_over, tuple((settings or {}).items()))
        assert entry.name.startswith(row_id), f"{entry.name} must begin with {row_id}"
        assert entry.name not in ROWS, entry.name
        ROWS[entry.name] = entry
        return body

    return register


async def run_rows(target: Target, rows: Iterable[Row]) -> Mapping[str, Outcome]:
    """Run rows against a target; returns the outcome by row name."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(entry: Row) -> tuple[str, Outcome]:
        async with places:
            return entry.name, await _run(target, entry)

    every = list(rows)
    found = dict(await asyncio.gather(*(one(entry) for entry in every if not entry.fails_over)))
    return found | {entry.name: await _run(target, entry) for entry in every if entry.fails_over}


async def _run(target: Target, entry: Row) -> Outcome:
    if target.version[:2] < entry.since:
        return Outcome("absent", f"since {entry.since[0]}.{entry.since[1]}")
    talk = Conversation(target, f"{entry.name}-{os.urandom(3).hex()}")
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(ROW_TIMEOUT_S):
            if entry.fails_over:  # the row before has left other shards without a coordinator
                await talk.loaded()
            await entry.body(talk)
    except NotServed as error:
        return Outcome("absent", str(error))
    except Exception:
        return Outcome("differs", traceback.format_exc(limit=-3), time.monotonic() - began_s)
    finally:
        await talk.end()
    return Outcome("agrees", seconds=time.monotonic() - began_s)
