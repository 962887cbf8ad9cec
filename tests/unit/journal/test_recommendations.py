"""Recommendations are used only if complete, verified and valid; a failure leaves the present value.

The fleet learner's own writer writes the snapshots, so that writer and reader share one contract.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal import recommendations as api
from journal.recommendations.reader import MODEL_MAJOR, Recommendations, fleet_timeout
from staticgroup.api.reasons import Reason
from staticgroup.api.schema import TIMEOUT_MS_MAX
from staticgroup.core.timeouts.desired import Advice
from support.recommendations import CLUSTER_ID, DAY_MS, NOW_MS, recommendation
from unit.journal.snapshots import FLEET, Clock, asked, clock, lengthen_shard, publish, reader, shard_of

__all__ = ["clock", "reader"]


def rewrite(root: Path, **changes: Any) -> None:
    """Change the manifest and sign it again, as a careless or hostile writer would."""
    path = root / api.MANIFEST_NAME
    document = json.loads(path.read_bytes()) | changes
    document["digest"] = api.manifest_digest(document)
    path.write_text(json.dumps(document), encoding="utf-8")


# accepted ----------------------------------------------------------------------------------------------------------


async def test_record_is_found_by_cluster_and_group_and_holds_no_longer_than_its_snapshot(
    reader: Recommendations, tmp_path: Path
) -> None:
    publish(tmp_path)
    assert await asked(reader) == Advice(record=fleet_timeout(FLEET[0]), valid_until_ms=NOW_MS + DAY_MS)
    assert (await asked(reader, "billing")).record == fleet_timeout(FLEET[1])


async def test_answer_never_waits(reader: Recommendations, tmp_path: Path) -> None:
    publish(tmp_path)
    assert reader.advice(CLUSTER_ID, "orders") == Advice(reason=Reason.NOT_OBSERVED_YET)


@pytest.mark.parametrize(
    ("cluster_id", "group_id", "says"),
    [
        (CLUSTER_ID, "unknown", "no record of group unknown of cluster kafka-1"),
        ("kafka-2", "orders", "no record of group orders of cluster kafka-2"),
        (None, "orders", "have not reported the id"),
        ("", "orders", "have not reported the id"),
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
    assert answer.record.recommended_ms == 75_000
    assert (await asked(reader, "billing")).reason is Reason.RECOMMENDATION_ABSENT


async def test_field_that_a_later_writer_adds_is_no_obstacle(reader: Recommendations, tmp_path: Path) -> None:
    manifest = publish(tmp_path)
    path = shard_of(tmp_path, manifest, "orders")
    lines = [json.loads(line) | {"later": {"x": 1}} for line in path.read_bytes().splitlines()]
    replace_shard(tmp_path, path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert (await asked(reader)).record == fleet_timeout(FLEET[0])


def replace_shard(root: Path, path: Path, payload: bytes) -> None:
    """Write other content with a digest that fits it."""
    import hashlib

    path.write_bytes(payload)
    document = json.loads((root / api.MANIFEST_NAME).read_bytes())
    for shard in document["shards"]:
        if shard["path"] == str(path.relative_to(root)):
            shard |= {"sha256": hashlib.sha256(payload).hexdigest(), "size_bytes": len(payload)}
    rewrite(root, shards=document["shards"])


# refused -------------------------------------------------------------------------------------------------------------


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def put_a_pipe_for_a_shard(root: Path, manifest: api.Manifest) -> None:
    """Reading a pipe without a writer would never end."""
    path = shard_of(root, manifest, "orders")
    path.unlink()
    os.mkfifo(path)


def exceed_a_bound(root: Path, manifest: api.Manifest) -> None:
    path = shard_of(root, manifest, "orders")
    record = json.loads(path.read_bytes()) | {"recommended_ms": TIMEOUT_MS_MAX + 1}
    replace_shard(root, path, json.dumps(record).encode() + b"\n")


def leave_the_directory(root: Path, manifest: api.Manifest) -> None:
    shards = [shard | {"path": "../secret"} for shard in json.loads((root / api.MANIFEST_NAME).read_bytes())["shards"]]
    rewrite(root, shards=shards)


Fault = Callable[[Path, api.Manifest], object]
CORRUPT = Reason.RECOMMENDATION_CORRUPT
FUTURE_MS = NOW_MS + api.CLOCK_SKEW_MS_MAX + 1
FAULTS: dict[str, tuple[Fault, Reason]] = {
    "manifest is cut": (lambda root, _: edit(root / api.MANIFEST_NAME, lambda text: text[:-20]), CORRUPT),
    "manifest is altered": (
        lambda root, _: edit(root / api.MANIFEST_NAME, lambda text: text.replace(b'"run_id": "r', b'"run_id": "x')),
        CORRUPT,
    ),
    "shard is lost": (lambda root, made: shard_of(root, made, "orders").unlink(), CORRUPT),
    "shard of another group is lost": (lambda root, made: shard_of(root, made, "mail").unlink(), CORRUPT),
    "shard of another group is cut": (
        lambda root, made: edit(shard_of(root, made, "mail"), lambda text: text[:-1]), CORRUPT
    ),
    "shard is longer": (lengthen_shard, CORRUPT),
    # The change keeps length, form and bounds: only the digest reveals it.
    "number in a shard is altered": (
        lambda root, made: edit(
            shard_of(root, made, "orders"), lambda text: text.replace(b'"recommended_ms":60000', b'"recommended_ms":90000')
        ),
        CORRUPT,
    ),
    "shard is a pipe": (put_a_pipe_for_a_shard, CORRUPT),
    "bound is exceeded": (exceed_a_bound, CORRUPT),
    "shard is outside of the directory": (leave_the_directory, CORRUPT),
    "later version": (
        lambda root, _: rewrite(root, schema_id="urn:staticgroup:recommendation:2"), Reason.RECOMMENDATION_UNSUPPORTED
    ),
    "later model": (
        lambda root, _: rewrite(root, model_version=f"{int(MODEL_MAJOR) + 1}.0"), Reason.RECOMMENDATION_UNSUPPORTED
    ),
    "expired": (lambda root, _: rewrite(root, expires_ms=NOW_MS), Reason.RECOMMENDATION_STALE),
    "too young": (lambda root, _: rewrite(root, created_ms=FUTURE_MS), Reason.RECOMMENDATION_FROM_THE_FUTURE),
    "all is removed": (lambda root, _: shutil.rmtree(root), Reason.RECOMMENDATION_UNREACHABLE),
}  # fmt: skip
faults = pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)


@faults
async def test_faulty_snapshot_is_refused_as_a_whole(
    reader: Recommendations, tmp_path: Path, fault: Fault, reason: Reason
) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    fault(tmp_path, publish(tmp_path))
    answer = await asked(reader)
    assert (answer.record, answer.reason) == (None, reason)
    assert 5 < len(answer.cause) < 400
    assert "s3cr3t" not in answer.cause


@faults
async def test_last_good_snapshot_serves_until_it_expires(
    reader: Recommendations, tmp_path: Path, clock: Clock, fault: Fault, reason: Reason
) -> None:
    publish(tmp_path)
    await asked(reader)
    fault(tmp_path, publish(tmp_path, run_id="r2"))
    answer = await asked(reader)
    assert answer.record == fleet_timeout(FLEET[0])
    assert answer.cause
    clock.now_ms = NOW_MS + DAY_MS - 1
    assert reader.advice(CLUSTER_ID, "orders").record == fleet_timeout(FLEET[0])
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
    assert await asked(reader) == Advice(record=fleet_timeout(FLEET[0]), valid_until_ms=NOW_MS + DAY_MS)
