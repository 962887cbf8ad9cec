"""The canary: waves, the evidence of harm, and the state from run to run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.recommendations import canary
from fleet_learner.recommendations.canary import (
    Arm,
    CanaryHistory,
    CanaryState,
    CanaryVerdict,
    TrialDay,
    Wave,
    WaveAccount,
)

DAY = 86_400_000
NOW = 100 * DAY
BEGAN = CanaryState(wave=1, began_ms=NOW, campaign_ms=NOW)
BASELINE = Arm(stops_before=10_000, evictions_before=500)


def account(treated: tuple[int, int], control: tuple[int, int], wave_stops: int | None = None) -> WaveAccount:
    return WaveAccount(
        treated=replace(BASELINE, stops=treated[0], evictions=treated[1]),
        control=replace(BASELINE, stops=control[0], evictions=control[1]),
        wave_stops=treated[0] if wave_stops is None else wave_stops,
    )


def at(as_of_ms: int, state: CanaryState) -> CanaryState:
    """Return a state as it is seen at this time."""
    return replace(state, as_of_ms=as_of_ms)


GOOD = account((100, 5), (10_000, 500))
BAD = account((60, 20), (10_000, 500))


# waves ---------------------------------------------------------------------------------------------------------------


def test_waves_hold_their_share_of_the_groups() -> None:
    groups = [("k", f"group-{index}") for index in range(20_000)]
    waves = canary.waves_of(groups)
    for wave in canary.WAVES:
        assert sum(each <= wave for each in waves.values()) == 200 * wave
    assert waves != canary.waves_of(groups, salt="2")
    assert waves == canary.waves_of(reversed(groups))


@pytest.mark.parametrize("number", range(1, 120))
def test_one_group_goes_first_and_one_is_always_the_control(number: int) -> None:
    waves = list(canary.waves_of(("k", f"g{index}") for index in range(number)).values())
    assert waves.count(1) == max(1, number // 100)
    assert waves.count(100) >= 1 or number == 1
    assert sorted(waves) == waves


def test_a_group_acts_from_its_wave_on_and_never_while_locked() -> None:
    assert canary.is_released(1, at(NOW, BEGAN))
    assert not canary.is_released(10, at(NOW, BEGAN))
    assert canary.is_released(10, at(NOW, replace(BEGAN, wave=50)))
    assert not canary.is_released(1, at(NOW, replace(BEGAN, locked_until_ms=NOW + 1)))


def test_a_day_and_a_hundred_stops_without_harm_advance() -> None:
    assert canary.judge_wave(BEGAN, GOOD, now_ms=NOW + DAY) is CanaryVerdict.ADVANCE
    assert canary.judge_wave(BEGAN, GOOD, now_ms=NOW + DAY - 1) is CanaryVerdict.WAIT
    few = account((99, 5), (10_000, 500))
    assert canary.judge_wave(BEGAN, few, now_ms=NOW + DAY) is CanaryVerdict.WAIT


def test_stops_of_an_earlier_wave_do_not_release_the_next() -> None:
    """A hundred stops per wave: those of the groups that changed in it."""
    old = account((5_000, 250), (10_000, 500), wave_stops=99)
    assert canary.judge_wave(BEGAN, old, now_ms=NOW + 30 * DAY) is CanaryVerdict.WAIT


def test_harm_rolls_back_at_once_and_locks() -> None:
    verdict = canary.judge_wave(BEGAN, BAD, now_ms=NOW + 1)
    assert verdict is CanaryVerdict.ROLL_BACK
    after = canary.next_canary(replace(BEGAN, wave=50), verdict, now_ms=NOW)
    assert (after.wave, after.locked_until_ms, after.withdrawn) == (1, NOW + 14 * DAY, 50)
    assert canary.judge_wave(after, GOOD, now_ms=NOW + DAY) is CanaryVerdict.WAIT
    assert canary.judge_wave(after, BAD, now_ms=NOW + DAY) is CanaryVerdict.WAIT


def test_who_was_released_loses_it_until_its_wave_is_released_again() -> None:
    """Groups of later waves never had the value, so they keep theirs."""
    after = canary.next_canary(replace(BEGAN, wave=10), CanaryVerdict.ROLL_BACK, now_ms=NOW)
    end = NOW + 14 * DAY
    waves: tuple[Wave, ...] = canary.WAVES
    assert [canary.is_withdrawn(wave, at(NOW, after)) for wave in waves] == [True, True, False, False, False]
    assert [canary.is_released(wave, at(end, after)) for wave in waves] == [True, False, False, False, False]
    assert [canary.is_withdrawn(wave, at(end, after)) for wave in waves] == [False, True, False, False, False]
    second = canary.next_canary(after, CanaryVerdict.ADVANCE, now_ms=end + DAY)
    assert not canary.is_withdrawn(10, at(end + DAY, second))


def test_the_waves_end_at_all() -> None:
    state, seen = BEGAN, []
    for _ in range(6):
        seen.append(state.wave)
        state = canary.next_canary(state, CanaryVerdict.ADVANCE, now_ms=NOW)
    assert seen == [1, 10, 50, 95, 100, 100]
    assert state.is_over


def test_after_the_last_wave_only_certain_harm_begins_anew() -> None:
    """A timeout may be forced by hand; and a last wave without followers ends, too."""
    last = replace(BEGAN, wave=100)
    over = replace(last, is_over=True)
    assert canary.judge_wave(last, BAD, now_ms=NOW + DAY) is CanaryVerdict.ROLL_BACK
    assert canary.judge_wave(over, BAD, now_ms=NOW + 99 * DAY) is CanaryVerdict.ROLL_BACK
    unsure = next(each for bad in range(60) if 20 <= canary.harm(each := account((60, bad), (10_000, 500))) < 100)
    assert canary.judge_wave(last, unsure, now_ms=NOW + DAY) is CanaryVerdict.ROLL_BACK
    assert canary.judge_wave(over, unsure, now_ms=NOW + DAY) is CanaryVerdict.WAIT
    assert canary.judge_wave(last, WaveAccount(), now_ms=NOW + 14 * DAY - 1) is CanaryVerdict.WAIT
    assert after(last, NOW + 14 * DAY, account=WaveAccount(), w100=0) == at(NOW + 14 * DAY, over)
    assert after(over, NOW + 99 * DAY, account=unsure, w1=5, w100=5) == at(NOW + 99 * DAY, over)


# evidence ------------------------------------------------------------------------------------------------------------


def test_a_treated_arm_that_was_worse_before_is_not_blamed() -> None:
    """Difference in differences: twice the rate of the controls, before and since."""
    treated = Arm(stops_before=5_000, evictions_before=500, stops=1_000, evictions=100)
    control = Arm(stops_before=50_000, evictions_before=2_500, stops=10_000, evictions=500)
    assert canary.harm_evidence(treated, control) < 1


def test_nothing_is_no_evidence() -> None:
    assert canary.harm(WaveAccount()) == 1.0
    assert canary.harm(account((0, 0), (0, 0))) == 1.0


def ghost_days(*ratios: float) -> tuple[TrialDay, ...]:
    return tuple(
        TrialDay(day_ms=number * DAY, stops=100, ghost_ms=round(1e6 * ratio), promised_ms=1_000_000)
        for number, ratio in enumerate(ratios)
    )


def test_places_that_are_kept_twice_as_long_as_promised_are_harm_within_a_fortnight() -> None:
    ratios = [2.0] * 14
    found = [canary.ghost_evidence(ghost_days(*ratios[:days]), ghost_days(*[1.0] * days)) for days in range(15)]
    assert found[0] == 1.0
    assert found == sorted(found)
    assert found[4] < 20 < found[14]


def test_what_happens_to_the_controls_too_is_not_the_canarys_doing() -> None:
    """A slow registry makes everybody's restarts longer."""
    assert canary.ghost_evidence(ghost_days(*[2.0] * 14), ghost_days(*[2.0] * 14)) < 1


def test_one_dreadful_day_is_no_proof() -> None:
    assert canary.ghost_evidence(ghost_days(1.0, 1_000.0), ghost_days(1.0, 1.0)) < 20


def test_a_day_without_a_promise_says_nothing() -> None:
    empty = TrialDay(day_ms=0, stops=0, ghost_ms=0, promised_ms=0)
    assert canary.ghost_evidence([empty], [empty]) == 1.0
    assert canary.ghost_evidence([empty, *ghost_days(2.0)], ()) == canary.ghost_evidence(ghost_days(2.0), ())


def test_the_order_of_days_does_not_matter() -> None:
    days, others = ghost_days(0.5, 2.0, 3.0, 1.0), ghost_days(1.0, 0.2, 1.0, 1.0)
    assert canary.ghost_evidence(days[::-1], others[::-1]) == canary.ghost_evidence(days, others)


def test_looking_all_the_time_does_not_raise_false_alarms() -> None:
    """600 waves without harm, evaluated after every 50 stops: at most 5 % ever alarm (Ville 1939)."""
    rng = np.random.Generator(np.random.Philox(key=[51, 0]))
    false, power = 0, 0
    for _ in range(600):
        control = np.cumsum(rng.binomial(450, 0.05, 40))
        same, worse = np.cumsum(rng.binomial(50, 0.05, 40)), np.cumsum(rng.binomial(50, 0.10, 40))
        for kind, evictions in (("same", same), ("worse", worse)):
            found = (account((50 * n, int(evictions[n - 1])), (450 * n, int(control[n - 1]))) for n in range(4, 41, 4))
            is_alarm = any(canary.harm_evidence(each.treated, each.control) >= 20 for each in found)
            false += is_alarm and kind == "same"
            power += is_alarm and kind == "worse"
    assert false <= 0.05 * 600
    assert power >= 0.9 * 600


def test_ghost_times_of_a_heavy_tail_raise_few_false_alarms_and_twice_as_long_ones_are_found() -> None:
    """500 waves of 20 days, promises from 300 stops, gaps of which 2 % are 20 times as long, 30 stops a day."""
    rng = np.random.Generator(np.random.Philox(key=[52, 0]))

    def ghosts(number: int, factor: float = 1.0) -> np.ndarray:
        gaps = 25_000 * factor * np.exp(0.5 * rng.standard_normal(number))
        return np.minimum(np.where(rng.random(number) < 0.02, 20 * gaps, gaps), 300_000).astype(np.int64)

    def days(promise: int, stops: int, factor: float = 1.0) -> list[TrialDay]:
        return [
            TrialDay(day_ms=n, stops=stops, ghost_ms=int(ghosts(stops, factor).sum()), promised_ms=stops * promise)
            for n in range(20)
        ]

    false = power = 0
    for _ in range(500):
        promises = int(ghosts(300).mean()), int(ghosts(3_000).mean())
        control = days(promises[1], 300)
        for factor in (1.0, 2.0):
            treated = days(promises[0], 30, factor)
            is_alarm = any(canary.ghost_evidence(treated[:n], control[:n]) >= 20 for n in range(1, 21))
            false += is_alarm and factor == 1
            power += is_alarm and factor == 2
    assert false <= 0.05 * 500
    assert power >= 0.9 * 500


# from run to run -----------------------------------------------------------------------------------------------------


def after(before: CanaryState | None, now_ms: int, account: WaveAccount = GOOD, **followers: int) -> CanaryState:
    by_wave: dict[Wave, int] = {wave: followers.get(f"w{wave}", 0) for wave in canary.WAVES}
    return canary.canary_state(CanaryHistory(before=before, now_ms=now_ms, account=account, followers=by_wave))


def test_the_first_run_begins_at_one_per_cent() -> None:
    assert after(None, NOW, w1=3, w10=20) == at(NOW, BEGAN)


def test_two_runs_of_one_day_advance_once() -> None:
    second = after(BEGAN, NOW + DAY, w1=3, w10=20)
    third = after(second, NOW + DAY + 3_600_000, w1=3, w10=20)
    assert (second.wave, second.began_ms, second.campaign_ms) == (10, NOW + DAY, NOW)
    assert third == at(NOW + DAY + 3_600_000, second)


def test_waves_that_nobody_is_in_are_passed() -> None:
    """In a small fleet, or with few groups that follow, the canary would wait for an empty wave for ever."""
    assert after(None, NOW, w50=2).wave == 50
    assert after(BEGAN, NOW + 1, account=WaveAccount(), w50=2, w100=9).wave == 50
    assert after(replace(BEGAN, wave=10), NOW + 1, account=WaveAccount(), w1=5, w100=9).wave == 100
    assert after(BEGAN, NOW + 1, account=WaveAccount()).wave == 1


def test_a_passed_wave_does_not_end_a_lock() -> None:
    """A withdrawn value stays withdrawn, even from the only wave."""
    locked = after(replace(BEGAN, wave=10), NOW + DAY, account=BAD, w10=9)
    assert locked.wave == 10
    assert not canary.is_released(10, at(NOW + 15 * DAY - 1, locked))
    assert canary.is_withdrawn(10, at(NOW + 15 * DAY - 1, locked))
    assert canary.is_released(10, at(NOW + 15 * DAY, locked))
    assert locked.began_ms == NOW + 15 * DAY


@given(
    st.sampled_from(canary.WAVES), st.integers(0, 40), st.integers(0, 2_000), st.integers(0, 200),
    st.dictionaries(st.sampled_from(canary.WAVES), st.integers(0, 5)),
)  # fmt: skip
def test_no_history_skips_a_wave_in_which_somebody_waits(
    wave: Wave, days: int, stops: int, evictions: int, followers: dict[Wave, int]
) -> None:
    """Only the next wave with followers, or back to the first one with a lock; and never a campaign of the past."""
    before = CanaryState(wave=wave, began_ms=NOW, campaign_ms=NOW)
    found = account((stops, min(evictions, stops)), (10_000, 500))
    state = canary.canary_state(
        CanaryHistory(before=before, now_ms=NOW + days * DAY, account=found, followers=followers)
    )
    assert state.campaign_ms >= before.campaign_ms
    if state.locked_until_ms:
        assert (state.locked_until_ms, state.withdrawn) == (NOW + (days + 14) * DAY, wave)
        return
    assert state.wave >= wave
    following = next((each for each in canary.WAVES if each > wave), wave)
    assert all(followers.get(each, 0) == 0 for each in canary.WAVES if following <= each < state.wave)
