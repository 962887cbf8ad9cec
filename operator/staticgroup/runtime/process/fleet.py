"""The one door to the package `journal`, which is imported only when a setting asks for what is in it.

The rest of the operator knows two of its types, by names that cost no import; of each it has none by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ..stores import Stores
from .metrics import Metrics
from .settings import Settings, SettingsError

if TYPE_CHECKING:
    from journal.journal import Journal
    from journal.recommendations.reader import Recommendations
    from journal.sinks import Sink
    from journal.sinks.kafka import SettingsOf

Sinks: TypeAlias = "tuple[Sink, ...]"
"""Where a journal goes."""
JournalPort: TypeAlias = "Journal"
AdvicePort: TypeAlias = "Recommendations"


def journal_of(
    settings: Settings,
    *,
    stores: Stores,
    metrics: Metrics,
    settings_of: SettingsOf,
    may_write: Callable[[], bool],
    now_s: Callable[[], float],
    sinks: Sinks | None = None,
) -> JournalPort | None:
    """Return the journal that the settings ask for; None: none.

    Parameters
    ----------
    settings_of: resolves a KafkaConnection with its Secrets.
    sinks: where it goes; None takes what the settings name.

    Raises
    ------
    SettingsError: a topic is named and confluent-kafka is not installed.
    """
    is_asked_for = bool(settings.journal_kafka_connection or settings.journal_files_path)
    if not (is_asked_for if sinks is None else sinks):
        return None
    from journal.journal import Journal
    from journal.records import watch_scope_of
    from journal.sinks import sinks_of
    from journal.sinks.kafka import MissingLibraryError

    operator_id = f"{settings.identity}.{int(now_s() * 1000)}"
    if sinks is None:
        try:
            sinks = sinks_of(
                operator_id=operator_id,
                kafka_connection=settings.journal_kafka_connection,
                kafka_topic=settings.journal_kafka_topic,
                files_path=settings.journal_files_path,
                files_max_mib=settings.journal_files_max_mib,
                files_count=settings.journal_files_count,
                queue_max=settings.journal_queue,
                settings_of=settings_of,
                counters=metrics,
            )
        except MissingLibraryError as error:
            raise SettingsError(str(error)) from error
    return Journal(
        operator_id=operator_id,
        sinks=sinks,
        stores=stores,
        counters=metrics,
        may_write=may_write,
        now_s=now_s,
        watch_scope=watch_scope_of(settings.watch_namespaces),
    )


def recommendations_of(settings: Settings, *, metrics: Metrics, now_s: Callable[[], float]) -> AdvicePort | None:
    """Return the recommendations that the settings ask for; None: none."""
    if not settings.recommendations_source:
        return None
    from journal.recommendations.reader import Recommendations, source_of

    return Recommendations(
        source=source_of(settings.recommendations_source),
        poll_s=settings.recommendations_poll_s,
        polls=metrics.recommendation_polls,
        now_s=now_s,
    )
