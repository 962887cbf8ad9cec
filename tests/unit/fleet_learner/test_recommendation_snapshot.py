"""A snapshot of recommendations: written once, and read through the reader's checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.recommendations import recommend as module
from fleet_learner.recommendations.snapshot import SnapshotConflictError, write_snapshot
from journal import recommendations as api
from journal.recommendations import RecommendationError, RecommendationProblem
from unit.fleet_learner.group_histories import (
    NOW,
    VALID,
    history,
    recommended,
    sample,
)


@pytest.fixture(scope="module")
def records() -> list[api.Recommendation]:
    return recommended(*(history(f"g{i}", sample=sample(20, seed=i)) for i in range(40)))


def publish(root: Path, records: list[api.Recommendation], run_id: str = "r1", **changes: int) -> api.Manifest:
    times = {"created_ms": NOW, "expires_ms": NOW + VALID, "shard_count": 8} | changes
    return write_snapshot(records, root, run_id=run_id, model_version=module.MODEL_VERSION, **times)


def pull(root: Path, now_ms: int = NOW) -> dict[tuple[str, str], api.Recommendation]:
    """Read a snapshot like an operator."""
    manifest = api.read_manifest((root / api.MANIFEST_NAME).read_bytes(), now_ms=now_ms)
    found: dict[tuple[str, str], api.Recommendation] = {}
    for shard in manifest.shards:
        found |= api.read_shard(manifest, shard, (root / shard.path).read_bytes())
    return found


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_what_is_written_is_what_is_read(tmp_path: Path, records: list[api.Recommendation]) -> None:
    manifest = publish(tmp_path, records)
    assert pull(tmp_path) == {each.key: each for each in records}
    shard = manifest.shard_for("k", "g7")
    assert ("k", "g7") in api.read_shard(manifest, shard, (tmp_path / shard.path).read_bytes())


def test_a_run_that_is_repeated_writes_the_same_bytes(tmp_path: Path, records: list[api.Recommendation]) -> None:
    """Killed after any file and run again; the order of the records does not matter."""
    publish(tmp_path / "once", records)
    whole = files(tmp_path / "once")
    for survivors in range(len(whole)):
        root = tmp_path / f"again-{survivors}"
        for name in list(whole)[:survivors]:
            if name != api.MANIFEST_NAME:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(whole[name])
        publish(root, records[::-1])
        assert files(root) == whole


def test_another_run_under_the_same_id_is_refused(tmp_path: Path, records: list[api.Recommendation]) -> None:
    """Published files never change, and readers still find the first snapshot."""
    publish(tmp_path, records)
    before = files(tmp_path)
    changed = [records[0].model_copy(update={"message": "other"}), *records[1:]]
    with pytest.raises(SnapshotConflictError, match="other bytes"):
        publish(tmp_path, changed)
    assert files(tmp_path) == before
    publish(tmp_path, records[:5], run_id="r2")
    assert len(pull(tmp_path)) == 5


def problem_of(root: Path, now_ms: int = NOW) -> RecommendationProblem:
    with pytest.raises(RecommendationError) as caught:
        pull(root, now_ms)
    return caught.value.problem


def test_a_snapshot_is_used_from_its_beginning_to_its_end(tmp_path: Path, records: list[api.Recommendation]) -> None:
    """To the millisecond; a record by itself, too. Five minutes of two clocks are allowed."""
    publish(tmp_path, records)
    assert pull(tmp_path, NOW + VALID - 1) == pull(tmp_path, NOW - 300_000)
    assert problem_of(tmp_path, NOW + VALID) is RecommendationProblem.STALE
    assert problem_of(tmp_path, NOW - 300_001) is RecommendationProblem.FUTURE
    assert [records[0].is_valid_at(NOW + VALID - early_ms) for early_ms in (1, 0)] == [True, False]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, records: list[api.Recommendation]) -> Path:
    root = tmp_path_factory.mktemp("published")
    publish(root, records[:2])
    return root


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_flipped_byte_is_accepted(published: Path, data: st.DataObject) -> None:
    """A change in the manifest or in a shard is refused, unless it is white space in the manifest."""
    root, whole = published, pull(published)
    name = data.draw(st.sampled_from(sorted(name for name in files(root) if not name.endswith("r1/manifest.json"))))
    intact = (root / name).read_bytes()
    payload = bytearray(intact)
    where = data.draw(st.integers(0, len(payload) - 1))
    payload[where] ^= data.draw(st.integers(1, 255))
    (root / name).write_bytes(bytes(payload))
    found, problem = whole, None
    try:
        found = pull(root)
    except RecommendationError as error:
        problem = error.problem
    finally:
        (root / name).write_bytes(intact)
    assert found == whole
    harmless = {None} if name == api.MANIFEST_NAME else set()
    assert problem in {RecommendationProblem.CORRUPT, RecommendationProblem.UNSUPPORTED, *harmless}


@given(st.binary(max_size=60))
def test_garbage_is_corrupt(payload: bytes) -> None:
    """Whatever the bytes: the one exception that callers expect."""
    with pytest.raises(RecommendationError):
        api.read_manifest(payload, now_ms=NOW)


def rewritten(root: Path, change: dict[str, object]) -> None:
    """Sign a changed manifest again, as a writer with a fault would."""
    document = json.loads((root / api.MANIFEST_NAME).read_bytes()) | change
    document["digest"] = api.manifest_digest(document)
    (root / api.MANIFEST_NAME).write_text(json.dumps(document))


def test_versions(tmp_path: Path, records: list[api.Recommendation]) -> None:
    """Another version is refused; a field that a later writer adds is not."""
    publish(tmp_path, records)
    rewritten(tmp_path, {"a_later_field": {"x": 1}})
    assert len(pull(tmp_path)) == 40
    rewritten(tmp_path, {"schema_id": "urn:staticgroup:recommendation:2"})
    assert problem_of(tmp_path) is RecommendationProblem.UNSUPPORTED


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".hidden", "a//b", ""])
def test_a_shard_outside_the_snapshot_is_refused(path: str, tmp_path: Path, records: list[api.Recommendation]) -> None:
    publish(tmp_path, records)
    shards = json.loads((tmp_path / api.MANIFEST_NAME).read_bytes())["shards"]
    rewritten(tmp_path, {"shards": [{**shards[0], "path": path}, *shards[1:]]})
    assert problem_of(tmp_path) is RecommendationProblem.CORRUPT


def test_a_record_in_the_wrong_shard_is_refused(tmp_path: Path, records: list[api.Recommendation]) -> None:
    """Two shards under each other's names: digests fit, places do not."""
    publish(tmp_path, records)
    shards = json.loads((tmp_path / api.MANIFEST_NAME).read_bytes())["shards"]
    swapped = [{**shards[1], "index": shards[0]["index"]}, {**shards[0], "index": shards[1]["index"]}, *shards[2:]]
    rewritten(tmp_path, {"shards": swapped})
    assert problem_of(tmp_path) is RecommendationProblem.CORRUPT


def test_two_records_for_one_group_are_a_fault(tmp_path: Path, records: list[api.Recommendation]) -> None:
    with pytest.raises(ValueError, match="two records"):
        publish(tmp_path, [records[0], records[0]])
