"""When recommendations are polled, and how a round uses them."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from journal.recommendations.reader import DirectorySource, HttpSource, Recommendations, SourceError
from staticgroup.api.reasons import Reason
from staticgroup.cli.operator.snapshot_file import SnapshotFile, read_snapshot_file, write_snapshot_file
from staticgroup.core.plan import plan
from staticgroup.runtime.process.fleet import recommendations_of
from staticgroup.runtime.process.metrics import Metrics
from staticgroup.runtime.process.settings import Settings
from support.recommendations import CLUSTER_ID, advice, recommendation
from unit.core.builders import NOW_S, departure, history, spec
from unit.journal.snapshots import Clock, clock, publish, reader, reader_of
from unit.runtime.operator_world import OperatorWorld, kafka_connection

__all__ = ["clock", "reader"]


# the loop ------------------------------------------------------------------------------------------------------------


class Scripted:
    """A source with an answer chosen by the test."""

    is_local = True

    def __init__(self) -> None:
        self.looks = 0
        self.error: Exception = SourceError("manifest.json: Permission denied")

    async def read(self, path: str, bytes_max: int) -> bytes:
        self.looks += 1
        raise self.error


@pytest.mark.looptime
async def test_it_looks_every_poll_and_soon_after_a_new_group_asked_and_survives_every_fault(clock: Clock) -> None:
    source = Scripted()
    reader = reader_of(source, clock)
    task = asyncio.create_task(reader.run())
    await asyncio.sleep(601)
    assert source.looks == 3
    source.error = RuntimeError("a fault of ours")
    reader.advice(CLUSTER_ID, "orders")
    reader.advice(CLUSTER_ID, "billing")
    await asyncio.sleep(2)
    assert source.looks == 4
    reader.advice(CLUSTER_ID, "orders")
    await asyncio.sleep(10)
    assert source.looks == 4
    assert reader.advice(CLUSTER_ID, "orders").reason is Reason.RECOMMENDATION_CORRUPT
    assert not task.done()
    task.cancel()


async def test_polls_are_counted_by_result(reader: Recommendations, tmp_path: Path) -> None:
    def count(result: str) -> float:
        return float(reader.polls.labels(result)._value.get())

    await reader.poll()
    publish(tmp_path)
    await reader.poll()
    await reader.poll()
    assert (count("RecommendationUnreachable"), count("Good")) == (1, 2)


def test_off_by_default() -> None:
    assert recommendations_of(Settings(), metrics=Metrics(), now_s=Clock()) is None


@pytest.mark.parametrize(
    ("text", "kind"), [("/var/fleet", DirectorySource), ("https://bucket.example/fleet", HttpSource)]
)
def test_setting_names_a_directory_or_a_url(text: str, kind: type) -> None:
    made = recommendations_of(Settings(recommendations_source=text), metrics=Metrics(), now_s=Clock())
    assert isinstance(made, Recommendations)
    assert isinstance(made.source, kind)


# in a round -----------------------------------------------------------------------------------------------------------


async def advised(root: Path) -> OperatorWorld:
    """A StaticGroup whose operator reads recommendations from a directory."""
    world = OperatorWorld()
    world.stores.put_connection(("shop", "kafka"), kafka_connection(clusterId=CLUSTER_ID))
    attach(world, root)
    await world.started(2)
    await look(world)
    return world


def attach(world: OperatorWorld, root: Path) -> None:
    world.reconciler.gatherer.recommendations = reader_of(DirectorySource(root), lambda: world.now_s)


async def look(world: OperatorWorld) -> None:
    await world.round()
    await world.reconciler.gatherer.recommendations.poll()
    await world.round()


def condition_of(world: OperatorWorld) -> tuple[str, str] | None:
    found = [c for c in world.status.conditions if c.type == "RecommendationCurrent"]
    return (found[0].status.value, found[0].reason) if found else None


async def test_status_shows_the_recommendation_and_the_next_pod_gets_it(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path)
    status = world.status
    assert status.injected.session_timeout_ms == 60_000
    assert status.session_timeout.to_wire() == {
        "summary": "110s→60s",
        "seconds": 110,  # of the running pods
        "longestSeconds": 110,
        "nextSeconds": 60,
        "recommendedSeconds": 60,
        "unknownPods": 0,
        "source": "Fleet",
        "why": "the fleet learner's: 312 restarts are behind it, 0 were measured here",
    }
    assert condition_of(world) == ("True", "RecommendationUsed")
    assert next(c for c in status.conditions if c.type == "Ready").status.value == "True"


async def test_value_in_use_outlives_a_restart_of_the_operator_without_recommendations(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path)
    shutil.rmtree(tmp_path)
    world.restart()
    attach(world, tmp_path)
    await world.round()
    assert condition_of(world) == ("Unknown", "NotObservedYet")
    for _ in range(3):
        await look(world)
        assert world.status.injected.session_timeout_ms == 60_000
        assert world.status.session_timeout.source.value == "Fleet"
        assert world.status.session_timeout.recommended_seconds == 60
        assert condition_of(world) == ("False", "RecommendationUnreachable")
    assert next(c for c in world.status.conditions if c.type == "Ready").status.value == "True"


async def test_date_beyond_the_calendar_does_not_break_a_round(tmp_path: Path) -> None:
    publish(tmp_path, (recommendation(valid_until_ms=2**53),), expires_ms=2**53)
    world = await advised(tmp_path)
    assert "valid until 9999-12-31" in next(
        c.message for c in world.status.conditions if c.type == "RecommendationCurrent"
    )


def test_snapshot_file_holds_the_recommendation(tmp_path: Path) -> None:
    """A capture of a cluster with recommendations can be replayed with the same decision."""
    picture = SnapshotFile(
        spec=spec(), snapshot=replace(departure(), advice=advice()), history=history(fleet_timeout_ms=5), now_s=NOW_S
    )
    write_snapshot_file(picture, tmp_path / "picture.json")
    read = read_snapshot_file(tmp_path / "picture.json")
    decided = plan(read.spec, read.snapshot, read.history, read.now_s)
    assert decided == plan(picture.spec, picture.snapshot, picture.history, NOW_S)
    assert decided.timeout.inject_ms == 60_000
