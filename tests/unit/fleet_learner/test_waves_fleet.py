"""The canary from run to run over a simulated fleet, with harmless and harmful changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.recommendations.advised import advise_class
from fleet_learner.recommendations.canary import (
    ALARM_LEVEL,
    WAVES,
    CanaryHistory,
    CanaryState,
    Wave,
    WaveAccount,
    canary_state,
    harm,
)
from fleet_learner.recommendations.histories import Advised, Terms
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.recommendations.rows import advised_values
from fleet_learner.recommendations.waves import Trial, account_of, canary_row, clock_ms, shares, state_of
from journal.recommendations import RecommendationReason as Reason
from unit.fleet_learner.wave_samples import EARLIER, SALT, UNKNOWN, change, stop

Row = dict[str, Any]

TERMS = Terms(durations=StopDurations(is_eager_stated=True, is_cooperative_stated=True), bounds={}, valid_ms=7 * DAY_MS)
MEMBERS = 12
STRUCTURAL_MS = 30_000


@dataclass
class Pod:
    """One member: the timeout that its process started with."""

    timeout_ms: int = STRUCTURAL_MS


@dataclass
class Team:
    """One group in mode Auto, rolled once a day, and what its operator wrote into the journal."""

    group_id: str
    wave: Wave
    rng: np.random.Generator
    timeout_ms: int = STRUCTURAL_MS
    source: str = "Structural"
    obeys: bool = True
    stops: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=lambda: [Pod() for _ in range(MEMBERS)])

    def live(self, day: int, harm: float) -> None:
        """Roll all members; members with the fleet's timeout take `harm` times as long."""
        for number, pod in enumerate(self.pods):
            factor = harm if pod.timeout_ms != STRUCTURAL_MS else 1.0
            gap_ms = round(30_000 * factor * float(np.exp(0.4 * self.rng.standard_normal())))
            self.stops.append({
                "down_ms": day * DAY_MS + 60_000 * number, "event_id": f"{self.group_id}/{day}/{number}",
                "gap_ms": gap_ms, "end_kind": "returned", "absorbed": gap_ms <= pod.timeout_ms, "reason": "Deleted",
                "rollout_id": f"rev-{day}",
                "image_digest": "sha256:one", "session_timeout_ms": pod.timeout_ms,
            })  # fmt: skip
            pod.timeout_ms = self.timeout_ms

    def obey(self, advised: Advised, now_ms: int) -> None:
        """Act like `judge_advice` in mode Auto: adopt released values, give up withdrawn ones."""
        record = advised.record
        wanted = (self.timeout_ms, self.source)
        if record.released and record.recommended_ms is not None:
            wanted = (record.recommended_ms, "Fleet")
        elif Reason.CANARY_ROLLED_BACK in record.reasons:
            wanted = (STRUCTURAL_MS, "Structural")
        if wanted[0] != self.timeout_ms:
            self.changes.append({
                "event_ms": now_ms + 300_000, "timeout_source": wanted[1],
                "session_timeout_ms_before": self.timeout_ms, "session_timeout_ms_after": wanted[0],
            })  # fmt: skip
            self.timeout_ms, self.source = wanted

    def features(self, now_ms: int) -> Row:
        """Return the row of `group_features`."""
        return {
            "kafka_cluster_id": "k", "group_id": self.group_id, "group_key": hash(self.group_id), "protocol": "Classic",
            "stops": self.stops, "seen_timeout_ms": STRUCTURAL_MS, "moved": None, "of_partitions": None,
            "set_timeout_ms": self.timeout_ms, "timeout_source": self.source,
            "changed_ms": self.changes[-1]["event_ms"] if self.changes else None, "image_digest": "sha256:one",
            "members": MEMBERS, "partitions": 4 * MEMBERS, "wave": self.wave, "first_ms": 0, "covered_ms": now_ms,
        }  # fmt: skip


@dataclass
class Fleet:
    """Groups of all waves, and the published runs."""

    teams: list[Team]
    canary: CanaryState | None = None
    said: dict[str, Row] = field(default_factory=dict)
    day: int = 0

    def live(self, days: int, harm: float = 1.0) -> None:
        for _ in range(days):
            for team in self.teams:
                team.live(self.day, harm)
            self.day += 1

    def run(self) -> tuple[CanaryState, list[Advised]]:
        """Run the learner from the tables alone, and let operators act."""
        now_ms = self.day * DAY_MS
        before = self.canary
        trial = Trial(
            campaign_ms=before.campaign_ms if before else now_ms, wave_ms=before.began_ms if before else now_ms,
            wave=before.wave if before else WAVES[0], as_of_ms=now_ms, salt=MODEL_VERSION,
        )  # fmt: skip
        own = [
            {"wave": t.wave, "stops": t.stops, "changes": t.changes or [change(0, t.timeout_ms / 1000, t.source)]}
            | self.said.get(t.group_id, UNKNOWN)
            for t in self.teams
        ]  # fmt: skip
        account, followers = account_of(each for row in own for each in shares(row, trial))
        history = CanaryHistory(before=before, now_ms=now_ms, account=account, followers=followers)
        self.canary = state_of(canary_row(history, MODEL_VERSION))
        assert self.canary == canary_state(history)
        rows = [team.features(now_ms) for team in self.teams]
        advised = advise_class(rows, TERMS, self.canary, start_ms=0, as_of_ms=now_ms)
        by_name = {each.record.group_id: each for each in advised}
        for team in self.teams:
            record = by_name[team.group_id].record
            self.said[team.group_id] = {
                "earlier_timeout_source": team.source, "earlier_session_timeout_ms": record.current_ms,
                "earlier_recommended_ms": record.recommended_ms, "earlier_model_version": MODEL_VERSION,
                "earlier_advised_ms": advised_values(by_name[team.group_id].state.advised_ms, record.recommended_ms),
            }  # fmt: skip
            if team.obeys:
                team.obey(by_name[team.group_id], now_ms)
        return self.canary, advised

    def follows(self) -> dict[int, int]:
        """Count by wave the groups that have the fleet's timeout."""
        counted = dict.fromkeys(WAVES, 0)
        for team in self.teams:
            counted[team.wave] += team.source == "Fleet"
        return {int(wave): number for wave, number in counted.items()}


def new_fleet(seed: int) -> Fleet:
    sizes: tuple[tuple[Wave, int], ...] = ((1, 2), (10, 4), (50, 3), (95, 3), (100, 2))
    every = [wave for wave, number in sizes for _ in range(number)]
    generators = (np.random.Generator(np.random.Philox(key=[seed, index])) for index in range(len(every)))
    return Fleet([Team(f"group-{i}", wave, rng) for i, (wave, rng) in enumerate(zip(every, generators, strict=True))])


def test_a_bad_canary_is_released_to_one_then_to_ten_per_cent_and_then_taken_back_and_locked() -> None:
    """At 30 s half of the members are expelled, so all groups should get more; from the second week on that harms."""
    fleet = new_fleet(1)
    fleet.live(20)
    first, advised = fleet.run()
    assert (first.wave, first.campaign_ms) == (1, 20 * DAY_MS)
    assert all(e.record.recommended_ms == 60_000 for e in advised)
    assert all((Reason.CANARY_WAITING in e.record.reasons) == (e.record.wave > 1) for e in advised)
    assert fleet.follows() == {1: 2, 10: 0, 50: 0, 95: 0, 100: 0}

    fleet.live(7)
    second, _ = fleet.run()
    assert (second.wave, second.began_ms, second.campaign_ms) == (10, 27 * DAY_MS, 20 * DAY_MS)
    assert fleet.follows() == {1: 2, 10: 4, 50: 0, 95: 0, 100: 0}

    fleet.live(7, harm=3.0)
    third, advised = fleet.run()
    assert (third.withdrawn, third.locked_until_ms) == (10, 48 * DAY_MS)
    assert not any(each.record.released for each in advised)
    assert all((Reason.CANARY_ROLLED_BACK in e.record.reasons) == (e.record.wave <= 10) for e in advised)
    assert fleet.follows() == {1: 0, 10: 0, 50: 0, 95: 0, 100: 0}
    assert {team.timeout_ms for team in fleet.teams} == {STRUCTURAL_MS}

    fleet.live(13)
    locked, advised = fleet.run()
    assert locked == replace(third, as_of_ms=47 * DAY_MS)
    assert not any(each.record.released for each in advised)

    fleet.live(1)
    again, advised = fleet.run()
    assert (again.wave, again.campaign_ms) == (1, 48 * DAY_MS)
    assert {each.record.wave for each in advised if each.record.released} == {1}
    assert fleet.follows() == {1: 2, 10: 0, 50: 0, 95: 0, 100: 0}


def test_a_good_canary_reaches_all_groups_in_five_runs() -> None:
    fleet = new_fleet(2)
    fleet.live(20)
    seen = []
    for _ in range(5):
        seen.append(fleet.run()[0].wave)
        fleet.live(6)
    assert seen == [1, 10, 50, 95, 100]
    assert fleet.run()[0].is_over
    assert fleet.follows() == {1: 2, 10: 4, 50: 3, 95: 3, 100: 2}


def test_a_wave_that_nobody_takes_is_passed_after_a_fortnight() -> None:
    """Its operator has no recommendations, or a bound prevents it; later waves wait for it, but not for ever."""
    fleet = new_fleet(3)
    for team in fleet.teams:
        team.obeys = team.wave != 1
    fleet.live(20)
    seen = {}
    for _ in range(17):
        seen[fleet.day - 20] = fleet.run()[0].wave
        fleet.live(1)
    assert {wave for day, wave in seen.items() if day < 14} == {1}
    assert {wave for day, wave in seen.items() if day >= 14} <= {10, 50}
    assert fleet.follows()[10] == 4


@pytest.mark.parametrize("ahead_days", [1, 365])
def test_an_end_in_the_future_holds_no_wave_back(ahead_days: int) -> None:
    """One run with a fast clock begins the waves; the runs of later days continue them."""
    newest_ms = 20 * DAY_MS
    began = canary_state(
        CanaryHistory(before=None, now_ms=clock_ms(as_of_ms=newest_ms + ahead_days * DAY_MS, newest_ms=newest_ms))
    )
    account = WaveAccount(wave_stops=500)
    later_ms = clock_ms(as_of_ms=22 * DAY_MS, newest_ms=22 * DAY_MS - 1)
    assert canary_state(CanaryHistory(before=began, now_ms=later_ms, account=account, followers={10: 1})).wave == 10


def test_a_lock_ends_by_the_clock_that_waves_go_by() -> None:
    """A run with an end of the window a year ahead recommends by the journal until now."""
    locked = CanaryState(wave=1, began_ms=30 * DAY_MS, locked_until_ms=30 * DAY_MS, withdrawn=1)
    fleet = new_fleet(1)
    fleet.live(20)
    newest_ms = fleet.day * DAY_MS
    canary = canary_state(
        CanaryHistory(before=locked, now_ms=clock_ms(as_of_ms=newest_ms + 365 * DAY_MS, newest_ms=newest_ms))
    )
    rows = [team.features(newest_ms) for team in fleet.teams]
    advised = advise_class(rows, TERMS, canary, start_ms=0, as_of_ms=newest_ms + 365 * DAY_MS)
    assert not any(each.record.released for each in advised)


def trial_stops(rng: np.random.Generator, days: int, changed_day: int, factor: float) -> list[Row]:
    """Roll a group once a day: stops of a rollout resemble each other, 2 % take six times as long.

    From `changed_day` on processes run with 60 s instead of 30 s, and take `factor` times as long to come back.
    """
    median_ms, made = 25_000 * float(np.exp(0.4 * rng.standard_normal())), []
    for day in range(days):
        shared, own = rng.standard_normal(), rng.standard_normal(MEMBERS)
        gaps = median_ms * np.exp(0.4 * (0.7 * shared + 0.7 * own))
        gaps = np.where(rng.random(MEMBERS) < 0.02, 6 * gaps, gaps) * (factor if day >= changed_day else 1.0)
        timeout_s = 60 if day >= changed_day else 30
        made += [stop(day + number / 100, gap / 1000, timeout_s) for number, gap in enumerate(gaps.tolist())]
    return made


def test_dependent_stops_and_heavy_tails_seldom_stop_a_campaign_and_slower_members_do() -> None:
    """Evaluated every day for ten days; half of the stops of a rollout are equal, which the test does not model."""
    rng = np.random.Generator(np.random.Philox(key=[71, 0]))
    trial = Trial(campaign_ms=12 * DAY_MS, wave_ms=12 * DAY_MS, wave=10, as_of_ms=22 * DAY_MS, salt=SALT)
    alarms = {1.0: 0, 2.0: 0}
    for factor in [each for each in alarms for _ in range(30)]:
        rows = [
            {"wave": 10, **EARLIER}
            | {
                "stops": trial_stops(rng, 22, 12 if group < 3 else 99, factor),
                "changes": [change(12, 60)] if group < 3 else None,
            }
            for group in range(12)
        ]
        every = [share for row in rows for share in shares(row, trial)]
        looks = (account_of(s for s in every if s.day_ms < day * DAY_MS)[0] for day in range(13, 23))
        alarms[factor] += any(harm(account) >= 1 / ALARM_LEVEL for account in looks)
    assert alarms[1.0] <= 0.05 * 30 + 3 * (0.05 * 0.95 * 30) ** 0.5
    assert alarms[2.0] >= 27
