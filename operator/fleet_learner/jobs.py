"""The jobs behind the command line: each is a few stages over one Spark session, and prints what it found.

The one idea: a stage reads what the previous stage published and publishes its own result; a job that is run again
after a crash continues where it stopped. Results depend on the configuration and the end of the window, on nothing
else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from . import gold, schemas
from .assembly import feature_rows
from .configuration import Configuration, ConfigurationError
from .errors import JobError
from .estimates.kaplan_meier import kaplan_meier
from .intake.planning import Horizon
from .job import opened, say
from .metrics import RunMetrics
from .progress import Progress
from .recommendations.advised import recommendations
from .recommendations.features import names_of
from .recommendations.histories import Terms, history
from .recommendations.what_if import weekly_evictions
from .report import build
from .report.advice.groups import advise
from .report.units import amount, count, partition_time
from .stages import learn_and_tell, read_logs, silver_of, take_in, tell, tidy_up


def run(configuration: Configuration, *, as_of_ms: int | None = None, metrics: RunMetrics | None = None) -> int:
    """Take in what is new, learn from it, and write recommendations and the report; returns the exit status.

    Parameters
    ----------
    metrics: collects the run's figures.
    """
    return _whole_run(configuration, "run", as_of_ms, Horizon(rewrite_days=configuration.rewrite_days), metrics)


def backfill(
    configuration: Configuration, *, from_ms: int, as_of_ms: int | None = None, metrics: RunMetrics | None = None
) -> int:
    """Recompute all outages from a day on, then do the same as `run`; returns the exit status."""
    horizon = Horizon(rewrite_days=configuration.rewrite_days, backfill_from_ms=from_ms)
    return _whole_run(configuration, "backfill", as_of_ms, horizon, metrics)


def _whole_run(
    configuration: Configuration, name: str, as_of_ms: int | None, horizon: Horizon, metrics: RunMetrics | None
) -> int:
    with opened(configuration, name, writes=True) as job:
        job.metrics = metrics or job.metrics
        # The logs come first: compaction removes their records, even while journals cannot be read.
        with job.metrics.stage("offsets"):
            read_logs(job)
        with job.metrics.stage("ingest"):
            take_in(job, as_of_ms, horizon)
        with job.metrics.stage("learn"):
            learn_and_tell(job)
        with job.metrics.stage("tidy"):
            tidy_up(job)
        job.metrics.tell("fleet_learner_sources_left_out", len(job.left_out))
        return job.status


def report(configuration: Configuration) -> int:
    """Write the report from the published facts; returns the exit status."""
    with opened(configuration, "report") as job:
        state = job.learned.runs.latest()
        if state is None:
            raise JobError(f"nothing was learned in {configuration.root} yet: fleet-learner run")
        tell(job, state)
    return 0


def what_if(configuration: Configuration, *, group: tuple[str, str]) -> int:
    """Print what other timeouts would cost one group; returns the exit status."""
    from pyspark.sql import functions as F

    with opened(configuration, "what-if") as job:
        state = job.learned.runs.latest()
        if state is None:
            raise JobError(f"nothing was learned in {configuration.root} yet: fleet-learner run")
        tables = silver_of(job, state)
        days = gold.read_learned(job.learned, state, schemas.GROUP_DAY)
        rows = feature_rows(tables, days, [group])
        if not rows:
            raise JobError(f"no group {group[1]} in Kafka cluster {group[0]} within the window")
        terms = Terms.of_settings(state.plan.settings)  # the published run used these, measured prices included
        # A class is pooled; a group that changed its protocol keeps its earlier days.
        own_class = names_of(days).where(F.col("protocol").eqNullSafe(rows[0]["protocol"])).select("group_key")
        own_days = days.join(own_class, on="group_key", how="left_semi")
        every = recommendations(tables, own_days, terms, gold.standing(job.learned, state), fleet=days)
        found = [each for each in every if each.record.key == group]
        if not found:
            raise JobError(
                f"group {group[1]} is set aside: this version does not know the protocol {rows[0]['protocol']}"
            )
        known, _ = history(rows[0], terms, start_ms=tables.start_ms, as_of_ms=tables.as_of_ms)
        curve = kaplan_meier(known.sample.gaps_ms, known.sample.is_returned)
        record = found[0].record
        advice = advise(record, source=found[0].state.source)
        lines = build.what_if(
            curve,
            known.rates,
            now_ms=record.current_ms,
            advised_ms=advice.then_ms,
            recommended_ms=record.recommended_ms,
        )
        weekly = weekly_evictions(*group, curve, known.rates, (line.timeout_ms for line in lines if line.timeout_ms))
        say(f"{'what if':<44}{'evictions/day':>14}{'in 9 weeks of 10':>18}{'rebalances/day':>16}{'lost/day':>22}")
        for line in lines:
            low_high = weekly.get(line.timeout_ms or 0)
            weeks = "" if low_high is None else f"{low_high[0]} to {low_high[1]}"
            lost = partition_time(line.lost_partition_ms_per_day)
            per_day = f"{amount(line.rebalances_per_day):>16}{lost:>22}"
            say(f"{line.label:<44}{amount(line.evictions_per_day):>14}{weeks:>18}{per_day}")
        if not known.price.is_known:
            say("lost: by an assumed price of a rebalance, which nobody measured or stated")
        say(advice.action)
        for each in advice.would_tell:
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
    """Compare the journal of one Kafka cluster with its `__consumer_offsets`; returns 1 when they differ."""
    from .audit.accounts import journal_accounts, log_accounts
    from .audit.compare import compare
    from .audit.page import document, lines
    from .bill.log import OffsetsLog

    if configuration.kafka is None:
        raise ConfigurationError("name the brokers whose log is to be read: --bootstrap")
    options = {**configuration.kafka.options, "kafka.bootstrap.servers": configuration.kafka.bootstrap_servers}
    held_against = OffsetsLog(options, offsets_topic)
    with opened(configuration, "audit") as job:
        source = job.journal.runs.latest()
        if source is None:
            raise JobError(f"nothing was ingested into {configuration.root} yet: fleet-learner run")
        tables = (schemas.GROUP_EVENTS, schemas.MEMBER_EVENTS, schemas.BEATS)
        silver = [job.journal.published(table, source) for table in tables]
        job.progress.begin("journal")
        accounts = journal_accounts(*silver, kafka_cluster_id=kafka_cluster_id, groups=groups)
        if not accounts:
            raise JobError(f"the journal knows no such group of the Kafka cluster {kafka_cluster_id}")
        job.progress.begin("log")
        log = log_accounts(held_against.records(job.spark), sorted(accounts))
    found = compare(log, accounts, from_ms=from_ms, tolerance_ms=tolerance_ms)
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
    """Print what rebalances cost each group of a Kafka cluster, by its `__consumer_offsets`."""
    from .bill import page
    from .bill.job import draw_up
    from .bill.log import OffsetsLog

    if configuration.kafka is None:
        raise ConfigurationError("name the brokers whose log is to be read: --bootstrap")
    client_options = {**configuration.kafka.options, **dict(options)}
    log = OffsetsLog(
        {**client_options, "kafka.bootstrap.servers": configuration.kafka.bootstrap_servers}, offsets_topic
    )
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
    from .simulated.journal import produce, write_files
    from .simulated.truth import FleetSettings

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
        state = take_in(job, settings.end_ms, Horizon(rewrite_days=configuration.rewrite_days))
        made = learn_and_tell(job)
        say(f"{state.rows(schemas.OUTAGES.name):,} outages, {made.counts.rebalances:,} rebalances")
    say(f"{time.monotonic() - began_s:.1f} s in all")
    return 0
