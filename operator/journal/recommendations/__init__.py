"""Read what the fleet learner recommends, as a reader that trusts nothing.

`records` defines recommendations; `manifest` verifies the snapshot that contains them; `reader` pulls it for the
operator.
"""

from .manifest import (
    CLOCK_SKEW_MS_MAX,
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
)  # fmt: skip
from .records import (
    RECOMMENDATION_SCHEMA,
    Difference,
    Effects,
    Estimate,
    EstimateMethod,
    PriceSource,
    Recommendation,
    RecommendationEvidence,
    RecommendationReason,
    Setting,
    Share,
)  # fmt: skip

__all__ = [
    "CLOCK_SKEW_MS_MAX",
    "MANIFEST_NAME",
    "RECOMMENDATION_SCHEMA",
    "SHARD_COUNT",
    "Difference",
    "Effects",
    "Estimate",
    "EstimateMethod",
    "Manifest",
    "PriceSource",
    "Recommendation",
    "RecommendationError",
    "RecommendationEvidence",
    "RecommendationProblem",
    "RecommendationReason",
    "Setting",
    "Shard",
    "Share",
    "canonical_json",
    "manifest_digest",
    "read_manifest",
    "read_shard",
    "shard_of",
]  # fmt: skip
