"""Change a fleet in waves of 1, 10, 50, 95 and 100 %; each must prove harmless before the next begins.

The one idea: the next state of the canary is a function of the previous run's state and of the facts since, so a
repeated run yields the same. Harm is measured against an expectation: what a group's earlier stops predict under its
new timeout, corrected by the experience of the unchanged groups. Both evictions and the time in which absent members
were kept count, because a too short timeout causes the former and a too long one the latter. Pure functions of their
arguments. Sources: Robbins 1970 (mixture martingales), Ville 1939 (a bound at any time one looks), Waudby-Smith &
Ramdas 2024 (betting on a mean), Vovk & Wang 2021 (the mean of e-values is an e-value).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Literal

from scipy.special import betaincc, betaln

Wave = Literal[1, 10, 50, 95, 100]
WAVES: Final[tuple[Wave, ...]] = (1, 10, 50, 95, 100)
"""Per cent of the groups; later waves are the control group of the earlier ones."""
WAVE_MS_MIN: Final = 86_400_000
WAVE_STOPS_MIN: Final = 100
LOCK_MS: Final = 14 * 86_400_000
PATIENCE_MS: Final = 14 * 86_400_000
"""A wave waits this long for a group to take a released timeout."""
ALARM_LEVEL: Final = 0.05
WATCH_MS: Final = 28 * 86_400_000
"""After the last wave, the changes of so many days stay under watch; sliding windows have no anytime bound."""
WATCH_ALARM_LEVEL: Final = 0.01
RATIO_TOLERATED: Final = 1.1
"""Treated groups may exceed the controls' expectation by this factor: noise of the baseline."""
GHOST_RATIO_MAX: Final = 4.0
EVICTION_RATIO_MAX: Final = 10.0
"""A day counts as at most this many times its expectation, so that one lost node is no proof."""
BETS: Final = (0.125, 0.25, 0.5, 0.75)
PSEUDO_STOPS: Final = 20.0
FOLLOWING_SOURCES: Final = frozenset({"Structural", "Fleet"})
"""Sources of a timeout that an operator chooses, as it acts on a recommendation only then."""


class CanaryVerdict(StrEnum):
    """The verdict on a wave."""

    WAIT = "Wait"
    ADVANCE = "Advance"
    ROLL_BACK = "RollBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Count stops and evictions of one arm, before and since; the control arm keeps its timeouts.

    Parameters
    ----------
    stops_before: stops behind the expectation.
    evictions_before: of those, under the present timeouts, and weighted by each group's share of the stops since.
    """

    stops_before: float = 0.0
    evictions_before: float = 0.0
    stops: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDay:
    """Hold one day of all groups of an arm: evictions, and the time in which absent members were kept.

    Parameters
    ----------
    day_ms: its midnight, Unix milliseconds.
    promised_ms, evictions_promised: the expectation from each group's earlier stops for as many stops under the present
        timeouts.
    """

    day_ms: int
    stops: int
    ghost_ms: int
    promised_ms: int
    evictions: int = 0
    evictions_promised: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveAccount:
    """Hold the results of a campaign so far.

    Parameters
    ----------
    treated, control: groups whose timeout the fleet changed since the campaign began; groups whose timeout stayed.
    treated_days, control_days: in any order.
    wave_stops: of groups that changed since the wave began.
    """

    treated: Arm = Arm()
    control: Arm = Arm()
    treated_days: tuple[TrialDay, ...] = ()
    control_days: tuple[TrialDay, ...] = ()
    wave_stops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryState:
    """Hold the progress of the fleet.

    Parameters
    ----------
    wave: groups of this wave and earlier ones may act.
    began_ms: of the wave, Unix milliseconds.
    campaign_ms: when the first wave began; changes by the fleet learner since then are on trial.
    locked_until_ms: nothing acts before; 0 when not locked.
    withdrawn: groups of this wave and earlier ones lost their recommended timeout, until their wave is released again.
    is_over: all waves are released and proved harmless; later changes are only watched.
    as_of_ms: time of this state by the canary's clock; the window of a run may end in the future.
    """

    wave: Wave
    began_ms: int
    campaign_ms: int = 0
    locked_until_ms: int = 0
    withdrawn: Wave | None = None
    is_over: bool = False
    as_of_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryHistory:
    """Hold all inputs of the canary's next state.

    Parameters
    ----------
    before: the previous run's state; None: no run had this policy.
    account: of the campaign of `before`.
    followers: groups by wave that act, or may still act, on a recommendation.
    now_ms: end of the window, Unix milliseconds.
    """

    before: CanaryState | None
    now_ms: int
    account: WaveAccount = WaveAccount()
    followers: Mapping[Wave, int] = field(default_factory=dict)


def wave_order(kafka_cluster_id: str, group_id: str, salt: str = "") -> int:
    """Return the sort key of groups for the waves: CRC-32 of `canary/<salt>/<kafka_cluster_id>/<group_id>`.

    Parameters
    ----------
    salt: of the policy's version, so that the first groups change with it.
    """
    return zlib.crc32(f"canary/{salt}/{kafka_cluster_id}/{group_id}".encode())


def wave_of_rank(rank: int, groups: int) -> Wave:
    """Return the wave of the group with this rank.

    Parameters
    ----------
    rank: from 0, in the order of `wave_order`.
    groups: of the fleet, > rank.

    Returns
    -------
    Wave
        In a small fleet the first group goes alone, and so does the last one of at least two.
    """
    for wave in WAVES[:-1]:
        if rank < min(max(groups * wave // 100, 1), max(groups - 1, 1)):
            return wave
    return WAVES[-1]


def waves_of(groups: Iterable[tuple[str, str]], salt: str = "") -> dict[tuple[str, str], Wave]:
    """Assign the groups of a fleet, each (Kafka cluster id, group id), to waves."""
    ordered = sorted(set(groups), key=lambda each: (wave_order(each[0], each[1], salt), each))
    return {each: wave_of_rank(rank, len(ordered)) for rank, each in enumerate(ordered)}


def is_released(wave: Wave, state: CanaryState) -> bool:
    """Return whether a group of this wave may act."""
    return state.as_of_ms >= state.locked_until_ms and wave <= state.wave


def is_withdrawn(wave: Wave, state: CanaryState) -> bool:
    """Return whether a group of this wave has to give up its recommended timeout."""
    return state.withdrawn is not None and wave <= state.withdrawn and not is_released(wave, state)


def harm_evidence(treated: Arm, control: Arm) -> float:
    """Weigh the evidence that treated groups have more evictions than the controls predict.

    Parameters
    ----------
    treated, control: counts; the rates before are the two arms' own baselines (difference in differences).

    Returns
    -------
    float
        An e-value: without harm it ever exceeds 1/α with a probability of at most α, however often it is evaluated. 1
        while there is no eviction or no baseline.

    Notes
    -----
    Given that an eviction happened, without harm it falls on the treated arm with chance θ₀ at most: its share of the
    evictions expected from baselines × stops, with RATIO_TOLERATED. The alternative is spread evenly over (θ₀, 1); the
    mixture of likelihood ratios is a non-negative supermartingale for every θ ≤ θ₀.
    """
    expected_treated = RATIO_TOLERATED * _baseline(treated, control) * treated.stops
    expected_control = _baseline(control, treated) * control.stops
    total = treated.evictions + control.evictions
    if total == 0 or expected_treated <= 0 or expected_control <= 0:
        return 1.0
    theta = expected_treated / (expected_treated + expected_control)
    alpha, beta = treated.evictions + 1, control.evictions + 1
    mass = float(betaincc(alpha, beta, theta))
    if mass <= 0.0:
        return 0.0
    log_mixture = float(betaln(alpha, beta)) + math.log(mass) - math.log1p(-theta)
    log_null = treated.evictions * math.log(theta) + control.evictions * math.log1p(-theta)
    return math.exp(min(log_mixture - log_null, 700.0))


def ghost_evidence(treated: Iterable[TrialDay], control: Iterable[TrialDay]) -> float:
    """Weigh the evidence that absent members are kept for longer than expected.

    Returns
    -------
    float
        An e-value like `harm_evidence`; 1 while there is nothing to compare.

    Notes
    -----
    The ratio of each day's ghost time to its expectation, corrected by the same ratio of the controls, has without harm
    a mean of RATIO_TOLERATED at most. A bet of a share λ of the capital on each day then gains nothing on average; the
    evidence is the mean of the final capital over a few λ. Capping a day at GHOST_RATIO_MAX only lowers it.
    """
    days = sorted((day for day in treated if day.promised_ms > 0), key=lambda day: day.day_ms)
    others = [day for day in control if day.promised_ms > 0]
    if not days:
        return 1.0
    stops = sum(day.stops for day in (*days, *others))
    steadied_ms = PSEUDO_STOPS * sum(day.promised_ms for day in (*days, *others)) / max(stops, 1)
    seen_ms, promised_ms = sum(day.ghost_ms for day in others), sum(day.promised_ms for day in others)
    allowed = RATIO_TOLERATED * (seen_ms + steadied_ms) / (promised_ms + steadied_ms)
    ratios = [min(day.ghost_ms / (allowed * day.promised_ms), GHOST_RATIO_MAX) for day in days]
    return _won(ratios)


def eviction_evidence(account: WaveAccount) -> float:
    """Weigh the evidence that members are expelled more often than expected, day by day.

    Returns
    -------
    float
        An e-value. `harm_evidence` is blind where neither arm expected evictions; evictions above the expectation every
        day are harm, too. 1 while there is nothing to compare.

    Notes
    -----
    As in `ghost_evidence`, the ratio of a day's evictions to the allowed number has a mean of at most 1 without harm.
    Stops of a day may depend on each other in any way. The controls' own excess over their expectation is allowed as
    well.
    """
    treated, control = account.treated, account.control
    expected = 1.0 + _baseline(control, treated) * control.stops
    allowed = RATIO_TOLERATED * max(1.0, (1.0 + control.evictions) / expected)
    rate = _baseline(treated, control)
    days = sorted((day for day in account.treated_days if day.stops > 0), key=lambda day: day.day_ms)
    return _won(
        [
            min(day.evictions / (allowed * max(day.evictions_promised, rate * day.stops)), EVICTION_RATIO_MAX)
            for day in days
        ]
    )


def _won(ratios: Sequence[float]) -> float:
    """Return the final capital, from 1, of betting that each ratio exceeds 1: the mean over a few shares."""
    logs = [sum(math.log1p(bet * (ratio - 1.0)) for ratio in ratios) for bet in BETS]
    return sum(math.exp(min(each, 700.0)) for each in logs) / len(BETS)


def harm(account: WaveAccount) -> float:
    """Weigh all kinds of harm: an e-value, the mean of the three."""
    ghosts = ghost_evidence(account.treated_days, account.control_days)
    return (harm_evidence(account.treated, account.control) + eviction_evidence(account) + ghosts) / 3


def judge_wave(state: CanaryState, account: WaveAccount, *, now_ms: int) -> CanaryVerdict:
    """Decide about the current wave.

    Returns
    -------
    CanaryVerdict
        ROLL_BACK as soon as harm is shown at 5 %, or at 1 % after the last wave; ADVANCE after a day and 100 stops
        without harm, or after 14 days in the last wave; else WAIT.
    """
    if now_ms < state.locked_until_ms:
        return CanaryVerdict.WAIT
    if harm(account) >= 1.0 / (WATCH_ALARM_LEVEL if state.is_over else ALARM_LEVEL):
        return CanaryVerdict.ROLL_BACK
    if state.is_over:
        return CanaryVerdict.WAIT
    is_seen = now_ms - state.began_ms >= WAVE_MS_MIN and account.wave_stops >= WAVE_STOPS_MIN
    is_patient = state.wave == WAVES[-1] and now_ms - state.began_ms >= PATIENCE_MS
    return CanaryVerdict.ADVANCE if is_seen or is_patient else CanaryVerdict.WAIT


def next_canary(state: CanaryState, verdict: CanaryVerdict, *, now_ms: int) -> CanaryState:
    """Apply a verdict: the next wave or the end; the first wave after a lock of 14 days; or no change."""
    match verdict:
        case CanaryVerdict.ADVANCE:
            later = next((wave for wave in WAVES if wave > state.wave), None)
            return replace(state, is_over=True) if later is None else _at_wave(state, later, now_ms)
        case CanaryVerdict.ROLL_BACK:
            until_ms = now_ms + LOCK_MS
            return CanaryState(
                wave=WAVES[0], began_ms=until_ms, campaign_ms=until_ms, locked_until_ms=until_ms, withdrawn=state.wave
            )
        case CanaryVerdict.WAIT:
            return state


def canary_state(history: CanaryHistory) -> CanaryState:
    """Return the canary's next state from the previous run's state and the results since.

    Returns
    -------
    CanaryState
        Equal for equal histories. Waves without a following group are skipped, because they show nothing.
    """
    before, now_ms = history.before, history.now_ms
    if before is None:
        state = CanaryState(wave=WAVES[0], began_ms=now_ms, campaign_ms=now_ms)
    else:
        state = next_canary(before, judge_wave(before, history.account, now_ms=now_ms), now_ms=now_ms)
    state = replace(state, as_of_ms=now_ms)
    waiting = [wave for wave in WAVES if wave >= state.wave and history.followers.get(wave, 0) > 0]
    return _at_wave(state, waiting[0], max(now_ms, state.locked_until_ms)) if waiting else state


def _at_wave(state: CanaryState, wave: Wave, now_ms: int) -> CanaryState:
    return state if wave == state.wave else replace(state, wave=wave, began_ms=now_ms)


def _baseline(arm: Arm, other: Arm) -> float:
    """Estimate an arm's earlier evictions per stop, shrunk towards both arms' by a few pseudo-stops."""
    stops = arm.stops_before + other.stops_before
    both = (arm.evictions_before + other.evictions_before + 0.5) / (stops + 1.0)
    return (arm.evictions_before + PSEUDO_STOPS * both) / (arm.stops_before + PSEUDO_STOPS)
