"""All jobs on a small simulated fleet: journal → tables → facts → recommendations → report."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from fleet_learner import cli, gold, schemas
from fleet_learner.configuration import KafkaJournal
from fleet_learner.lake import RunLog
from fleet_learner.lake.objects import LocalObjects
from fleet_learner.lake.runs import FOLDER
from fleet_learner.offsets.codec import GroupRecord, GroupType, Member, RecordKind
from fleet_learner.progress import Progress
from fleet_learner.simulated.journal import produce
from fleet_learner.simulated.truth import FleetSettings, draw_groups, draw_stops
from fleet_learner.sources.topic import TopicReader
from journal import recommendations as api
from unit.fleet_learner.offsets_encoder import classic_group, key_of, value_of

pytest.importorskip("pyspark")

GROUPS, DAYS, SEED = 6, 4, 3
SETTINGS = FleetSettings(seed=SEED, groups=GROUPS, days=DAYS)
START_MS = SETTINGS.start_ms


@pytest.fixture(scope="module")
def root(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a fleet after one run."""
    folder = tmp_path_factory.mktemp("fleet")
    demo = ["demo", "--root", str(folder), "--groups", str(GROUPS), "--days", str(DAYS), "--seed", str(SEED)]
    assert cli.main([*demo, "--window-days", str(DAYS)]) == 0
    return folder


def rows(root: Path, table: schemas.Table) -> list[dict[str, Any]]:
    """Return the published rows of a table of facts, read by another implementation of Delta's protocol."""
    state = RunLog(LocalObjects(root / "learned" / FOLDER)).latest()
    found = DeltaTable(root / "learned" / table.name, version=state.version(table.name)).to_pyarrow_table()
    return [row for row in found.to_pylist() if not table.is_kept_by_run or row["run"] == state.number]


def content(root: Path) -> dict[str, Any]:
    """Return the published states, all rows of the facts, and the bytes of the published files."""
    outputs = {str(p.relative_to(root)): p.read_bytes() for p in sorted((root / "output").rglob("*")) if p.is_file()}
    logs = {str(p.relative_to(root)): p.read_text() for p in root.rglob(f"{FOLDER}/*")}
    facts = {table.name: sorted(str(row) for row in rows(root, table)) for table in gold.TABLES}
    return {**outputs, **logs, **facts}


def test_every_stop_of_the_simulated_fleet_that_somebody_saw_is_counted(root: Path) -> None:
    """The journal has no invented stops, and misses only those in unwatched times."""
    true = {g.group_id: draw_stops(SETTINGS, g)[0].down_ms.size for g in draw_groups(SETTINGS)}
    seen: dict[str, int] = {}
    for day in rows(root, schemas.GROUP_DAY):
        seen[day["group_id"]] = seen.get(day["group_id"], 0) + day["downs"]
    assert all(seen.get(group, 0) <= number for group, number in true.items())
    assert sum(seen.values()) >= 0.9 * sum(true.values())


def test_days_and_recommendations_cover_every_group(root: Path) -> None:
    days = rows(root, schemas.GROUP_DAY)
    named = {g.group_id for g in draw_groups(SETTINGS)}
    assert {day["group_id"] for day in days} == named
    assert {row["group_id"] for row in rows(root, schemas.RECOMMENDATION)} == named
    assert all(0.8 * 86_400_000 <= day["covered_ms"] <= 86_400_000 for day in days)
    assert any(day["rebalances_dynamic"] for day in days)


def test_static_members_had_fewer_rebalances_than_dynamic_ones_would_have(root: Path) -> None:
    days = rows(root, schemas.GROUP_DAY)
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
    page = (folder / "report.html").read_text().replace("<wbr>", "")  # long names may be broken there
    assert len(document["rows"]) == GROUPS
    assert all(row["key"]["group_id"] in page for row in document["rows"])
    assert document["coverage"] > 0.8
    assert all(each["verdict"] in {"good", "warning", "bad"} for each in document["quality"])


@pytest.mark.parametrize("is_published", [True, False])
def test_a_run_with_nothing_new_changes_nothing_even_if_the_last_died_before_it_was_published(
    root: Path, is_published: bool
) -> None:
    before = content(root)
    if not is_published:
        (root / "learned" / FOLDER / "000000000000.json").unlink()
    again = ["run", "--root", str(root), "--journal-files", str(root / "simulated"), "--window-days", str(DAYS)]
    assert cli.main([*again, "--as-of", "2026-10-07"]) == 0
    assert content(root) == before


def test_what_if_prints_a_line_per_timeout_and_dynamic_members(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = rows(root, schemas.RECOMMENDATION)[0]
    name = f"{row['kafka_cluster_id']}/{row['group_id']}"
    assert cli.main(["what-if", "--root", str(root), "--group", name]) == 0
    text = capsys.readouterr().out
    dearer = tmp_path / "fleet.yaml"
    dearer.write_text("stops: {eager_ms: 60000, cooperative_ms: 60000}\n")
    assert cli.main(["what-if", "--root", str(root), "--group", name, "--config", str(dearer)]) == 0
    assert capsys.readouterr().out == text, "it uses the published prices, not those of another run"
    assert "dynamic members that leave when they stop" in text
    assert re.search(r", now .* \d+ to \d+ ", text), "how many evictions nine weeks of ten have"


def log_of(group_id: str, facts: Sequence[dict[str, Any]]) -> list[tuple[int, GroupRecord]]:
    """Write the log of a group like its coordinator, from the journal's facts.

    Each member of a fact gets a record just before it is replaced or gone.
    """
    numbers = [row["group_epoch"] for row in facts if row.get("group_epoch") is not None]
    coordinator = Kip848Coordinator(group_id, min(numbers) - 1) if numbers else ClassicCoordinator(group_id)
    made = [(START_MS - 1, record) for record in coordinator.epoch()]
    for row in sorted(facts, key=lambda row: row["event_ms"]):
        if row["kind"] == "group.rebalanced":
            made += [(row["event_ms"], record) for record in coordinator.rebalance(row["group_epoch"])]
        elif row["kind"] == "member.removed":
            written = coordinator.member(row["instance_id"], row["member_id"], None)
            made += [(row["event_ms"], record) for record in written]
        elif row["absorbed"]:
            ids = (row["instance_id"], row["previous_member_id"], row["member_id"])
            made += [(row["event_ms"], record) for record in coordinator.member(*ids)]
    return made


def _member(member_id: str, instance_id: str | None = None) -> Member:
    return Member(member_id=member_id, instance_id=instance_id, client_id="app", client_host="/10.0.0.1")


class ClassicCoordinator:
    """Writes one record with all members."""

    def __init__(self, group_id: str) -> None:
        self.group_id, self.generation, self.members = group_id, 0, dict[str, str]()

    def epoch(self) -> list[GroupRecord]:
        members = tuple(_member(m, i) for i, m in self.members.items())
        return [classic_group(self.generation, *members, group_id=self.group_id, value_version=3, leader_id="m")]

    def rebalance(self, number: int | None) -> list[GroupRecord]:
        self.generation += 1
        return self.epoch()

    def member(self, instance_id: str, before: str, now: str | None) -> list[GroupRecord]:
        self.members[instance_id] = before
        known = self.epoch()
        del self.members[instance_id]
        if now is not None:
            self.members[instance_id] = now
        return known + self.epoch()


class Kip848Coordinator:
    """Writes a record for each change."""

    def __init__(self, group_id: str, number: int) -> None:
        self.group_id, self.number = group_id, number

    def _record(self, kind: RecordKind, key_type: int, **more: Any) -> GroupRecord:
        return GroupRecord(
            kind=kind, key_type=key_type, group_id=self.group_id, group_type=GroupType.CONSUMER, value_version=0, **more
        )

    def epoch(self) -> list[GroupRecord]:
        return [self._record(RecordKind.EPOCH, 3, epoch=self.number)]

    def rebalance(self, number: int | None) -> list[GroupRecord]:
        self.number = number
        return self.epoch()

    def member(self, instance_id: str, before: str, now: str | None) -> list[GroupRecord]:
        made = [
            self._record(RecordKind.MEMBER, 5, members=(_member(before, instance_id),)),
            self._record(RecordKind.MEMBER, 5, members=(_member(before),), tombstone=True),
        ]
        if now is None:
            return made + self.epoch()
        return [*made, self._record(RecordKind.MEMBER, 5, members=(_member(now, instance_id),))]


@pytest.fixture(scope="module")
def audited(root: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the Kafka cluster and the group with the most absorbed restarts, and its auditable facts."""
    facts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for table in (schemas.GROUP_EVENTS, schemas.MEMBER_EVENTS):
        for row in DeltaTable(root / table.name).to_pyarrow_table().to_pylist():
            if row["kind"] in {"group.rebalanced", "member.removed"} or row.get("absorbed"):
                facts.setdefault((row["kafka_cluster_id"], row["group_id"]), []).append(row)
    (cluster, group), found = max(facts.items(), key=lambda item: sum(bool(row.get("absorbed")) for row in item[1]))
    return cluster, group, found


def audit(
    root: Path, topics: Any, cluster: str, group: str, log: list[tuple[int, GroupRecord]], *more: str
) -> tuple[int, dict[str, Any]]:
    """Produce a log and audit one group's journal with it; returns the status and the group's finding."""
    from confluent_kafka import Producer

    topic, file = f"log-{secrets.token_hex(4)}", root.parent / f"{root.name}-audit.json"
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for at_ms, record in log:
        producer.produce(topic, key=key_of(record), value=value_of(record, {}), partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0
    where = ["--root", str(root), "--bootstrap", topics.bootstrap, "--cluster", cluster, "--group", group]
    status = cli.main(["audit", *where, "--offsets-topic", topic, "--json", str(file), *more])
    (found,) = json.loads(file.read_text())["groups"]
    assert found["group_id"] == group
    return status, found


def test_an_audit_agrees_with_a_log_that_says_the_same(
    root: Path, spark: Any, topics: Any, audited: tuple[str, str, list[dict[str, Any]]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    cluster, group, facts = audited
    kinds = Counter(row["kind"] for row in facts)
    assert min(kinds["group.rebalanced"], kinds["member.rejoined"]) >= 2
    status, found = audit(root, topics, cluster, group, log_of(group, facts))
    text = capsys.readouterr().out
    assert status == 0, text
    assert "1 group of the journal, 0 differ" in text
    rebalances, absorbed, removals = found["rebalances"], found["absorbed"], found["removals"]
    assert rebalances["journal"] == rebalances["log"] - rebalances["unseen"] == kinds["group.rebalanced"]
    assert absorbed["journal"] == kinds["member.rejoined"] <= absorbed["log"]
    assert removals["journal"] == kinds["member.removed"] <= removals["log"]


def test_an_audit_names_what_one_account_lacks(
    root: Path, spark: Any, topics: Any, audited: tuple[str, str, list[dict[str, Any]]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One rebalance is only in the log; another one and an absorbed restart are only in the journal."""
    cluster, group, facts = audited
    quiet_ms = SETTINGS.end_ms - 600_000
    assert all(abs(row["event_ms"] - quiet_ms) > 120_000 for row in facts)
    lost = [[row for row in facts if row["kind"] == kind][-1] for kind in ("group.rebalanced", "member.rejoined")]
    log = log_of(group, [row for row in facts if row not in lost])
    number = max((record.epoch or 0) for _, record in log)
    epoch = next(record for _, record in reversed(log) if record.epoch is not None)
    log.append((quiet_ms, replace(epoch, epoch=number + 1)))
    status, found = audit(root, topics, cluster, group, log)
    text = capsys.readouterr().out
    assert status == cli.EXIT_FINDING, text
    assert [r["hi_ms"] for r in found["rebalances"]["missing"]] == [quiet_ms]
    assert [f["event_id"] for f in found["rebalances"]["extra"]] == [lost[0]["event_id"]]
    assert lost[1]["member_id"] in [r["member_id"] for r in found["absorbed"]["wrong"]]
    assert "missing in the journal" in text
    assert "not in the log" in text
    assert "absorbed by the journal, not by the log" in text
    status, found = audit(root, topics, cluster, group, log, "--from", "2027-01-01")
    assert (status, found["rebalances"]["log"], found["rebalances"]["journal"]) == (0, 0, 0)


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
    assert cli.main(["run", "--root", str(tmp_path)]) == cli.EXIT_USAGE
    assert "name a source" in capsys.readouterr().err
