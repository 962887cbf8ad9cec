"""The stream comes to the same tables as the batch, also when a batch is delivered twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet_learner import gold, schemas
from fleet_learner.ingest import UNBOUNDED_MS, ingest
from fleet_learner.manifest import Warehouse
from fleet_learner.sources import stream
from fleet_learner.sources.journal_topic import JournalTopic
from pipeline.conftest import Topics
from pipeline.test_ingest import history, outages, rows


def test_the_stream_is_the_batch(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """Three micro-batches, the last delivered again because its commit was lost; then one run over the whole topic."""
    lines = history(groups=2, stops=3)
    topics.produce("both", [(n % 4, None, line.encode()) for n, line in enumerate([*lines, *lines[:7], "nonsense"])])
    options = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": "both"}
    pieces = Warehouse(tmp_path / "stream")
    third = str(len(lines) // 3 + 8)
    limited = {**options, "maxOffsetsPerTrigger": third}
    stream.start(spark, pieces, limited, checkpoint=tmp_path / "checkpoint").awaitTermination()
    streamed = pieces.latest()
    assert streamed is not None
    batches = streamed.number
    assert batches >= 2

    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    stream.start(spark, pieces, limited, checkpoint=tmp_path / "checkpoint").awaitTermination()
    assert pieces.latest() == streamed, "the last batch came twice and was taken in once"

    once = Warehouse(tmp_path / "batch")
    whole = ingest(spark, once, [JournalTopic(options)], as_of_ms=UNBOUNDED_MS)
    for table in (schemas.EVENTS, schemas.QUARANTINE, schemas.MEMBER_EVENTS, schemas.GROUP_EVENTS, schemas.BEATS):
        assert rows(streamed, table) == rows(whole, table), table.name
    assert outages(spark, pieces, streamed) == outages(spark, once, whole)
    assert gold.silver(spark, pieces, streamed, window_days=1).as_of_ms == streamed.counts["window_end_ms"] + 1
    pieces.verify(streamed)


def test_a_checkpoint_of_another_warehouse_is_refused(spark: Any) -> None:
    """Its batches do not begin where the warehouse ends."""
    batch = stream.MicroBatch("q", 4, spark.range(1), 1)
    assert batch.plan({"batch": 3}) == {"start": {"batch": 3}, "end": {"batch": 4}}
    with pytest.raises(ValueError, match="batch 4 follows 1"):
        batch.plan({"batch": 1})
    with pytest.raises(ValueError, match="batch 4 follows -1"):
        batch.plan({})
    with pytest.raises(ValueError, match="batch 3 is unfinished, and 4 came"):
        batch.frame(spark, {"end": {"batch": 3}})
