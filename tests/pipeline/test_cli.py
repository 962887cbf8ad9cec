"""Everything at once on a small simulated fleet: journal → tables → facts → recommendations → report, through the jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet_learner import cli
from fleet_learner.configuration import KafkaJournal
from fleet_learner.fleet_truth import FleetSettings, draw_groups, draw_stops
from fleet_learner.offsets_codec import GroupRecord, GroupType, RecordKind
from fleet_learner.progress import Progress
from fleet_learner.simulated_journal import produce
from fleet_learner.sources.topic import TopicReader
from staticgroup.api import recommendation as api
from unit.fleet_learner.offsets_encoder import key_of, value_of

pytest.importorskip("pyspark")

GROUPS, DAYS, SEED = 6, 4, 3
SETTINGS = FleetSettings(seed=SEED, groups=GROUPS, days=DAYS)
START_MS = SETTINGS.start_ms


@pytest.fixture(scope="module")
def root(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fleet on which everything ran once."""
    folder = tmp_path_factory.mktemp("fleet")
    demo = ["demo", "--root", str(folder), "--groups", str(GROUPS), "--days", str(DAYS), "--seed", str(SEED)]
    assert cli.main([*demo, "--window-days", str(DAYS)]) == 0
    return folder


def digests(root: Path) -> dict[str, str]:
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the facts, by plain Arrow."""
    import pyarrow.parquet as pq

    files = sorted((root / "learned" / table).glob("run=*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def test_every_stop_of_the_simulated_fleet_that_somebody_saw_is_counted(root: Path) -> None:
    """The journal tells no more stops than there were, and misses only those in times without an operator."""
    true = {g.group_id: draw_stops(SETTINGS, g)[0].down_ms.size for g in draw_groups(SETTINGS)}
    seen: dict[str, int] = {}
    for day in rows(root, "gold/group_day"):
        seen[day["group_id"]] = seen.get(day["group_id"], 0) + day["downs"]
    assert all(seen.get(group, 0) <= number for group, number in true.items())
    assert sum(seen.values()) >= 0.9 * sum(true.values())


def test_days_and_recommendations_cover_every_group(root: Path) -> None:
    days = rows(root, "gold/group_day")
    named = {g.group_id for g in draw_groups(SETTINGS)}
    assert {day["group_id"] for day in days} == named
    assert {row["group_id"] for row in rows(root, "gold/recommendation")} == named
    assert all(0.8 * 86_400_000 <= day["covered_ms"] <= 86_400_000 for day in days)
    assert any(day["rebalances_dynamic"] for day in days)


def test_static_members_had_fewer_rebalances_than_dynamic_ones_would_have(root: Path) -> None:
    days = rows(root, "gold/group_day")
    assert 0 < sum(d["rebalances"] for d in days) < sum(d["rebalances_dynamic"] for d in days)


def test_an_operator_can_read_what_is_recommended(root: Path) -> None:
    folder = root / "output" / "recommendations"
    manifest = api.read_manifest((folder / "manifest.json").read_bytes(), now_ms=SETTINGS.end_ms)
    found = {}
    for shard in manifest.shards:
        found |= api.read_shard(manifest, shard, (folder / shard.path).read_bytes())
    assert {group for _, group in found} == {g.group_id for g in draw_groups(SETTINGS)}


def test_the_page_and_its_json_speak_of_the_same_groups(root: Path) -> None:
    folder = root / "output" / "report"
    document = json.loads((folder / "report.json").read_text())
    page = (folder / "report.html").read_text()
    assert len(document["rows"]) == GROUPS
    assert all(row["key"]["group_id"] in page for row in document["rows"])
    assert document["coverage"] > 0.8
    assert all(each["verdict"] in {"good", "warning", "bad"} for each in document["quality"])


def test_running_again_with_nothing_new_changes_nothing(root: Path) -> None:
    before = digests(root)
    again = ["run", "--root", str(root), "--journal-files", str(root / "simulated"), "--window-days", str(DAYS)]
    assert cli.main([*again, "--as-of", "2026-10-07"]) == 0
    assert digests(root) == before


def test_a_run_that_died_before_it_was_published_is_done_again_with_the_same_bytes(root: Path) -> None:
    before = digests(root)
    (root / "learned" / "_manifest" / "000000000000.json").unlink()
    for file in (root / "learned").glob("gold/*/run=*/*.parquet"):
        file.unlink()
    again = ["run", "--root", str(root), "--journal-files", str(root / "simulated"), "--window-days", str(DAYS)]
    assert cli.main([*again, "--as-of", "2026-10-07"]) == 0
    assert digests(root) == before


def test_what_if_prints_a_line_per_timeout_and_dynamic_members(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = rows(root, "gold/recommendation")[0]
    name = f"{row['kafka_cluster_id']}/{row['group_id']}"
    assert cli.main(["what-if", "--root", str(root), "--group", name]) == 0
    text = capsys.readouterr().out
    assert "dynamic members that leave when they stop" in text
    assert ", now" in text


def log_of(group_id: str, times: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
    """Write a classic group's log: one record before, and one with the next generation for each rebalance."""
    made = []
    for generation, at_ms in enumerate([START_MS - 1, *times], start=1):
        record = GroupRecord(
            kind=RecordKind.GROUP_METADATA, key_type=2, group_id=group_id, group_type=GroupType.CLASSIC,
            value_version=3, epoch=generation, protocol_type="consumer", protocol_name="range", leader_id="m",
        )  # fmt: skip
        value = value_of(record, {})
        assert value is not None
        made.append((at_ms, key_of(record), value))
    return made


def test_an_audit_agrees_with_a_log_that_says_the_same_and_finds_one_rebalance_that_the_journal_lacks(
    root: Path, spark: Any, topics: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka import Producer

    seen: dict[tuple[str, str], list[int]] = {}
    for row in rows(root, "silver/rebalances"):
        seen.setdefault((row["kafka_cluster_id"], row["group_id"]), []).append(row["start_hi_ms"])
    (cluster, group), times = max(seen.items(), key=lambda item: len(item[1]))
    for topic, extra in (("same-log", 0), ("other-log", 1)):
        producer = Producer({"bootstrap.servers": topics.bootstrap})
        for (other_cluster, other), own in seen.items():
            if other_cluster == cluster:
                more = [SETTINGS.end_ms] * (extra if other == group else 0)
                for at_ms, key, value in log_of(other, sorted(own) + more):
                    producer.produce(topic, key=key, value=value, partition=0, timestamp=at_ms)
        assert producer.flush(30) == 0
    audit = ["audit", "--root", str(root), "--bootstrap", topics.bootstrap, "--cluster", cluster]
    assert cli.main([*audit, "--offsets-topic", "same-log"]) == 0
    assert "0 differ" in capsys.readouterr().out
    assert cli.main([*audit, "--offsets-topic", "other-log"]) == cli.EXIT_FINDING
    differing = [line for line in capsys.readouterr().out.splitlines() if line.endswith("differs")]
    assert [line.split()[:3] for line in differing] == [[group, str(len(times)), str(len(times) + 1)]]


def test_a_simulated_journal_reaches_its_topic_whole(topics: Any) -> None:
    settings = FleetSettings(seed=5, groups=1, days=1, k8s_clusters=1)
    kafka = KafkaJournal(bootstrap_servers=topics.bootstrap, topic="simulated-journal")
    records = produce(kafka, settings, Progress())
    reader = TopicReader({"bootstrap.servers": topics.bootstrap})
    logs = reader.watermarks(("simulated-journal",))["simulated-journal"]
    reader.close()
    assert sum(log.high for log in logs.values()) == records > 2_000


def test_an_unknown_group_and_an_empty_folder_are_findings(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["what-if", "--root", str(root), "--group", "nowhere/nothing"]) == cli.EXIT_FINDING
    assert cli.main(["report", "--root", str(tmp_path)]) == cli.EXIT_FINDING
    assert cli.main(["run", "--root", str(tmp_path)]) == cli.EXIT_FINDING
    assert "name a source" in capsys.readouterr().err
