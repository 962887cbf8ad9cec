"""Compare the column decoder of offset commits with the plain one, and both with Kafka's message classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet_learner import schemas
from fleet_learner.bill.commit import OffsetCommit, decode_commit
from fleet_learner.bill.commits import BAD, COMMIT, UNKNOWN, offset_commits
from fleet_learner.offsets.bytes import BadRecord
from unit.fleet_learner.offsets_encoder import commit_key, commit_value

VECTORS = {
    row["name"]: (bytes.fromhex(row["key"]), bytes.fromhex(row["value"]))
    for row in json.loads((Path(__file__).parents[1] / "unit/fleet_learner/commit_vectors.json").read_text())["records"]
}
FIELDS = tuple(OffsetCommit.__dataclass_fields__)
Pair = tuple[bytes, bytes | None]

names = st.text("abc.-é0😀", max_size=9)
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def commits(draw: st.DrawFn) -> Pair:
    """A commit of any version, sometimes with a long text, sometimes a tombstone."""
    key = commit_key(draw(st.sampled_from([0, 1])), draw(names), draw(names), draw(int32))
    if draw(st.integers(0, 9)) == 0:
        return key, None
    metadata = draw(names) + "x" * draw(st.sampled_from([0, 0, 0, 120, 130, 17_000]))
    topic_id = draw(st.none() | st.binary(min_size=16, max_size=16))
    value = commit_value(
        draw(st.integers(0, 4)), draw(int64), draw(int64), leader_epoch=draw(int32), metadata=metadata,
        expire_ms=draw(int64), topic_id=topic_id,
    )  # fmt: skip
    return key, value


@st.composite
def broken(draw: st.DrawFn) -> Pair:
    """A commit that was cut, lengthened, or has a changed byte."""
    key, value = draw(commits())
    content = key if value is None or draw(st.booleans()) else value
    how = draw(st.sampled_from(["cut", "more", "byte"]))
    at = draw(st.integers(0, min(len(content) - 1, 40)))
    if how == "cut":
        changed = content[:at]
    elif how == "more":
        changed = content + draw(st.binary(min_size=1, max_size=9))
    else:
        changed = content[:at] + draw(st.binary(min_size=1, max_size=1)) + content[at + 1 :]
    return (changed, value) if content is key else (key, changed)


def records(spark: Any, pairs: Sequence[Pair]) -> Any:
    """Return a frame like a Kafka source's."""
    rows = [
        (bytearray(k), None if v is None else bytearray(v), "__consumer_offsets", 3, n, None, 0)
        for n, (k, v) in enumerate(pairs)
    ]
    return spark.createDataFrame(rows, schemas.KAFKA.spark_nullable)


def plain(pair: Pair) -> OffsetCommit | str | None:
    """Return the plain decoder's result; None for other records."""
    if pair[0][:2] not in (b"\0\0", b"\0\1", b"\0", b"\1"):  # half a key type is broken
        return None
    try:
        return decode_commit(*pair)
    except BadRecord:
        return BAD


def has_tags_of_a_newer_broker(value: bytes | None, commit: OffsetCommit | str | None) -> bool:
    """Only the plain decoder reads them, so only it notices broken ones."""
    if value is None or value[:2] != b"\0\4":
        return False
    return not (isinstance(commit, OffsetCommit) and value == _again(commit))


def _again(commit: OffsetCommit) -> bytes:
    import base64

    topic_id = None if commit.topic_id is None else base64.urlsafe_b64decode(commit.topic_id + "==")
    return commit_value(4, commit.committed_offset, commit.commit_ms, leader_epoch=commit.leader_epoch,
                        metadata=commit.metadata or "", topic_id=topic_id)  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_the_plain_decoder_reads_what_kafka_writes(name: str) -> None:
    commit = decode_commit(*VECTORS[name])
    assert (commit.group_id, commit.topic, commit.partition) == ("orders-é", "orders.v1", 70000)
    full = {"committed_offset": 2**40 + 1, "metadata": "né", "commit_ms": 1_700_000_000_123}
    wanted: dict[str, Any] = {
        "OffsetCommitValue v1 full": full | {"expire_ms": 1_700_000_999_123},
        "OffsetCommitValue v3 full": full | {"leader_epoch": 7},
        "OffsetCommitValue v4 full": full | {"leader_epoch": 7, "topic_id": None},
        "LegacyOffsetCommitValue": {"committed_offset": 9, "metadata": "old", "commit_ms": 8},
        "OffsetCommitValue v4 topic id": {"committed_offset": 5, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
    }
    for field, value in wanted.get(name, full).items():
        assert getattr(commit, field) == value, field


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(pairs=st.lists(commits() | broken(), min_size=100, max_size=200))
def test_spark_reads_the_same_as_the_plain_decoder(spark: Any, pairs: list[Pair]) -> None:
    pairs = [*VECTORS.values(), *pairs]
    rows = {row["log_offset"]: row for row in offset_commits(records(spark, pairs)).collect()}
    expected = {number: parsed for number, pair in enumerate(pairs) if (parsed := plain(pair)) is not None}
    assert rows.keys() == expected.keys()
    for number, parsed in expected.items():
        row, value = rows[number], pairs[number][1]
        if has_tags_of_a_newer_broker(value, parsed):
            continue
        if isinstance(parsed, str):
            assert row["kind"] == BAD, pairs[number]
            assert all(row[field] is None for field in FIELDS)
            continue
        unknown = parsed.value_version is not None and not 0 <= parsed.value_version <= 4
        assert row["kind"] == (UNKNOWN if unknown else COMMIT), pairs[number]
        assert row["tombstone"] == (value is None)
        assert {f: row[f] for f in FIELDS} == {f: getattr(parsed, f) for f in FIELDS}, pairs[number]
