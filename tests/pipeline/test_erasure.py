"""An erased subject is gone to the last byte, stays gone, and other subjects keep their facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from fleet_learner import cli, gold, schemas
from fleet_learner.days.facts import DAY_MS
from fleet_learner.erasure import Subject
from fleet_learner.intake.ingest import TABLES, ingest
from fleet_learner.lake import Lake, local_path
from fleet_learner.sources.files import JournalFiles
from pipeline import timelines
from pipeline.test_ingest import content
from pipeline.timelines import T0_MS

SECRET: Final = "grp-to-be-forgotten"
OTHER: Final = "grp-that-stays"
SHOP: Final = "shop-to-be-forgotten"
AS_OF: Final = "2023-11-20"


def journal(group_id: str, namespace: str = "shop") -> list[str]:
    """Return the journal of a group for a day: stops, rebalances, an unreadable record."""
    lines = []
    for stop in range(6):
        at = T0_MS + stop * 3_600_000
        more = {"namespace": namespace}
        lines.append(timelines.change("down", group_id, 0, stop, at, **more))
        lines.append(timelines.change("up", group_id, 0, stop + 1, at + 5_000, **more))
        lines.append(timelines.back(group_id, 0, stop + 1, at + 8_000, **more))
        lines.append(timelines.rebalanced(group_id, stop, at + 9_000, **more))
    lines.append(
        json.dumps({"specversion": "1.0", "type": "x", "data": {"group_id": group_id, "namespace": namespace}})
    )
    return lines


def beats(unreachable: list[str]) -> list[str]:
    names = {"unreachable_groups": unreachable, "unreachable_total": len(unreachable)}
    return [timelines.beat(T0_MS + n * 600_000, interval_ms=600_000, seq=n, **names) for n in range(60)]


def holders(root: Path, text: str) -> list[str]:
    """Return the files that contain a text; Parquet files also in their decompressed pages."""
    import pyarrow.parquet as pq

    found = []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        held = text.encode() in path.read_bytes()
        if path.suffix == ".parquet" and not held:
            held = text in str(pq.ParquetFile(path).read().to_pylist())
        if held:
            found.append(path.relative_to(root).as_posix())
    return found


def run(root: Path, folder: Path, *more: str) -> int:
    return cli.main(["run", "--root", str(root), "--journal-files", str(folder), "--as-of", AS_OF, *more])


def kept(lake: Lake) -> dict[str, list[tuple[str, ...]]]:
    """Return the other group's rows in all tables of the journal."""
    state = lake.runs.latest()
    rows = {table.name: content(lake, state, table) for table in TABLES}
    return {name: [row for row in each if any(OTHER in value for value in row)] for name, each in rows.items()}


def test_a_digest_stands_for_one_subject() -> None:
    subjects = [Subject(group=("k", "g")), Subject(group=("k", "h")), Subject(namespace="k"), Subject(namespace="g")]
    assert len({each.digest for each in subjects}) == 4


def damaged(group_id: str, *, ensure_ascii: bool = True) -> list[str]:
    """Return invalid records of a group: of a later version, and cut at every place after its name."""
    key = f"kafka-1/{group_id}"
    data = {"kafka_cluster_id": "kafka-1", "group_id": group_id}

    def text(subject: str) -> str:
        envelope = {"type": "x.v2", "subject": subject, "partitionkey": key, "data": data}
        return json.dumps(envelope, separators=(",", ":"), ensure_ascii=ensure_ascii)

    whole, other = (
        text(f"{key}/web-0"),
        json.dumps({"subject": key, "data": {"group": [group_id]}}, ensure_ascii=ensure_ascii),
    )
    name = json.dumps(key, ensure_ascii=ensure_ascii)[1:-1]
    first = whole.index(name) + len(name)
    return [other, *(whole[:end] for end in range(first, len(whole) + 1))]


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_damaged_record_speaks_of_the_group_that_any_part_of_it_names(spark: Any, ensure_ascii: bool) -> None:
    """A torn line has its subject and no data; an id with a quote or an umlaut is written with escapes."""
    for group_id in ("orders", 'a"b', "größe", "a\\b", "team/orders"):
        mine = damaged(group_id, ensure_ascii=ensure_ascii)
        others = [
            *damaged("x-orders", ensure_ascii=ensure_ascii)[:1],
            *damaged("ordersx", ensure_ascii=ensure_ascii)[:1],
            "{}",
            "",
        ]
        rows = spark.createDataFrame([(each,) for each in [*mine, *others]], "raw string")
        found = rows.where(Subject(group=("kafka-1", group_id)).is_written_in(rows["raw"])).collect()
        assert [row["raw"] for row in found] == mine


def test_a_torn_record_speaks_of_the_namespace_that_it_ends_with(spark: Any) -> None:
    mine = [
        '{"source":"/ns/shop',
        '{"source":"/ns/shop/po',
        '{"data":{"namespace":"shop',
        '{"static_group":"shop/ord',
        '{"namespace":"shop"}',
    ]
    others = ['{"source":"/ns/shopping/', '{"namespace":"workshop', '{"source":"/ns/wor']
    rows = spark.createDataFrame([(each,) for each in [*mine, *others]], "raw string")
    found = rows.where(Subject(namespace="shop").is_written_in(rows["raw"])).collect()
    assert [row["raw"] for row in found] == mine


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "subject", "secret", "namespace"),
    [
        (["--group", f"kafka-1/{SECRET}"], Subject(group=("kafka-1", SECRET)), SECRET, "shop"),
        (["--namespace", SHOP], Subject(namespace=SHOP), SHOP, SHOP),
    ],
    ids=["group", "namespace"],
)
def test_nothing_is_left_of_what_is_erased(
    spark: Any, tmp_path: Path, capsys: Any, arguments: list[str], subject: Subject, secret: str, namespace: str
) -> None:
    root, folder = tmp_path / "lake", tmp_path / "journal"
    names = [f"{namespace}/{SECRET}"]
    lines = [*journal(SECRET, namespace), *journal(OTHER), *beats(names)]
    timelines.write_file(folder / "journal-a-00000000.jsonl", lines)
    assert run(root, folder) == 0
    lake = Lake(spark, root)
    before, learned = kept(lake), gold.learned_lake(lake)
    assert len(holders(root, secret)) > 5
    assert cli.main(["erase", "--root", str(root), *arguments]) == 0
    said = capsys.readouterr().out
    assert "erased: " in said
    assert holders(root, secret) == []
    assert kept(lake) == before
    state = lake.runs.latest()
    beat = lake.published(schemas.BEATS, state).select("unreachable_groups", "unreachable_total").distinct().collect()
    assert [tuple(row) for row in beat] == [([], 0)]
    assert state.plan.settings["erased"] == subject.digest
    facts = learned.runs.latest()
    groups = {row["group_id"] for row in gold.read_learned(learned, facts, schemas.GROUP_DAY).collect()}
    assert groups == {OTHER}
    if subject.namespace is not None:
        return  # the remaining steps are the same for both, and expensive

    assert cli.main(["erase", "--root", str(root), *arguments]) == 0, "a second erasure finds nothing and succeeds"
    assert "nothing was there" in capsys.readouterr().out
    timelines.write_file(folder / "journal-a-00000001.jsonl", journal("grp-new"))
    assert run(root, folder) == 0, "a run reads on from where it was"
    assert holders(root, secret) == []


def test_an_unfinished_run_comes_first(spark: Any, tmp_path: Path, capsys: Any) -> None:
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", journal(SECRET))
    lake = Lake(spark, tmp_path / "lake")

    def die(step: str) -> None:
        raise KeyboardInterrupt(step)

    with pytest.raises(KeyboardInterrupt):
        ingest(lake, [JournalFiles(tmp_path / "journal")], as_of_ms=T0_MS + DAY_MS, on_step=die)
    arguments = ["erase", "--root", str(local_path(lake.root)), "--namespace", "shop"]
    assert cli.main(arguments) == cli.EXIT_FINDING
    assert "a run is unfinished" in capsys.readouterr().err
