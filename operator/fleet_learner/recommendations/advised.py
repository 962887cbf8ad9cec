"""From tables to recommendations, in two steps, each over all groups at once.

The one idea: similar workloads learn from each other without being in one task. First every group is summed up where
its stops are, and a class is computed from the sums (`estimates.class_sums`); then the few classes go to all tasks, and
each group is evaluated on its own. A class is a protocol: the journal has neither the node pool nor the image's size.
Nothing depends on a partition's number or a clock, so the records are the same with any number of cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from journal.recommendations import Recommendation

from ..estimates.class_sums import GapCounts, class_model, class_of_sums
from ..estimates.dependence import Spread
from ..estimates.gap_law import ClassModel, SampleMoments, moments
from ..estimates.pooling import ClassPrior
from ..estimates.tail import ParetoTail
from ..schemas import RECOMMENDATION, Column, Table
from . import policy
from .canary import CanaryState
from .features import group_features, known_protocols, names_of, stops_of
from .histories import Advised, SlowerRestarts, Standing, Terms, history, sample_of, usable
from .recommend import recommend
from .rows import gold_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from ..days.silver import Silver

_SPREAD: Final = tuple(each.name for each in fields(Spread))
_SUMS: Final = Table(
    "step/class_sums",
    1,
    (
        *(Column(name, "string", nullable=True) for name in ("workload_class", "kafka_cluster_id", "group_id")),
        *(Column(name, "double", nullable=True) for name in ("moment_number", "mean", "variance")),
        *(Column(name, "bigint" if name in {"number", "clusters"} else "double", nullable=True) for name in _SPREAD),
        *(Column(name, "array<bigint>", nullable=True) for name in ("step", "returned", "censored")),
    ),
    ("workload_class",),
)
"""Two kinds of rows: of one workload with its moments, and of one task's gaps by length, which names no group."""
_GAPS: Final = ("step", "returned", "censored")
_UNTAUGHT: Final = ClassModel(prior=None, correlation=0.0, tail=None)
TEXT: Final = "advised"
"""The column with the fields that a row of gold/recommendation lacks."""


# classes ---------------------------------------------------------------------------------------------------------


def class_models(stops: DataFrame, group_day: DataFrame, *, as_of_ms: int) -> dict[str, ClassModel]:
    """Learn from every class of workloads.

    Parameters
    ----------
    stops: of the window, from `features.stops_of`.
    group_day: gold/group_day of the same window.

    Returns
    -------
    dict[str, ClassModel]
        By the name of the class. One row per class reaches the driver; one task of each class gets a row of eight
        numbers per group, and the counts of gaps by length from each task of the previous step.
    """
    names = known_protocols(names_of(group_day)).select("group_key", "kafka_cluster_id", "group_id", "workload_class")

    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _summed(batches, as_of_ms)

    rows = (
        stops.join(names, on="group_key", how="inner")
        .mapInArrow(sums, _SUMS.spark_nullable)
        .groupBy("workload_class")
        .applyInArrow(_class_of_rows, "workload_class string, model string")
        .collect()
    )
    return {row["workload_class"]: _model_of(row["model"]) for row in rows}


def _summed(batches: Iterator[pa.RecordBatch], as_of_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield a row for every group, and finally one for every class with the gaps of this task's groups."""
    import pyarrow as pa

    counted: dict[str, list[GapCounts]] = {}
    for batch in batches:
        made = []
        for row in batch.to_pylist():
            sample = sample_of(usable(row["stops"]), as_of_ms)
            found = moments(sample)
            if found.spread is not None:
                counted.setdefault(row["workload_class"], []).append(GapCounts.of(sample, found.mean))
                names = {name: row[name] for name in ("workload_class", "kafka_cluster_id", "group_id")}
                own = {"moment_number": found.number, "mean": found.mean, "variance": found.variance}
                made.append(names | own | asdict(found.spread))
        counted = {name: [GapCounts.union(parts)] for name, parts in counted.items()}
        yield pa.RecordBatch.from_pylist(made, _SUMS.arrow)
    gaps = [{"workload_class": name, **asdict(parts[0])} for name, parts in sorted(counted.items())]
    yield pa.RecordBatch.from_pylist(gaps, _SUMS.arrow)


def _class_of_rows(rows: pa.Table) -> pa.Table:
    """Compute one class from its rows, in any order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_group = pc.is_valid(rows["group_id"])
    groups = rows.filter(is_group).sort_by([("kafka_cluster_id", "ascending"), ("group_id", "ascending")])
    found = [
        SampleMoments(
            number=row["moment_number"], mean=row["mean"], variance=row["variance"],
            spread=Spread(**{name: row[name] for name in _SPREAD}),
        )
        for row in groups.select(["moment_number", "mean", "variance", *_SPREAD]).to_pylist()
    ]  # fmt: skip
    counts = rows.filter(pc.invert(is_group)).select(list(_GAPS)).to_pylist()
    gaps = GapCounts.union(GapCounts(**{name: np.array(row[name], np.int64) for name in _GAPS}) for row in counts)
    model = json.dumps(asdict(class_of_sums(found, gaps)))
    return pa.table({"workload_class": [rows["workload_class"][0].as_py()], "model": [model]})


def _model_of(text: str) -> ClassModel:
    document = json.loads(text)
    prior, tail = document["prior"], document["tail"]
    return ClassModel(
        prior=None if prior is None else ClassPrior(**prior),
        correlation=document["correlation"],
        tail=None if tail is None else ParetoTail(**tail),
    )


# recommendations --------------------------------------------------------------------------------------------------


def advice(
    tables: Silver,
    group_day: DataFrame,
    terms: Terms,
    standing: Standing,
    states: DataFrame | None = None,
    stops: DataFrame | None = None,
    fleet: DataFrame | None = None,
) -> DataFrame:
    """Recommend for every group of the window.

    Parameters
    ----------
    group_day: gold/group_day of the same window.
    states: gold/group_state of the same window; None computes it from the facts.
    stops: of the window, from `features.stops_of`, used twice; None computes them from the facts each time.
    fleet: gold/group_day of all groups, for the waves, if `group_day` has only some; those must be whole classes, which
        learn together.

    Returns
    -------
    gold/recommendation and `TEXT`, one row per group; without those that are `set_aside`. Each use computes it again:
    persist it before writing and collecting it.
    """
    from pyspark.sql import types as T

    stops = stops_of(tables.outages) if stops is None else stops
    models = class_models(stops, group_day, as_of_ms=tables.as_of_ms)
    start_ms, as_of_ms, canary = tables.start_ms, tables.as_of_ms, standing.canary
    arrow = RECOMMENDATION.arrow

    def of_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = arrow.append(pa.field(TEXT, pa.string()))
        for batch in batches:
            made = []
            for row in batch.to_pylist():
                model = models.get(row["workload_class"], _UNTAUGHT)
                found = advise(row, model, terms, canary, start_ms=start_ms, as_of_ms=as_of_ms)
                names = {name: row[name] for name in ("group_key", "namespace", "static_group", "workload")}
                record = found.record
                of_record = {name: getattr(record, name) for name in ("kafka_cluster_id", "group_id", "protocol")}
                made.append(names | of_record | gold_row(record, found.state) | {TEXT: _text(found)})
            yield pa.RecordBatch.from_pylist(made, schema)

    features = known_protocols(group_features(tables, group_day, standing.earlier, states, stops, fleet))
    return features.mapInArrow(
        of_groups, T.StructType([*RECOMMENDATION.spark_nullable, T.StructField(TEXT, T.StringType())])
    )


def collected(advice: DataFrame) -> list[Advised]:
    """Collect recommendations on the driver, in the order of (Kafka cluster, group)."""
    # Sort on the driver: Spark's sort would compute everything twice to sample its ranges.
    rows = advice.select("kafka_cluster_id", "group_id", TEXT).collect()
    ordered = sorted(rows, key=lambda row: (row["kafka_cluster_id"], row["group_id"]))
    return [_advised(row[TEXT]) for row in ordered]


def recommendations(
    tables: Silver, group_day: DataFrame, terms: Terms, standing: Standing, fleet: DataFrame | None = None
) -> list[Advised]:
    """Recommend for every group of the window, as `advice` does, in the order of (Kafka cluster, group)."""
    return collected(advice(tables, group_day, terms, standing, fleet=fleet))


def advise(
    row: Mapping[str, Any], model: ClassModel, terms: Terms, canary: CanaryState, *, start_ms: int, as_of_ms: int
) -> Advised:
    """Recommend for one group.

    Parameters
    ----------
    row: of `group_features`.
    model: of its class.
    start_ms, as_of_ms: the window, Unix milliseconds.
    """
    known, slower = history(row, terms, start_ms=start_ms, as_of_ms=as_of_ms)
    record = recommend(known, model, now_ms=as_of_ms, valid_ms=terms.valid_ms, canary=canary)
    return Advised(record=record, state=known.state, slower=slower)


def advise_class(
    rows: Sequence[Mapping[str, Any]], terms: Terms, canary: CanaryState, *, start_ms: int, as_of_ms: int
) -> list[Advised]:
    """Recommend for all groups of one class without Spark, with the same records and order."""
    ordered = sorted(rows, key=lambda row: (row["kafka_cluster_id"], row["group_id"]))
    model = class_model([sample_of(usable(row["stops"]), as_of_ms) for row in ordered])
    return [advise(row, model, terms, canary, start_ms=start_ms, as_of_ms=as_of_ms) for row in ordered]


def _text(advised: Advised) -> str:
    slower = None if advised.slower is None else asdict(advised.slower)
    return json.dumps(
        {"record": advised.record.model_dump(mode="json"), "state": asdict(advised.state), "slower": slower}
    )


def _advised(text: str) -> Advised:
    document = json.loads(text)
    slower = document["slower"]
    return Advised(
        record=Recommendation.model_validate(document["record"]),
        state=policy.GroupState(**{**document["state"], "advised_ms": tuple(document["state"]["advised_ms"])}),
        slower=None if slower is None else SlowerRestarts(**slower),
    )
