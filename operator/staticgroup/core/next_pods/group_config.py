"""When to set a group's own session timeout at the brokers, and from when on its members hold it.

A value counts as set only when it was read back. Members take a raised one over with their next heartbeat, and who is away keeps
the one of before (GroupMetadataManager reads the setting at each heartbeat; seen: raised after a member fell silent, it was gone after
the old time). A stored setting that new bounds of the brokers exclude refuses every other change, so those of the group's protocol are
repaired in the same request. Of another protocol's the brokers would ask the same (GroupConfig.validate sees the whole of what is stored);
these are nobody's to choose here, so they are named and nothing is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..group import BrokerBounds, GroupView, KafkaProblem, KafkaProblemKind
from ..protocols import Protocol
from .timeouts import TimeoutPlan

READ_BACK_WITHIN_S: Final = 15.0
"""Brokers apply a change of the controller within seconds."""
RETRY_AFTER_S: Final = 300.0
"""What was refused is asked for again so much later: somebody has to grant a right or change a bound first."""
BEATS: Final = 2
"""A member has certainly taken a value over after so many heartbeat intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigWrite:
    """Settings to set on the group in one request.

    Parameters
    ----------
    setting: the session timeout's, one of `values`. values: in milliseconds; beside it the repaired ones.
    before_ms: the shortest that a member may hold now.
    """

    setting: str
    values: Mapping[str, int]
    before_ms: int

    @property
    def target_ms(self) -> int:
        """The session timeout that is set."""
        return self.values[self.setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigRecord:
    """What became of the last write; lost at a restart, after which every member counts as having heard of it.

    Parameters
    ----------
    asked_at_s: when it was sent.
    held_at_s: when it was read back; None while it was not.
    problem: why the brokers did not take it, or do not show it; None while nothing is known against it.
    absent: member ids of those that were away when it was read back, and still are.
    """

    write: GroupConfigWrite
    asked_at_s: float
    held_at_s: float | None = None
    problem: KafkaProblem | None = None
    absent: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """True until it is read back or has failed."""
        return self.held_at_s is None and self.problem is None


def plan_group_config(
    timeout: TimeoutPlan,
    protocol: Protocol | None,
    bounds: BrokerBounds | None,
    group: GroupView | KafkaProblem,
    record: GroupConfigRecord | None,
    now_s: float,
    *,
    again_after_s: float = 0.0,
) -> tuple[GroupConfigWrite | None, GroupConfigRecord | None]:
    """Decide what to set on the group now.

    Parameters
    ----------
    bounds: as read; None when they could not be.
    record: of the last write; None before the first.
    again_after_s: how long after the last write to wait before the same value is written again.

    Returns
    -------
    The write, None when there is none to do now; and what is known of the last one as of this round.
    """
    target_ms, holds_ms = timeout.group_target_ms, timeout.group_ms
    if target_ms is None or holds_ms is None or bounds is None or protocol is None or not isinstance(group, GroupView):
        return None, record if timeout.group_target_ms is not None else None
    setting, misfits = protocol.group_setting, _of_kind(protocol, bounds.misfits, is_own=True)
    is_same = record is not None and record.write.target_ms == target_ms and record.write.setting == setting
    if holds_ms == target_ms and not misfits:
        return None, _read_back(record, group, now_s) if is_same else None
    if obstacle(protocol, bounds):
        return None, None
    if record is not None and is_same:
        if record.is_open and now_s - record.asked_at_s < READ_BACK_WITHIN_S:
            return None, record
        if record.is_open:
            return None, replace(record, problem=_not_shown(setting, target_ms, holds_ms))
        if now_s - record.asked_at_s < (RETRY_AFTER_S if record.problem is not None else again_after_s):
            return None, record
    slow_ms = held_over_ms(record, heartbeat_ms(protocol, bounds), now_s)
    before_ms = holds_ms if slow_ms is None else min(holds_ms, slow_ms)
    return GroupConfigWrite(setting=setting, values={**misfits, setting: target_ms}, before_ms=before_ms), record


def _read_back(record: GroupConfigRecord | None, group: GroupView, now_s: float) -> GroupConfigRecord | None:
    if record is None:
        return None
    away = frozenset(m.member_id for m in group.members if m.is_away)
    if record.held_at_s is None:
        return replace(record, held_at_s=now_s, problem=None, absent=away)
    return replace(record, absent=record.absent & away)


def obstacle(protocol: Protocol, bounds: BrokerBounds) -> str:
    """Say which stored setting of another protocol makes the brokers refuse every change; "" when none does."""
    told = [
        f"{key}={bounds.stored[key]} that is stored on the group lies outside the brokers' bounds, so they refuse every change of its "
        f"settings; set it to {fitting}, or delete it"
        for key, fitting in sorted(_of_kind(protocol, bounds.misfits, is_own=False).items())
    ]
    return "; ".join(told)


def _of_kind(protocol: Protocol, settings: Mapping[str, int], *, is_own: bool) -> Mapping[str, int]:
    """Return the settings of the protocol itself, or those of all others."""
    prefix = protocol.group_setting.partition(".")[0] + "."
    return {key: value for key, value in settings.items() if key.startswith(prefix) == is_own}


def _not_shown(setting: str, target_ms: int, holds_ms: int) -> KafkaProblem:
    message = (
        f"{setting} of the group was set to {target_ms} and reads {holds_ms} ms; see whether something else sets it, and the log of the "
        "brokers' controller"
    )
    return KafkaProblem(kind=KafkaProblemKind.UNEXPECTED_ANSWER, message=message)


def heartbeat_ms(protocol: Protocol, bounds: BrokerBounds | None) -> int:
    """Return how often members of a group beat."""
    told_ms = bounds.of(protocol.group_type).heartbeat_ms if bounds is not None else None
    return protocol.heartbeat_interval_s * 1000 if told_ms is None else told_ms


def held_over_ms(record: GroupConfigRecord | None, beat_ms: int, now_s: float) -> int | None:
    """Return the shorter session timeout that members may still hold after it was raised; None when none may."""
    if record is None or record.held_at_s is None or record.write.before_ms >= record.write.target_ms:
        return None
    is_slow = bool(record.absent) or now_s < record.held_at_s + BEATS * beat_ms / 1000
    return record.write.before_ms if is_slow else None


def asked(write: GroupConfigWrite, problem: KafkaProblem | None, now_s: float) -> GroupConfigRecord:
    """Return what is known of a write right after the brokers' answer."""
    return GroupConfigRecord(write=write, asked_at_s=now_s, problem=problem)
