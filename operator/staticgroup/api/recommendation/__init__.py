"""Read what the fleet learner recommends, as a reader that trusts nothing.

`records` are the recommendations and the law on their bounds; `manifest` is the snapshot that they come in, and the checks
that nothing of it is used without.
"""

from .manifest import (
    CLOCK_SKEW_MS_MAX,
    MANIFEST_BYTES_MAX,
    MANIFEST_NAME,
    SHARD_COUNT,
    Manifest,
    RecommendationError,
    RecommendationProblem,
    Shard,
    canonical_json,
    manifest_digest,
    read_manifest,
    read_shard,
    shard_of,
)
from .records import (
    HEARTBEATS_PER_TIMEOUT_MIN,
    RECOMMENDATION_SCHEMA,
    Difference,
    Effects,
    Estimate,
    EstimateMethod,
    Evidence,
    PriceSource,
    Recommendation,
    RecommendationReason,
    Setting,
    Share,
    TimeoutBounds,
)

__all__ = [
    "CLOCK_SKEW_MS_MAX",
    "HEARTBEATS_PER_TIMEOUT_MIN",
    "MANIFEST_BYTES_MAX",
    "MANIFEST_NAME",
    "RECOMMENDATION_SCHEMA",
    "SHARD_COUNT",
    "Difference",
    "Effects",
    "Estimate",
    "EstimateMethod",
    "Evidence",
    "Manifest",
    "PriceSource",
    "Recommendation",
    "RecommendationError",
    "RecommendationProblem",
    "RecommendationReason",
    "Setting",
    "Shard",
    "Share",
    "TimeoutBounds",
    "canonical_json",
    "manifest_digest",
    "read_manifest",
    "read_shard",
    "shard_of",
]
