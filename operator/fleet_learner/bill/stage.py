"""The stage of a run that reads the logs of all Kafka clusters; a failing log delays no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fleet_learner.configuration import OffsetsLogSettings
from fleet_learner.errors import JobError
from fleet_learner.intake.planning import LEFT_OUT
from fleet_learner.lake import Lake, Published

from .daily import bill_lake, take_in
from .log import EmptyLogError, OffsetsLog

_REASON_MAX: Final = 300


def open_log(settings: OffsetsLogSettings) -> OffsetsLog:
    """Open a log of the configuration.

    Raises
    ------
    JobError
        When it cannot be read.
    """
    options = {**settings.options, "kafka.bootstrap.servers": settings.bootstrap_servers}
    return OffsetsLog(options, settings.topic)


def read_logs(
    journal: Lake,
    logs: Iterable[OffsetsLogSettings],
    *,
    now_ms: int,
    keep_days: int,
    on_step: Callable[[str], None],
) -> dict[str, Published]:
    """Ingest new records of each log; reports each unreadable log to `on_step`.

    Returns
    -------
    The last run of each log that was read, by name.
    """
    from confluent_kafka import KafkaException
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    read = {}
    for each in logs:
        try:
            log = open_log(each)
            read[each.name] = take_in(
                bill_lake(journal, each.name), log, now_ms=now_ms, keep_days=keep_days, on_step=on_step
            )
        except EmptyLogError as error:
            on_step(f"offsets of {each.name}: {error}")
        except JobError as error:
            on_step(f"{LEFT_OUT}offsets of {each.name}: {error}")
        except (KafkaException, PySparkException, Py4JJavaError) as error:
            # A failure of one log must not stop the others, nor learning.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            on_step(f"{LEFT_OUT}offsets of {each.name}: {type(error).__name__}: {reason[:_REASON_MAX]}")
    return read
