"""Make the journal's sinks that the settings name; none by default, and no library is loaded for those not named."""

from __future__ import annotations

from pathlib import Path

from ..metrics import Metrics
from ..process.settings import Settings
from .files import FilesSink, RotatedFiles
from .journal import Sink
from .kafka import KafkaSink, MakeProducer, OnDrop, SettingsOf, librdkafka

MEBIBYTE = 1 << 20


def sinks_of(
    settings: Settings,
    operator_id: str,
    *,
    settings_of: SettingsOf,
    metrics: Metrics,
    make_producer: MakeProducer | None = None,
) -> tuple[Sink, ...]:
    """Return the sinks in force; empty while the journal is off.

    Parameters
    ----------
    settings_of: resolves a KafkaConnection with its Secrets.
    make_producer: replaces librdkafka's.

    Raises
    ------
    MissingLibraryError: a topic is named and confluent-kafka is not installed.
    """
    sinks: list[Sink] = []
    if settings.journal_kafka_connection:
        namespace, _, name = settings.journal_kafka_connection.partition("/")
        sinks.append(
            KafkaSink(
                connection=(namespace, name),
                topic=settings.journal_kafka_topic,
                settings_of=settings_of,
                queue_max=settings.journal_queue,
                on_drop=_counter(metrics, KafkaSink.name),
                make_producer=make_producer or librdkafka(),
            )
        )
    if settings.journal_files_path:
        files = RotatedFiles(
            Path(settings.journal_files_path),
            writer=operator_id,
            max_bytes=settings.journal_files_max_mib * MEBIBYTE,
            max_files=settings.journal_files_count,
        )
        sinks.append(FilesSink(files, queue_max=settings.journal_queue, on_drop=_counter(metrics, FilesSink.name)))
    return tuple(sinks)


def _counter(metrics: Metrics, sink: str) -> OnDrop:
    return lambda reason, count: metrics.journal_dropped.labels(sink, reason).inc(count)
