"""Compare the journal of an operator on a real cluster with the log of a real broker.

The one idea: two groups, classic and KIP-848, live through rolls, scale-downs and scale-ups under load; then the
pipeline runs as users run it, and must count exactly the rebalances, removals and absorbed restarts of
`__consumer_offsets` and of the coordinator's text log. The three accounts share nothing but the group.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.sources.topic import EARLIEST, LATEST, TopicReader, ranges, resolve
from journal.records import CoverageBeat, read
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import record
from support.scene.play import CONNECTION, Play
from support.scene.stage import REPOSITORY, Stage
from support.scene.witnesses import ProcessTable, live_removals
from support.waiting import until
from support.workload.process import Program

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1800)]

PROTOCOLS = ("classic", "consumer")
SESSION_S = 60
ROLLS = by_length(short=1, long=2)
RATE_PER_S = 300
LOOK_S = 30
"""The operator reads a quiet group at least this often."""
CLOSE_MS = 2_000
"""The operator reads a group every second after a removal, and after each change of a pod."""
PATIENCE_S = 60.0
SMALL = """
[spark]
"spark.sql.shuffle.partitions" = "2"
"spark.ui.enabled" = "false"
"spark.driver.memory" = "1g"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""
"""The tables are tiny: compiling well costs more than it gains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """The history of the two groups.

    Parameters
    ----------
    games: by protocol.
    steady_ms: when both groups had formed.
    topic: of the journal.
    """

    stage: Stage
    games: dict[str, Play]
    steady_ms: int
    topic: str


def in_both(games: dict[str, Play], act: Callable[[Play], None]) -> None:
    """Do the same in both groups concurrently."""
    with ThreadPoolExecutor(len(games)) as threads:
        for done in [threads.submit(act, game) for game in games.values()]:
            done.result()


def begin(game: Play) -> None:
    """Form a group of four whose session outlasts a restart."""
    static: dict[str, Any] = {"sessionTimeout": {"seconds": SESSION_S}}
    if game.protocol == "consumer":
        game.admin.alter_group(game.name, {"consumer.session.timeout.ms": str(SESSION_S * 1000)})
        static = {}
    game.start(4, static=static, podManagementPolicy="Parallel")
    settled(game, 4)


def settled(game: Play, count: int) -> None:
    """Wait until the group has so many members, all its pods are Ready, and nothing is in progress."""

    def is_so() -> bool:
        group = game.admin.describe_group(game.name)
        ready = [c for p in game.pods() for c in p.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
        held = [m for m in group.members if m.instance_id]
        return (
            group.state == "Stable" and len(held) == len(ready) == count and all(c["status"] == "True" for c in ready)
        )

    until(is_so, deadline_s=PATIENCE_S, what=f"{count} members of {game.name}", poll_s=0.3)


def live(game: Play) -> None:
    """Roll, scale down twice and scale up, and with many rolls roll the new pods, too."""
    for _ in range(ROLLS):
        game.roll()
        settled(game, 4)
    for replicas in (2, 1, 3):
        game.scale(replicas)
        settled(game, replicas)
    if ROLLS > 1:
        game.roll()
        settled(game, 3)


def last_beat_ms(stage: Stage, topic: str) -> int:
    """Return the time of the latest beat in the journal's topic; 0 without one."""
    reader = TopicReader({"bootstrap.servers": stage.brokers.bootstrap})
    logs = reader.watermarks((topic,))
    messages = [m for r in ranges(resolve(EARLIEST, logs), resolve(LATEST, logs)) for b in reader.read(r) for m in b]
    reader.close()
    beats = [data for m in messages if isinstance(data := read(m.value()).data, CoverageBeat)]
    return max((beat.observed_at_ms for beat in beats), default=0)


@pytest.fixture(scope="module")
def lived(stage: Stage, process_table: ProcessTable) -> Iterator[Lived]:
    """Both groups after their history, and a later beat of the operator."""
    token = os.urandom(2).hex()
    topic = f"staticgroup-journal-{token}"
    stage.admin.create_topic(topic, partitions=3)
    games = {protocol: Play(stage=stage, name=f"audit-{protocol}-{token}", protocol=protocol) for protocol in PROTOCOLS}
    end_groups(stage)
    # The chart installs the CRDs; records wait in the operator's queue until its connection exists.
    stage.install(journal={"kafka": {"connection": f"{games['classic'].name}/{CONNECTION}", "topic": topic}})
    with ExitStack() as closing:
        for game in games.values():
            closing.callback(game.open().close)
        in_both(games, begin)
        steady_ms, quiet_ms = under_load(stage, games)
        recorded_by_ms = quiet_ms + LOOK_S * 1000
        until(
            lambda: last_beat_ms(stage, topic) >= recorded_by_ms, deadline_s=2 * LOOK_S + 30, what="a later beat",
            poll_s=1,
        )  # fmt: skip
        yield Lived(stage=stage, games=games, steady_ms=steady_ms, topic=topic)
        accusations = live_removals(stage.brokers.group_log, process_table)
    assert accusations == []


def end_groups(stage: Stage) -> None:
    """Delete the StaticGroups of earlier tests, because each would be one more group of this journal.

    The namespace controller deletes their namespaces late on a busy machine.
    """
    kinds = stage.kubectl("api-resources", "--api-group=staticgroup.io", "-o", "name")
    if "staticgroups." in kinds:
        stage.kubectl("delete", "staticgroups", "-A", "--all", "--timeout=60s")


def under_load(stage: Stage, games: dict[str, Play]) -> tuple[int, int]:
    """Run both groups while producers write; returns the begin and the end, Unix milliseconds."""
    with ExitStack() as loads:
        for game in games.values():
            load = {"BOOTSTRAP": stage.brokers.bootstrap, "TOPIC": game.name, "RATE_PER_S": str(RATE_PER_S)}
            producer = Program("producer", load)
            loads.callback(producer.terminate)
            producer.wait_for_kind("acked")
        began_ms = now_ms()
        in_both(games, live)
        return began_ms, now_ms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The pipeline's results: its tables, and two audits, by group id."""

    root: Path
    text: str
    steady: dict[str, Any]
    whole: dict[str, Any]


@pytest.fixture(scope="module")
def audited(lived: Lived, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """`run` and `audit` as commands, from the topic and the broker."""
    root = tmp_path_factory.mktemp("fleet")
    settings = root / "fleet.toml"
    settings.write_text(SMALL)
    kafka = [
        f"--config={settings}", f"--root={root}", f"--bootstrap={lived.stage.brokers.bootstrap}", "--master=local[2]",
    ]  # fmt: skip
    status, said = fleet_learner("run", *kafka, f"--topic={lived.topic}")
    assert status == 0, said
    cluster = lived.stage.brokers.state.cluster_id
    steady = datetime.fromtimestamp(lived.steady_ms / 1000, UTC).isoformat()

    def audit(name: str, *begin_at: str) -> tuple[str, dict[str, Any]]:
        file = root / f"{name}.json"
        strict = [f"--cluster={cluster}", "--tolerance-ms=0", f"--json={file}", *begin_at]
        status, said = fleet_learner("audit", *kafka, *strict)
        assert status == 0, said
        return said, {group["group_id"]: group for group in json.loads(file.read_text())["groups"]}

    with ThreadPoolExecutor(2) as threads:
        from_steady = threads.submit(audit, "steady", f"--from={steady}")
        from_the_first = threads.submit(audit, "whole")
        (text, found), (_, whole) = from_steady.result(), from_the_first.result()
    return Audited(root=root, text=text, steady=found, whole=whole)


def fleet_learner(*arguments: str) -> tuple[int, str]:
    """Run one command in a process of its own; returns its status and output."""
    done = subprocess.run(
        [sys.executable, "-m", "fleet_learner", *arguments],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "operator"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, by an implementation of Delta that is not Spark's."""
    from deltalake import DeltaTable

    (folder,) = (f for f in (root / table, root / "learned" / table) if (f / "_delta_log").is_dir())
    found: list[dict[str, Any]] = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rebalances_are_counted_exactly_as_in_both_logs_of_the_broker(
    lived: Lived, audited: Audited, protocol: str
) -> None:
    game = lived.games[protocol]
    found = audited.steady[game.name]["rebalances"]
    counted = [
        row
        for row in rows(audited.root, "silver/rebalances")
        if row["group_id"] == game.name and row["start_hi_ms"] >= lived.steady_ms
    ]
    in_text = game.rebalances(lived.steady_ms)
    record(f"audit of rebalances, {protocol}", **{k: v if isinstance(v, int) else len(v) for k, v in found.items()})
    assert in_text >= 3, "two scale-downs and a scale-up cannot pass without"
    assert (found["log"], found["unseen"], found["missing"], found["extra"]) == (in_text, 0, [], []), audited.text
    assert len(counted) == found["journal"] == in_text - found["merged"], audited.text
    assert found["merged"] <= (close_together(game, lived.steady_ms) if protocol == "classic" else 0), audited.text


def close_together(game: Play, since_ms: int) -> int:
    """Count rebalances of a classic group that may have begun before the operator read the previous one.

    DescribeGroups shows no generation, so only these may be recorded as one.
    """
    kinds = (GroupEventKind.REBALANCE_PREPARED, GroupEventKind.STABILIZED)
    events = game.events(*kinds, since_ms=since_ms)
    return sum(
        later.kind is kinds[0] and (sooner.kind is kinds[0] or later.at_ms - sooner.at_ms < CLOSE_MS)
        for sooner, later in pairwise(events)
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_formation_is_recorded_too(lived: Lived, audited: Audited, protocol: str) -> None:
    found = audited.whole[lived.games[protocol].name]["rebalances"]
    assert found["log"] > audited.steady[lived.games[protocol].name]["rebalances"]["log"]
    assert (found["missing"], found["extra"], found["unseen"]) == ([], [], 0), audited.text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_removals_are_exactly_the_members_that_the_broker_removed(
    lived: Lived, audited: Audited, protocol: str
) -> None:
    """Three departures, each removed once, by its member id; no other member is gone."""
    game = lived.games[protocol]
    removed = {
        row["member_id"]
        for row in rows(audited.root, "silver/member_events")
        if row["group_id"] == game.name and row["kind"] == "member.removed" and row["outcome"] == "Removed"
    }
    assert removed == {event.member_id for event in game.removals()}
    assert len(removed) == 3
    assert audited.steady[game.name]["removals"] == {
        "journal": 3, "log": 3, "others": 0, "replaced": 0, "unproven": [],
    }, audited.text  # fmt: skip
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_restart_of_the_rolls_is_absorbed_in_all_accounts(lived: Lived, audited: Audited, protocol: str) -> None:
    game = lived.games[protocol]
    restarts = 4 * ROLLS + (3 if ROLLS > 1 else 0)
    assert len(game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=lived.steady_ms)) == restarts
    assert audited.steady[game.name]["absorbed"] == {"journal": restarts, "log": restarts, "wrong": []}, audited.text


def test_the_text_says_the_same_in_a_line_for_each_group(lived: Lived, audited: Audited) -> None:
    lines = {words[0]: words[1:] for line in audited.text.splitlines() if (words := line.split())}
    for game in lived.games.values():
        assert lines[game.name][0] == lines[game.name][1] == str(audited.steady[game.name]["rebalances"]["log"])
    assert "2 groups of the journal, 0 differ" in audited.text
