"""Turn rows into a group's history: the stops that count, the timeout in force, and slower restarts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fleet_learner.configuration import ConfigurationError, read_configuration
from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.estimates.price import Price
from fleet_learner.job import Job
from fleet_learner.recommendations.advised import advise_class
from fleet_learner.recommendations.canary import CanaryState, waves_of
from fleet_learner.recommendations.histories import Bounds, Terms, history
from journal.recommendations import PriceSource, RecommendationReason, Setting
from staticgroup.api.schema import TIMEOUT_MS_MAX

TERMS = Terms(durations=StopDurations(is_eager_stated=True, is_cooperative_stated=True), bounds={}, valid_ms=7 * DAY_MS)
START_MS, AS_OF_MS = 0, 30 * DAY_MS
ALL = CanaryState(wave=100, began_ms=0)


def stop(down_ms: int, gap_ms: int = 20_000, end_kind: str = "returned", **more: Any) -> dict[str, Any]:
    return {
        "down_ms": down_ms, "event_id": f"e-{down_ms}", "gap_ms": gap_ms, "end_kind": end_kind, "reason": "Error",
        "rollout_id": None, "image_digest": "sha256:old",
    } | more  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    return {
        "kafka_cluster_id": "kafka-1", "group_id": "orders", "group_key": 7, "protocol": "Classic", "stops": [],
        "seen_timeout_ms": None, "set_timeout_ms": 45_000, "changed_ms": None, "moved": None, "of_partitions": None,
        "image_digest": "sha256:old", "members": 12.0, "partitions": 48.0, "wave": 50, "first_ms": 0,
        "covered_ms": 27 * DAY_MS,
    } | changes  # fmt: skip


def made(**changes: Any) -> Any:
    return history(row(**changes), TERMS, start_ms=START_MS, as_of_ms=AS_OF_MS)[0]


def advised(rows: list[dict[str, Any]], terms: Terms = TERMS, canary: CanaryState = ALL) -> list[Any]:
    return [each.record for each in advise_class(rows, terms, canary, start_ms=START_MS, as_of_ms=AS_OF_MS)]


def test_only_stops_that_end_by_themselves_are_samples_and_the_others_are_counted() -> None:
    stops = [stop(1), stop(2, end_kind="open"), stop(3, end_kind="removed"), stop(4, end_kind="blind")]
    known = made(stops=stops)
    assert known.sample.is_returned.tolist() == [True, False]
    assert (known.removed, known.blind, known.stops) == (1, 1, 4)


def test_members_that_departed_for_good_and_were_not_removed_change_no_advice() -> None:
    """Under mode Observe every scale-down leaves one; counted as still away they would ask for the longest timeout."""
    stops = [stop(START_MS + n * DAY_MS // 8, gap_ms=15_000 + 200 * n) for n in range(100)]
    gone = [stop(START_MS + n * DAY_MS, gap_ms=6 * DAY_MS, end_kind="departed") for n in range(6)]
    (alone,), (beside,) = (advised([row(stops=each)]) for each in (stops, [*stops, *gone]))
    for name in ("recommended_ms", "goal_ms", "upper_ms"):
        assert getattr(alone, name) == getattr(beside, name), name


def test_stops_of_one_rollout_share_a_code_and_a_crash_has_its_own() -> None:
    rolled = {"reason": "Deleted", "rollout_id": "rev-2"}
    stops = [stop(1, **rolled), stop(2, rollout_id="rev-2"), stop(3, **rolled), stop(4)]
    codes = made(stops=stops).sample.cluster.tolist()
    assert codes[0] == codes[2]
    assert len(set(codes)) == 3


def test_an_old_stop_weighs_half_after_two_weeks() -> None:
    weights = made(stops=[stop(AS_OF_MS - 14 * DAY_MS), stop(AS_OF_MS)]).sample.weights
    assert weights == pytest.approx([0.5, 1.0])


def test_a_group_is_described_by_its_average_day_and_its_coverage() -> None:
    known = made()
    assert (known.members, known.partitions, known.coverage) == (12, 48, 0.9)
    late = made(first_ms=20 * DAY_MS, covered_ms=10 * DAY_MS)
    assert (late.from_ms, late.coverage) == (20 * DAY_MS, 1.0)


def test_an_eager_group_stops_all_partitions_and_a_kip_848_group_the_moved_ones() -> None:
    eager, consumer = made(moved=4, of_partitions=48), made(protocol="Consumer", moved=4, of_partitions=48)
    assert (eager.stopped_share, eager.price.seconds) == (1.0, 3.0)
    assert (consumer.stopped_share, consumer.price.seconds) == (pytest.approx(1 / 12), 0.3)
    assert made(protocol="Consumer").stopped_share == 1.0


def test_a_timeout_of_more_than_a_day_is_one_of_a_day() -> None:
    """Brokers may allow more (group.max.session.timeout.ms) than a recommendation can express: clip it at once."""
    (found,) = advised([row(set_timeout_ms=2**31 - 1, stops=[stop(1)])])
    assert found.current_ms == DAY_MS
    assert found.recommended_ms <= Bounds().classic_maximum_ms


def test_the_timeout_in_force_is_the_last_one_set_or_else_the_last_one_seen() -> None:
    assert made(seen_timeout_ms=10_000).state.current_ms == 45_000
    assert made(set_timeout_ms=None, seen_timeout_ms=10_000).state.current_ms == 10_000
    assert made(set_timeout_ms=None).state.current_ms is None


def test_what_the_window_no_longer_holds_is_known_from_the_run_before() -> None:
    """A timeout that was set before the window is in force nevertheless; a newer one in the journal wins."""
    earlier = {
        "earlier_session_timeout_ms": 60_000, "earlier_timeout_source": "Fleet", "earlier_changed_ms": 5,
        "earlier_recommended_ms": 90_000,
    }  # fmt: skip
    state = made(set_timeout_ms=None, **earlier).state
    assert (state.current_ms, state.source, state.changed_ms, state.recommended_ms) == (60_000, "Fleet", 5, 90_000)
    newer = made(timeout_source="Fixed", changed_ms=7, **earlier).state
    assert (newer.current_ms, newer.source, newer.changed_ms) == (45_000, "Fixed", 7)
    assert made(set_timeout_ms=None, seen_timeout_ms=10_000, **earlier).state.current_ms == 10_000


def test_the_canary_of_the_run_decides_who_may_act() -> None:
    waves = waves_of(("kafka-1", name) for name in "abcdef")
    rows = [
        row(group_id=name, stops=rollouts(20, 99, seed), wave=waves["kafka-1", name])
        for seed, name in enumerate("abcdef")
    ]
    assert sorted(waves.values())[:2] == [1, 50]
    found = advised(rows, canary=CanaryState(wave=1, began_ms=0))
    assert [each.released for each in found] == [each.wave == 1 for each in found]
    assert all(each.released for each in advised(rows))


def test_stops_since_the_last_change_are_counted() -> None:
    known = made(changed_ms=50, stops=[stop(49), stop(50), stop(51)])
    assert (known.state.changed_ms, known.state.stops_since_change) == (50, 2)


def test_an_image_is_new_until_a_process_of_it_has_stopped() -> None:
    assert made(stops=[stop(1)], image_digest="sha256:new").state.image_is_new
    assert not made(stops=[stop(1), stop(2, image_digest="sha256:new")], image_digest="sha256:new").state.image_is_new
    assert not made(image_digest="sha256:new").state.image_is_new


@pytest.mark.parametrize(
    ("back", "later", "is_new"),
    [
        (12, [], False),  # as many as there are
        (11, [], True),
        (0, [], True),
        (12, [stop(13 * DAY_MS)], True),  # a stop after it: a process of the previous image still ran
    ],
)
def test_an_image_is_known_once_the_rollout_that_brought_it_in_has_brought_all_members_back(
    back: int, later: list[dict[str, Any]], is_new: bool
) -> None:
    """With a new image in each deploy no process of the running image ever stopped: decreases would freeze for ever."""
    rolled = {"reason": "Deleted", "rollout_id": "rev-30", "image_digest": "sha256:29"}
    stops = [stop(12 * DAY_MS + n, end_kind="returned" if n < back else "open", **rolled) for n in range(12)]
    known = made(stops=[stop(1), *stops, *later], image_digest="sha256:30")
    assert known.state.image_is_new == is_new


def test_brokers_bounds_depend_on_protocol_and_cluster() -> None:
    """GroupCoordinatorConfig: 6 s to 30 min, and for KIP-848 and streams groups 45 s to 60 s, each by settings of their
    own."""
    assert (made().bounds.minimum_ms, made().bounds.maximum_ms) == (9_000, 1_800_000)
    consumer = made(protocol="Consumer").bounds
    assert (consumer.minimum_ms, consumer.maximum_ms) == (45_000, 60_000)
    streams = made(protocol="Streams").bounds
    assert (streams.minimum_ms, streams.maximum_ms, streams.heartbeat_interval_ms) == (45_000, 60_000, 5_000)
    wide = Terms(durations=StopDurations(), bounds={"": Bounds(streams_maximum_ms=300_000)}, valid_ms=1)
    assert (wide.bounds_of("k", "Streams").maximum_ms, wide.bounds_of("k", "Consumer").maximum_ms) == (300_000, 60_000)
    terms = Terms(durations=StopDurations(), bounds={"kafka-1": Bounds(classic_maximum_ms=300_000)}, valid_ms=1)
    assert terms.bounds_of("kafka-1", "Classic").maximum_ms == 300_000
    assert terms.bounds_of("kafka-2", "Classic").maximum_ms == 1_800_000


@pytest.mark.parametrize("protocol", ["Classic", "Consumer", "Streams"])
def test_a_bound_beyond_a_day_counts_as_a_day(protocol: str) -> None:
    """Kafka allows a session as long as an int; one cluster's setting must not cost all others their
    recommendations."""
    most = 2**31 - 1
    terms = Terms(
        durations=StopDurations(),
        bounds={"": Bounds(classic_maximum_ms=most, consumer_maximum_ms=most, streams_maximum_ms=most)},
        valid_ms=1,
    )
    assert terms.bounds_of("k", protocol).maximum_ms == TIMEOUT_MS_MAX
    heartbeat = {f"{protocol.lower()}_heartbeat_ms": TIMEOUT_MS_MAX}
    with pytest.raises(ConfigurationError, match="heartbeat_ms: Input should be less than or equal to 28800000"):
        read_configuration(None, {"root": "x", "brokers": {"k": heartbeat}})


MEASURED = Price(seconds=2.5, lower_seconds=2.0, upper_seconds=4.0, source=PriceSource.MEASURED, rebalances=11)


def test_terms_survive_a_plan() -> None:
    terms = Terms(
        durations=StopDurations(eager_ms=1, is_eager_stated=True),
        bounds={"": Bounds(), "k": Bounds(classic_minimum_ms=1)}, valid_ms=3,
        prices={("k", "g"): MEASURED},
    )  # fmt: skip
    assert Terms.of_settings(json.loads(json.dumps(terms.to_settings()))) == terms


def test_the_timeout_of_a_classic_group_is_not_that_of_the_kip_848_group_it_became() -> None:
    """KIP-848: the session timeout is the brokers', consumer.session.timeout.ms, and no longer the clients' own."""
    row = {"set_timeout_ms": 45_000, "set_protocol": "Classic", "protocol": "Consumer"}
    assert made(**row).state.current_ms is None
    assert made(**row, seen_timeout_ms=60_000, seen_protocol="Consumer").state.current_ms == 60_000
    assert made(**row, seen_timeout_ms=60_000, seen_protocol="Classic").state.current_ms is None
    assert made(**row | {"set_protocol": "Consumer"}).state.current_ms == 45_000
    before = {"earlier_session_timeout_ms": 50_000, "earlier_protocol": "Consumer"}
    assert made(**row, **before).state.current_ms == 50_000
    assert made(**row, **before | {"earlier_protocol": "Classic"}).state.current_ms is None


def test_a_price_is_measured_or_stated_or_assumed_and_says_so() -> None:
    terms = Terms(durations=StopDurations(), bounds={}, valid_ms=1, prices={("kafka-1", "orders"): MEASURED})
    assert terms.price_of("kafka-1", "orders", "Classic") == MEASURED
    assert terms.price_of("kafka-1", "other", "Classic").source is PriceSource.ASSUMED
    assert made().price.source is PriceSource.STATED


@pytest.mark.parametrize(
    ("stops", "stated"),
    [
        ({}, set()),
        ({"classic_is_cooperative": True}, set()),
        ({"eager_ms": 3_000}, {"Classic"}),
        ({"cooperative_ms": 300}, {"Consumer", "Streams"}),
        ({"eager_ms": 3_000, "classic_is_cooperative": True}, set()),
        ({"cooperative_ms": 300, "classic_is_cooperative": True}, {"Classic", "Consumer", "Streams"}),
        ({"eager_ms": 1, "cooperative_ms": 2}, {"Classic", "Consumer", "Streams"}),
    ],
)
def test_a_duration_that_is_written_down_states_the_price_of_its_own_kind_only(
    stops: dict[str, Any], stated: set[str]
) -> None:
    configuration = read_configuration(None, {"root": "x", "stops": stops})
    # Terms depend on the configuration alone.
    terms = Job(configuration, spark=None, progress=None).terms  # type: ignore[arg-type]
    protocols = ("Classic", "Consumer", "Streams")
    assert {each for each in protocols if terms.price_of("k", "g", each).source is PriceSource.STATED} == stated
    assert {each for each in protocols if terms.price_of("k", "g", each).source is PriceSource.ASSUMED} == {
        *protocols
    } - stated


@pytest.mark.parametrize("protocol", ["Consumer", "Streams"])
def test_the_price_of_the_other_kind_turns_no_advice_around(protocol: str) -> None:
    """With stated 300 ms dynamic members would be cheaper; a stated eager duration does not make them stated."""
    durations = {
        "neither": StopDurations(),
        "the other one": StopDurations(is_eager_stated=True),
        "its own": StopDurations(is_cooperative_stated=True),
    }
    rows = [
        row(
            protocol=protocol, group_id=f"g-{seed}", stops=rollouts(28, 99, seed), moved=4, of_partitions=48,
            seen_timeout_ms=45_000,
        )
        for seed in range(4)
    ]  # fmt: skip
    terms = {name: Terms(durations=each, bounds={}, valid_ms=1) for name, each in durations.items()}
    recommended = {name: advised(rows, each)[0] for name, each in terms.items()}
    assert recommended["the other one"] == recommended["neither"]
    assert RecommendationReason.USE_DYNAMIC in recommended["its own"].reasons
    assert RecommendationReason.USE_DYNAMIC not in recommended["neither"].reasons


def test_a_plan_of_an_earlier_version_states_nothing_that_it_does_not_tell_apart() -> None:
    """Its one flag for both durations does not say which of them was stated."""
    terms = Terms(durations=StopDurations(eager_ms=7), bounds={}, valid_ms=3)
    settings = terms.to_settings()
    durations = {name: settings["durations"][name] for name in ("eager_ms", "cooperative_ms", "classic_is_cooperative")}
    assert Terms.of_settings({**settings, "durations": {**durations, "is_stated": True}}) == terms


def test_a_group_of_unknown_size_is_not_free_of_charge() -> None:
    """Every member has at least one partition."""
    unknown = made(partitions=None)
    assert (unknown.members, unknown.partitions) == (12, 12)
    assert unknown.rates.eviction_partition_seconds > 0


def rollouts(number: int, slow_from: int, seed: int) -> list[dict[str, Any]]:
    """One rollout a day of twelve members; from one on restarts take four times as long, under a new image."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    made_stops = []
    for day in range(number):
        factor = 4.0 if day >= slow_from else 1.0
        shared = rng.normal(0, 0.1)
        for member in range(12):
            gap = round(20_000 * factor * float(np.exp(rng.normal(shared, 0.2))))
            image = "sha256:slow" if day > slow_from else "sha256:old"
            made_stops.append(
                stop(day * DAY_MS + member, gap, reason="Deleted", rollout_id=f"rev-{day}", image_digest=image)
            )
    return made_stops


def test_restarts_that_became_slower_are_dated_and_blamed_on_the_image() -> None:
    _, slower = history(row(stops=rollouts(28, 18, 1)), TERMS, start_ms=START_MS, as_of_ms=AS_OF_MS)
    # The sum may leave zero by chance just before the change.
    assert 16 <= slower.since_ms // DAY_MS <= 18
    assert slower.image_digest == "sha256:slow"
    assert slower.median_after_ms / slower.median_before_ms == pytest.approx(4, rel=0.2)


def test_restarts_that_stayed_the_same_are_not_slower() -> None:
    found = [history(row(stops=rollouts(28, 99, seed)), TERMS, start_ms=0, as_of_ms=AS_OF_MS)[1] for seed in range(20)]
    assert sum(each is not None for each in found) <= 2


def test_a_class_is_advised_in_the_order_of_its_names_whatever_came_first() -> None:
    rows = [row(group_id=name, stops=rollouts(20, 99, seed)) for seed, name in enumerate(("b", "a", "c"))]
    one = advised(rows)
    assert [each.group_id for each in one] == ["a", "b", "c"]
    assert one == advised(rows[::-1])
    assert {each.setting for each in one} == {Setting.SESSION_TIMEOUT}
