"""Recommendations are used whole, verified and in time, or not at all; whatever fails leaves the present value.

The snapshots are written by the fleet learner's own writer, so that writer and reader are held to one contract.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet_learner.snapshot import write_snapshot
from staticgroup.api import recommendation as api
from staticgroup.api.reasons import Reason
from staticgroup.core.advice import Advice
from staticgroup.core.plan import plan
from staticgroup.runtime.commands.picture import Picture, read_picture, write_picture
from staticgroup.runtime.metrics import Metrics
from staticgroup.runtime.process.settings import Settings
from staticgroup.runtime.recommendations import (
    MODEL_MAJOR,
    DirectorySource,
    HttpSource,
    Recommendations,
    SourceError,
    recommendations_of,
)
from support.recommendations import CLUSTER_ID, DAY_MS, NOW_MS, advice, recommendation
from unit.core.builders import NOW_S, departure, history, spec

from .world import World, kafka_connection

FLEET = tuple(recommendation(group_id=name) for name in ("orders", "billing", "stock", "mail"))


def publish(root: Path, records: tuple[api.Recommendation, ...] = FLEET, **changes: Any) -> api.Manifest:
    values = {
        "run_id": "r1",
        "model_version": f"{MODEL_MAJOR}.0",
        "created_ms": NOW_MS - 1000,
        "expires_ms": NOW_MS + DAY_MS,
    }
    return write_snapshot(records, root, **(values | changes))


def rewrite(root: Path, **changes: Any) -> None:
    """Change the manifest and sign it again, as a careless or hostile writer would."""
    path = root / api.MANIFEST_NAME
    document = json.loads(path.read_bytes()) | changes
    document["digest"] = api.manifest_digest(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def shard_of(root: Path, manifest: api.Manifest, group_id: str) -> Path:
    shard = manifest.shard_for(CLUSTER_ID, group_id)
    assert shard is not None
    return root / shard.path


class Clock:
    now_ms = NOW_MS

    def __call__(self) -> float:
        return self.now_ms / 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(tmp_path: Path, clock: Clock) -> Recommendations:
    return Recommendations(source=DirectorySource(tmp_path), poll_s=300, metrics=Metrics(), now_s=clock)


async def asked(reader: Recommendations, group_id: str = "orders", cluster_id: str | None = CLUSTER_ID) -> Advice:
    """Ask, let it look, ask again."""
    reader.advice(cluster_id, group_id)
    await reader.poll()
    return reader.advice(cluster_id, group_id)


# what is used ------------------------------------------------------------------------------------------------------


async def test_record_is_found_by_cluster_and_group_and_holds_no_longer_than_its_snapshot(
    reader: Recommendations, tmp_path: Path
) -> None:
    publish(tmp_path)
    assert await asked(reader) == Advice(record=FLEET[0], valid_until_ms=NOW_MS + DAY_MS)
    assert (await asked(reader, "billing")).record == FLEET[1]


async def test_answer_never_waits(reader: Recommendations, tmp_path: Path) -> None:
    publish(tmp_path)
    assert reader.advice(CLUSTER_ID, "orders") == Advice(reason=Reason.NOT_OBSERVED_YET)


@pytest.mark.parametrize(
    ("cluster_id", "group_id", "says"),
    [
        (CLUSTER_ID, "unknown", "no record of group unknown of cluster kafka-1"),
        ("kafka-2", "orders", "no record of group orders of cluster kafka-2"),
        (None, "orders", "have not told the id"),
        ("", "orders", "have not told the id"),
    ],
)
async def test_group_that_the_snapshot_does_not_hold_is_absent(
    reader: Recommendations, tmp_path: Path, cluster_id: str | None, group_id: str, says: str
) -> None:
    """The same group id on another Kafka cluster is another group."""
    publish(tmp_path)
    answer = await asked(reader, group_id, cluster_id)
    assert (answer.record, answer.reason) == (None, Reason.RECOMMENDATION_ABSENT)
    assert says in answer.cause


async def test_next_snapshot_replaces_the_last(reader: Recommendations, tmp_path: Path) -> None:
    publish(tmp_path)
    await asked(reader)
    publish(tmp_path, (recommendation(recommended_ms=75_000),), run_id="r2")
    answer = await asked(reader)
    assert answer.record is not None
    assert answer.record.recommended_ms == 75_000
    assert (await asked(reader, "billing")).reason is Reason.RECOMMENDATION_ABSENT


async def test_field_that_a_later_writer_adds_is_no_obstacle(reader: Recommendations, tmp_path: Path) -> None:
    manifest = publish(tmp_path)
    path = shard_of(tmp_path, manifest, "orders")
    lines = [json.loads(line) | {"later": {"x": 1}} for line in path.read_bytes().splitlines()]
    replace_shard(tmp_path, path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert (await asked(reader)).record == FLEET[0]


def replace_shard(root: Path, path: Path, payload: bytes) -> None:
    """Write other content with a digest that fits it."""
    import hashlib

    path.write_bytes(payload)
    document = json.loads((root / api.MANIFEST_NAME).read_bytes())
    for shard in document["shards"]:
        if shard["path"] == str(path.relative_to(root)):
            shard |= {"sha256": hashlib.sha256(payload).hexdigest(), "size_bytes": len(payload)}
    rewrite(root, shards=document["shards"])


# what is refused -----------------------------------------------------------------------------------------------------


def cut_manifest(root: Path, manifest: api.Manifest) -> None:
    path = root / api.MANIFEST_NAME
    path.write_bytes(path.read_bytes()[:-20])


def alter_manifest(root: Path, manifest: api.Manifest) -> None:
    path = root / api.MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"run_id": "r', b'"run_id": "x'))


def lose_shard(root: Path, manifest: api.Manifest) -> None:
    shard_of(root, manifest, "orders").unlink()


def lose_shard_of_another_group(root: Path, manifest: api.Manifest) -> None:
    shard_of(root, manifest, "mail").unlink()


def cut_shard_of_another_group(root: Path, manifest: api.Manifest) -> None:
    path = shard_of(root, manifest, "mail")
    path.write_bytes(path.read_bytes()[:-1])


def lengthen_shard(root: Path, manifest: api.Manifest) -> None:
    path = shard_of(root, manifest, "orders")
    path.write_bytes(path.read_bytes() + b"\n")


def alter_number_in_shard(root: Path, manifest: api.Manifest) -> None:
    """Of the same length, well-formed and in bounds: only the digest tells."""
    path = shard_of(root, manifest, "orders")
    path.write_bytes(path.read_bytes().replace(b'"recommended_ms":60000', b'"recommended_ms":90000'))


def put_a_pipe_for_a_shard(root: Path, manifest: api.Manifest) -> None:
    """Reading a pipe that nobody writes to would never end."""
    path = shard_of(root, manifest, "orders")
    path.unlink()
    os.mkfifo(path)


def exceed_a_bound(root: Path, manifest: api.Manifest) -> None:
    path = shard_of(root, manifest, "orders")
    record = json.loads(path.read_bytes()) | {"recommended_ms": api.TIMEOUT_MS_MAX + 1}
    replace_shard(root, path, json.dumps(record).encode() + b"\n")


def leave_the_directory(root: Path, manifest: api.Manifest) -> None:
    shards = [shard | {"path": "../secret"} for shard in json.loads((root / api.MANIFEST_NAME).read_bytes())["shards"]]
    rewrite(root, shards=shards)


def future_version(root: Path, manifest: api.Manifest) -> None:
    rewrite(root, schema_id="urn:staticgroup:recommendation:2")


def future_model(root: Path, manifest: api.Manifest) -> None:
    rewrite(root, model_version=f"{int(MODEL_MAJOR) + 1}.0")


def expired(root: Path, manifest: api.Manifest) -> None:
    rewrite(root, expires_ms=NOW_MS)


def too_young(root: Path, manifest: api.Manifest) -> None:
    rewrite(root, created_ms=NOW_MS + api.CLOCK_SKEW_MS_MAX + 1)


def remove_all(root: Path, manifest: api.Manifest) -> None:
    shutil.rmtree(root)


FAULTS: tuple[tuple[Callable[[Path, api.Manifest], None], Reason], ...] = (
    (cut_manifest, Reason.RECOMMENDATION_CORRUPT),
    (alter_manifest, Reason.RECOMMENDATION_CORRUPT),
    (lose_shard, Reason.RECOMMENDATION_CORRUPT),
    (lose_shard_of_another_group, Reason.RECOMMENDATION_CORRUPT),
    (cut_shard_of_another_group, Reason.RECOMMENDATION_CORRUPT),
    (lengthen_shard, Reason.RECOMMENDATION_CORRUPT),
    (alter_number_in_shard, Reason.RECOMMENDATION_CORRUPT),
    (put_a_pipe_for_a_shard, Reason.RECOMMENDATION_CORRUPT),
    (exceed_a_bound, Reason.RECOMMENDATION_CORRUPT),
    (leave_the_directory, Reason.RECOMMENDATION_CORRUPT),
    (future_version, Reason.RECOMMENDATION_UNSUPPORTED),
    (future_model, Reason.RECOMMENDATION_UNSUPPORTED),
    (expired, Reason.RECOMMENDATION_STALE),
    (too_young, Reason.RECOMMENDATION_FROM_THE_FUTURE),
    (remove_all, Reason.RECOMMENDATION_UNREACHABLE),
)
faults = pytest.mark.parametrize(("fault", "reason"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])


@faults
async def test_faulty_snapshot_is_refused_as_a_whole(
    reader: Recommendations, tmp_path: Path, fault: Callable[[Path, api.Manifest], None], reason: Reason
) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    fault(tmp_path, publish(tmp_path))
    answer = await asked(reader)
    assert (answer.record, answer.reason) == (None, reason)
    assert 5 < len(answer.cause) < 400
    assert "s3cr3t" not in answer.cause


@faults
async def test_last_good_snapshot_serves_until_it_expires(
    reader: Recommendations, tmp_path: Path, clock: Clock, fault: Callable[[Path, api.Manifest], None], reason: Reason
) -> None:
    publish(tmp_path)
    await asked(reader)
    fault(tmp_path, publish(tmp_path, run_id="r2"))
    answer = await asked(reader)
    assert answer.record == FLEET[0]
    assert answer.cause
    clock.now_ms = NOW_MS + DAY_MS - 1
    assert reader.advice(CLUSTER_ID, "orders").record == FLEET[0]
    clock.now_ms += 1
    late = reader.advice(CLUSTER_ID, "orders")
    assert (late.record, late.reason) == (None, reason)


async def test_snapshot_that_expires_between_two_looks_is_stale_at_once(
    reader: Recommendations, tmp_path: Path, clock: Clock
) -> None:
    publish(tmp_path)
    await asked(reader)
    clock.now_ms = NOW_MS + DAY_MS
    assert reader.advice(CLUSTER_ID, "orders").reason is Reason.RECOMMENDATION_STALE


async def test_record_that_expires_before_its_snapshot_is_stale(
    reader: Recommendations, tmp_path: Path, clock: Clock
) -> None:
    publish(tmp_path, (recommendation(valid_until_ms=NOW_MS + 10),))
    assert (await asked(reader)).valid_until_ms == NOW_MS + 10
    clock.now_ms = NOW_MS + 10
    answer = reader.advice(CLUSTER_ID, "orders")
    assert (answer.record, answer.reason) == (None, Reason.RECOMMENDATION_STALE)


async def test_fault_that_is_mended_is_forgotten(reader: Recommendations, tmp_path: Path) -> None:
    manifest = publish(tmp_path)
    path = shard_of(tmp_path, manifest, "orders")
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    assert (await asked(reader)).reason is Reason.RECOMMENDATION_CORRUPT
    path.write_bytes(whole)
    assert await asked(reader) == Advice(record=FLEET[0], valid_until_ms=NOW_MS + DAY_MS)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_altered_byte_is_ever_used(tmp_path: Path, data: st.DataObject) -> None:
    """Change any byte of any file: the snapshot is refused, or says the same."""
    shutil.rmtree(tmp_path)
    publish(tmp_path)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "")
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255).filter(lambda value: value != content[place]))
    path.write_bytes(bytes(content))
    reader = Recommendations(source=DirectorySource(tmp_path), poll_s=300, metrics=Metrics(), now_s=Clock())
    answer = asyncio.run(asked(reader))
    assert answer.record in (None, FLEET[0])
    # The run's own copy of the manifest is not what is read; elsewhere only white space may differ unnoticed.
    if path.suffix == ".jsonl":
        assert answer.reason is Reason.RECOMMENDATION_CORRUPT


# over HTTP -----------------------------------------------------------------------------------------------------------


class Bucket:
    """A web server over a directory that counts what it is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, int]] = []
        self.status = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = self.root / request.match_info["path"]
        answer = self._answer(request, path)
        self.asked.append((request.match_info["path"], answer.status))
        return answer

    def _answer(self, request: web.Request, path: Path) -> web.Response:
        if self.status:
            return web.Response(status=self.status, headers={"Location": "/elsewhere"})
        if not path.is_file():
            return web.Response(status=404)
        etag = f'"{path.stat().st_mtime_ns}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304)
        return web.Response(body=path.read_bytes(), headers={"ETag": etag})


@pytest.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    served = Bucket(tmp_path)
    app = web.Application()
    app.router.add_get("/fleet/{path:.*}", served.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/fleet"
    yield served
    await runner.cleanup()


def over_http(bucket: Bucket, clock: Clock) -> Recommendations:
    return Recommendations(source=HttpSource(bucket.url + "/"), poll_s=300, metrics=Metrics(), now_s=clock)


async def test_over_http_only_the_manifest_and_the_shards_of_our_groups_are_asked_for(
    bucket: Bucket, clock: Clock
) -> None:
    manifest = publish(bucket.root)
    reader = over_http(bucket, clock)
    assert (await asked(reader)).record == FLEET[0]
    own = str(shard_of(bucket.root, manifest, "orders").relative_to(bucket.root))
    assert bucket.asked == [(api.MANIFEST_NAME, 200), (own, 200)]
    bucket.asked.clear()
    assert (await asked(reader)).record == FLEET[0]
    assert bucket.asked == [(api.MANIFEST_NAME, 304)]


async def test_group_that_asks_later_is_loaded_from_the_snapshot_in_use(bucket: Bucket, clock: Clock) -> None:
    manifest = publish(bucket.root)
    reader = over_http(bucket, clock)
    await asked(reader)
    bucket.asked.clear()
    assert reader.advice(CLUSTER_ID, "mail").reason is Reason.NOT_OBSERVED_YET
    assert (await asked(reader, "mail")).record == FLEET[3]
    own = str(shard_of(bucket.root, manifest, "mail").relative_to(bucket.root))
    assert bucket.asked == [(api.MANIFEST_NAME, 304), (own, 200)]
    assert reader.advice(CLUSTER_ID, "orders").record == FLEET[0]


@pytest.mark.parametrize("status", [302, 403, 404, 500])
async def test_other_answers_of_the_server_are_named(bucket: Bucket, clock: Clock, status: int) -> None:
    """No redirect is followed: where it leads was not configured."""
    publish(bucket.root)
    bucket.status = status
    answer = await asked(over_http(bucket, clock))
    assert answer.reason is Reason.RECOMMENDATION_UNREACHABLE
    assert ("not there" if status == 404 else f"HTTP {status}") in answer.cause
    assert [path for path, _ in bucket.asked] == [api.MANIFEST_NAME]


async def test_server_that_sends_more_than_announced_is_cut_off(bucket: Bucket, clock: Clock) -> None:
    manifest = publish(bucket.root)
    lengthen_shard(bucket.root, manifest)
    assert (await asked(over_http(bucket, clock))).reason is Reason.RECOMMENDATION_CORRUPT


async def test_server_that_is_gone_is_unreachable(clock: Clock, unused_port: int) -> None:
    reader = Recommendations(
        source=HttpSource(f"http://127.0.0.1:{unused_port}"), poll_s=300, metrics=Metrics(), now_s=clock
    )
    answer = await asked(reader)
    assert answer.reason is Reason.RECOMMENDATION_UNREACHABLE
    assert "does not answer" in answer.cause


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


# the loop ------------------------------------------------------------------------------------------------------------


class Scripted:
    """A source whose answer the test chooses."""

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
    reader = Recommendations(source=source, poll_s=300, metrics=Metrics(), now_s=clock)
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
        return (
            reader.metrics.registry.get_sample_value("staticgroup_recommendation_polls_total", {"result": result})
            or 0.0
        )

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
    assert made is not None
    assert isinstance(made.source, kind)


# in a round ------------------------------------------------------------------------------------------------------------


async def advised(root: Path, **spec_changes: Any) -> World:
    """A StaticGroup whose operator reads recommendations from a directory."""
    world = World(**spec_changes)
    world.stores.put_connection(("shop", "kafka"), kafka_connection(clusterId=CLUSTER_ID))
    attach(world, root)
    await world.started(2)
    await look(world)
    return world


def attach(world: World, root: Path) -> None:
    world.reconciler.recommendations = Recommendations(
        source=DirectorySource(root), poll_s=300, metrics=Metrics(), now_s=lambda: world.now_s
    )


async def look(world: World) -> None:
    assert world.reconciler.recommendations is not None
    await world.round()
    await world.reconciler.recommendations.poll()
    await world.round()


def condition_of(world: World) -> tuple[str, str] | None:
    found = [c for c in world.status.conditions if c.type == "RecommendationCurrent"]
    return (found[0].status.value, found[0].reason) if found else None


async def test_status_shows_the_recommendation_and_the_next_pod_gets_it(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path)
    status = world.status
    assert status.injected is not None
    assert status.injected.session_timeout_ms == 60_000
    assert status.timeout is not None
    assert status.timeout.to_wire() == {
        "effectiveMs": 110_000,  # what its pods were started with
        "effectiveMaxMs": 110_000,
        "nextMs": 60_000,
        "unknownPods": 0,
        "recommended": {
            "lowerMs": 50_000,
            "targetMs": 60_000,
            "upperMs": 75_000,
            "uncappedMs": 55_000,
            "source": "Fleet",
            "validUntil": "2027-01-16T08:00:00Z",
            "reasons": ["CostOptimum", "StepLimited"],
        },
        "samples": 312,
        "source": "Fleet",
        "brokerMinMs": status.timeout.broker_min_ms,
        "brokerMaxMs": status.timeout.broker_max_ms,
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
        assert world.status.injected is not None
        assert world.status.injected.session_timeout_ms == 60_000
        assert world.status.timeout is not None
        assert world.status.timeout.source.value == "Fleet"
        assert world.status.timeout.recommended is not None
        assert world.status.timeout.recommended.source.value == "Fleet"
        assert world.status.timeout.samples == 312
        assert condition_of(world) == ("False", "RecommendationUnreachable")
    assert next(c for c in world.status.conditions if c.type == "Ready").status.value == "True"


async def test_operator_that_does_not_read_recommendations_any_more_estimates_again(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path)
    world.restart()
    await world.round()
    plain = World()
    await plain.started(2)
    assert world.status.timeout == plain.status.timeout
    assert condition_of(world) is None


async def test_mode_fixed_shows_it_and_keeps_its_own_number(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path, sessionTimeout={"mode": "Fixed", "seconds": 90})
    status = world.status
    assert status.injected is not None
    assert status.injected.session_timeout_ms == 90_000
    assert status.timeout is not None
    assert status.timeout.recommended is not None
    assert (status.timeout.source.value, status.timeout.recommended.source.value) == ("Fixed", "Fleet")
    assert status.timeout.recommended.target_ms == 60_000
    assert condition_of(world) == ("True", "RecommendationShown")


async def test_cluster_that_is_not_known_yet_leaves_the_estimate(tmp_path: Path) -> None:
    publish(tmp_path)
    world = await advised(tmp_path)
    world.stores.put_connection(("shop", "kafka"), kafka_connection(clusterId="kafka-2"))
    await look(world)
    assert condition_of(world) == ("Unknown", "RecommendationAbsent")
    assert world.status.injected is not None
    assert world.status.injected.session_timeout_ms == 60_000


async def test_date_beyond_the_calendar_does_not_break_a_round(tmp_path: Path) -> None:
    publish(tmp_path, (recommendation(valid_until_ms=2**53),), expires_ms=2**53)
    world = await advised(tmp_path)
    assert world.status.timeout is not None
    assert world.status.timeout.recommended is not None
    assert world.status.timeout.recommended.valid_until is not None
    assert world.status.timeout.recommended.valid_until.year == 9999


def test_picture_holds_the_recommendation(tmp_path: Path) -> None:
    """What was decided on a cluster with recommendations is decided again on a desk."""
    picture = Picture(
        spec=spec(), snapshot=replace(departure(), advice=advice()), history=history(fleet_timeout_ms=5), now_s=NOW_S
    )
    write_picture(picture, tmp_path / "picture.json")
    read = read_picture(tmp_path / "picture.json")
    assert plan(read.spec, read.snapshot, read.history, read.now_s) == plan(
        picture.spec, picture.snapshot, picture.history, NOW_S
    )
    decided = plan(read.spec, read.snapshot, read.history, read.now_s)
    assert decided.timeout is not None
    assert decided.timeout.inject_ms == 60_000
