"""Advice for any record that the schema allows: its parts never contradict each other."""

from __future__ import annotations

import re
from typing import get_args

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleet_learner.report.advice.carrier import FOLLOWING_SOURCES
from fleet_learner.report.advice.groups import advise
from fleet_learner.report.model import Advice, GroupKey, Verdict
from fleet_learner.report.units import duration
from journal.recommendations import (
    Difference,
    EstimateMethod,
    PriceSource,
    Recommendation,
    RecommendationEvidence,
    Setting,
)
from journal.recommendations import RecommendationReason as Reason
from staticgroup.api.resources.status import TimeoutSource
from unit.fleet_learner.recommendation_samples import DAY_MS, KEY, SURE, effects
from unit.fleet_learner.recommendation_samples import sure as recommendation

TIMEOUT = st.one_of(st.none(), st.integers(0, 86_400_000), st.sampled_from((9_000, 45_000, 60_000, 90_000, 1_800_000)))
AMOUNT = st.floats(0, 1e6)
DIFFERENCE = st.tuples(*[st.floats(-1e6, 1e6)] * 3).map(sorted).map(
    lambda ends: Difference(lower=ends[0], value=ends[1], upper=ends[2])
)  # fmt: skip


OPEN = (Reason.COST_OPTIMUM, Reason.STEP_LIMITED, Reason.BROKER_CAP, Reason.SLOWER_RESTARTS, Reason.CANARY_WAITING,
        Reason.TOO_FEW,
        Reason.USE_DYNAMIC)  # fmt: skip
"""Reasons that leave a change possible."""


@st.composite
def recommendations(draw: st.DrawFn) -> Recommendation:
    """Draw any record that the schema allows, possible or not for an estimator; half may be changes."""
    may_change = draw(st.booleans())
    effect = st.one_of(st.none(), st.builds(effects, AMOUNT, AMOUNT, AMOUNT))
    timeouts = {name: draw(st.integers(2, 30).map(lambda n: n * 5_000) if may_change else TIMEOUT)
                for name in ("current_ms", "recommended_ms", "goal_ms", "lower_ms", "upper_ms",
                             "uncapped_ms")}  # fmt: skip
    bounds = st.sampled_from(((None, None), (9_000, 1_800_000), (9_000, 60_000), (45_000, 90_000)))
    low_ms, high_ms = draw(bounds if may_change else st.tuples(TIMEOUT, TIMEOUT))
    prices = (*PriceSource,) if may_change else (None, *PriceSource)
    return recommendation(
        protocol=draw(st.sampled_from(get_args(Recommendation.model_fields["protocol"].annotation))),
        setting=draw(st.sampled_from(Setting)), **timeouts, bounds_minimum_ms=low_ms, bounds_maximum_ms=high_ms,
        released=draw(st.booleans()), wave=draw(st.integers(1, 100)), price_source=draw(st.sampled_from(prices)),
        before=draw(effect), after=draw(effect),
        saved_partition_seconds_per_day=SURE if may_change else draw(st.one_of(st.none(), DIFFERENCE, st.just(SURE))),
        reasons=tuple(draw(st.lists(st.sampled_from(OPEN if may_change else [*Reason]), unique=True))),
        evidence=RecommendationEvidence(
            stops=draw(st.integers(0, 10_000)), stops_effective=draw(st.floats(0, 1e4)), censored=0,
            method=draw(st.sampled_from(EstimateMethod)), coverage=draw(st.floats(0, 1)), from_ms=0, to_ms=DAY_MS,
        ),
    )  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(
    recommendations(),
    st.one_of(st.none(), st.sampled_from([*TimeoutSource])),
    st.one_of(st.none(), st.integers(0, 500)),
    st.integers(0, 60),
    st.sampled_from(
        (KEY, None, GroupKey(kafka_cluster_id="k", group_id="lower-raise", namespace="n", static_group="s"))
    ),
)
@example(recommendation(goal_ms=60_000, lower_ms=90_000, upper_ms=300_000, recommended_ms=60_000), "Fixed", 48, 12, KEY)
@example(recommendation(reasons=(Reason.USE_DYNAMIC, Reason.STEP_LIMITED), recommended_ms=35_000), "Fixed", 48, 12, KEY)
def test_no_advice_contradicts_itself(
    record: Recommendation, source: str | None, partitions: int | None, members: int, key: GroupKey | None
) -> None:
    """With any reasons, bounds, effects and prices the parts of an advice agree."""
    advice = advise(record, key=key, source=source, members=members, partitions=partitions)
    words = f"{advice.action} {advice.why} {advice.who}"
    assert advice.action
    assert bool(advice.would_tell) is (advice.verdict is Verdict.NOT_KNOWN)
    assert (advice.then_ms is not None) is (advice.verdict is Verdict.CHANGE)
    assert ("Use dynamic members" in words) is (advice.verdict is Verdict.DYNAMIC)
    assert advice.saving is None or advice.verdict in {Verdict.CHANGE, Verdict.DYNAMIC}
    if not advice.is_action:
        assert (advice.command, advice.who, advice.later_ms, advice.goal_ms) == ("", "", None, None)
        assert re.search(r"\b(Raise|Lower|Set|Widen|Use)\b", advice.action.replace("lower-raise", "")) is None
    is_auto = record.setting is Setting.SESSION_TIMEOUT and source in FOLLOWING_SOURCES
    if "leave it" in advice.action and is_auto and Reason.CANARY_ROLLED_BACK not in record.reasons:
        low_ms, high_ms = record.bounds_minimum_ms or 0, record.bounds_maximum_ms
        is_refused = record.recommended_ms is not None and not (
            low_ms <= record.recommended_ms <= (high_ms if high_ms is not None else record.recommended_ms)
        )
        assert record.recommended_ms in {None, record.current_ms} or is_refused
    if advice.saving is not None:
        assert record.price_source in {PriceSource.MEASURED, PriceSource.STATED}
        assert 0 < advice.saving.low_partition_ms <= advice.saving.best_partition_ms <= advice.saving.high_partition_ms
    if advice.verdict is Verdict.CHANGE:
        holds_together(advice, record)


def holds_together(advice: Advice, record: Recommendation) -> None:
    """Check what a change must never be."""
    now_ms, then_ms = advice.now_ms, advice.then_ms
    assert then_ms != now_ms
    low_ms, high_ms = record.bounds_minimum_ms, record.bounds_maximum_ms
    assert low_ms is None or low_ms <= then_ms
    assert high_ms is None or then_ms <= high_ms
    is_outside = now_ms is not None and (
        (low_ms is not None and now_ms < low_ms) or (high_ms is not None and now_ms > high_ms)
    )
    # Only the bounds require a change without a certain saving.
    assert (advice.saving is None) is is_outside
    verb = "Set" if now_ms is None else "Raise" if then_ms > now_ms else "Lower"
    assert advice.action.startswith(f"{verb} {record.setting.value} of ")
    assert advice.action.endswith(f"to {then_ms} ({duration(then_ms)}).")
    assert advice.later_ms == (None if now_ms is None else then_ms - now_ms)
    assert advice.who
    assert advice.command == "" or str(then_ms) in advice.command or str(then_ms // 1000) in advice.command or (
        str(-(-then_ms // 1000)) in advice.command
    )  # fmt: skip
    if advice.goal_ms is not None:
        assert (advice.goal_ms > then_ms) is (then_ms > now_ms)
        assert "one step on the way" in advice.why
    goal_ms = advice.goal_ms or then_ms
    if advice.goal_low_ms is not None and advice.goal_high_ms is not None:
        assert advice.goal_low_ms <= goal_ms <= advice.goal_high_ms
    fewer = re.search(r"([\d.,]+)(?: [MG])? times a week .* would be", advice.why)
    if fewer is not None and now_ms is not None and record.before is not None and record.after is not None:
        is_fewer = record.after.evictions_per_day.value <= record.before.evictions_per_day.value
        assert is_fewer is (then_ms > now_ms)
