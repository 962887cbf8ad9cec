"""A simulated fleet whose operators choose the timeouts, and the learner's runs over it: journals yield advice, and operators act on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fleet_learner.days.facts import DAY_MS
from fleet_learner.recommendations.advised import advise_class
from fleet_learner.recommendations.canary import WAVES, CanaryHistory, CanaryState, Wave, canary_state
from fleet_learner.recommendations.histories import Advised, Terms
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.recommendations.rows import advised_values
from fleet_learner.recommendations.waves import Trial, account_of, canary_row, shares, state_of, trial_begin_ms
from journal.recommendations import RecommendationReason as Reason
from unit.fleet_learner.wave_samples import UNKNOWN, change

Row = dict[str, Any]


@dataclass
class Service:
    """One group, deployed once a day, and what its operator wrote into the journal.

    Parameters
    ----------
    structural_ms: the session timeout without a recommendation.
    running_ms: by member, the timeout that its process started with.
    """

    name: str
    wave: Wave
    rng: np.random.Generator
    structural_ms: int
    members: int
    obeys: bool = True
    stops: list[Row] = field(default_factory=list)
    said: Row = field(default_factory=lambda: dict(UNKNOWN))

    def __post_init__(self) -> None:
        self.timeout_ms, self.source = self.structural_ms, "Structural"
        self.running_ms = [self.structural_ms] * self.members
        self.changes = [change(0, self.structural_ms / 1000, "Structural")]

    def set(self, timeout_ms: int, source: str, at_ms: int) -> None:
        """Give the next processes another timeout, and record it."""
        if timeout_ms != self.timeout_ms:
            self.changes.append(change(at_ms / DAY_MS, timeout_ms / 1000, source, self.timeout_ms / 1000))
            self.timeout_ms, self.source = timeout_ms, source

    def obey(self, advised: Advised, now_ms: int) -> None:
        """Act like `judge_advice` where the spec says no seconds: adopt released values, give up withdrawn ones."""
        record = advised.record
        if record.released and record.recommended_ms is not None:
            self.set(record.recommended_ms, "Fleet", now_ms + 60_000)
        elif Reason.CANARY_ROLLED_BACK in record.reasons:
            self.set(self.structural_ms, "Structural", now_ms + 60_000)

    def features(self, now_ms: int, window_ms: int) -> Row:
        """Return the row of `group_features`, of the window."""
        return {
            "kafka_cluster_id": "k", "group_id": self.name, "group_key": hash(self.name), "protocol": "Classic",
            "stops": [s for s in self.stops if s["down_ms"] >= now_ms - window_ms], "seen_timeout_ms": None,
            "moved": None, "of_partitions": None, "set_timeout_ms": self.timeout_ms, "timeout_source": self.source,
            "changed_ms": self.changes[-1]["event_ms"] if self.changes[1:] else None, "image_digest": "sha256:one",
            "members": float(self.members), "partitions": 4.0 * self.members, "wave": self.wave, "first_ms": 0,
            "covered_ms": min(now_ms, window_ms), "earlier_advised_ms": self.said["earlier_advised_ms"],
        }  # fmt: skip


@dataclass
class Fleet:
    """Groups, and the published runs.

    Parameters
    ----------
    roll: restarts all members of a group on a day.
    """

    services: list[Service]
    roll: Callable[..., None]
    terms: Terms
    window_ms: int = 30 * DAY_MS
    canary: CanaryState | None = None
    day: int = 0

    def live(self, days: int, **how: float) -> None:
        for _ in range(days):
            for service in self.services:
                self.roll(service, self.day, **how)
            self.day += 1

    def run(self) -> tuple[CanaryState, list[Advised]]:
        """Run the learner from the tables alone, and let operators act."""
        now_ms, before = self.day * DAY_MS, self.canary
        trial = Trial(
            campaign_ms=trial_begin_ms(before, as_of_ms=now_ms), wave_ms=before.began_ms if before else now_ms,
            wave=before.wave if before else WAVES[0], as_of_ms=now_ms, salt=MODEL_VERSION,
        )  # fmt: skip
        own = [{"wave": s.wave, "stops": s.stops, "changes": s.changes} | s.said for s in self.services]
        account, followers = account_of(each for row in own for each in shares(row, trial))
        history = CanaryHistory(before=before, now_ms=now_ms, account=account, followers=followers)
        self.canary = state_of(canary_row(history, MODEL_VERSION))
        assert self.canary == canary_state(history)
        rows = [service.features(now_ms, self.window_ms) for service in self.services]
        start_ms = max(0, now_ms - self.window_ms)
        advised = advise_class(rows, self.terms, self.canary, start_ms=start_ms, as_of_ms=now_ms)
        by_name = {each.record.group_id: each for each in advised}
        for service in self.services:
            record, state = by_name[service.name].record, by_name[service.name].state
            service.said = {
                "earlier_timeout_source": service.source, "earlier_session_timeout_ms": record.current_ms,
                "earlier_recommended_ms": record.recommended_ms, "earlier_model_version": MODEL_VERSION,
                "earlier_advised_ms": advised_values(state.advised_ms, record.recommended_ms),
            }  # fmt: skip
            if service.obeys:
                service.obey(by_name[service.name], now_ms)
        return self.canary, advised
