"""What becomes of the one session timeout that a group has at the brokers, which others may set too.

Up at once, down slowly: whoever wants more has pods in the group, and whoever wants less loses nothing by waiting. So a longer
value stands until nothing more was wanted for a day, and then goes down by at most half. Who insists on a longer one, a person or an operator that
cannot be heard here, gets it: after a few times the operator lowers no more. Nobody's word is ever needed to raise it to what is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..group import BrokerBounds
from ..protocols import Protocol
from .group_config import RETRY_AFTER_S, GroupConfigRecord, obstacle
from .measured import Held, held
from .timeouts import TimeoutPlan

CHANGES_MAX: Final = 3
"""After so many changes by somebody else a longer value is not lowered any more, and a shorter one is raised less often."""
LOWER_BY: Final = 2
"""A step down is at most to this part of the value."""
RAISE_AGAIN_AFTER_MAX_S: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSetting:
    """What is remembered of a group's setting; durable.

    Parameters
    ----------
    held_ms: as it was read last.
    changes: how often somebody else has set another value than was wanted.
    found_ms: the longer one that somebody else set last; None: nobody has, or it was taken back since.
    lower_since_s: since when less than `held_ms` would do, seconds since the Unix epoch; None: it would not.
    lower_ms: the most that was wanted since then.
    """

    held_ms: int
    changes: int = 0
    found_ms: int | None = None
    lower_since_s: float | None = None
    lower_ms: int = 0

    @property
    def kept_ms(self) -> int:
        """Below which it is not lowered, because somebody else insists on it; 0: nobody does."""
        return self.found_ms or 0 if self.changes >= CHANGES_MAX else 0

    @property
    def raise_again_after_s(self) -> float:
        """How long to wait after a write before the same value is written again, where others shorten it each time."""
        beyond = self.changes - CHANGES_MAX
        return 0.0 if beyond < 0 else min(RETRY_AFTER_S * 2 ** min(beyond + 1, 8), RAISE_AGAIN_AFTER_MAX_S)


def settled(
    timeout: TimeoutPlan,
    protocol: Protocol | None,
    bounds: BrokerBounds | None,
    before: SharedSetting | None,
    record: GroupConfigRecord | None,
    unheard: tuple[str, ...],
    now_s: float,
) -> tuple[TimeoutPlan, SharedSetting | None]:
    """Say what is set now of what is wanted.

    Parameters
    ----------
    timeout: with what is wanted as its `group_target_ms`.
    before: None before the first look; whoever has set the value that is found then, it counts as the operator's to lower.
    record: of the operator's last write.
    unheard: other StaticGroups of the same group that have not said what they want: until they have, nothing is lowered.

    Returns
    -------
    The plan with what is to be set as its `group_target_ms`; and what is remembered.
    """
    wanted_ms, holds_ms = timeout.group_target_ms, timeout.group_ms
    if protocol is None or bounds is None or wanted_ms is None or holds_ms is None:
        return timeout, before
    is_clamped = protocol.group_setting in bounds.misfits
    setting = _followed(before or SharedSetting(held_ms=holds_ms), holds_ms, wanted_ms, record, is_clamped=is_clamped)
    least_ms = max(wanted_ms, min(setting.kept_ms, holds_ms))  # nobody's longer value is ever set again
    target_ms, setting = _lowered(setting, holds_ms, least_ms, now_s) if not unheard else _as_long(setting, holds_ms, least_ms)
    notes = (obstacle(protocol, bounds), _note(protocol, setting, wanted_ms=wanted_ms, unheard=unheard))
    return replace(timeout, group_target_ms=target_ms, note="; ".join(note for note in notes if note)), setting


def _followed(
    before: SharedSetting, holds_ms: int, wanted_ms: int, record: GroupConfigRecord | None, *, is_clamped: bool
) -> SharedSetting:
    """Take in what is read now, and whose doing it is."""
    is_ours = record is not None and record.write.target_ms == holds_ms
    if holds_ms == before.held_ms:
        # Whoever has set it wanted what is wanted here by now.
        return SharedSetting(held_ms=holds_ms) if holds_ms == wanted_ms and before.found_ms == holds_ms else before
    if is_ours or is_clamped:
        return replace(before, held_ms=holds_ms, lower_since_s=None, lower_ms=0)
    if holds_ms == wanted_ms:
        return SharedSetting(held_ms=holds_ms)
    if wanted_ms < holds_ms < before.held_ms:  # somebody else lowers it too
        found_ms = min(before.found_ms, holds_ms) if before.found_ms is not None else None
        return SharedSetting(held_ms=holds_ms, changes=before.changes, found_ms=found_ms)
    return SharedSetting(held_ms=holds_ms, changes=before.changes + 1, found_ms=holds_ms if holds_ms > wanted_ms else None)


def _as_long(setting: SharedSetting, holds_ms: int, least_ms: int) -> tuple[int, SharedSetting]:
    return max(holds_ms, least_ms), replace(setting, lower_since_s=None, lower_ms=0)


def _lowered(setting: SharedSetting, holds_ms: int, least_ms: int, now_s: float) -> tuple[int, SharedSetting]:
    """Return what to set: more at once, less after a day in which no more was wanted, and by one step.

    Notes
    -----
    The day is over until another value is read, so that a write that is refused can be tried again.
    """
    known = Held(timeout_ms=holds_ms, lower_since_s=setting.lower_since_s, lower_ms=setting.lower_ms)
    found = held(known, least_ms, now_s)
    if found.timeout_ms < holds_ms:
        return max(found.timeout_ms, holds_ms // LOWER_BY), setting
    return found.timeout_ms, replace(setting, lower_since_s=found.lower_since_s, lower_ms=found.lower_ms)


def _note(protocol: Protocol, setting: SharedSetting, *, wanted_ms: int, unheard: tuple[str, ...]) -> str:
    """Say what else there is to know of a value that is not what is wanted."""
    name, holds_ms = protocol.group_setting, setting.held_ms
    if holds_ms < wanted_ms and setting.changes:
        again = f"at the latest {RAISE_AGAIN_AFTER_MAX_S / 60:g} minutes later" if setting.changes >= CHANGES_MAX else "now"
        return (
            f"somebody else has set {name} of the group to {holds_ms} ms, and is overruled {again}; end that, or set "
            "spec.sessionTimeout.writeGroupConfig to false"
        )
    if holds_ms <= wanted_ms:
        return ""
    longer = f"{name} of the group is {holds_ms} ms, longer than the {wanted_ms} ms that are wanted"
    if setting.kept_ms >= holds_ms:
        return f"{longer}, and somebody else insists on it, so it stays; delete it from the group's settings, and the operator sets its own"
    if unheard:
        return f"{longer}, and is not lowered before {', '.join(unheard[:3])} in the same group can say what they want"
    if setting.found_ms == holds_ms:
        return f"{longer}, because somebody else has set it; it is lowered after a day, unless spec.sessionTimeout.minSeconds asks for it"
    return f"{longer}; it is lowered after a day in which no more was wanted, each time by at most half"
