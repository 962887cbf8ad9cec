"""Where records go; none by default, and no library is loaded for sinks that are not named."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client import Counter

from .files import FilesSink, RotatedFiles
from .kafka import KafkaSink, MakeProducer, OnDrop, SettingsOf, librdkafka

__all__ = ["Counters", "MemorySink", "Sink", "sinks_of"]

MEBIBYTE = 1 << 20


class Sink(Protocol):
    """Where records go."""

    name: str

    def offer(self, key: str, line: str) -> bool:
        """Take one line without ever blocking; False when there is no room."""

    async def run(self) -> None:
        """Do what the sink has to do in the background, until cancelled."""

    async def close(self) -> None:
        """Write what waits, within a few seconds."""


class Counters(Protocol):
    """What the operator's metrics count of the journal."""

    journal_records: Counter
    journal_dropped: Counter


@dataclass(slots=True)
class MemorySink:
    """Keep the lines in memory, for simulations and tests: no thread, no file, no clock."""

    lines: list[str] = field(default_factory=list)
    name: str = "memory"

    def offer(self, key: str, line: str) -> bool:
        """Keep a line."""
        self.lines.append(line)
        return True

    async def run(self) -> None:
        """Wait: there is nothing to do in the background."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Keep everything."""


def sinks_of(
    *,
    operator_id: str,
    kafka_connection: str,
    kafka_topic: str,
    files_path: str,
    files_max_mib: int,
    files_count: int,
    queue_max: int,
    settings_of: SettingsOf,
    counters: Counters,
    make_producer: MakeProducer | None = None,
) -> tuple[Sink, ...]:
    """Return the sinks that the operator's settings name.

    Parameters
    ----------
    kafka_connection: `<namespace>/<name>`; "" for no topic.
    files_path: a directory; "" for no files.
    queue_max: records that may wait in each.
    settings_of: resolves a KafkaConnection with its Secrets.
    make_producer: replaces librdkafka's.

    Raises
    ------
    MissingLibraryError: a topic is named and confluent-kafka is not installed.
    """
    sinks: list[Sink] = []
    if kafka_connection:
        namespace, _, name = kafka_connection.partition("/")
        sinks.append(
            KafkaSink(
                connection=(namespace, name),
                topic=kafka_topic,
                settings_of=settings_of,
                queue_max=queue_max,
                on_drop=_counter(counters, KafkaSink.name),
                make_producer=make_producer or librdkafka(),
            )
        )
    if files_path:
        files = RotatedFiles(
            Path(files_path), writer=operator_id, max_bytes=files_max_mib * MEBIBYTE, max_files=files_count
        )
        sinks.append(FilesSink(files, queue_max=queue_max, on_drop=_counter(counters, FilesSink.name)))
    return tuple(sinks)


def _counter(counters: Counters, sink: str) -> OnDrop:
    return lambda reason, count: counters.journal_dropped.labels(sink, reason).inc(count)
