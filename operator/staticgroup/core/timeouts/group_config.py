"""The session timeout that a KIP-848 or Streams group has at the brokers: when the operator sets it, and when not.

The rule:
1. Wanted is the longest that any StaticGroup of the group in the namespace wants, inside the brokers' bounds.
2. Where nothing is stored on the group, what is wanted is set. Of what was stored before the operator's first value, a
   shorter one is raised and a longer one stays, because it hurts no member.
3. The operator's own value, which is the one it wrote or one that equals what is wanted, follows what is wanted.
4. Nothing is lowered while a StaticGroup of the group has not said what it wants, or the workload does not exist.
5. Another value that somebody else stores after the operator's stays as it is, and the operator sets nothing more.
6. It goes on once that is deleted from the group, equals what is wanted, or `writeGroupConfig` was off in between.

A value counts as set only when it was read back. Members adopt a raised one with their next heartbeat; a member that
is away keeps the earlier one (GroupMetadataManager reads the setting at each heartbeat). A stored setting that new
bounds of the brokers exclude refuses every other change (GroupConfig.validate), so those of the group's protocol are
repaired in the same request; those of another protocol are not ours to choose, so they are named and nothing is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..group import BrokerBounds, GroupView, KafkaProblem, KafkaProblemKind
from ..protocols import Protocol

READ_BACK_WITHIN_S: Final = 15.0
"""Brokers apply a change of the controller within seconds."""
RETRY_AFTER_S: Final = 300.0
"""The same value is written again so much later: somebody has to grant a right or change a bound first."""
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
    """What is remembered of the group's setting.

    Parameters
    ----------
    written_ms: the operator's own value, as stored on the group; durable. None: it has none.
    write: the last one; None before the first. A restart forgets it, and that members may not have it yet.
    asked_at_s: when it was sent. held_at_s: when it was read back; None while it was not.
    problem: why the brokers did not take it, or do not show it; None while nothing is known against it.
    absent: member ids of those that were away when it was read back, and still are.
    """

    written_ms: int | None = None
    write: GroupConfigWrite | None = None
    asked_at_s: float = 0.0
    held_at_s: float | None = None
    problem: KafkaProblem | None = None
    absent: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """True until the last write is read back or has failed."""
        return self.write is not None and self.held_at_s is None and self.problem is None

    def sent(self, write: GroupConfigWrite, problem: KafkaProblem | None, now_s: float) -> GroupConfigRecord:
        """Return what is known right after the brokers' answer."""
        return GroupConfigRecord(written_ms=self.written_ms, write=write, asked_at_s=now_s, problem=problem)

    def slow_ms(self, heartbeat_ms: int, now_s: float) -> int | None:
        """Return the shorter session timeout that members may still hold after it was raised; None when none may."""
        if self.write is None or self.held_at_s is None or self.write.before_ms >= self.write.target_ms:
            return None
        is_slow = bool(self.absent) or now_s < self.held_at_s + BEATS * heartbeat_ms / 1000
        return self.write.before_ms if is_slow else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigPlan:
    """What becomes of the setting now.

    Parameters
    ----------
    target_ms: what it is set to, or stays at; None where the operator does not set it.
    write: to do now; None when there is none.
    is_elsewhere: somebody else has set it since the operator did.
    note: why it is not what is wanted; "" when there is nothing to say.
    """

    record: GroupConfigRecord = GroupConfigRecord()
    target_ms: int | None = None
    write: GroupConfigWrite | None = None
    is_elsewhere: bool = False
    note: str = ""


def plan_group_config(
    protocol: Protocol,
    bounds: BrokerBounds,
    group: GroupView | KafkaProblem,
    record: GroupConfigRecord,
    wanted_ms: int,
    keeps: str,
    heartbeat_ms: int,
    now_s: float,
) -> GroupConfigPlan:
    """Decide what to set on the group now, by the rule above.

    Parameters
    ----------
    bounds: as read, the group's own setting among them.
    wanted_ms: the longest that any StaticGroup wants, inside the brokers' bounds.
    keeps: a clause, why nothing is lowered now; "" where it may be.
    """
    setting, holds_ms = protocol.group_setting, bounds.of(protocol.group_type).group_ms
    assert holds_ms is not None
    sent_ms = record.write.target_ms if record.write is not None else None

    # Step 1: whose value it is; the stored one counts, which brokers clamp when they read it.
    stored_ms = bounds.stored.get(setting)
    is_own = stored_ms is not None and stored_ms in (record.written_ms, sent_ms, wanted_ms)
    if stored_ms is not None and record.written_ms is not None and not is_own:
        note = (
            f"somebody else has set {setting} of the group to {stored_ms} ms after the operator had set it to "
            f"{record.written_ms} ms, so the operator sets it no more; delete it from the group's settings, or set it "
            f"to {wanted_ms}, and the operator goes on; or set spec.sessionTimeout.writeGroupConfig to false"
        )
        return GroupConfigPlan(record=replace(record, write=None, problem=None), is_elsewhere=True, note=note)
    record = replace(record, written_ms=stored_ms if is_own else None)

    # Step 2: what it is to be; a longer value that somebody else had stored before is never lowered.
    if not keeps and stored_ms is not None and not is_own:
        keeps = "it was there before; delete it from the group's settings, and the operator sets its own"
    target_ms = max(wanted_ms, holds_ms) if keeps else wanted_ms
    note = ""
    if target_ms > wanted_ms:
        longer = f"{holds_ms} ms, longer than the {wanted_ms} ms that are wanted"
        note = f"{setting} of the group is {longer}, and stays so: {keeps}"

    if isinstance(group, KafkaProblem):
        return GroupConfigPlan(record=record, target_ms=target_ms, note=note)

    # Step 3: read back what was written.
    misfits = _of_kind(protocol, bounds.misfits, is_own=True)
    if target_ms == holds_ms and not misfits:
        return GroupConfigPlan(record=_read_back(record, group, now_s), target_ms=target_ms, note=note)

    # Step 4: write, unless the same was written a moment ago or would be refused.
    if obstacle := _obstacle(protocol, bounds):
        return GroupConfigPlan(record=replace(record, write=None, problem=None), target_ms=target_ms, note=obstacle)
    if sent_ms == target_ms and now_s - record.asked_at_s < (READ_BACK_WITHIN_S if record.is_open else RETRY_AFTER_S):
        return GroupConfigPlan(record=record, target_ms=target_ms, note=note)
    if sent_ms == target_ms and record.is_open:
        message = (
            f"{setting} of the group was set to {target_ms} and reads {holds_ms} ms; see whether something else sets "
            "it, and the log of the brokers' controller"
        )
        problem = KafkaProblem(kind=KafkaProblemKind.UNEXPECTED_ANSWER, message=message)
        return GroupConfigPlan(record=replace(record, problem=problem), target_ms=target_ms, note=note)
    slow_ms = record.slow_ms(heartbeat_ms, now_s)
    before_ms = holds_ms if slow_ms is None else min(holds_ms, slow_ms)
    write = GroupConfigWrite(setting=setting, values={**misfits, setting: target_ms}, before_ms=before_ms)
    return GroupConfigPlan(record=record, target_ms=target_ms, write=write, note=note)


def _read_back(record: GroupConfigRecord, group: GroupView, now_s: float) -> GroupConfigRecord:
    away = frozenset(m.member_id for m in group.members if m.is_away)
    if record.write is None:
        return record
    if record.held_at_s is None:
        return replace(record, held_at_s=now_s, problem=None, absent=away)
    return replace(record, absent=record.absent & away)


def _obstacle(protocol: Protocol, bounds: BrokerBounds) -> str:
    """Say which stored setting of another protocol makes the brokers refuse every change; "" when none does."""
    return "; ".join(
        f"{key}={bounds.stored[key]} that is stored on the group lies outside the brokers' bounds, so they refuse "
        f"every change of its settings; set it to {fitting}, or delete it"
        for key, fitting in sorted(_of_kind(protocol, bounds.misfits, is_own=False).items())
    )


def _of_kind(protocol: Protocol, settings: Mapping[str, int], *, is_own: bool) -> Mapping[str, int]:
    """Return the settings of the protocol itself, or those of all others."""
    prefix = protocol.group_setting.partition(".")[0] + "."
    return {key: value for key, value in settings.items() if key.startswith(prefix) == is_own}
