"""What a job does without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from fleet_learner import jobs
from fleet_learner.configuration import Configuration
from fleet_learner.manifest import DataFile, Manifest, Plan, TableFiles
from fleet_learner.snapshot import write_snapshot


def test_a_run_leaves_the_last_states_and_snapshots_and_no_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table whose file every state lists keeps it; one that is made again by each run keeps the last ones."""
    job = jobs.Job(configuration=Configuration(root=tmp_path, keep_manifests=2), spark=cast("Any", None), progress=cast("Any", None))  # fmt: skip
    grown: list[DataFile] = []
    for number in range(4):
        run = f"run={number:012d}"
        made = []
        for table in ("silver/beats", "gold/group_day"):
            path = tmp_path / table / run / "part-00000.parquet"
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
            made.append(DataFile(f"{table}/{run}/part-00000.parquet", 1, 1, "0"))
        grown.append(made[0])
        tables = {"silver/beats": TableFiles("s", tuple(grown)), "gold/group_day": TableFiles("g", (made[1],))}
        job.journal.publish(Manifest(plan=Plan(number=number, as_of_ms=number), tables=tables))
        write_snapshot([], job.configuration.output_folder / jobs.SNAPSHOTS, run_id=f"{number:012d}", model_version="1",
                       created_ms=number, expires_ms=number + 1)  # fmt: skip
    jobs._tidy(job)
    assert capsys.readouterr().out == "deleted: 2 files and 2 snapshots older than the last 2\n"
    assert len(list(tmp_path.glob("silver/beats/run=*/*"))) == 4
    assert sorted(p.parent.name for p in tmp_path.glob("gold/group_day/run=*/*")) == [
        "run=000000000002",
        "run=000000000003",
    ]
    snapshots = job.configuration.output_folder / jobs.SNAPSHOTS
    assert sorted(p.name for p in snapshots.glob("run=*")) == ["run=000000000002", "run=000000000003"]
    jobs._tidy(job)
    assert capsys.readouterr().out == ""
