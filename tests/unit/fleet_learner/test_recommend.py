"""From a history to a recommendation: numbers, reasons, and rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleet_learner.estimates.cost import cost_per_day
from fleet_learner.estimates.drift import Drift
from fleet_learner.estimates.gap_law import GapSample
from fleet_learner.estimates.laws import LognormalLaw
from fleet_learner.estimates.price import Price
from fleet_learner.recommendations import recommend as module
from fleet_learner.recommendations.canary import CanaryState
from fleet_learner.recommendations.policy import GroupState
from fleet_learner.recommendations.rows import ADVISED_MAX, advised_values, gold_row
from fleet_learner.recommendations.timeout_bounds import TimeoutBounds
from fleet_learner.schemas import RECOMMENDATION
from journal import recommendations as api
from journal.recommendations import EstimateMethod
from journal.recommendations import RecommendationReason as Reason
from unit.fleet_learner.group_histories import (
    ASSUMED,
    NOW,
    history,
    one,
    recommended,
    sample,
)


class TestNumbers:
    def test_an_eager_group_gets_the_cost_optimum(self) -> None:
        """κ = 384, ν = 4: far above the default of 45 s, where the hazard falls to .0104 per second."""
        found = one()
        assert found.reasons == (Reason.COST_OPTIMUM, Reason.STEP_LIMITED)
        assert 80_000 <= found.recommended_ms <= 90_000  # at most twice what it had
        assert found.evidence.method is EstimateMethod.KAPLAN_MEIER
        assert found.probability_cheaper == 1.0
        assert found.after.cost_partition_seconds_per_day.upper < found.before.cost_partition_seconds_per_day.lower
        assert found.lower_ms <= found.goal_ms <= found.upper_ms  # type: ignore[operator]
        truth = LognormalLaw(mean=math.log(25_000), deviation=0.5)
        goal_ms = float(found.goal_ms)  # type: ignore[arg-type]
        at = np.concatenate((np.arange(6_000.0, 1_800_000.0, 1_000.0), [goal_ms]))
        costs = cost_per_day(truth, history().rates, at)
        assert costs[-1] < 1.01 * costs.min()
        assert found.message == f"set session.timeout.ms to {found.recommended_ms} ms"

    def test_a_few_stops_borrow_from_the_class(self) -> None:
        others = [history(f"o{i}", sample=sample(40, seed=i, median_s=20 + i)) for i in range(12)]
        found = next(each for each in recommended(*others, history("few", sample=sample(4))) if each.group_id == "few")
        assert found.evidence.method is EstimateMethod.POOLED
        assert found.evidence.stops == 4
        assert found.goal_ms is not None

    def test_without_stops_and_class_it_is_rent_or_buy(self) -> None:
        found = one(sample=sample(3))
        assert found.evidence.method is EstimateMethod.RENT_OR_BUY
        assert Reason.TOO_FEW in found.reasons
        assert (found.uncapped_ms, found.goal_ms) == (96_000, 100_000)
        assert found.after is None

    @pytest.mark.parametrize(
        "nobody", [{"members": 0.0, "partitions": 0.0}, {"partitions": 0.0}, {"stopped_share": 0.0}]
    )
    def test_where_nobody_works_nothing_is_changed(self, nobody: dict[str, float]) -> None:
        """For a group scaled to zero κ and ν are 0: the cheapest timeout then means nothing for a later scale-up."""
        found = one(sample=sample(3), **nobody)
        assert (found.recommended_ms, found.goal_ms) == (45_000, None)
        assert Reason.TOO_FEW in found.reasons

    def test_the_brokers_cap_names_the_setting_to_raise(self) -> None:
        narrow = TimeoutBounds(broker_minimum_ms=45_000, broker_maximum_ms=60_000, heartbeat_interval_ms=5_000)
        found = one(protocol="Consumer", bounds=narrow)
        assert found.setting is api.Setting.CONSUMER_SESSION_TIMEOUT
        assert found.recommended_ms == 60_000
        assert Reason.BROKER_CAP in found.reasons
        assert f"raise group.consumer.max.session.timeout.ms to {found.uncapped_ms}" in found.message

    def test_cheap_rebalances_make_dynamic_members_better(self) -> None:
        """0.3 s and a twelfth of the partitions: every second of waiting costs more than moving."""
        found = one(price=Price.given(0.3, is_stated=True), stopped_share=1 / 12)
        assert Reason.USE_DYNAMIC in found.reasons
        assert found.goal_ms == 9_000  # three heartbeats
        assert "dynamic membership would cost" in found.message

    def test_connect_has_its_own_setting_and_no_heartbeat(self) -> None:
        found = one(protocol="Connect", bounds=TimeoutBounds())
        assert found.setting is api.Setting.CONNECT_DELAY
        assert found.reasons[0] is Reason.CONNECT_DELAY
        assert Reason.USE_DYNAMIC not in found.reasons

    def test_who_was_not_looked_at_keeps_what_it_has(self) -> None:
        found = one(coverage=0.4)
        assert Reason.LOW_COVERAGE in found.reasons
        assert (found.recommended_ms, found.goal_ms, found.released) == (45_000, None, True)

    def test_slower_restarts_are_reported(self) -> None:
        found = one(drift=Drift(alarm=40, begin=36, ratio=2.04))
        assert Reason.SLOWER_RESTARTS in found.reasons
        assert found.message.endswith("restarts take 2.0 times as long as before")

    def test_scaled_down_members_are_no_evictions(self) -> None:
        """They count as stops without a return; with a running operator the group keeps them for 5 s."""
        found, without = one(removed=1_000), one()
        assert found.before.evictions_per_day.value == pytest.approx(without.before.evictions_per_day.value, rel=0.01)

    def test_the_canary_holds_changes_back(self) -> None:
        found = recommended(history(), canary=CanaryState(wave=1, began_ms=NOW))[0]
        assert found.wave > 1
        assert not found.released
        assert Reason.CANARY_WAITING in found.reasons
        back = CanaryState(wave=1, began_ms=NOW + 1, locked_until_ms=NOW + 1, withdrawn=100)
        assert Reason.CANARY_ROLLED_BACK in recommended(history(), canary=back)[0].reasons

    def test_who_already_has_the_withdrawn_value_hears_of_it(self) -> None:
        at_goal = history(state=GroupState(current_ms=one().goal_ms))
        back = CanaryState(wave=1, began_ms=NOW + 1, locked_until_ms=NOW + 1, withdrawn=100)
        locked = recommended(at_goal, canary=back)[0]
        assert locked.recommended_ms == at_goal.state.current_ms
        assert Reason.CANARY_ROLLED_BACK in locked.reasons

    def test_who_never_had_it_keeps_what_it_has_while_others_lose_theirs(self) -> None:
        back = CanaryState(wave=1, began_ms=NOW + 1, locked_until_ms=NOW + 1, withdrawn=1)
        found = recommended(history(), canary=back)[0]
        assert found.wave > 1
        assert not found.released
        assert Reason.CANARY_ROLLED_BACK not in found.reasons
        assert Reason.CANARY_WAITING in found.reasons

    def test_an_unsure_gain_is_not_taken(self) -> None:
        """5 % of the gaps around 150 s: waiting for them costs as much as expelling them, so 60 s stays."""
        slow, usual = sample(50, seed=1, median_s=150, deviation=0.1), sample(950, deviation=0.3)
        both = GapSample(
            gaps_ms=np.concatenate((usual.gaps_ms, slow.gaps_ms)),
            is_returned=np.ones(1_000, dtype=bool),
            cluster=np.arange(1_000),
        )
        found = one(sample=both, state=GroupState(current_ms=60_000))
        assert 0.02 < found.probability_cheaper < 0.9
        assert (found.recommended_ms, Reason.SMALL_CHANGE in found.reasons) == (60_000, True)


class TestWithoutAPrice:
    """The price of a rebalance is unknown, so no recommendation may depend on it."""

    @pytest.mark.parametrize("seconds", [0.01, 0.3, 4.0, 60.0])
    def test_an_assumed_price_moves_nothing(self, seconds: float) -> None:
        assumed = one(price=Price.given(seconds, is_stated=False))
        reference = one(price=ASSUMED)
        costs = ("before", "after")
        assert assumed.model_dump(exclude=set(costs)) == reference.model_dump(exclude=set(costs))
        assert Reason.USE_DYNAMIC not in assumed.reasons
        assert assumed.price_source is api.PriceSource.ASSUMED
        assert assumed.probability_cheaper is None

    def test_the_shortest_timeout_that_absorbs_nearly_all_restarts_is_taken(self) -> None:
        """99.5 % of exp(N(ln 25 s, 0.5)) and half a heartbeat: 90.6 to 92.1 s."""
        found = one(price=ASSUMED)
        assert found.reasons[0] is Reason.ABSORBS_RESTARTS
        assert 85_000 <= found.goal_ms <= 105_000
        assert found.lower_ms <= found.goal_ms <= found.upper_ms  # type: ignore[operator]
        assert "what a rebalance costs this group is not known" in found.message

    def test_a_timeout_far_above_comes_down_and_one_far_below_goes_up(self) -> None:
        down = one(price=ASSUMED, state=GroupState(current_ms=600_000))
        up = one(price=ASSUMED, state=GroupState(current_ms=20_000))
        assert (down.recommended_ms, up.recommended_ms) == (450_000, 40_000)

    def test_without_restarts_what_is_there_stays(self) -> None:
        found = one(price=ASSUMED, sample=sample(3))
        assert (found.recommended_ms, found.goal_ms) == (45_000, None)
        assert found.reasons == (Reason.TOO_FEW,)

    def test_a_measured_price_is_used_and_named(self) -> None:
        measured = Price(
            seconds=4.0, lower_seconds=3.0, upper_seconds=5.0, source=api.PriceSource.MEASURED, rebalances=9
        )
        found = one(price=measured)
        assert found.price_source is api.PriceSource.MEASURED
        assert found.goal_ms == one().goal_ms


def test_what_was_advised_is_kept_once_each_the_newest_last() -> None:
    assert advised_values((30, 40), 30) == [40, 30]
    assert advised_values((30, 40), None) == [30, 40]
    assert advised_values(range(100), 7)[-1] == 7
    assert len(advised_values(range(100), 7)) == ADVISED_MAX


def test_the_order_of_groups_and_stops_does_not_matter() -> None:
    """A run on other partitions gives the same bytes."""
    groups = [history(f"g{i}", sample=sample(30 + 40 * i, seed=i)) for i in range(8)]
    assert recommended(*groups) == recommended(*reversed(groups))


def test_the_row_has_the_columns_of_the_table() -> None:
    """gold/recommendation less the columns that name the group."""
    row = gold_row(one(), history().state)
    naming = {"kafka_cluster_id", "group_id", "group_key", "namespace", "static_group", "workload", "protocol"}
    assert set(row) == set(RECOMMENDATION.names) - naming
    required = {column.name for column in RECOMMENDATION.columns if not column.nullable} - naming
    assert all(row[name] is not None for name in required)


def test_estimates_lie_in_their_intervals() -> None:
    with pytest.raises(ValueError, match="lies in its interval"):
        api.Estimate(value=2.0, lower=3.0, upper=4.0)
    assert math.isclose(api.Estimate(value=2.0, lower=1.0, upper=4.0).value, 2.0)


def test_the_operator_of_this_version_reads_this_model() -> None:
    """Operators refuse recommendations of an unknown model, with a condition and without a change."""
    from journal.recommendations.reader import MODEL_MAJOR

    assert module.MODEL_VERSION.partition(".")[0] == MODEL_MAJOR
