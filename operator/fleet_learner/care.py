"""The jobs that look after the tables: tidy them, and erase a group or a namespace."""

from __future__ import annotations

from .configuration import Configuration
from .erasure import Subject, erase_bill, erase_facts, groups_of
from .errors import JobError
from .intake.ingest import ingest
from .intake.planning import Horizon
from .job import Job, opened, say
from .lake.upkeep import present, vacuum
from .recommendations.snapshot import delete_old_snapshots
from .report.units import count
from .stages import SNAPSHOTS, learn_and_tell, tidy_up


def tidy(configuration: Configuration) -> int:
    """Compact all tables and delete what no kept run needs; returns the exit status."""
    with opened(configuration, "tidy", writes=True) as job:
        tidy_up(job, is_thorough=True)
    return 0


def erase(configuration: Configuration, *, group: tuple[str, str] | None, namespace: str | None) -> int:
    """Delete all that is known of a group or a namespace, learn again, and delete the files; returns the exit status.

    Raises
    ------
    JobError
        When a run is unfinished: it would continue with what is to be erased.
    """
    subject = Subject(group=group, namespace=namespace)
    with opened(configuration, "erase", writes=True) as job:
        _assert_finished(job, subject)
        before = job.journal.runs.latest()
        if before is None:
            raise JobError(f"nothing was ingested into {configuration.root} yet")
        job.progress.begin("erase")
        groups = groups_of(job.journal, subject)
        # Before the facts, which alone list a namespace's groups, so that a killed erasure can be repeated.
        gone = {
            f"{name} ({lake.root})": rows
            for lake in job.logs
            for name, rows in erase_bill(lake, groups, subject).items()
        }
        gone |= erase_facts(job.journal, job.learned, subject)
        horizon = Horizon(rewrite_days=configuration.rewrite_days)
        ingest(job.journal, [], as_of_ms=before.plan.as_of_ms, horizon=horizon, erased=subject.digest, on_step=job.step)
        learn_and_tell(job)
        _forget_all_but_the_last(job)
        erased = ", ".join(f"{rows:,} of {name}" for name, rows in gone.items() if rows)
        say(f"erased: {erased or 'nothing was there'}; the log of runs knows it as {subject.digest[:12]}")
    return 0


def _assert_finished(job: Job, subject: Subject) -> None:
    plan = job.journal.runs.unfinished()
    others = [job.learned, *job.logs]
    is_begun = plan is not None and plan.settings.get("erased") != subject.digest
    if is_begun or any(lake.runs.unfinished() is not None for lake in others):
        raise JobError("a run is unfinished: fleet-learner run finishes it, then erase again")


def _forget_all_but_the_last(job: Job) -> None:
    """Delete old runs, their snapshots and their files at once, whatever retention says."""
    for lake, tables in job.lakes:
        lake.runs.forget(1)
        state = lake.runs.latest()
        for table in present(lake, tables):
            # Files of the published run must stay; a table compacted since then had its rows erased before.
            if state is not None and lake.log(table).latest() == state.version(table.name):
                vacuum(lake, table, hours=0)
    snapshots = delete_old_snapshots(job.configuration.output_folder / SNAPSHOTS, keep=1)
    say(
        f"deleted: all runs but the last, with {count(len(snapshots), 'snapshot')}; earlier states cannot be read any "
        "more"
    )
