"""The canary from run to run over a simulated fleet, with harmless and harmful changes."""

from __future__ import annotations

from dataclasses import replace
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
from fleet_learner.recommendations.histories import Terms
from fleet_learner.recommendations.waves import Trial, account_of, clock_ms, shares
from journal.recommendations import RecommendationReason as Reason
from unit.fleet_learner.fleet_runs import Fleet, Service
from unit.fleet_learner.wave_samples import EARLIER, SALT, change, stop

Row = dict[str, Any]

TERMS = Terms(durations=StopDurations(is_eager_stated=True, is_cooperative_stated=True), bounds={}, valid_ms=7 * DAY_MS)
MEMBERS = 12
STRUCTURAL_MS = 30_000
EVER_MS = 1_000 * DAY_MS


def roll(service: Service, day: int, harm: float = 1.0) -> None:
    """Roll all members; members with the fleet's timeout take `harm` times as long."""
    for number, timeout_ms in enumerate(service.running_ms):
        factor = harm if timeout_ms != STRUCTURAL_MS else 1.0
        gap_ms = round(30_000 * factor * float(np.exp(0.4 * service.rng.standard_normal())))
        service.stops.append(stop(day + number / 1440, gap_ms / 1000, timeout_ms / 1000) | {
            "event_id": f"{service.name}/{day}/{number}", "reason": "Deleted", "rollout_id": f"rev-{day}",
            "image_digest": "sha256:one",
        })  # fmt: skip
    service.running_ms = [service.timeout_ms] * MEMBERS


def follows(fleet: Fleet) -> dict[int, int]:
    """Count by wave the groups that have the fleet's timeout."""
    return {int(wave): sum(s.source == "Fleet" for s in fleet.services if s.wave == wave) for wave in WAVES}


def new_fleet(seed: int) -> Fleet:
    """Return groups of all waves that have lived for twenty days."""
    sizes: tuple[tuple[Wave, int], ...] = ((1, 2), (10, 4), (50, 3), (95, 3), (100, 2))
    every = [wave for wave, number in sizes for _ in range(number)]
    generators = (np.random.Generator(np.random.Philox(key=[seed, index])) for index in range(len(every)))
    named = enumerate(zip(every, generators, strict=True))
    fleet = Fleet(
        [Service(f"group-{i}", wave, rng, STRUCTURAL_MS, MEMBERS) for i, (wave, rng) in named], roll, TERMS, EVER_MS
    )
    fleet.live(20)
    return fleet


def test_a_bad_canary_is_released_to_one_then_to_ten_per_cent_and_then_taken_back_and_locked() -> None:
    """At 30 s half of the members are expelled, so all groups should get more; from the second week on that harms."""
    fleet = new_fleet(1)
    first, advised = fleet.run()
    assert (first.wave, first.campaign_ms) == (1, 20 * DAY_MS)
    assert all(e.record.recommended_ms == 60_000 for e in advised)
    assert all((Reason.CANARY_WAITING in e.record.reasons) == (e.record.wave > 1) for e in advised)
    assert follows(fleet) == {1: 2, 10: 0, 50: 0, 95: 0, 100: 0}

    fleet.live(7)
    second, _ = fleet.run()
    assert (second.wave, second.began_ms, second.campaign_ms) == (10, 27 * DAY_MS, 20 * DAY_MS)
    assert follows(fleet) == {1: 2, 10: 4, 50: 0, 95: 0, 100: 0}

    fleet.live(7, harm=3.0)
    third, advised = fleet.run()
    assert (third.withdrawn, third.locked_until_ms) == (10, 48 * DAY_MS)
    assert not any(each.record.released for each in advised)
    assert all((Reason.CANARY_ROLLED_BACK in e.record.reasons) == (e.record.wave <= 10) for e in advised)
    assert follows(fleet) == {1: 0, 10: 0, 50: 0, 95: 0, 100: 0}
    assert {service.timeout_ms for service in fleet.services} == {STRUCTURAL_MS}

    fleet.live(13)
    locked, advised = fleet.run()
    assert locked == replace(third, as_of_ms=47 * DAY_MS)
    assert not any(each.record.released for each in advised)

    fleet.live(1)
    again, advised = fleet.run()
    assert (again.wave, again.campaign_ms) == (1, 48 * DAY_MS)
    assert {each.record.wave for each in advised if each.record.released} == {1}
    assert follows(fleet) == {1: 2, 10: 0, 50: 0, 95: 0, 100: 0}


def test_a_good_canary_reaches_all_groups_in_five_runs() -> None:
    fleet = new_fleet(2)
    seen = []
    for _ in range(5):
        seen.append(fleet.run()[0].wave)
        fleet.live(6)
    assert seen == [1, 10, 50, 95, 100]
    assert fleet.run()[0].is_over
    assert follows(fleet) == {1: 2, 10: 4, 50: 3, 95: 3, 100: 2}


def test_a_wave_that_nobody_takes_is_passed_after_a_fortnight() -> None:
    """Its operator has no recommendations, or a bound prevents it; later waves wait for it, but not for ever."""
    fleet = new_fleet(3)
    for service in fleet.services:
        service.obeys = service.wave != 1
    seen = {}
    for _ in range(17):
        seen[fleet.day - 20] = fleet.run()[0].wave
        fleet.live(1)
    assert {wave for day, wave in seen.items() if day < 14} == {1}
    assert {wave for day, wave in seen.items() if day >= 14} <= {10, 50}
    assert follows(fleet)[10] == 4


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
    newest_ms = fleet.day * DAY_MS
    canary = canary_state(
        CanaryHistory(before=locked, now_ms=clock_ms(as_of_ms=newest_ms + 365 * DAY_MS, newest_ms=newest_ms))
    )
    rows = [service.features(newest_ms, EVER_MS) for service in fleet.services]
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
