"""Change a fleet in waves of 1, 10, 50, 95 and 100 %, each of which has to show first that it does no harm.

The one idea: the next state of the canary is a function of the state that the run before published and of what the
journal says came of it since, so a run that is done again comes to the same. Harm is measured against a promise: what
a group's stops before let expect with the timeouts that are in force since, corrected by what the groups that nobody
touched went through. Evictions and the time for which places were kept are both looked at, because a timeout that is
too short does the one and a timeout that is too long the other. Pure functions of their arguments.
Sources: Robbins 1970 (mixture martingales), Ville 1939 (a bound at any time one looks), Waudby-Smith & Ramdas 2024
(betting on a mean), Vovk & Wang 2021 (the mean of e-values is an e-value).
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
"""Per cent of the groups; the last ones are the control of those before, until nothing is left to compare."""
WAVE_MS_MIN: Final = 86_400_000
WAVE_STOPS_MIN: Final = 100
LOCK_MS: Final = 14 * 86_400_000
PATIENCE_MS: Final = 14 * 86_400_000
"""A group that has not taken a released timeout after that long is not waited for."""
ALARM_LEVEL: Final = 0.05
WATCH_MS: Final = 28 * 86_400_000
"""After the last wave, changes of so many days are looked at on and on; windows that slide give no bound at any time."""
WATCH_ALARM_LEVEL: Final = 0.01
RATIO_TOLERATED: Final = 1.1
"""Treated groups may have this many times what the controls let expect: noise of the baseline."""
GHOST_RATIO_MAX: Final = 4.0
EVICTION_RATIO_MAX: Final = 10.0
"""A day counts as this many times its promise at most, so that one lost node is no proof."""
BETS: Final = (0.125, 0.25, 0.5, 0.75)
PSEUDO_STOPS: Final = 20.0
FOLLOWING_SOURCES: Final = frozenset({"Structural", "Fleet"})
"""Sources of a timeout in mode Auto, the only one in which an operator acts on a recommendation."""


class CanaryVerdict(StrEnum):
    """Say what becomes of a wave."""

    WAIT = "Wait"
    ADVANCE = "Advance"
    ROLL_BACK = "RollBack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Count stops and evictions of one arm, before and since; the control arm keeps its timeouts.

    Parameters
    ----------
    stops_before: that the expectation rests on.
    evictions_before: of those, with the timeouts that are in force since, and with each group's share of the stops
        since.
    """

    stops_before: float = 0.0
    evictions_before: float = 0.0
    stops: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDay:
    """Hold what happened on one day in all groups of an arm: evictions, and for how long places were kept.

    Parameters
    ----------
    day_ms: its midnight, Unix milliseconds.
    promised_ms, evictions_promised: what each group's stops before let expect of as many stops with the timeouts now in
        force.
    """

    day_ms: int
    stops: int
    ghost_ms: int
    promised_ms: int
    evictions: int = 0
    evictions_promised: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveAccount:
    """Hold what came of a campaign so far.

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
    """Hold how far the fleet is.

    Parameters
    ----------
    wave: groups of this wave and earlier ones may act.
    began_ms: of the wave, Unix milliseconds.
    campaign_ms: when the first wave began; what the fleet changed since then is on trial.
    locked_until_ms: nothing acts before; 0 when not locked.
    withdrawn: groups of this wave and earlier ones lost what they were recommended, until their wave is released again.
    is_over: all waves are released and were seen to do no harm; what changes from now on is watched only.
    as_of_ms: when it was so, by the clock that waves go by; a run may be made for an end of the window that is still to
        come.
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
    """Hold everything that the canary's next state depends on.

    Parameters
    ----------
    before: what the run before published; None: there was none with this policy.
    account: of the campaign of `before`.
    followers: groups by wave that act, or may still act, on a recommendation.
    now_ms: end of the window, Unix milliseconds.
    """

    before: CanaryState | None
    now_ms: int
    account: WaveAccount = WaveAccount()
    followers: Mapping[Wave, int] = field(default_factory=dict)


def wave_order(kafka_cluster_id: str, group_id: str, salt: str = "") -> int:
    """Return by what groups are ordered into waves: CRC-32 of `canary/<salt>/<kafka_cluster_id>/<group_id>`.

    Parameters
    ----------
    salt: of the policy's version, so that not the same groups are first for ever.
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
        The first group goes alone in a small fleet, and the last one of at least two is never changed with others.
    """
    for wave in WAVES[:-1]:
        if rank < min(max(groups * wave // 100, 1), max(groups - 1, 1)):
            return wave
    return WAVES[-1]


def waves_of(groups: Iterable[tuple[str, str]], salt: str = "") -> dict[tuple[str, str], Wave]:
    """Put the groups of a fleet, each (Kafka cluster id, group id), into waves."""
    ordered = sorted(set(groups), key=lambda each: (wave_order(each[0], each[1], salt), each))
    return {each: wave_of_rank(rank, len(ordered)) for rank, each in enumerate(ordered)}


def is_released(wave: Wave, state: CanaryState) -> bool:
    """Say whether a group of this wave may act."""
    return state.as_of_ms >= state.locked_until_ms and wave <= state.wave


def is_withdrawn(wave: Wave, state: CanaryState) -> bool:
    """Say whether a group of this wave has to give up what it was recommended."""
    return state.withdrawn is not None and wave <= state.withdrawn and not is_released(wave, state)


def harm_evidence(treated: Arm, control: Arm) -> float:
    """Weigh the evidence that the treated groups are expelled more than the controls let expect.

    Parameters
    ----------
    treated, control: counts; the rates before are the two arms' own baselines (difference in differences).

    Returns
    -------
    float
        An e-value: if there is no harm, it ever exceeds 1/α with a chance of at most α, however often one looks. 1
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
    """Weigh the evidence that places are kept for absent members for longer than was promised.

    Returns
    -------
    float
        An e-value, as `harm_evidence`; 1 while there is nothing to compare.

    Notes
    -----
    Each day's ghost time, over what was promised and over what the controls' own differs from theirs, has a mean of
    RATIO_TOLERATED at most without harm. Who bets the share λ of what he has on each day then gains nothing on average;
    the evidence is the mean over a few λ of what he has in the end. Cutting a day off at GHOST_RATIO_MAX only lowers
    it.
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
    """Weigh the evidence that members are expelled more often than was promised, day by day.

    Returns
    -------
    float
        An e-value, as `harm_evidence`, which says nothing where neither arm expected evictions at all; a promise that
        is broken every day is harm, too. 1 while there is nothing to compare.

    Notes
    -----
    As in `ghost_evidence`, a day's evictions over what is allowed have a mean of 1 at most without harm. Stops of a day
    may depend on each other as they like. What the controls went through beyond their own promise is allowed as well.
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
    """Return what is left of 1 after betting on each ratio to exceed 1, the mean over a few shares that are bet."""
    logs = [sum(math.log1p(bet * (ratio - 1.0)) for ratio in ratios) for bet in BETS]
    return sum(math.exp(min(each, 700.0)) for each in logs) / len(BETS)


def harm(account: WaveAccount) -> float:
    """Weigh all kinds of harm: an e-value, the mean of the three."""
    ghosts = ghost_evidence(account.treated_days, account.control_days)
    return (harm_evidence(account.treated, account.control) + eviction_evidence(account) + ghosts) / 3


def judge_wave(state: CanaryState, account: WaveAccount, *, now_ms: int) -> CanaryVerdict:
    """Decide about the wave that is under way.

    Returns
    -------
    CanaryVerdict
        ROLL_BACK as soon as harm is shown at 5 %, at 1 % after the last wave; ADVANCE after a day and 100 stops
        without, or, in the last wave, 14 days; else WAIT.
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
    """Carry a verdict out: the next wave, or the end; the first one, after 14 days in which nothing acts; or the same."""
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
    """Say how far the fleet is, from what the run before published and what came of it since.

    Returns
    -------
    CanaryState
        Equal for equal histories. Waves without a group that follows are passed: nothing can be learned from them.
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
    """Estimate an arm's evictions per stop before, drawn to that of both arms by a few pseudo-stops."""
    stops = arm.stops_before + other.stops_before
    both = (arm.evictions_before + other.evictions_before + 0.5) / (stops + 1.0)
    return (arm.evictions_before + PSEUDO_STOPS * both) / (arm.stops_before + PSEUDO_STOPS)
