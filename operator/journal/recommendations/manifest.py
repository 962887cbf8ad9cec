"""Check a snapshot of recommendations: its manifest, its shards, and every record in them.

The one idea: the reader trusts nothing. A snapshot is one manifest (`manifest.json`) and immutable shards of JSON
lines; the manifest carries a digest of itself and of each shard, the version of the records and of the model, and an
expiry. A failed check raises with a reason, and the caller keeps the value it has. No function here reads a
file, a clock or a network.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from .records import RECOMMENDATION_SCHEMA, Recommendation, RecordBase, Sha256, UnixMs

MANIFEST_NAME: Final = "manifest.json"
SHARD_COUNT: Final = 256
"""For 100 000 groups a shard holds 400 records of about 1 kB, which one operator reads for one group."""
SHARD_BYTES_MAX: Final = 64 * 1024 * 1024
MANIFEST_BYTES_MAX: Final = 1024 * 1024
CLOCK_SKEW_MS_MAX: Final = 300_000
"""A snapshot may be created so far after the reader's present: two machines, two clocks."""


class RecommendationProblem(StrEnum):
    """Say why a snapshot is not used; the value is the reason of a condition."""

    CORRUPT = "RecommendationCorrupt"
    UNSUPPORTED = "RecommendationUnsupported"
    STALE = "RecommendationStale"
    FUTURE = "RecommendationFromTheFuture"


class RecommendationError(ValueError):
    """Refuse a snapshot.

    Parameters
    ----------
    problem: The reason for a condition.
    message: What is wrong, for a person.
    """

    def __init__(self, problem: RecommendationProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


# No empty segment and no segment that begins with a dot, so a path cannot leave the snapshot's folder.
RelativePath = Annotated[
    str,
    StringConstraints(max_length=512, pattern=r"^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$"),
]


class Shard(RecordBase):
    """Name one file of the snapshot."""

    index: Annotated[int, Field(ge=0)]
    path: RelativePath = Field(description="Relative to the manifest.")
    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=0, le=SHARD_BYTES_MAX)]
    records: Annotated[int, Field(ge=0)]


class Manifest(RecordBase):
    """Describe one snapshot; a shard that is not listed holds no record."""

    schema_id: str
    model_version: str = Field(max_length=253, description="Of the estimates and the policy.")
    run_id: str = Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._-]+$")
    created_ms: UnixMs
    expires_ms: UnixMs
    shard_count: Annotated[int, Field(ge=1, le=65536)] = SHARD_COUNT
    records: Annotated[int, Field(ge=0)]
    shards: tuple[Shard, ...] = ()
    digest: Sha256 = Field(description="SHA-256 over the canonical JSON of the manifest without this field.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        indexes = [shard.index for shard in self.shards]
        if len(set(indexes)) != len(indexes) or any(index >= self.shard_count for index in indexes):
            raise ValueError("shards repeat an index or exceed shard_count")
        if sum(shard.records for shard in self.shards) != self.records:
            raise ValueError("the shards' records do not add up to the manifest's")
        if self.expires_ms <= self.created_ms:
            raise ValueError("the snapshot expires before it was created")
        return self

    def shard_for(self, kafka_cluster_id: str, group_id: str) -> Shard | None:
        """Find the shard that a group's record is in; None when the snapshot has no record for the group."""
        index = shard_of(kafka_cluster_id, group_id, self.shard_count)
        return next((shard for shard in self.shards if shard.index == index), None)


def shard_of(kafka_cluster_id: str, group_id: str, shard_count: int = SHARD_COUNT) -> int:
    """Compute a group's shard: CRC-32 of `<kafka_cluster_id>/<group_id>` in UTF-8, modulo the number of shards."""
    return zlib.crc32(f"{kafka_cluster_id}/{group_id}".encode()) % shard_count


def canonical_json(document: Mapping[str, object]) -> bytes:
    """Write canonical JSON: sorted keys, no spaces, ASCII, no NaN, no line end."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def manifest_digest(document: Mapping[str, object]) -> str:
    """Compute the hexadecimal SHA-256 of a manifest without its field `digest`, with fields of later writers."""
    return hashlib.sha256(
        canonical_json({name: each for name, each in document.items() if name != "digest"})
    ).hexdigest()


def read_manifest(payload: bytes, *, now_ms: int) -> Manifest:
    """Parse and check a manifest.

    Parameters
    ----------
    payload: The file `manifest.json`.
    now_ms: The reader's clock, Unix milliseconds.

    Raises
    ------
    RecommendationError: CORRUPT, UNSUPPORTED (another version), STALE (expired) or FUTURE (created after now).
    """
    if len(payload) > MANIFEST_BYTES_MAX:
        raise _corrupt(f"the manifest has {len(payload)} bytes")
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise _corrupt(f"the manifest is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _corrupt("the manifest is not a JSON object")
    schema_id = document.get("schema_id")
    if schema_id != RECOMMENDATION_SCHEMA:
        text = f"the snapshot is of version {str(schema_id)[:100]!r}, this operator reads {RECOMMENDATION_SCHEMA!r}"
        raise RecommendationError(RecommendationProblem.UNSUPPORTED, text)
    try:
        is_whole = document.get("digest") == manifest_digest(document)
        manifest = Manifest.model_validate(document)
    except ValueError as error:  # a NaN inside is a ValueError too
        raise _corrupt(f"the manifest is not valid: {_brief(error)}") from None
    if not is_whole:
        raise _corrupt("the manifest does not match its own digest")
    if now_ms >= manifest.expires_ms:
        text = f"the snapshot {manifest.run_id} expired {(now_ms - manifest.expires_ms) // 1000} s ago"
        raise RecommendationError(RecommendationProblem.STALE, text)
    if manifest.created_ms > now_ms + CLOCK_SKEW_MS_MAX:
        text = f"the snapshot {manifest.run_id} was created {(manifest.created_ms - now_ms) // 1000} s in the future"
        raise RecommendationError(RecommendationProblem.FUTURE, text)
    return manifest


def read_shard(manifest: Manifest, shard: Shard, payload: bytes) -> dict[tuple[str, str], Recommendation]:
    """Parse and check one shard.

    Parameters
    ----------
    manifest: The checked manifest that lists the shard.
    shard: Its entry.
    payload: The file's bytes: one JSON object a line.

    Returns
    -------
    By (Kafka cluster id, group id). `Recommendation.is_valid_at` says whether a record is still valid.

    Raises
    ------
    RecommendationError: CORRUPT: the digest or number of records differs, or a record does not parse, is repeated or
        belongs to another shard.
    """
    if hashlib.sha256(payload).hexdigest() != shard.sha256:
        raise _corrupt(f"{shard.path} does not match the manifest's digest")
    found: dict[tuple[str, str], Recommendation] = {}
    for number, line in enumerate(payload.splitlines(), start=1):
        try:
            record = Recommendation.model_validate_json(line)
        except ValidationError as error:
            raise _corrupt(f"{shard.path} line {number} is not a recommendation: {_brief(error)}") from None
        if record.key in found or shard_of(*record.key, manifest.shard_count) != shard.index:
            raise _corrupt(f"{shard.path} line {number} is there twice or belongs to another shard")
        found[record.key] = record
    if len(found) != shard.records:
        raise _corrupt(f"{shard.path} holds {len(found)} records, the manifest says {shard.records}")
    return found


def _corrupt(message: str) -> RecommendationError:
    return RecommendationError(RecommendationProblem.CORRUPT, message)


def _brief(error: ValueError) -> str:
    """Return the first problem in one line, without the input, which may be anything."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
    return str(error)[:200]
