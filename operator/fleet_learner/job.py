"""A job: its configuration, a Spark session, the tables and the progress."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import gold, schemas
from .configuration import Configuration, ConfigurationError
from .days.facts import DAY_MS, StopDurations
from .errors import EXIT_LEFT_OUT
from .intake.ingest import TABLES
from .intake.planning import LEFT_OUT, Source
from .lake import Lake, local_path
from .lake.lock import only_writer
from .lake.object_store import PROBE, is_in_object_store, probe, settings_for
from .lake.unreadable import unreadable
from .metrics import RunMetrics
from .progress import Progress
from .recommendations.histories import Bounds, Terms
from .session import new_session
from .terminal import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def say(text: str) -> None:
    """Print one line of a result; control characters in names do not reach the terminal."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Job:
    """One job's session, tables and progress."""

    configuration: Configuration
    spark: SparkSession
    progress: Progress
    left_out: list[str] = field(default_factory=list)
    """Sources that could not be read in this run."""
    metrics: RunMetrics = field(default_factory=RunMetrics)

    @property
    def status(self) -> int:
        """Return the exit status of a finished run."""
        return EXIT_LEFT_OUT if self.left_out else 0

    def step(self, text: str) -> None:
        """Report a step of ingest."""
        self.progress.done(text)
        if text.startswith(LEFT_OUT):
            self.left_out.append(text.removeprefix(LEFT_OUT))

    @property
    def journal(self) -> Lake:
        """Return the journal's tables."""
        return Lake(self.spark, self.configuration.root)

    @property
    def learned(self) -> Lake:
        """Return the facts' tables."""
        return gold.learned_lake(self.journal)

    @property
    def logs(self) -> list[Lake]:
        """Return the tables of each log of offsets."""
        from .bill.daily import FOLDER, bill_lake

        names = {each.name for each in self.configuration.offsets_logs}
        folder = local_path(f"{self.journal.root}/{FOLDER}")
        if folder is not None and folder.is_dir():  # including logs that the configuration no longer names
            names |= {each.name for each in folder.iterdir() if each.is_dir()}
        return [bill_lake(self.journal, name) for name in sorted(names)]

    @property
    def lakes(self) -> list[tuple[Lake, tuple[schemas.Table, ...]]]:
        """Return every root with its tables."""
        from .bill.daily import TABLES as OF_LOG

        own = [(self.journal, TABLES), (self.learned, gold.TABLES)]
        return [*own, *((lake, OF_LOG) for lake in self.logs)]

    @property
    def terms(self) -> Terms:
        """Return the terms that recommendations depend on."""
        stops = self.configuration.stops
        bounds = {
            "" if name == "default" else name: Bounds(**each.model_dump())
            for name, each in self.configuration.brokers.items()
        }
        return Terms(
            durations=StopDurations(
                **stops.model_dump(),
                is_eager_stated="eager_ms" in stops.model_fields_set,
                is_cooperative_stated="cooperative_ms" in stops.model_fields_set,
            ),
            bounds=bounds,
            valid_ms=self.configuration.valid_days * DAY_MS,
        )

    def sources(self) -> list[Source]:
        """Return the sources of the configuration.

        Raises
        ------
        ConfigurationError
            When it names none.
        """
        from .sources.files import JournalFiles
        from .sources.journal_topic import JournalTopic

        found: list[Source] = []
        if self.configuration.journal_files is not None:
            found.append(JournalFiles(self.configuration.journal_files))
        one, several = self.configuration.kafka, self.configuration.kafka_clusters
        for label, kafka in [*([("", one)] if one else []), *((each.name, each) for each in several)]:
            options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": kafka.topic, **kafka.options}
            found.append(JournalTopic(options, kafka.records_per_run, label))
        if not found:
            raise ConfigurationError(
                "name a source: --journal-files or --bootstrap, or journal_files, kafka or kafka_clusters in the "
                "configuration"
            )
        return found


@contextmanager
def opened(configuration: Configuration, name: str, *, writes: bool = False) -> Iterator[Job]:
    """Open a session for a job and close it afterwards; an open session is used and left open.

    Raises
    ------
    ConflictError
        When another job is writing, and this one writes, too.
    CorruptError
        When a file of a table cannot be read; the error names it.
    ObjectStoreError
        When the root lies in an object store that cannot be used.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    with only_writer(configuration.root) if writes else nullcontext():
        mine = SparkSession.getActiveSession() is None
        settings = settings_for(configuration.root, configuration.spark)
        spark = new_session(name, master=configuration.master, settings=settings)
        try:
            if is_in_object_store(configuration.root):
                probe(spark, configuration.root, f"{PROBE}{uuid.uuid4().hex}" if writes else None)
            with Progress(spark) as progress:
                yield Job(configuration=configuration, spark=spark, progress=progress)
        except (PySparkException, Py4JJavaError) as error:
            raise unreadable(error) or error from None
        finally:
            if mine:
                spark.stop()


# jobs ----------------------------------------------------------------------------------------------------------------
