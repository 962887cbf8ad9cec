"""Describe a recommendation: one number for one group, and its evidence.

The one idea: nothing here names a member; a recommendation can change a number, never a membership. Fields are
snake_case as in the journal, because the same rows are written as Parquet. Later writers may add fields within
version 1, which are ignored here; a changed meaning is a new version, which is refused.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from staticgroup.api.schema import INT64_MAX, TIMEOUT_MS_MAX

RECOMMENDATION_SCHEMA: Final = "urn:staticgroup:recommendation:1"


class Setting(StrEnum):
    """Name the setting that the number is for."""

    SESSION_TIMEOUT = "session.timeout.ms"
    CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
    STREAMS_SESSION_TIMEOUT = "streams.session.timeout.ms"
    CONNECT_DELAY = "scheduled.rebalance.max.delay.ms"


class EstimateMethod(StrEnum):
    """Name the estimator of the number."""

    KAPLAN_MEIER = "KaplanMeier"
    ORDER_STATISTIC = "OrderStatistic"
    POOLED = "Pooled"
    STRUCTURAL = "Structural"
    RENT_OR_BUY = "RentOrBuy"


class PriceSource(StrEnum):
    """Say where the price of a rebalance is from, which every comparison in partition-seconds uses.

    MEASURED: from the group's own offset commits. STATED: from the configuration. ASSUMED: not known, so no
    recommendation depends on it.
    """

    MEASURED = "measured"
    STATED = "stated"
    ASSUMED = "assumed"


class RecommendationReason(StrEnum):
    """Say what shaped the number; a record holds them in the order in which they applied."""

    COST_OPTIMUM = "CostOptimum"
    ABSORBS_RESTARTS = "AbsorbsRestarts"
    TOO_FEW = "TooFew"
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


class RecordBase(BaseModel):
    """Be frozen, and ignore the fields that a later writer adds."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)


class Estimate(RecordBase):
    """Give an estimate with its interval, in the unit of its field."""

    value: Amount
    lower: Amount
    upper: Amount

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.value <= self.upper:
            raise ValueError(f"an estimate lies in its interval, {self.value} is not in {self.lower}..{self.upper}")
        return self


class Difference(RecordBase):
    """Give a difference with its interval, in the unit of its field; below zero it is a loss."""

    value: float = Field(allow_inf_nan=False)
    lower: float = Field(allow_inf_nan=False)
    upper: float = Field(allow_inf_nan=False)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.value <= self.upper:
            raise ValueError(f"a difference lies in its interval, {self.value} is not in {self.lower}..{self.upper}")
        return self


class Effects(RecordBase):
    """Say what one timeout is expected to cost a group per day."""

    evictions_per_day: Estimate = Field(description="Members expelled although they would have come back.")
    ghost_seconds_per_day: Estimate = Field(description="Seconds in which an absent member's place is kept.")
    cost_partition_seconds_per_day: Estimate = Field(description="Partition-seconds without consumption.")


class RecommendationEvidence(RecordBase):
    """Hold the evidence for the number."""

    stops: Annotated[int, Field(ge=0)] = Field(description="Observed stops of members.")
    stops_effective: Amount = Field(description="The same, after weights for age and for stops of one rollout.")
    censored: Annotated[int, Field(ge=0)] = Field(description="Stops whose end was not seen.")
    rollouts: Annotated[int, Field(ge=0)] = Field(0, description="Distinct rollouts among the stops.")
    method: EstimateMethod
    coverage: Share = Field(description="Share of the window in which an operator was looking.")
    workload_class: str = Field("", max_length=253, description="The class of workloads it was pooled with.")
    from_ms: UnixMs = Field(description="Begin of the window, Unix milliseconds.")
    to_ms: UnixMs = Field(description="End of the window, Unix milliseconds.")


class Recommendation(RecordBase):
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
    wave: Annotated[int, Field(ge=1, le=100)] = Field(
        100, description="The canary wave of the group: so many per cent of all groups act no later."
    )
    probability_cheaper: Share | None = Field(
        None, description="That the recommended value costs less than the present."
    )
    price_source: PriceSource | None = Field(
        None, description="Where the price of a rebalance is from; null: not known."
    )
    evidence: RecommendationEvidence
    before: Effects | None = Field(None, description="Expected at current_ms; null: not known.")
    after: Effects | None = Field(None, description="Expected at recommended_ms; null: not known.")
    saved_partition_seconds_per_day: Difference | None = Field(
        None, description="By what is advised, with the uncertainty of laws and price; null: no price is known."
    )
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
