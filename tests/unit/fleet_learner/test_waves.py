"""What came of the fleet's timeouts: group by group, and from run to run over a fleet with a bad canary."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from fleet_learner import waves
from fleet_learner.canary import (
    ALARM_LEVEL,
    PATIENCE_MS,
    WAVES,
    CanaryHistory,
    CanaryState,
    Wave,
    canary_state,
    harm,
    wave_of,
)
from fleet_learner.facts import DAY_MS, StopDurations
from fleet_learner.histories import Advised, Terms, advise_class
from fleet_learner.recommend import MODEL_VERSION
from fleet_learner.schemas import CANARY
from fleet_learner.waves import Share, Trial, account_of, canary_row, shares, state_of
from staticgroup.api.recommendation import RecommendationReason as Reason

Row = dict[str, Any]
SALT = "s"
TRIAL = Trial(campaign_ms=100 * DAY_MS, wave_ms=102 * DAY_MS, as_of_ms=105 * DAY_MS, salt=SALT)
EARLIER = {
    "earlier_timeout_source": "Structural", "earlier_session_timeout_ms": 45_000, "earlier_recommended_ms": 90_000,
    "earlier_model_version": "1.0",
}  # fmt: skip
UNKNOWN = dict.fromkeys(EARLIER)


def stop(day: float, gap_s: float, timeout_s: float = 45, end_kind: str = "returned") -> Row:
    return {"down_ms": round(day * DAY_MS), "gap_ms": round(1000 * gap_s), "end_kind": end_kind,
            "session_timeout_ms": round(1000 * timeout_s)}  # fmt: skip


def change(day: float, timeout_s: float, source: str = "Fleet") -> Row:
    return {
        "event_ms": round(day * DAY_MS),
        "timeout_source": source,
        "session_timeout_ms_after": round(1000 * timeout_s),
    }


BEFORE = [stop(90 + number / 10, gap_s) for number, gap_s in enumerate([20] * 8 + [60, 100])]


def found(stops: list[Row], changes: list[Row] | None = None, **more: Any) -> list[Share]:
    row = {"kafka_cluster_id": "k", "group_id": "g", "stops": stops, "changes": changes} | EARLIER | more
    return shares(row, TRIAL)


def counted(stops: list[Row], changes: list[Row] | None = None) -> list[Share]:
    return [each for each in found(stops, changes) if each.stops]


# one group -----------------------------------------------------------------------------------------------------------


def test_a_promise_is_what_the_stops_before_would_have_been_with_the_timeout_now() -> None:
    """Two of ten gaps exceed 45 s and one 90 s; a place is kept until the member is back or its session ends."""
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


def test_removed_and_blind_stops_say_nothing_and_an_open_one_counts_as_long_as_it_lasted() -> None:
    ends = [stop(103, 200, 90, "removed"), stop(103, 200, 90, "blind"), stop(104, 200, 90, "open")]
    (share,) = counted([*BEFORE, *ends], [change(102, 90)])
    assert (share.day_ms, share.evictions, share.ghost_ms) == (104 * DAY_MS, 1, 90_000)


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
    row = {"kafka_cluster_id": "k", "group_id": "g", "stops": [], "changes": None} | EARLIER
    for late, follows in ((-1, 1), (0, 0)):
        trial = Trial(campaign_ms=0, wave_ms=0, as_of_ms=PATIENCE_MS + late, salt=SALT)
        assert sum(each.followers for each in shares(row, trial)) == follows


def test_the_account_is_the_same_in_whatever_order_and_however_it_was_summed_before() -> None:
    made = found([*BEFORE, stop(103, 95, 90), stop(103.5, 10, 90), stop(104, 10, 90)], [change(102, 90)])
    account, followers = account_of(made)
    assert account_of(made[::-1]) == (account, followers)
    assert (account.treated.stops, account.treated.evictions, account.treated.stops_before) == (3, 1, 10)
    assert account.treated.evictions_before == pytest.approx(1.0)
    assert account.wave_stops == 3
    wave: Wave = wave_of("k", "g", salt=SALT)
    assert followers == {wave: 1}


def test_the_state_survives_its_row() -> None:
    state = CanaryState(wave=10, began_ms=3, campaign_ms=1, locked_until_ms=0, withdrawn=50)
    row = canary_row(CanaryHistory(before=state, now_ms=4), SALT)
    assert tuple(row) == CANARY.names
    assert state_of(row) == state
    assert row["verdict"] == "Wait"
    assert canary_row(CanaryHistory(before=None, now_ms=4), SALT)["verdict"] == "Begin"


# a fleet -------------------------------------------------------------------------------------------------------------

TERMS = Terms(durations=StopDurations(), bounds={}, valid_ms=7 * DAY_MS)
MEMBERS = 12
STRUCTURAL_MS = 30_000


def names(wave: Wave, number: int) -> list[str]:
    """Return names of groups that fall into this wave."""
    numbered = (f"group-{index}" for index in count())
    return list(islice((name for name in numbered if wave_of("k", name, salt=MODEL_VERSION) == wave), number))


@dataclass
class Pod:
    """One member: the timeout that its process started with."""

    timeout_ms: int = STRUCTURAL_MS


@dataclass
class Team:
    """One group in mode Auto, rolled once a day, and what its operator wrote into the journal."""

    group_id: str
    rng: np.random.Generator
    timeout_ms: int = STRUCTURAL_MS
    source: str = "Structural"
    stops: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=lambda: [Pod() for _ in range(MEMBERS)])

    def live(self, day: int, harm: float) -> None:
        """Roll all members; who runs with the fleet's timeout takes `harm` times as long."""
        for number, pod in enumerate(self.pods):
            factor = harm if pod.timeout_ms != STRUCTURAL_MS else 1.0
            gap_ms = round(30_000 * factor * float(np.exp(0.4 * self.rng.standard_normal())))
            self.stops.append({
                "down_ms": day * DAY_MS + 60_000 * number, "event_id": f"{self.group_id}/{day}/{number}",
                "gap_ms": gap_ms, "end_kind": "returned", "reason": "Deleted", "rollout_id": f"rev-{day}",
                "image_digest": "sha256:one", "session_timeout_ms": pod.timeout_ms,
            })  # fmt: skip
            pod.timeout_ms = self.timeout_ms

    def obey(self, advised: Advised, now_ms: int) -> None:
        """Do what `judge_advice` does in mode Auto: take what is released, give back what was withdrawn."""
        record = advised.record
        wanted = (self.timeout_ms, self.source)
        if record.released and record.recommended_ms is not None:
            wanted = (record.recommended_ms, "Fleet")
        elif Reason.CANARY_ROLLED_BACK in record.reasons:
            wanted = (STRUCTURAL_MS, "Structural")
        if wanted[0] != self.timeout_ms:
            self.timeout_ms, self.source = wanted
            self.changes.append({
                "event_ms": now_ms + 300_000, "timeout_source": self.source,
                "session_timeout_ms_after": self.timeout_ms,
            })  # fmt: skip

    def features(self, now_ms: int) -> Row:
        """Return the row of `group_features`."""
        return {
            "kafka_cluster_id": "k", "group_id": self.group_id, "group_key": hash(self.group_id), "protocol": "Classic",
            "stops": self.stops, "seen_timeout_ms": STRUCTURAL_MS, "moved": None, "of_partitions": None,
            "set_timeout_ms": self.timeout_ms, "timeout_source": self.source,
            "changed_ms": self.changes[-1]["event_ms"] if self.changes else None, "image_digest": "sha256:one",
            "members": MEMBERS, "partitions": 4 * MEMBERS, "days": 1, "first_ms": 0, "covered_ms": now_ms,
        }  # fmt: skip


@dataclass
class Fleet:
    """Groups of all waves, and what the runs published."""

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
        """Do what a run does, from the tables alone; its operators act on it."""
        now_ms = self.day * DAY_MS
        before = self.canary
        trial = Trial(
            campaign_ms=before.campaign_ms if before else now_ms, wave_ms=before.began_ms if before else now_ms,
            as_of_ms=now_ms, salt=MODEL_VERSION,
        )  # fmt: skip
        own = [
            {"kafka_cluster_id": "k", "group_id": t.group_id, "stops": t.stops, "changes": t.changes
             or [{"event_ms": 0, "timeout_source": t.source, "session_timeout_ms_after": t.timeout_ms}]}
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
            }  # fmt: skip
            team.obey(by_name[team.group_id], now_ms)
        return self.canary, advised

    def follows(self) -> dict[int, int]:
        """Count by wave the groups that have the fleet's timeout."""
        counted = dict.fromkeys(WAVES, 0)
        for team in self.teams:
            counted[wave_of("k", team.group_id, salt=MODEL_VERSION)] += team.source == "Fleet"
        return {int(wave): number for wave, number in counted.items()}


def new_fleet(seed: int) -> Fleet:
    sizes: tuple[tuple[Wave, int], ...] = ((1, 2), (10, 4), (50, 3), (100, 5))
    groups = [name for wave, number in sizes for name in names(wave, number)]
    return Fleet([Team(name, np.random.Generator(np.random.Philox(key=[seed, i]))) for i, name in enumerate(groups)])


def test_a_bad_canary_is_released_to_one_then_to_ten_per_cent_and_then_taken_back_and_locked() -> None:
    """A timeout of 30 s expels half of the members, so all groups are to get more; from the second week on that harms."""
    fleet = new_fleet(1)
    fleet.live(20)
    first, advised = fleet.run()
    assert (first.wave, first.campaign_ms) == (1, 20 * DAY_MS)
    assert all(e.record.recommended_ms == 60_000 for e in advised)
    assert all((Reason.CANARY_WAITING in e.record.reasons) == (e.record.wave > 1) for e in advised)
    assert fleet.follows() == {1: 2, 10: 0, 50: 0, 100: 0}

    fleet.live(7)
    second, _ = fleet.run()
    assert (second.wave, second.began_ms, second.campaign_ms) == (10, 27 * DAY_MS, 20 * DAY_MS)
    assert fleet.follows() == {1: 2, 10: 4, 50: 0, 100: 0}

    fleet.live(7, harm=3.0)
    third, advised = fleet.run()
    assert (third.withdrawn, third.locked_until_ms) == (10, 48 * DAY_MS)
    assert not any(each.record.released for each in advised)
    assert all((Reason.CANARY_ROLLED_BACK in e.record.reasons) == (e.record.wave <= 10) for e in advised)
    assert fleet.follows() == {1: 0, 10: 0, 50: 0, 100: 0}
    assert {team.timeout_ms for team in fleet.teams} == {STRUCTURAL_MS}

    fleet.live(13)
    locked, advised = fleet.run()
    assert locked == third
    assert not any(each.record.released for each in advised)

    fleet.live(1)
    again, advised = fleet.run()
    assert (again.wave, again.campaign_ms) == (1, 48 * DAY_MS)
    assert {each.record.wave for each in advised if each.record.released} == {1}
    assert fleet.follows() == {1: 2, 10: 0, 50: 0, 100: 0}


def test_a_good_canary_reaches_all_groups_in_four_runs() -> None:
    fleet = new_fleet(2)
    fleet.live(20)
    seen = []
    for _ in range(4):
        seen.append(fleet.run()[0].wave)
        fleet.live(6)
    assert seen == [1, 10, 50, 100]
    assert fleet.run()[0].is_over
    assert fleet.follows() == {1: 2, 10: 4, 50: 3, 100: 5}


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
    """Looked at every day for ten days; stops of one rollout are half of them the same, which the test does not model."""
    rng = np.random.Generator(np.random.Philox(key=[71, 0]))
    trial = Trial(campaign_ms=12 * DAY_MS, wave_ms=12 * DAY_MS, as_of_ms=22 * DAY_MS, salt=SALT)
    alarms = {1.0: 0, 2.0: 0}
    for factor, number in ((factor, number) for factor in alarms for number in range(30)):
        rows = [
            {"kafka_cluster_id": "k", "group_id": f"g-{number}-{group}", **EARLIER}
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
