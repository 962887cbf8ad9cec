"""What is decided about the session timeout of one group, and how it is told in short.

`wishes` says what is wanted and why, `choice` and `group_timeouts` what is made of it inside the brokers' bounds, `in_force` what holds
now and whether it suffices.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...api.resources.status import TimeoutSource
from ..group import SessionBounds
from .advice import AdviceVerdict
from .measured import Basis, Held
from .wishes import Wish


class TimeoutVerdict(StrEnum):
    """Whether the timeout outlasts a restart; the value is the reason of the TimeoutSufficient condition."""

    SUFFICIENT = "Sufficient"
    BELOW_NEED = "BelowNeed"
    OUTSIDE_BROKER_BOUNDS = "OutsideBrokerBounds"
    BOUNDS_UNREADABLE = "BoundsUnreadable"
    GROUP_CONFIG_TOO_SHORT = "GroupConfigTooShort"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The session timeouts that hold now.

    Parameters
    ----------
    shortest_ms, longest_ms: over the live pods, or the group's own; None when none is known.
    pods: how many pods live, seen or reported by the StatefulSet.
    unknown: of how many of them it is not known.
    such_as: name of one of these that was seen; "" when none was.
    """

    shortest_ms: int | None = None
    longest_ms: int | None = None
    pods: int = 0
    unknown: int = 0
    such_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPlan:
    """The timeout of one group.

    Parameters
    ----------
    inject_ms: value for the next pods; None where it must not be injected (KIP-848, or unknown protocol).
    group_ms: the group's own setting at the broker (KIP-848, streams); None for a classic group, or when unknown.
    in_force: what holds now.
    next_ms: what the next pods get: what is injected, or else their template, or the group's own; None when unknown.
    slow_ms: a shorter one that members may still hold after that was raised; None when none may.
    group_target_ms: what the operator sets the group's own setting to; None where it does not.
    own_ms: what this StaticGroup wants that to be by itself, before the brokers' bounds; None in a classic group, or while that is not
        known.
    note: who else set it, and why it is not lowered or set; "" when there is nothing to say.
    need_ms: what the timeout must reach: the time away of one restart, estimated or measured, without headroom, or what the
        fleet learner recommends.
    target_ms: that with headroom, before any bound.
    structural_ms: the structural need, whatever the source.
    basis, samples, why: what it rests on, how many measured restarts, and why on that.
    held: what measured absences have put in use; None: they have not.
    advice_verdict: what became of the recommendation; None while no recommendations are read.
    message: what is short, and which setting to raise to what; "" when sufficient.
    """

    inject_ms: int | None
    group_ms: int | None = None
    group_target_ms: int | None = None
    own_ms: int | None = None
    note: str = ""
    slow_ms: int | None = None
    need_ms: int
    target_ms: int
    source: TimeoutSource
    verdict: TimeoutVerdict
    message: str = ""
    broker_min_ms: int | None = None
    broker_max_ms: int | None = None
    structural_ms: int
    basis: Basis
    samples: int = 0
    why: str = ""
    held: Held | None = None
    advice_verdict: AdviceVerdict | None = None
    in_force: InForce = InForce()
    next_ms: int | None = None

    @property
    def is_from_fleet(self) -> bool:
        """Whether `need_ms` is what the fleet learner recommends."""
        return self.advice_verdict is not None and self.advice_verdict.fleet_ms is not None and self.source is not TimeoutSource.FIXED

    @property
    def fleet_ms(self) -> int | None:
        """The fleet's value that classic pods get and that is kept when recommendations fail; None: it is not used."""
        return self.advice_verdict.fleet_ms if self.advice_verdict is not None and self.source is TimeoutSource.FLEET else None

    @property
    def is_measured(self) -> bool:
        """Whether `need_ms` is what measured absences ask for."""
        return self.basis in (Basis.FEW_ABSENCES, Basis.LONGEST_ABSENCE, Basis.ORDER_STATISTIC)


def plan_of(
    wish: Wish,
    bounds: SessionBounds,
    *,
    verdict: TimeoutVerdict,
    message: str,
    inject_ms: int | None = None,
    group_target_ms: int | None = None,
    own_ms: int | None = None,
    source: TimeoutSource | None = None,
    advice_verdict: AdviceVerdict | None = None,
) -> TimeoutPlan:
    """Return the plan that a wish and its verdict make.

    Parameters
    ----------
    source: None: that of the wish.
    """
    return TimeoutPlan(
        inject_ms=inject_ms,
        group_ms=bounds.group_ms,
        group_target_ms=group_target_ms,
        own_ms=own_ms,
        need_ms=wish.need_ms,
        target_ms=wish.target_ms,
        source=source or wish.source,
        verdict=verdict,
        message=message,
        broker_min_ms=bounds.min_ms,
        broker_max_ms=bounds.max_ms,
        structural_ms=wish.structural_ms,
        basis=wish.basis,
        samples=wish.samples,
        why=wish.why,
        held=wish.held,
        advice_verdict=advice_verdict,
    )


def need_words(need_ms: int, *, is_fleet: bool) -> str:
    """Say what a session timeout must reach, and who says so."""
    if is_fleet:
        return f"the fleet learner recommends that a member may be away for {need_ms} ms"
    return f"a restart may keep a member away for {need_ms} ms"


def seconds(value_ms: int) -> str:
    """Return milliseconds as people read them, such as 125 s or 90.5 s."""
    return f"{value_ms / 1000:g} s"


def in_short(t: TimeoutPlan) -> str | None:
    """Return what holds and what the next pods get, such as 125s, 125s→300s or ?→125s; None when neither is known.

    Notes
    -----
    With an arrow only where they differ. Of pods that differ among themselves those are named that have not yet what the
    next ones get.
    """
    held = sorted({t.in_force.shortest_ms, t.in_force.longest_ms} - {None, t.next_ms})  # type: ignore[type-var]
    others = "-".join(f"{value_ms / 1000:g}s" for value_ms in held if value_ms is not None)
    if t.in_force.unknown:
        others = "?" if t.next_ms is not None or others else ""
    if t.next_ms is None:
        return others or None
    if not others and t.in_force.shortest_ms is not None:
        return f"{t.next_ms / 1000:g}s"
    return f"{others}→{t.next_ms / 1000:g}s"
