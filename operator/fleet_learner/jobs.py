"""The jobs behind the command line: each is a few stages over one Spark session, and prints what it found.

The one idea: a stage reads what the stage before published and publishes its own; a job that is run again after a crash
finds what is done and goes on. Jobs take a configuration and nothing else that results depend on, but the end of the
window.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import gold, increment, schemas
from .advised import recommendations
from .assembly import assemble, feature_rows
from .configuration import Configuration
from .errors import EXIT_LEFT_OUT, JobError
from .estimates.kaplan_meier import kaplan_meier
from .estimates.price import Price
from .facts import DAY_MS, StopDurations
from .features import set_aside
from .gold import Silver
from .histories import Advised, Bounds, Terms, history
from .ingest import LEFT_OUT, TABLES, Horizon, Source, ingest
from .lake import Lake, Published, local_path
from .lake.lock import only_writer
from .lake.object_store import PROBE, is_in_object_store, probe, settings_for
from .lake.unreadable import unreadable
from .lake.upkeep import tidy as tidy_tables
from .metrics import RunMetrics
from .progress import Progress
from .recommend import MODEL_VERSION
from .report import build
from .report.advice import advise
from .report.model import Report, Verdict
from .report.tables import write_report
from .report.units import amount, count, duration, partition_time, percent
from .report.views import unknown
from .session import new_session
from .snapshot import delete_old_snapshots, write_snapshot
from .what_if import weekly_evictions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SNAPSHOTS: Final = "recommendations"
REPORTS: Final = "report"
NAMED_MAX: Final = 5


def say(text: str) -> None:
    """Print one line of a result."""
    sys.stdout.write(f"{text}\n")
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
        """Return the exit status of a run that came to its end."""
        return EXIT_LEFT_OUT if self.left_out else 0

    def step(self, text: str) -> None:
        """Hear of a step of ingest."""
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
        if folder is not None and folder.is_dir():  # also of logs that the configuration no longer names
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
        """Return what recommendations depend on."""
        stops = self.configuration.stops
        bounds = {
            "" if name == "default" else name: Bounds(**each.model_dump())
            for name, each in self.configuration.brokers.items()
        }
        return Terms(
            durations=StopDurations(
                **stops.model_dump(), is_stated=bool({"eager_ms", "cooperative_ms"} & stops.model_fields_set)
            ),
            bounds=bounds,
            valid_ms=self.configuration.valid_days * DAY_MS,
        )

    def sources(self) -> list[Source]:
        """Return the sources of the configuration.

        Raises
        ------
        JobError
            When there is none.
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
            raise JobError("name a source: --journal-files or --bootstrap, or kafka_clusters in the configuration")
        return found


@contextmanager
def opened(configuration: Configuration, name: str, *, writes: bool = False) -> Iterator[Job]:
    """Open a session for a job and close it afterwards; one that is open already is used and left open.

    Raises
    ------
    ConflictError
        When the job writes and another one does at this moment.
    CorruptError
        When a file of a table cannot be read; names it.
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


def run(configuration: Configuration, *, as_of_ms: int | None = None, metrics: RunMetrics | None = None) -> int:
    """Take in what is new, learn from it, and write recommendations and the report; returns the exit status.

    Parameters
    ----------
    metrics: is told the run's figures.
    """
    return _whole_run(configuration, "run", as_of_ms, Horizon(rewrite_days=configuration.rewrite_days), metrics)


def backfill(
    configuration: Configuration, *, from_ms: int, as_of_ms: int | None = None, metrics: RunMetrics | None = None
) -> int:
    """Make all outages from a day on again, then the same as `run`; returns the exit status."""
    horizon = Horizon(rewrite_days=configuration.rewrite_days, backfill_from_ms=from_ms)
    return _whole_run(configuration, "backfill", as_of_ms, horizon, metrics)


def _whole_run(
    configuration: Configuration, name: str, as_of_ms: int | None, horizon: Horizon, metrics: RunMetrics | None
) -> int:
    with opened(configuration, name, writes=True) as job:
        job.metrics = metrics or job.metrics
        # First what goes away by itself: a log is compacted, whether journals can be read or not.
        with job.metrics.stage("offsets"):
            _read_logs(job)
        with job.metrics.stage("ingest"):
            _take_in(job, as_of_ms, horizon)
        with job.metrics.stage("learn"):
            learn_and_tell(job)
        with job.metrics.stage("tidy"):
            tidy_up(job)
        job.metrics.tell("fleet_learner_sources_left_out", len(job.left_out))
        return job.status


def report(configuration: Configuration) -> int:
    """Write the report from the facts that are published; returns the exit status."""
    with opened(configuration, "report") as job:
        state = job.learned.runs.latest()
        if state is None:
            raise JobError(f"nothing was learned in {configuration.root} yet: fleet-learner run")
        _tell(job, state)
    return 0


def what_if(configuration: Configuration, *, group: tuple[str, str]) -> int:
    """Print what other timeouts would cost one group; returns the exit status."""
    from pyspark.sql import functions as F

    with opened(configuration, "what-if") as job:
        state = job.learned.runs.latest()
        if state is None:
            raise JobError(f"nothing was learned in {configuration.root} yet: fleet-learner run")
        tables = _silver_of(job, state)
        days = gold.read_learned(job.learned, state, schemas.GROUP_DAY)
        rows = feature_rows(tables, days, [group])
        if not rows:
            raise JobError(f"no group {group[1]} in Kafka cluster {group[0]} within the window")
        found = [e for e in recommendations(tables, days.where(F.col("protocol").eqNullSafe(rows[0]["protocol"])), job.terms,
                                             gold.standing(job.learned, state))
                 if e.record.key == group]  # fmt: skip
        if not found:
            raise JobError(f"group {group[1]} is set aside: this version does not know the protocol {rows[0]['protocol']}")
        known, _ = history(rows[0], job.terms, start_ms=tables.start_ms, as_of_ms=tables.as_of_ms)
        curve = kaplan_meier(known.sample.gaps_ms, known.sample.is_returned)
        record = found[0].record
        told = advise(record, source=found[0].state.source)
        lines = build.what_if(curve, known.rates, now_ms=record.current_ms, advised_ms=told.then_ms)
        weekly = weekly_evictions(*group, curve, known.rates, (line.timeout_ms for line in lines if line.timeout_ms))
        say(f"{'what if':<44}{'evictions/day':>14}{'9 weeks of 10':>15}{'rebalances/day':>16}{'lost/day':>22}")
        for line in lines:
            low_high = weekly.get(line.timeout_ms or 0)
            weeks = "" if low_high is None else f"{low_high[0]} to {low_high[1]}"
            lost = partition_time(line.lost_partition_ms_per_day)
            say(
                f"{line.label:<44}{amount(line.evictions_per_day):>14}{weeks:>15}{amount(line.rebalances_per_day):>16}{lost:>22}"
            )
        say(told.action)
        for each in told.would_tell:
            say(f"  what would tell: {each}")
    return 0


def audit(
    configuration: Configuration,
    *,
    kafka_cluster_id: str,
    offsets_topic: str,
    groups: Sequence[str],
    from_ms: int,
    tolerance_ms: int,
    json_file: Path | None,
) -> int:
    """Hold the journal of one Kafka cluster against its `__consumer_offsets`; returns 1 when they differ."""
    from .audit import compare
    from .audit_accounts import journal_accounts, log_accounts
    from .audit_page import document, lines
    from .sources import kafka

    if configuration.kafka is None:
        raise JobError("name the brokers whose log is to be read: --bootstrap")
    options = {"kafka.bootstrap.servers": configuration.kafka.bootstrap_servers, "subscribe": offsets_topic}
    with opened(configuration, "audit") as job:
        source = job.journal.runs.latest()
        if source is None:
            raise JobError(f"nothing was ingested into {configuration.root} yet: fleet-learner run")
        tables = (schemas.GROUP_EVENTS, schemas.MEMBER_EVENTS, schemas.BEATS)
        silver = [job.journal.published(table, source) for table in tables]
        job.progress.begin("journal")
        told = journal_accounts(*silver, kafka_cluster_id=kafka_cluster_id, groups=groups)
        if not told:
            raise JobError(f"the journal knows no such group of the Kafka cluster {kafka_cluster_id}")
        kafka.register(job.spark)
        records = job.spark.read.format(kafka.FORMAT).options(**configuration.kafka.options, **options).load()
        job.progress.begin("log")
        log = log_accounts(records, sorted(told))
    found = compare(log, told, from_ms=from_ms, tolerance_ms=tolerance_ms)
    for line in lines(found):
        say(line)
    differing = sum(not each.agrees for each in found)
    say(f"{count(len(found), 'group')} of the journal, {differing} differ")
    if json_file is not None:
        made = document(found, kafka_cluster_id=kafka_cluster_id, from_ms=from_ms, tolerance_ms=tolerance_ms)
        json_file.write_text(json.dumps(made, indent=1))
    return 1 if differing else 0


def bill(
    configuration: Configuration,
    *,
    offsets_topic: str,
    groups: Sequence[str],
    from_ms: int,
    options: Sequence[tuple[str, str]],
    is_sampled: bool,
    json_file: Path | None,
) -> int:
    """Print what rebalances cost each group of a Kafka cluster, by its `__consumer_offsets`; returns the exit status."""
    from .bill import page
    from .bill.job import draw_up
    from .bill.log import OffsetsLog

    if configuration.kafka is None:
        raise JobError("name the brokers whose log is to be read: --bootstrap")
    told = {**configuration.kafka.options, **dict(options)}
    log = OffsetsLog({**told, "kafka.bootstrap.servers": configuration.kafka.bootstrap_servers}, offsets_topic)
    with opened(configuration, "bill") as job:
        job.progress.begin("bill", log.records_max)
        now_ms = int(time.time() * 1000)
        sampled_at_ms = now_ms if is_sampled else None
        made = draw_up(job.spark, log, groups=groups, from_ms=from_ms, sampled_at_ms=sampled_at_ms)
    if not made.rows:
        raise JobError(f"{offsets_topic} holds no commit and no member of such a group")
    for line in page.lines(made.rows, made.prices):
        say(line)
    if made.bad_record is not None:
        say(f"passed over: {count(made.bad_records, 'broken record')}, the first at {made.bad_record}")
    if json_file is not None:
        document = page.document(made.rows, made.prices, from_ms=from_ms, bad_records=made.bad_records)
        json_file.write_text(json.dumps(document, indent=1))
    return 0


def demo(configuration: Configuration, *, groups: int, days: int, seed: int) -> int:
    """Simulate a fleet, write its journal, and run everything on it; returns the exit status."""
    from .fleet_truth import FleetSettings
    from .simulated_journal import produce, write_files

    settings = FleetSettings(seed=seed, groups=groups, days=days)
    began_s = time.monotonic()
    progress = Progress()
    if configuration.kafka is not None:
        records = produce(configuration.kafka, settings, progress)
    else:
        folder = configuration.journal_files or configuration.output_folder.parent / "simulated"
        configuration = configuration.model_copy(update={"journal_files": folder})
        records = write_files(folder, settings, progress)
    say(f"{records:,} records of {groups} groups over {days} days, {time.monotonic() - began_s:.1f} s")
    with opened(configuration, "demo", writes=True) as job:
        state = _take_in(job, settings.end_ms, Horizon(rewrite_days=configuration.rewrite_days))
        made = learn_and_tell(job)
        say(f"{state.rows(schemas.OUTAGES.name):,} outages, {made.counts.rebalances:,} rebalances")
    say(f"{time.monotonic() - began_s:.1f} s in all")
    return 0


# stages --------------------------------------------------------------------------------------------------------------


def _take_in(job: Job, as_of_ms: int | None, horizon: Horizon) -> Published:
    sources = job.sources()
    end_ms = as_of_ms if as_of_ms is not None else int(time.time() * 1000)
    job.progress.begin("ingest")
    state = ingest(job.journal, sources, as_of_ms=end_ms, horizon=horizon, on_step=job.step)
    counts = state.counts
    say(
        f"ingested: {counts.get('bronze/events_rows', 0):,} records, "
        f"{counts.get('bronze/quarantine_rows', 0):,} in quarantine, {counts.get('duplicates', 0):,} copies, "
        f"{counts.get('late_rows', 0):,} too late (run {state.number})"
    )
    for text in job.left_out:
        say(f"left out, and read again from where it was: {text}")
    fates = {"quarantine": "bronze/quarantine_rows", "copy": "duplicates", "late": "late_rows"}
    for fate, name in fates.items():
        job.metrics.tell("fleet_learner_records", counts.get(name, 0), fate)
    good = sum(n for name, n in counts.items() if name.startswith("silver/") and name.endswith("_rows"))
    job.metrics.tell("fleet_learner_records", good, "silver")
    return state


def _read_logs(job: Job) -> None:
    """Take in what is new in Kafka's own record of the groups, where the configuration names it."""
    from .bill.stage import read_logs

    job.progress.begin("offsets")
    logs = job.configuration.offsets_logs
    keep_days, now_ms = job.configuration.window_days, int(time.time() * 1000)
    before = len(job.left_out)
    read = read_logs(job.journal, logs, now_ms=now_ms, keep_days=keep_days, on_step=job.step)
    for name, state in read.items():
        stood = state.rows("silver/standstills")
        say(f"offsets of {name}: {count(stood, 'standstill')} known (run {state.number})")
        if state.counts["bad_records"]:
            say(f"offsets of {name}: passed over {count(state.counts['bad_records'], 'broken record')}")
    for text in job.left_out[before:]:
        say(f"left out, and read again from where it was: {text}")


def learn_and_tell(job: Job) -> Report:
    """Learn from what is published, and write recommendations and the report."""
    source = job.journal.runs.latest()
    events = sum(t.rows for name, t in source.tables.items() if name.startswith("silver/")) if source else None
    job.progress.begin("learn", events)
    terms = job.terms if source is None else replace(job.terms, prices=_measured_prices(job, source.plan.as_of_ms))
    state, advised = gold.learn(
        job.journal,
        job.learned,
        window_days=job.configuration.window_days,
        terms=terms,
        is_replayed=job.configuration.is_replayed,
        on_step=job.progress.done,
    )
    return _tell(job, state, advised)


def _measured_prices(job: Job, as_of_ms: int) -> Mapping[tuple[str, str], Price]:
    from .bill import window

    since_ms = gold.window_start_ms(as_of_ms, job.configuration.window_days)
    return window.prices(job.journal, (each.name for each in job.configuration.offsets_logs), since_ms=since_ms)


def _bill_rows(job: Job, since_ms: int) -> list[dict[str, Any]]:
    """Return gold/bill of every group in the logs of the configuration, also of those that nobody manages."""
    from .bill import window

    rows = window.bill(job.journal, (each.name for each in job.configuration.offsets_logs), since_ms=since_ms)
    return [] if rows is None else [row.asDict() for row in rows.toLocalIterator()]


def _tell(job: Job, state: Published, advised: Sequence[Advised] | None = None) -> Report:
    """Write recommendations and the report of published facts; both are the same again when they are there already.

    Parameters
    ----------
    advised: when they were made just now; None makes them again.
    """
    job.progress.begin("recommend")
    tables = _silver_of(job, state)
    days = gold.read_learned(job.learned, state, schemas.GROUP_DAY)
    terms = Terms.of_settings(state.plan.settings)
    if advised is None:
        advised = recommendations(tables, days, terms, gold.standing(job.learned, state))
    snapshot = write_snapshot(
        (each.record for each in advised),
        job.configuration.output_folder / SNAPSHOTS,
        run_id=state.plan.run,
        model_version=MODEL_VERSION,
        created_ms=tables.as_of_ms,
        expires_ms=tables.as_of_ms + terms.valid_ms,
    )
    say(f"recommended: {snapshot.records:,} groups in {len(snapshot.shards)} shards, run {snapshot.run_id}")
    say(f"canary: {sum(each.record.released for each in advised):,} of {snapshot.records:,} groups may act now")
    aside = set_aside(days)
    if aside:
        named = ", ".join(f"{cluster}/{group} ({protocol})" for cluster, group, protocol in aside[:NAMED_MAX])
        say(f"set aside, of a protocol that this version does not know: {count(len(aside), 'group')}: {named}")
    job.progress.begin("report")
    made = assemble(
        job.journal,
        job.learned,
        state,
        tables,
        days,
        advised,
        earlier_days=gold.earlier_days(job.journal, job.learned, state),
        bill=_bill_rows(job, tables.start_ms),
        money=job.configuration.report.money,
    )
    written = write_report(made, job.configuration.output_folder / REPORTS)
    _say_report(made, written)
    _measure(job.metrics, made, aside=len(aside), expires_ms=tables.as_of_ms + terms.valid_ms)
    return made


def _measure(metrics: RunMetrics, made: Report, *, aside: int, expires_ms: int) -> None:
    """Tell what an alert may ask of what was learned."""
    acting = sum(row.advice.is_action for row in made.rows)
    not_known = sum(row.advice.verdict is Verdict.NOT_KNOWN for row in made.rows)
    by_advice = {"act": acting, "unknown": not_known, "keep": max(0, made.groups - acting - not_known - aside), "set_aside": aside}
    for advice, groups in by_advice.items():
        metrics.tell("fleet_learner_groups", groups, advice)
    for verdict in ("good", "warning", "bad"):
        checks = sum(check.verdict == verdict for check in made.quality)
        metrics.tell("fleet_learner_data_checks", checks, verdict)
    metrics.tell("fleet_learner_coverage_ratio", made.coverage)
    metrics.tell("fleet_learner_recommendations_expiry_timestamp_seconds", expires_ms / 1000)


def _silver_of(job: Job, state: Published) -> Silver:
    source = job.journal.runs.read(state.plan.sources[increment.SOURCE]["end"])
    return gold.silver(job.journal, source, window_days=state.plan.settings["window_days"])


def tidy_up(job: Job, *, is_thorough: bool = False) -> None:
    """Delete old states of the tables and old snapshots; what was published last goes on from states that are kept."""
    keep = job.configuration.keep_runs
    job.progress.begin("tidy")
    forgotten = []
    now_ms = int(time.time() * 1000)
    for lake, tables in job.lakes:
        forgotten += tidy_tables(lake, tables, keep=keep, now_ms=now_ms, is_thorough=is_thorough)
    snapshots = delete_old_snapshots(job.configuration.output_folder / SNAPSHOTS, keep=keep)
    if forgotten or snapshots:
        say(
            f"deleted: {count(len(forgotten), 'run')} and {count(len(snapshots), 'snapshot')} older than the last {keep}"
        )


def _say_report(made: Report, written: Sequence[Path]) -> None:
    counts, days = made.counts, made.window.days
    say(
        f"groups: {made.groups:,} with {count(made.members, 'member')} in {count(made.kafka_clusters, 'Kafka cluster')}"
    )
    say(f"restarts: {counts.restarts:,}, of which absorbed {counts.absorbed_restarts:,}")
    if counts.rebalances_if_dynamic is not None:
        say(f"rebalances: {counts.rebalances:,}; with dynamic members {counts.rebalances_if_dynamic:,}")
    lost_ms = made.lost_partition_ms_per_day
    say(f"lost per watched day: {'not watched' if lost_ms is None else partition_time(lost_ms)}")
    acting = sum(row.advice.is_action for row in made.rows)
    saved_ms = sum(row.advice.saving.best_partition_ms for row in made.rows if row.advice.saving is not None)
    say(f"can be saved per week: {partition_time(saved_ms)}, {count(acting, 'group')} with something to do")
    say(f"not enough is known: {count(len(unknown(made.rows)), 'group')}")
    say(f"watched: {percent(made.coverage)} of group-time, window of {duration(1000 * round(days * 86_400))}")
    say(f"report: {written[0]} ({written[0].stat().st_size / 1e6:.2f} MB)")
