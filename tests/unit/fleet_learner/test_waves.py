"""The canary's account: group by group, and from run to run over a fleet with a harmful change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet_learner.days.facts import DAY_MS
from fleet_learner.recommendations import waves
from fleet_learner.recommendations.canary import (
    PATIENCE_MS,
    CanaryHistory,
    CanaryState,
)
from fleet_learner.recommendations.waves import Share, Trial, account_of, canary_row, shares, state_of
from fleet_learner.schemas import CANARY
from unit.fleet_learner.wave_samples import EARLIER, SALT, TRIAL, UNKNOWN, change, stop

Row = dict[str, Any]

BEFORE = [stop(90 + number / 10, gap_s) for number, gap_s in enumerate([20] * 8 + [60, 100])]


def found(stops: list[Row], changes: list[Row] | None = None, **more: Any) -> list[Share]:
    row = {"wave": 10, "stops": stops, "changes": changes} | EARLIER | more
    return shares(row, TRIAL)


def counted(stops: list[Row], changes: list[Row] | None = None) -> list[Share]:
    return [each for each in found(stops, changes) if each.stops]


# one group -----------------------------------------------------------------------------------------------------------


def test_a_promise_is_what_the_stops_before_would_have_been_with_the_timeout_now() -> None:
    """Two of ten gaps exceed 45 s and one 90 s; a member is kept until it returns or its session ends."""
    (share,) = counted([*BEFORE, stop(103, 95, 90)], [change(102, 90)])
    assert (share.arm, share.day_ms, share.evictions, share.promised_micro) == (waves.TREATED, 103 * DAY_MS, 1, 100_000)
    assert (share.ghost_ms, share.ghost_promised_ms) == (90_000, (8 * 20_000 + 60_000 + 90_000) // 10)
    (control,) = counted([*BEFORE, stop(103, 50)])
    assert (control.arm, control.evictions, control.promised_micro) == (waves.CONTROL, 1, 200_000)
    assert (control.ghost_ms, control.ghost_promised_ms) == (45_000, (8 * 20_000 + 2 * 45_000) // 10)


def test_a_stop_counts_once_its_process_ran_with_the_fleets_timeout() -> None:
    """A classic pod takes the new one over with its next start (KIP-345); until then it is of neither arm."""
    changes = [change(102, 90), change(104, 120)]
    made = counted([*BEFORE, stop(102.1, 10, 45), stop(103, 10, 90), stop(104.5, 10, 120)], changes)
    assert [each.day_ms // DAY_MS for each in made] == [103, 104]


def test_a_group_that_somebody_else_changed_is_of_neither_arm() -> None:
    assert not counted([*BEFORE, stop(103, 10, 60)], [change(101, 60, "Fixed")])
    assert counted([*BEFORE, stop(103, 10, 60)], [change(99, 60, "Fixed")])[0].arm == waves.CONTROL
    assert counted([*BEFORE, stop(103, 10, 60)], [change(99, 60, "Fleet")])[0].arm == waves.CONTROL


def test_without_ten_stops_before_nothing_was_promised() -> None:
    assert not counted([*BEFORE[1:], stop(103, 10, 90)], [change(102, 90)])


def test_only_who_is_back_says_whether_the_group_absorbed_it() -> None:
    ends = [stop(103, 200, 90, "removed"), stop(103, 200, 90, "blind"), stop(104, 200, 90, "open")]
    assert not counted([*BEFORE, *ends], [change(102, 90)])


def test_an_eviction_is_what_the_journal_says_and_not_a_long_gap() -> None:
    late, early = stop(103, 200, 90, absorbed=True), stop(104, 10, 90, absorbed=False)
    assert [each.evictions for each in counted([*BEFORE, late, early], [change(102, 90)])] == [0, 1]


@pytest.mark.parametrize(
    ("advised_s", "before_s", "promised_micro"),
    [
        ([15], 45, 1_000_000),  # advised, so its own expectation counts: all ten gaps exceed 15 s
        ([90], 45, 200_000),  # not advised: two of ten exceed the previous 45 s
        (None, 45, 1_000_000),  # the earlier advice is unknown
        ([90], 10, 1_000_000),  # it is longer than the previous timeout
        ([90], None, 1_000_000),  # the previous timeout is unknown
    ],
)
def test_a_shorter_timeout_that_nobody_advised_is_held_to_the_one_before(
    advised_s: list[int] | None, before_s: int | None, promised_micro: int
) -> None:
    advised_ms = None if advised_s is None else [1000 * each for each in advised_s]
    shorter = change(102, 15, before_s=before_s)
    (share,) = [s for s in found([*BEFORE, stop(103, 20, 15)], [shorter], earlier_advised_ms=advised_ms) if s.stops]
    assert (share.evictions, share.promised_micro) == (1, promised_micro)


def test_two_steps_that_nobody_advised_are_held_to_the_first_timeout() -> None:
    steps = [change(102, 30, before_s=60), change(103, 15, before_s=30)]
    (share,) = [s for s in found([*BEFORE, stop(104, 20, 15)], steps, earlier_advised_ms=[60_000]) if s.stops]
    assert share.promised_micro == 100_000


def test_stops_of_the_wave_are_those_of_groups_that_changed_in_it() -> None:
    assert counted([*BEFORE, stop(103, 10, 90)], [change(102, 90)])[0].wave_stops == 1
    assert counted([*BEFORE, stop(103, 10, 90)], [change(101, 90)])[0].wave_stops == 0


@pytest.mark.parametrize(
    ("changes", "earlier", "follows"),
    [
        ([change(90, 45, "Structural")], {}, True),
        ([change(90, 45, "Fixed")], {}, False),
        ([change(90, 45, "Broker")], {}, False),
        (None, {}, True),
        (None, {"earlier_timeout_source": "Fixed"}, False),
        (None, UNKNOWN, False),
        ([change(90, 45, "Structural")], UNKNOWN, True),
        (None, {"earlier_recommended_ms": 45_000}, False),
        (None, {"earlier_recommended_ms": None}, False),
        ([change(102, 90)], {"earlier_recommended_ms": 45_000}, True),
        ([change(90, 90)], {"earlier_recommended_ms": 45_000}, False),
    ],
)
def test_who_follows_is_in_mode_auto_and_has_something_to_change_or_changed_in_the_campaign(
    changes: list[Row] | None, earlier: Row, follows: bool
) -> None:
    if earlier.get("earlier_recommended_ms", 0) == 45_000 and changes:
        earlier = earlier | {"earlier_session_timeout_ms": 45_000}
    assert sum(each.followers for each in found([], changes, **earlier)) == follows


def test_who_does_not_take_a_released_timeout_for_a_fortnight_is_not_waited_for() -> None:
    row = {"wave": 10, "stops": [], "changes": None} | EARLIER
    for late, follows in ((-1, 1), (0, 0)):
        trial = Trial(campaign_ms=0, wave_ms=0, wave=10, as_of_ms=PATIENCE_MS + late, salt=SALT)
        assert sum(each.followers for each in shares(row, trial)) == follows


def test_the_account_is_the_same_in_whatever_order_and_however_it_was_summed_before() -> None:
    made = found([*BEFORE, stop(103, 95, 90), stop(103.5, 10, 90), stop(104, 10, 90)], [change(102, 90)])
    account, followers = account_of(made)
    assert account_of(made[::-1]) == (account, followers)
    assert (account.treated.stops, account.treated.evictions, account.treated.stops_before) == (3, 1, 10)
    assert account.treated.evictions_before == pytest.approx(1.0)
    assert account.wave_stops == 3
    assert followers == {10: 1}


def test_the_state_survives_its_row() -> None:
    state = CanaryState(wave=10, began_ms=3, campaign_ms=1, locked_until_ms=0, withdrawn=50)
    row = canary_row(CanaryHistory(before=state, now_ms=4), SALT)
    assert tuple(row) == CANARY.names
    assert state_of(row) == replace(state, as_of_ms=4)
    assert row["verdict"] == "Wait"
    assert canary_row(CanaryHistory(before=None, now_ms=4), SALT)["verdict"] == "Begin"
