"""Erase a consumer group, or all of a namespace: its rows in every table, then the bytes.

The one idea: facts and raw records are deleted by key, with only column names in the tables' logs, and a run without
sources publishes what is left; learning runs again without them; old runs are dropped together with the files that only
they need. Records that were read once are not read again, so nothing comes back; the owner of the journal clears the
journal itself. Every step may be repeated, so a killed erasure is simply started again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from . import schemas
from .bill.schemas import BILL_SLICES, GROUP_RECORDS, STANDSTILLS
from .intake import silver
from .lake import Lake, Published

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FACTS = (schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.OUTAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is to be erased: a group of a Kafka cluster, or a namespace.

    Parameters
    ----------
    group: Kafka cluster id and group id.
    """

    group: tuple[str, str] | None = None
    namespace: str | None = None

    @property
    def digest(self) -> str:
        """Return its digest for the log of runs, which proves the erasure without revealing the name."""
        text = self.namespace if self.group is None else "/".join(self.group)
        return hashlib.sha256(str(text).encode()).hexdigest()

    def is_it(self, data: str = "") -> Column:
        """Return whether a row is the subject's; `data` is the prefix of the columns."""
        from pyspark.sql import functions as F

        if self.group is None:
            return F.col(f"{data}namespace").eqNullSafe(F.lit(self.namespace))
        cluster, group = self.group
        return F.col(f"{data}kafka_cluster_id").eqNullSafe(F.lit(cluster)) & F.col(f"{data}group_id").eqNullSafe(
            F.lit(group)
        )

    def is_written_in(self, text: Column) -> Column:
        """Return whether a text that is not a valid record names the subject in any field, complete or cut off."""
        from pyspark.sql import functions as F

        within = [F.contains(text, F.lit(name + end)) for name, ends in self._beginnings() for end in ends]
        torn = [F.endswith(text, F.lit(name)) for name, _ in self._beginnings()]
        return reduce(lambda one, other: one | other, [*within, *torn])

    def _beginnings(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the forms of the subject's name in JSON, each with the characters that may follow it."""
        if self.group is None:
            return [(f'"{self.namespace}', ('"', "/")), (f"/ns/{self.namespace}", ('"', "/"))]
        found = []
        for is_ascii in (True, False):  # the writer of the record may have escaped either way
            group, key = (
                json.dumps(each, ensure_ascii=is_ascii)[1:-1] for each in (self.group[1], "/".join(self.group))
            )
            # `subject` and `partitionkey` begin with the cluster: <cluster>/<group>[/<instance id>].
            found += [(f'"{group}', ('"',)), (key, ('"', "/"))]
        return list(dict.fromkeys(found))


def erase_facts(journal: Lake, learned: Lake, subject: Subject) -> dict[str, int]:
    """Delete a subject's rows from all tables that no run rebuilds; returns how many, by table."""
    is_named = _named_by(subject, _static_groups(journal, subject) if subject.group is not None else [])
    gone = {}
    for table in (schemas.EVENTS, schemas.QUARANTINE):
        # A position does not identify a source: topics of one name in several Kafka clusters share positions.
        gone[table.name] = _remove(journal, table, lambda rows: _raw(rows, subject, is_named), by=(*table.key, "raw"))
    gone[schemas.BEATS.name] = _mend_beats(journal, is_named)
    for table in _FACTS:
        gone[table.name] = _remove(journal, table, lambda rows: rows.where(subject.is_it()))
    # Delete the rows by which nameless rows are found last, so that a repeated erasure finds them again.
    for table in (schemas.GROUP_STATE, schemas.REPLAYED_DAY):
        gone[table.name] = _remove(learned, table, lambda rows: _of_groups(rows, learned, subject))
    for table in (schemas.REBALANCES, schemas.BUSY_DAY, schemas.RECOMMENDATION):
        gone[table.name] = _remove(learned, table, lambda rows: rows.where(subject.is_it()))
    return gone


def groups_of(journal: Lake, subject: Subject) -> list[tuple[str, str]]:
    """Return (Kafka cluster id, group id) of the subject's groups, as the journal knows them, in order."""
    if subject.group is not None:
        return [subject.group]
    found: set[tuple[str, str]] = set()
    for table in _FACTS:
        version = journal.log(table).latest()
        if version is not None:
            rows = journal.read(table, version).where(subject.is_it())
            found |= {(r[0], r[1]) for r in rows.select("kafka_cluster_id", "group_id").distinct().collect()}
    return sorted(found)


def erase_bill(lake: Lake, groups: Sequence[tuple[str, str]], subject: Subject) -> dict[str, int]:
    """Delete groups from the tables of a Kafka cluster's log and publish; returns the row counts by table."""
    from pyspark.sql import functions as F

    before = lake.runs.latest()
    if before is None:
        return {}
    ids = [group for cluster, group in groups if cluster == before.plan.settings["kafka_cluster_id"]]
    tables = (GROUP_RECORDS, STANDSTILLS, BILL_SLICES)
    gone = {table.name: _remove(lake, table, lambda rows: rows.where(F.col("group_id").isin(ids))) for table in tables}
    versions = {table: lake.log(table).latest() for table in tables}
    if any(version != before.version(table.name) for table, version in versions.items()):
        sources = {name: {"start": each["end"], "end": each["end"]} for name, each in before.plan.sources.items()}
        settings = {**before.plan.settings, "erased": subject.digest}
        plan = replace(before.plan, number=before.number + 1, sources=sources, settings=settings)
        left = {table.name: lake.state(table, version) for table, version in versions.items() if version is not None}
        lake.runs.publish(Published(plan=plan, tables=left, counts=before.counts))
    return gone


def _of_groups(rows: DataFrame, learned: Lake, subject: Subject) -> DataFrame:
    """Return the rows of a subject in a table that names groups by number only."""
    table = schemas.BUSY_DAY
    named = learned.read(table, learned.log(table).latest()).where(subject.is_it())
    return rows.join(named.select("group_key").distinct(), on="group_key", how="left_semi")


def _static_groups(journal: Lake, subject: Subject) -> list[str]:
    """Return the StaticGroups (`<namespace>/<name>`) of the subject, as beats name them."""
    from pyspark.sql import functions as F

    found: set[str] = set()
    for table in _FACTS:
        version = journal.log(table).latest()
        if version is not None:
            rows = journal.read(table, version).where(subject.is_it())
            names = rows.select(F.concat_ws("/", "namespace", "static_group").alias("name")).distinct()
            found |= {row["name"] for row in names.collect()}
    return sorted(found)


def _named_by(subject: Subject, static_groups: list[str]) -> Callable[[Column], Column]:
    """Return a predicate on the name of a StaticGroup in a beat: whether it is the subject's."""
    if subject.namespace is not None:
        return lambda name: name.startswith(f"{subject.namespace}/")
    return lambda name: name.isin(static_groups)


def _raw(rows: DataFrame, subject: Subject, is_named: Callable[[Column], Column]) -> DataFrame:
    """Return the raw records that name the subject."""
    from pyspark.sql import functions as F

    in_beat = F.exists("event.data.unreachable_groups", is_named)
    in_text = F.col("reason").isNotNull() & subject.is_written_in(F.col("raw").cast("string"))
    is_subject = subject.is_it("event.data.") | in_beat | in_text
    plain = rows.drop("reason", "detail")
    return silver.parsed(plain).where(F.coalesce(is_subject, F.lit(False)))


def _remove(
    lake: Lake, table: schemas.Table, chosen: Callable[[DataFrame], DataFrame], by: tuple[str, ...] = ()
) -> int:
    version = lake.log(table).latest()
    if version is None:
        return 0
    names = by or table.key
    keys = chosen(lake.read(table, version)).select(*names).distinct().persist()
    try:
        return lake.remove(table, keys, by=names) if keys.count() else 0
    finally:
        keys.unpersist()


def _mend_beats(journal: Lake, is_named: Callable[[Column], Column]) -> int:
    """Remove StaticGroups from beats that list them as unreadable; deleting the beat would blind all groups."""
    from pyspark.sql import functions as F

    table = schemas.BEATS
    version = journal.log(table).latest()
    if version is None:
        return 0
    rows = journal.read(table, version).where(F.exists("unreachable_groups", is_named))
    kept = F.filter("unreachable_groups", lambda name: ~is_named(name))
    fewer = F.col("unreachable_total") - (F.size("unreachable_groups") - F.size(kept))
    mended = rows.select(*table.key, kept.alias("unreachable_groups"), fewer.alias("unreachable_total")).persist()
    try:
        count = mended.count()
        if count:
            journal.mend(table, mended, by=table.key)
        return count
    finally:
        mended.unpersist()
