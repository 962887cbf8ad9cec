"""Run rows against the model or a real broker in one go, from synchronous tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from conformance.wire.catalogue import Outcome, Row, run_rows
from conformance.wire.targets import MODEL, Target, model_target, real_broker, real_target
from support.devcluster.kafka_jars import Report, version_key


def outcomes(target: str, rows: Sequence[Row], report: Report = print) -> Mapping[str, Outcome]:
    """Return the outcome of each row by name.

    Parameters
    ----------
    target: `model` or the full version of a broker, which is started and taken away again.
    """
    found: dict[str, Outcome] = {}
    for settings in {row.settings: None for row in rows}:
        found |= _outcomes(target, [row for row in rows if row.settings == settings], dict(settings), report)
    return found


def _outcomes(target: str, rows: Sequence[Row], settings: Mapping[str, str], report: Report) -> Mapping[str, Outcome]:
    async def on(there: AbstractAsyncContextManager[Target]) -> Mapping[str, Outcome]:
        async with there as place:
            return await run_rows(place, rows)

    if target == MODEL:
        return asyncio.run(on(model_target(settings)))
    if all(version_key(target)[:2] < row.since for row in rows):
        return {row.name: Outcome("absent", f"since {row.since[0]}.{row.since[1]}") for row in rows}
    with real_broker(target, overrides=settings, report=report) as brokers:
        return asyncio.run(on(real_target(brokers)))
