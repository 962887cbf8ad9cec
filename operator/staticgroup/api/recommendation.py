"""Read what the fleet learner recommends: records, manifest, shards, and the checks that nothing is used without.

The one idea: the reader trusts nothing. A snapshot is one manifest (`manifest.json`) and immutable shards of JSON
lines; the manifest carries a digest of itself and of each shard, the version of the records and of the model, and an
expiry. Whatever fails a check raises with a reason, and the caller keeps the value it has. No function here reads a
file, a clock or a network, and nothing here names a member: a recommendation can change a number, never a membership.
Fields are snake_case as in the journal, because the same rows are written as Parquet. Later writers may add fields
within version 1, which are ignored here; a changed meaning is a new version, which is refused here.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from .schema import INT64_MAX, TIMEOUT_MS_MAX

RECOMMENDATION_SCHEMA: Final = "urn:staticgroup:recommendation:1"
MANIFEST_NAME: Final = "manifest.json"
SHARD_COUNT: Final = 256
"""A fleet of 100 000 groups is 400 records of about 1 kB in a shard: what one operator reads for one group."""
SHARD_BYTES_MAX: Final = 64 * 1024 * 1024
MANIFEST_BYTES_MAX: Final = 1024 * 1024
CLOCK_SKEW_MS_MAX: Final = 300_000
"""A snapshot may be this much younger than the reader's clock says: two machines, two clocks."""
HEARTBEATS_PER_TIMEOUT_MIN: Final = 3
"""`ConsumerConfig.HEARTBEAT_INTERVAL_MS_DOC`: no higher than 1/3 of the session timeout."""


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


class Setting(StrEnum):
    """Name the setting that the number is for."""

    SESSION_TIMEOUT = "session.timeout.ms"
    CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
    STREAMS_SESSION_TIMEOUT = "streams.session.timeout.ms"
    CONNECT_DELAY = "scheduled.rebalance.max.delay.ms"


class EstimateMethod(StrEnum):
    """Name the estimator that the number rests on."""

    KAPLAN_MEIER = "KaplanMeier"
    ORDER_STATISTIC = "OrderStatistic"
    POOLED = "Pooled"
    STRUCTURAL = "Structural"
    RENT_OR_BUY = "RentOrBuy"


class RecommendationReason(StrEnum):
    """Say what shaped the number; a record holds them in the order in which they applied."""

    COST_OPTIMUM = "CostOptimum"
    DETECTION_TARGET = "DetectionTarget"
    TOO_FEW = "TooFew"
    STRUCTURAL_CAP = "StructuralCap"
    SPEC_MINIMUM = "SpecMinimum"
    SPEC_MAXIMUM = "SpecMaximum"
    BROKER_MINIMUM = "BrokerMinimum"
    BROKER_CAP = "BrokerCap"
    HEARTBEAT_MINIMUM = "HeartbeatMinimum"
    INFEASIBLE = "Infeasible"
    USE_DYNAMIC = "UseDynamic"
    CONNECT_DELAY = "ConnectDelay"
    SMALL_CHANGE = "SmallChange"
    STEP_LIMITED = "StepLimited"
    NEW_IMAGE_FREEZE = "NewImageFreeze"
    TOO_SOON = "TooSoon"
    SLOWER_RESTARTS = "SlowerRestarts"
    CANARY_WAITING = "CanaryWaiting"
    CANARY_ROLLED_BACK = "CanaryRolledBack"
    LOW_COVERAGE = "LowCoverage"


DurationMs = Annotated[int, Field(ge=0, le=TIMEOUT_MS_MAX)]
UnixMs = Annotated[int, Field(ge=0, le=INT64_MAX)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# No empty segment, no segment that begins with a dot: nothing that leaves the snapshot's own folder.
RelativePath = Annotated[
    str,
    StringConstraints(max_length=512, pattern=r"^[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*$"),
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)


class Estimate(_Record):
    """Give an estimate with its interval, in the unit of its field."""

    value: Amount
    lower: Amount
    upper: Amount

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.value <= self.upper:
            raise ValueError(f"an estimate lies in its interval, {self.value} is not in {self.lower}..{self.upper}")
        return self


class Effects(_Record):
    """Say what one timeout is expected to cost a group per day."""

    evictions_per_day: Estimate = Field(description="Members expelled although they would have come back.")
    ghost_seconds_per_day: Estimate = Field(description="Seconds in which a member's place is kept with nobody in it.")
    cost_partition_seconds_per_day: Estimate = Field(description="Partition-seconds without consumption.")


class Evidence(_Record):
    """Say what the number rests on."""

    stops: Annotated[int, Field(ge=0)] = Field(description="Observed stops of members.")
    stops_effective: Amount = Field(description="The same, after weights for age and for stops of one rollout.")
    censored: Annotated[int, Field(ge=0)] = Field(description="Stops whose end was not seen.")
    rollouts: Annotated[int, Field(ge=0)] = Field(0, description="Distinct rollouts among the stops.")
    method: EstimateMethod
    coverage: Share = Field(description="Share of the window in which an operator was looking.")
    workload_class: str = Field("", max_length=253, description="The class of workloads it was pooled with.")
    from_ms: UnixMs = Field(description="Begin of the window, Unix milliseconds.")
    to_ms: UnixMs = Field(description="End of the window, Unix milliseconds.")


class Recommendation(_Record):
    """Recommend a session timeout, or Connect's delay, for one group."""

    kafka_cluster_id: str = Field(min_length=1, max_length=253)
    group_id: str = Field(min_length=1, max_length=32767)
    protocol: Literal["Classic", "Consumer", "Streams", "Connect", "Unknown"]
    setting: Setting
    current_ms: DurationMs | None = Field(description="In force when the record was made; null: not known.")
    recommended_ms: DurationMs | None = Field(description="What to set next; null: keep what is there.")
    goal_ms: DurationMs | None = Field(description="Where the steps lead, inside the bounds; null: no goal.")
    lower_ms: DurationMs | None = Field(None, description="Low end of the interval of the goal.")
    upper_ms: DurationMs | None = Field(None, description="High end of the interval of the goal.")
    uncapped_ms: DurationMs | None = Field(None, description="The goal without any bound.")
    released: bool = Field(description="Whether the canary lets this group act on it now.")
    wave: Literal[1, 10, 50, 100] = Field(100, description="The canary wave of the group: per cent of all groups.")
    probability_cheaper: Share | None = Field(
        None, description="That the recommended value costs less than the present."
    )
    evidence: Evidence
    before: Effects | None = Field(None, description="Expected at current_ms; null: not known.")
    after: Effects | None = Field(None, description="Expected at recommended_ms; null: not known.")
    bounds_minimum_ms: DurationMs | None = Field(None, description="The lower bound that was applied.")
    bounds_maximum_ms: DurationMs | None = Field(None, description="The upper bound that was applied.")
    reasons: tuple[RecommendationReason, ...] = ()
    message: str = Field("", max_length=1024, description="What to do and why, in a sentence.")
    valid_until_ms: UnixMs

    @property
    def key(self) -> tuple[str, str]:
        """Name the group: (Kafka cluster id, group id)."""
        return self.kafka_cluster_id, self.group_id

    def is_valid_at(self, now_ms: int) -> bool:
        """Say whether the record may still be used; `now_ms` in Unix milliseconds."""
        return now_ms < self.valid_until_ms


class Shard(_Record):
    """Name one file of the snapshot."""

    index: Annotated[int, Field(ge=0)]
    path: RelativePath = Field(description="Relative to the manifest.")
    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=0, le=SHARD_BYTES_MAX)]
    records: Annotated[int, Field(ge=0)]


class Manifest(_Record):
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
    """Write JSON of which there is only one form: sorted keys, no spaces, ASCII, no NaN, no line end."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def manifest_digest(document: Mapping[str, object]) -> str:
    """Compute the hexadecimal SHA-256 of a manifest but for its field `digest`, whatever fields a later writer added."""
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
    By (Kafka cluster id, group id). Whether a record is still valid is `Recommendation.is_valid_at`'s to say.

    Raises
    ------
    RecommendationError: CORRUPT: another digest or number of records, a record that does not parse, is there twice, or
        is not the shard's.
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


class TimeoutBounds(_Record):
    """Hold every bound on a session timeout; what is None does not bind.

    The one law of both sides: the timeout stays within [max(spec minimum, broker minimum, 3 heartbeats),
    min(spec maximum, broker maximum)], whatever is recommended.
    """

    spec_minimum_ms: DurationMs | None = None
    spec_maximum_ms: DurationMs | None = None
    broker_minimum_ms: DurationMs | None = None
    broker_maximum_ms: DurationMs | None = None
    heartbeat_interval_ms: DurationMs | None = None

    @property
    def minimum_ms(self) -> int:
        """Give the highest of the lower bounds, 0 when there is none."""
        heartbeats_ms = HEARTBEATS_PER_TIMEOUT_MIN * (self.heartbeat_interval_ms or 0)
        return max(self.spec_minimum_ms or 0, self.broker_minimum_ms or 0, heartbeats_ms)

    @property
    def maximum_ms(self) -> int:
        """Give the lowest of the upper bounds, one day when there is none."""
        known = (each for each in (self.spec_maximum_ms, self.broker_maximum_ms) if each is not None)
        return min(known, default=TIMEOUT_MS_MAX)

    @property
    def is_feasible(self) -> bool:
        """Say whether any timeout satisfies all bounds."""
        return self.minimum_ms <= self.maximum_ms

    def clamped_ms(self, timeout_ms: int) -> int | None:
        """Bring a timeout inside the bounds; None when no timeout satisfies them."""
        return max(self.minimum_ms, min(timeout_ms, self.maximum_ms)) if self.is_feasible else None


def _corrupt(message: str) -> RecommendationError:
    return RecommendationError(RecommendationProblem.CORRUPT, message)


def _brief(error: ValueError) -> str:
    """Say the first thing that is wrong, in one line; never the input, which may be anything."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"[:200]
    return str(error)[:200]
