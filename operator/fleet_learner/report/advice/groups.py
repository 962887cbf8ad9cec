"""Turn a recommendation into an action for a person, or into the missing evidence.

The one idea: an ordered table of rules, and the first that holds writes the whole advice, so rules never mix. A change
is advised only if it certainly saves by a known price; if it rests on an assumed price, or may lose, the verdict is
*not known*, and the advice names the missing evidence. The function is total: any reasons, bounds and effects give an
advice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleet_learner.recommendations.policy import CHANGE_MS_MIN, CHANGE_PERCENT_MIN
from journal.recommendations import Recommendation, Setting
from journal.recommendations import RecommendationReason as Reason

from ..model import Advice, GroupKey, Saving, Verdict
from ..units import SECOND_MS, WEEK_DAYS, amount, count, duration, partition_time, percent
from . import unknowns
from .carrier import carried_out, is_followed

_WAITS = {
    Reason.TOO_SOON: "It was changed a short while ago, and the effect of that has to be seen first.",
    Reason.NEW_IMAGE_FREEZE: "A new image is being rolled out, and its restarts are not known yet.",
}
_NOTHING = Advice(
    verdict=Verdict.NOT_KNOWN,
    action="Not enough is known of this group.",
    why="No recommendation was made for it.",
    would_tell=("A protocol that this version knows: see Set aside among the checks of the data.",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One group to advise.

    Parameters
    ----------
    source: of the timeout in force, as the operator reports it; None: not known.
    members, partitions: of the group; None: not known.
    """

    recommendation: Recommendation
    key: GroupKey
    source: str | None = None
    members: int = 0
    partitions: int | None = None

    @property
    def is_inside(self) -> bool:
        """Return whether the timeout in force is inside the bounds, or not known."""
        return self._allows(self.recommendation.current_ms)

    @property
    def wanted_ms(self) -> int | None:
        """Return the timeout to change to; None if none is wanted, it is in force, or the bounds forbid it."""
        wanted = self.recommendation.recommended_ms
        return None if wanted == self.recommendation.current_ms or not self._allows(wanted) else wanted

    def _allows(self, timeout_ms: int | None) -> bool:
        low_ms, high_ms = self.recommendation.bounds_minimum_ms, self.recommendation.bounds_maximum_ms
        return timeout_ms is None or (
            (low_ms is None or timeout_ms >= low_ms) and (high_ms is None or timeout_ms <= high_ms)
        )

    @property
    def is_up(self) -> bool:
        """Return whether the wanted timeout is the longer one."""
        return (self.wanted_ms or 0) > (self.recommendation.current_ms or 0)


def advise(
    recommendation: Recommendation | None,
    *,
    key: GroupKey | None = None,
    source: str | None = None,
    members: int = 0,
    partitions: int | None = None,
) -> Advice:
    """Return the advice for one group.

    Parameters
    ----------
    recommendation: None without one.
    key: None if only Kafka's names of the group are known.
    source: of the timeout in force (Fixed, Structural, Broker, Fleet); None: not known.
    """
    if recommendation is None:
        return _NOTHING
    known = key or GroupKey(kafka_cluster_id=recommendation.kafka_cluster_id, group_id=recommendation.group_id)
    case = Case(recommendation=recommendation, key=known, source=source, members=members, partitions=partitions)
    return next(advice for rule in _RULES if (advice := rule(case)) is not None)


def is_small(now_ms: int, goal_ms: int) -> bool:
    """Return whether two timeouts are too close to each other for a change, by the policy's measure."""
    change = abs(goal_ms - now_ms)
    return change < CHANGE_MS_MIN or 100 * change < CHANGE_PERCENT_MIN * now_ms


def _made(case: Case, verdict: Verdict, action: str, *why: str, would_tell: tuple[str, ...] = ()) -> Advice:
    known = case.recommendation
    return Advice(
        verdict=verdict,
        action=action,
        why=" ".join(part for part in why if part),
        reasons=tuple(reason.value for reason in known.reasons),
        now_ms=known.current_ms,
        would_tell=would_tell,
        price_source="" if known.price_source is None else known.price_source.value,
    )


def _kept(case: Case, *why: str) -> Advice:
    known = case.recommendation
    at = f" at {duration(known.current_ms)}" if known.current_ms is not None else " as it is"
    return _made(case, Verdict.KEEP, f"Leave {known.setting.value}{at}.", *why)


def _not_known(case: Case, *why: str, would_tell: tuple[str, ...]) -> Advice:
    action = f"Not enough is known of {case.key.group_id}: leave it."
    known, then_ms = case.recommendation, case.wanted_ms
    if then_ms is None or not is_followed(known, case.source) or Reason.CANARY_ROLLED_BACK in known.reasons:
        return _made(case, Verdict.NOT_KNOWN, action, *why, would_tell=would_tell)
    # An operator follows the restarts, this page only certain savings: it must not say "leave it" before a change.
    action = (
        f"Not enough is known of {case.key.group_id} to say what it saves: "
        f"its operator goes to {duration(then_ms)} by itself."
    )
    rule = "It absorbs nearly all of the restarts." if Reason.ABSORBS_RESTARTS in known.reasons else ""
    who, _ = carried_out(known, case.key, case.source, then_ms)
    hold = "spec.sessionTimeout.seconds keeps what is in force."
    return _made(case, Verdict.NOT_KNOWN, action, *why, rule, who, hold, would_tell=would_tell)


def _infeasible(case: Case) -> Advice | None:
    known = case.recommendation
    if Reason.INFEASIBLE not in known.reasons:
        return None
    low_ms, high_ms = known.bounds_minimum_ms, known.bounds_maximum_ms
    why = ""
    if low_ms is not None and high_ms is not None and low_ms > high_ms:
        why = f"The lower bounds ask for {duration(low_ms)} at least, the upper ones for {duration(high_ms)} at most."
    hint = "They are minSeconds and maxSeconds of the StaticGroup, the brokers' bounds and three heartbeat intervals."
    action = f"Widen the bounds of {case.key.group_id}: no {known.setting.value} satisfies all of them."
    return _made(case, Verdict.WIDEN, action, why, hint)


def _forced(case: Case) -> Advice | None:
    """Advise a timeout inside the bounds, regardless of savings: brokers refuse one outside of theirs."""
    if case.is_inside or case.wanted_ms is None:
        return None
    now = duration(case.recommendation.current_ms or 0)
    return _change(
        case, f"The {now} in force lie outside what brokers and StaticGroup allow, so this is no matter of cost."
    )


def _unwatched(case: Case) -> Advice | None:
    if Reason.LOW_COVERAGE not in case.recommendation.reasons:
        return None
    coverage = case.recommendation.evidence.coverage
    why = f"An operator watched it for {percent(coverage)} of the window."
    return _not_known(case, why, would_tell=(unknowns.watch_longer(coverage),))


def _dynamic(case: Case) -> Advice | None:
    known = case.recommendation
    if Reason.USE_DYNAMIC not in known.reasons:
        return None
    saved = _saving(case)
    if saved is None:
        why = "Dynamic members may be cheaper than static ones here, or not: what is known allows both."
        return _not_known(case, why, would_tell=_would_tell(case))
    parts = ["Its rebalances cost less than waiting for members does, at every timeout that is allowed."]
    if known.before is not None:
        now_ms = known.before.cost_partition_seconds_per_day.value * SECOND_MS
        left_ms = max(0.0, now_ms - saved.best_partition_ms / WEEK_DAYS)
        parts.append(f"{partition_time(now_ms)} a day are lost now, about {partition_time(left_ms)} would be.")
    action = f"Use dynamic members in {case.key.group_id}: leave group.instance.id unset."
    made = _made(case, Verdict.DYNAMIC, action, *parts, _evidence(case))
    who = "The team that deploys the application; its StaticGroup is not needed then."
    return replace(made, saving=saved, who=who)


def _rolled_back(case: Case) -> Advice | None:
    if Reason.CANARY_ROLLED_BACK not in case.recommendation.reasons:
        return None
    return _kept(case, "Groups that changed before it did worse than expected, and the canary took the changes back.")


def _goalless(case: Case) -> Advice | None:
    known = case.recommendation
    is_few = Reason.TOO_FEW in known.reasons
    has_wish = case.wanted_ms is not None or (known.current_ms is not None and not is_few)
    if known.recommended_ms is not None and known.goal_ms is not None and has_wish:
        return None
    why = f"It had {count(known.evidence.stops, 'restart')} in the window."
    return _not_known(case, why, would_tell=_would_tell(case))


def _held(case: Case) -> Advice | None:
    """Keep the timeout in force: it is the goal, or as good as the goal, or the change has to wait."""
    known = case.recommendation
    now_ms, goal_ms = known.current_ms, known.goal_ms
    if case.wanted_ms is not None or now_ms is None or goal_ms is None:
        return None
    waits = next((text for reason, text in _WAITS.items() if reason in known.reasons), None)
    if is_small(now_ms, goal_ms):
        capped = _capped(known)
        if capped and not unknowns.is_priced(known):
            return _not_known(case, capped, _effects(case), would_tell=_would_tell(case))
        good = "It absorbs nearly all of the restarts." if not unknowns.is_priced(known) else "It is the best one."
        close = "The best one is too close to it to be worth a change."
        return _kept(case, capped or (good if now_ms == goal_ms else close))
    if waits is not None:
        return _kept(case, waits)
    why = f"{duration(goal_ms)} may be better than {duration(now_ms)}, or not: the restarts that were seen allow both."
    return _not_known(case, why, would_tell=_would_tell(case))


def _unsure(case: Case) -> Advice | None:
    """Advise no change with an uncertain sign."""
    known, wanted_ms = case.recommendation, case.wanted_ms
    assert wanted_ms is not None
    if _saving(case) is not None:
        return None
    why = f"{duration(wanted_ms)} may be better than {_now(case)}, or not."
    return _not_known(case, why, _effects(case), _break_even(case) if not unknowns.is_priced(known) else "",
                      would_tell=_would_tell(case))  # fmt: skip


def _now(case: Case) -> str:
    now_ms = case.recommendation.current_ms
    return "what is in force" if now_ms is None else f"the {duration(now_ms)} in force"


def _sure(case: Case) -> Advice | None:
    return _change(case, _effects(case))


_RULES: tuple[Callable[[Case], Advice | None], ...] = (
    _infeasible, _forced, _unwatched, _dynamic, _rolled_back, _goalless, _held, _unsure, _sure,
)  # fmt: skip
"""The first match wins; the last rule always matches."""


def _change(case: Case, why: str) -> Advice:
    """Write the change to the wanted timeout."""
    known, then_ms = case.recommendation, case.wanted_ms
    assert then_ms is not None
    now_ms, setting, group = known.current_ms, known.setting.value, case.key.group_id
    verb = "Set" if now_ms is None else "Raise" if case.is_up else "Lower"
    old = f" from {now_ms}" if now_ms is not None else ""
    goal_ms = _further(case)
    step = f"This is one step on the way to {duration(goal_ms)}." if goal_ms is not None else ""
    made = _made(
        case, Verdict.CHANGE, f"{verb} {setting} of {group}{old} to {then_ms} ({duration(then_ms)}).",
        why, step, _cap(case), _slower(case), _evidence(case),
    )  # fmt: skip
    low_ms, high_ms = _range(case, goal_ms or then_ms)
    who, command = carried_out(known, case.key, case.source, then_ms)
    return replace(
        made, setting=setting, then_ms=then_ms, goal_ms=goal_ms, goal_low_ms=low_ms, goal_high_ms=high_ms,
        saving=_saving(case) if case.is_inside and Reason.USE_DYNAMIC not in known.reasons else None,
        later_ms=None if now_ms is None else then_ms - now_ms, who=who, command=command,
    )  # fmt: skip


def _saving(case: Case) -> Saving | None:
    """Return the saving of the advice per week; None unless it is certain by a known price."""
    saved = case.recommendation.saved_partition_seconds_per_day
    if saved is None or saved.lower <= 0 or not unknowns.is_priced(case.recommendation):
        return None
    low, best, high = (round(part * SECOND_MS * WEEK_DAYS) for part in (saved.lower, saved.value, saved.upper))
    return Saving(low_partition_ms=low, best_partition_ms=best, high_partition_ms=high) if low > 0 else None


def _would_tell(case: Case) -> tuple[str, ...]:
    """List the missing evidence, the first thing to do first; never empty."""
    known = case.recommendation
    saved = known.saved_partition_seconds_per_day
    missing = []
    if not unknowns.is_priced(known):
        missing.append(unknowns.price_is_missing(known))
    if Reason.TOO_FEW in known.reasons or known.before is None or known.after is None:
        missing.append(unknowns.more_restarts(known))
    if known.current_ms is None:
        missing.append(unknowns.present_timeout())
    if case.wanted_ms is None and known.goal_ms not in (None, known.current_ms):
        missing.append(unknowns.more_agreement(known))
    elif saved is not None and unknowns.is_priced(known) and Reason.TOO_FEW not in known.reasons:
        missing.append(unknowns.narrower(saved, known.evidence.stops))
    return tuple(missing) or (unknowns.more_restarts(known),)


def _further(case: Case) -> int | None:
    """Return the goal when the change is one step on the way there, in its own direction."""
    known, then_ms = case.recommendation, case.wanted_ms
    if Reason.STEP_LIMITED not in known.reasons or known.goal_ms is None or then_ms is None:
        return None
    is_beyond = known.goal_ms > then_ms if case.is_up else known.goal_ms < then_ms
    return known.goal_ms if is_beyond and known.current_ms is not None else None


def _range(case: Case, goal_ms: int) -> tuple[int | None, int | None]:
    """Return the range of the best timeout inside the bounds, which contains the goal; None without an estimate."""
    known = case.recommendation
    if known.lower_ms is None or known.upper_ms is None or not case.is_inside:
        return None, None
    bounds = (known.bounds_minimum_ms or 0, known.bounds_maximum_ms if known.bounds_maximum_ms is not None else goal_ms)
    ends = [min(max(end, bounds[0]), max(bounds[1], goal_ms)) for end in (known.lower_ms, known.upper_ms)]
    return min(*ends, goal_ms), max(*ends, goal_ms)


def _effects(case: Case) -> str:
    """Return the effects of the change in a week, if they go in the direction of the change."""
    before, after = case.recommendation.before, case.recommendation.after
    if before is None or after is None:
        return ""
    lost = [e.evictions_per_day.value * WEEK_DAYS for e in (before, after)]
    kept = [e.ghost_seconds_per_day.value * WEEK_DAYS * SECOND_MS for e in (before, after)]
    if (lost[1] <= lost[0]) is not case.is_up or (kept[1] >= kept[0]) is not case.is_up:
        return ""
    return (
        f"{amount(lost[0])} times a week a member that would have come back loses its place; it would be "
        f"{amount(lost[1])} times. Places are kept for absent members for {duration(kept[0])} a week; it would be "
        f"{duration(kept[1])}."
    )


def _break_even(case: Case) -> str:
    """Return the price from which on a longer timeout pays, or up to which a shorter one does."""
    before, after, partitions = case.recommendation.before, case.recommendation.after, case.partitions
    if before is None or after is None or not partitions or not case.members:
        return ""
    evictions = before.evictions_per_day.value - after.evictions_per_day.value
    waiting_s = after.ghost_seconds_per_day.value - before.ghost_seconds_per_day.value
    if evictions * waiting_s <= 0 or (evictions > 0) is not case.is_up:
        return ""
    whole_group_ms = waiting_s / evictions / case.members * SECOND_MS
    side = "more" if case.is_up else "less"
    price = f"{side} than {duration(whole_group_ms)} of standstill"
    return f"It pays if each time costs the whole group {price}, which nobody measured."


def _capped(known: Recommendation) -> str:
    """Return a note if a bound is below the best timeout; else ""."""
    is_held = {Reason.BROKER_CAP, Reason.SPEC_MAXIMUM} & set(known.reasons)
    if not is_held or known.uncapped_ms is None or known.goal_ms is None or is_small(known.goal_ms, known.uncapped_ms):
        return ""
    return f"What is in force is the best that the bounds allow; {duration(known.uncapped_ms)} would be better."


def _cap(case: Case) -> str:
    known = case.recommendation
    if Reason.BROKER_CAP not in known.reasons or known.uncapped_ms is None or known.bounds_maximum_ms is None:
        return ""
    if known.setting is Setting.CONNECT_DELAY or known.uncapped_ms <= known.bounds_maximum_ms or not case.is_inside:
        return ""
    return (
        f"The brokers allow {duration(known.bounds_maximum_ms)} at most; {duration(known.uncapped_ms)} would be best."
    )


def _slower(case: Case) -> str:
    return "Its restarts became slower lately." if Reason.SLOWER_RESTARTS in case.recommendation.reasons else ""


def _evidence(case: Case) -> str:
    evidence = case.recommendation.evidence
    few = (
        "The estimate includes similar workloads, because its own restarts are too few. "
        if evidence.method == "Pooled"
        else ""
    )
    return f"{few}From {count(evidence.stops, 'restart')}, watched for {percent(evidence.coverage)} of the time."
