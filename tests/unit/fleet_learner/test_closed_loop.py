"""Sixty groups of JVMs whose containers start after 5 s and whose members are back 50 s later, from run to run.

The journal's facts yield absences by the published definition, absences yield recommendations, and operators act on
them; whether the group absorbs a restart depends only on the timeout in force.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.recommendations.advised import advise_class
from fleet_learner.recommendations.canary import WAVES, CanaryHistory, CanaryState, Wave, canary_state, waves_of
from fleet_learner.recommendations.histories import Terms
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.recommendations.rows import advised_values
from fleet_learner.recommendations.waves import Trial, account_of, shares, trial_begin_ms
from journal.recommendations import RecommendationReason as Reason
from support import absences as absence_facts
from support.absence_definition import absences

GROUPS: Final = 60
MEMBERS: Final = 4
TIMEOUT_MS: Final = 45_000
WINDOW_DAYS: Final = 30
TERMS: Final = Terms(durations=StopDurations(), bounds={}, valid_ms=7 * DAY_MS)
"""Terms without a price of a rebalance."""
NEVER: Final = {
    "earlier_timeout_source": None, "earlier_session_timeout_ms": None, "earlier_recommended_ms": None,
    "earlier_advised_ms": None, "earlier_model_version": None,
}  # fmt: skip
Row = dict[str, Any]


@dataclass
class Service:
    """One group, deployed once a day, with an operator in mode Auto."""

    name: str
    wave: Wave
    rng: np.random.Generator
    timeout_ms: int = TIMEOUT_MS
    stops: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    said: Row = field(default_factory=lambda: dict(NEVER))
    running_ms: list[int] = field(default_factory=lambda: [TIMEOUT_MS] * MEMBERS)

    def live(self, day: int) -> None:
        """Roll all members; the group keeps an absent member for the timeout of its previous process."""
        for number in range(MEMBERS):
            down_ms = day * DAY_MS + 300_000 * number
            started_ms = down_ms + round(5_000 * float(np.exp(0.15 * self.rng.standard_normal())))
            back_ms = started_ms + round(50_000 * float(np.exp(0.05 * self.rng.standard_normal())))
            seen_ms = back_ms + int(self.rng.integers(1, 5_000))
            age_ms = int(self.rng.integers(0, 3_000))
            absorbed = back_ms - down_ms <= self.running_ms[number] - age_ms
            facts = [
                absence_facts.fact(0, {"down": f"{day}/0", "at": down_ms // 1000 * 1000, "seen": down_ms + 300}),
                absence_facts.fact(
                    1, {"up": f"{day + 1}/0", "at": started_ms // 1000 * 1000, "seen": started_ms + 300}
                ),
                absence_facts.fact(2, {"back": absorbed, "lo": seen_ms - 5_000, "hi": seen_ms, "seen": seen_ms}),
            ]
            (absence,) = absences(absence_facts.events(facts), as_of_ms=(day + 1) * DAY_MS)
            self.stops.append({
                "down_ms": absence.down_ms, "event_id": f"{day}/{number}", "gap_ms": absence.gap_ms,
                "end_kind": absence.end.value, "absorbed": absence.absorbed, "reason": "Deleted",
                "rollout_id": f"rev-{day}", "image_digest": "sha256:one",
                "session_timeout_ms": self.running_ms[number],
            })  # fmt: skip
            self.running_ms[number] = self.timeout_ms

    def set(self, timeout_ms: int, source: str, at_ms: int) -> None:
        """Give the next processes another timeout, and record it."""
        if timeout_ms != self.timeout_ms:
            self.changes.append({
                "event_ms": at_ms, "timeout_source": source, "session_timeout_ms_before": self.timeout_ms,
                "session_timeout_ms_after": timeout_ms,
            })  # fmt: skip
            self.timeout_ms = timeout_ms

    def account_row(self) -> Row:
        """Return the input of the canary."""
        begin = {"event_ms": 0, "timeout_source": "Structural", "session_timeout_ms_before": None,
                 "session_timeout_ms_after": TIMEOUT_MS}  # fmt: skip
        return {"wave": self.wave, "stops": self.stops, "changes": [begin, *self.changes]} | self.said

    def features(self, now_ms: int) -> Row:
        """Return the row of `group_features`, of the window."""
        source = self.changes[-1]["timeout_source"] if self.changes else "Structural"
        return {
            "kafka_cluster_id": "k", "group_id": self.name, "group_key": hash(self.name), "protocol": "Classic",
            "stops": [s for s in self.stops if s["down_ms"] >= now_ms - WINDOW_DAYS * DAY_MS],
            "seen_timeout_ms": None, "moved": None, "of_partitions": None, "set_timeout_ms": self.timeout_ms,
            "timeout_source": source, "changed_ms": self.changes[-1]["event_ms"] if self.changes else None,
            "image_digest": "sha256:one", "members": float(MEMBERS), "partitions": 16.0, "wave": self.wave,
            "first_ms": 0, "covered_ms": min(now_ms, WINDOW_DAYS * DAY_MS),
            "earlier_advised_ms": self.said["earlier_advised_ms"],
        }  # fmt: skip


@dataclass
class Services:
    """The fleet and its runs."""

    each: list[Service]
    canary: CanaryState | None = None
    day: int = 0

    def live(self, days: int) -> None:
        for _ in range(days):
            for service in self.each:
                service.live(self.day)
            self.day += 1

    def run(self) -> CanaryState:
        """Run the learner, and let operators follow: adopt released values, give up withdrawn ones."""
        now_ms, before = self.day * DAY_MS, self.canary
        trial = Trial(
            campaign_ms=trial_begin_ms(before, as_of_ms=now_ms), wave_ms=before.began_ms if before else now_ms,
            wave=before.wave if before else WAVES[0], as_of_ms=now_ms, salt=MODEL_VERSION,
        )  # fmt: skip
        account, followers = account_of(s for each in self.each for s in shares(each.account_row(), trial))
        self.canary = canary_state(CanaryHistory(before=before, now_ms=now_ms, account=account, followers=followers))
        rows = [each.features(now_ms) for each in self.each]
        start_ms = max(0, now_ms - WINDOW_DAYS * DAY_MS)
        advised = {
            a.record.group_id: a for a in advise_class(rows, TERMS, self.canary, start_ms=start_ms, as_of_ms=now_ms)
        }
        for each in self.each:
            record, state = advised[each.name].record, advised[each.name].state
            each.said = {
                "earlier_timeout_source": state.source, "earlier_session_timeout_ms": record.current_ms,
                "earlier_recommended_ms": record.recommended_ms, "earlier_model_version": MODEL_VERSION,
                "earlier_advised_ms": advised_values(state.advised_ms, record.recommended_ms),
            }  # fmt: skip
            if record.released and record.recommended_ms is not None:
                each.set(record.recommended_ms, "Fleet", now_ms + 60_000)
            elif Reason.CANARY_ROLLED_BACK in record.reasons:
                each.set(TIMEOUT_MS, "Structural", now_ms + 60_000)
        return self.canary

    def absorbed(self, days: int) -> float:
        """Return the absorbed share of the restarts of the last days."""
        recent = [s for each in self.each for s in each.stops if s["down_ms"] >= (self.day - days) * DAY_MS]
        return sum(bool(s["absorbed"]) for s in recent) / len(recent)


def services(seed: int) -> Services:
    names = [f"group-{index}" for index in range(GROUPS)]
    waves = waves_of((("k", name) for name in names), salt=MODEL_VERSION)
    return Services(
        [Service(n, waves["k", n], np.random.Generator(np.random.Philox(key=[seed, i]))) for i, n in enumerate(names)]
    )


def weeks(fleet: Services, number: int) -> list[CanaryState]:
    """Let a run follow each week."""
    states = []
    for _ in range(number):
        fleet.live(7)
        states.append(fleet.run())
    return states


def test_groups_that_join_late_end_at_timeouts_that_absorb_their_restarts() -> None:
    """45 s absorb none of their restarts, which last 55 s; a gap that ended with the container would ask for 10 to 15
    s."""
    fleet = services(1)
    fleet.live(14)
    assert fleet.absorbed(7) == 0
    fleet.run()
    states = weeks(fleet, 12)
    assert not any(state.withdrawn for state in states)
    assert states[-1].is_over
    fleet.live(7)
    assert fleet.absorbed(7) >= 0.99
    assert {service.timeout_ms for service in fleet.each} <= {60_000, 65_000, 70_000, 75_000}


def test_a_wrong_shortening_forced_by_hand_is_rolled_back_by_the_next_run() -> None:
    fleet = services(2)
    fleet.live(14)
    fleet.run()
    weeks(fleet, 12)
    for service in fleet.each[:20]:
        service.set(20_000, "Fleet", fleet.day * DAY_MS)
    fleet.live(7)
    assert fleet.absorbed(5) < 0.7
    state = fleet.run()
    assert state.withdrawn == 100
    assert {service.timeout_ms for service in fleet.each[:20]} == {TIMEOUT_MS}
    assert all(service.changes[-1]["timeout_source"] == "Structural" for service in fleet.each[:20])
