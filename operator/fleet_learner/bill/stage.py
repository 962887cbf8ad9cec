"""The stage of a run that reads the logs of all Kafka clusters, and none of which holds up another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fleet_learner.configuration import OffsetsLogSettings
from fleet_learner.errors import JobError
from fleet_learner.ingest import LEFT_OUT
from fleet_learner.lake import Lake, Published

from .daily import bill_lake, take_in
from .log import OffsetsLog


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
    """Take in what is new in each log; `on_step` is told of each that cannot be read.

    Returns
    -------
    By name, the last run of the logs that were read.
    """
    read = {}
    for each in logs:
        try:
            log = open_log(each)
            read[each.name] = take_in(
                bill_lake(journal, each.name), log, now_ms=now_ms, keep_days=keep_days, on_step=on_step
            )
        except JobError as error:
            on_step(f"{LEFT_OUT}offsets of {each.name}: {error}")
    return read
