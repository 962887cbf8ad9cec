"""Sixty groups of JVMs whose containers start after 5 s and whose members are back 50 s later, from run to run.

The journal's facts yield absences by the published definition, absences yield recommendations, and operators act on
them; whether the group absorbs a restart depends only on the timeout in force.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.recommendations.canary import CanaryState, waves_of
from fleet_learner.recommendations.histories import Terms
from fleet_learner.recommendations.recommend import MODEL_VERSION
from support import absences as absence_facts
from support.absence_definition import absences
from unit.fleet_learner.fleet_runs import Fleet, Service

GROUPS: Final = 60
MEMBERS: Final = 4
TIMEOUT_MS: Final = 45_000
TERMS: Final = Terms(durations=StopDurations(), bounds={}, valid_ms=7 * DAY_MS)
"""Terms without a price of a rebalance."""


def roll(service: Service, day: int) -> None:
    """Roll all members; the group keeps an absent member for the timeout of its previous process."""
    for number in range(MEMBERS):
        down_ms = day * DAY_MS + 300_000 * number
        started_ms = down_ms + round(5_000 * float(np.exp(0.15 * service.rng.standard_normal())))
        back_ms = started_ms + round(50_000 * float(np.exp(0.05 * service.rng.standard_normal())))
        seen_ms = back_ms + int(service.rng.integers(1, 5_000))
        age_ms = int(service.rng.integers(0, 3_000))
        absorbed = back_ms - down_ms <= service.running_ms[number] - age_ms
        facts = [
            absence_facts.fact(0, {"down": f"{day}/0", "at": down_ms // 1000 * 1000, "seen": down_ms + 300}),
            absence_facts.fact(1, {"up": f"{day + 1}/0", "at": started_ms // 1000 * 1000, "seen": started_ms + 300}),
            absence_facts.fact(2, {"back": absorbed, "lo": seen_ms - 5_000, "hi": seen_ms, "seen": seen_ms}),
        ]
        (absence,) = absences(absence_facts.events(facts), as_of_ms=(day + 1) * DAY_MS)
        service.stops.append({
            "down_ms": absence.down_ms, "event_id": f"{day}/{number}", "gap_ms": absence.gap_ms,
            "end_kind": absence.end.value, "absorbed": absence.absorbed, "reason": "Deleted",
            "rollout_id": f"rev-{day}", "image_digest": "sha256:one",
            "session_timeout_ms": service.running_ms[number],
        })  # fmt: skip
        service.running_ms[number] = service.timeout_ms


def absorbed(fleet: Fleet, days: int) -> float:
    """Return the absorbed share of the restarts of the last days."""
    recent = [s for each in fleet.services for s in each.stops if s["down_ms"] >= (fleet.day - days) * DAY_MS]
    return sum(bool(s["absorbed"]) for s in recent) / len(recent)


def new_fleet(seed: int) -> Fleet:
    """Return a fleet that has lived for two weeks and was advised once."""
    names = [f"group-{index}" for index in range(GROUPS)]
    waves = waves_of((("k", name) for name in names), salt=MODEL_VERSION)
    generators = (np.random.Generator(np.random.Philox(key=[seed, index])) for index in range(GROUPS))
    services = [Service(n, waves["k", n], rng, TIMEOUT_MS, MEMBERS) for n, rng in zip(names, generators, strict=True)]
    fleet = Fleet(services, roll, TERMS)
    fleet.live(14)
    assert absorbed(fleet, 7) == 0
    fleet.run()
    return fleet


def weeks(fleet: Fleet, number: int) -> list[CanaryState]:
    """Let a run follow each week."""
    states = []
    for _ in range(number):
        fleet.live(7)
        states.append(fleet.run()[0])
    return states


def test_groups_that_join_late_end_at_timeouts_that_absorb_their_restarts() -> None:
    """45 s absorb none of their restarts, which last 55 s; a gap that ended with the container would ask for 10 to 15
    s."""
    fleet = new_fleet(1)
    states = weeks(fleet, 12)
    assert not any(state.withdrawn for state in states)
    assert states[-1].is_over
    fleet.live(7)
    assert absorbed(fleet, 7) >= 0.99
    assert {service.timeout_ms for service in fleet.services} <= {60_000, 65_000, 70_000, 75_000}


def test_a_wrong_shortening_forced_by_hand_is_rolled_back_by_the_next_run() -> None:
    fleet = new_fleet(2)
    weeks(fleet, 12)
    for service in fleet.services[:20]:
        service.set(20_000, "Fleet", fleet.day * DAY_MS)
    fleet.live(7)
    assert absorbed(fleet, 5) < 0.7
    state, _ = fleet.run()
    assert state.withdrawn == 100
    assert {service.timeout_ms for service in fleet.services[:20]} == {TIMEOUT_MS}
    assert all(service.changes[-1]["timeout_source"] == "Structural" for service in fleet.services[:20])
