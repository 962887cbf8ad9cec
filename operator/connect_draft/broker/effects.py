"""What one step of the draft's coordinator writes, arms and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from coordinator_model.base.timers import TimerChange, TimerKey, Timers

from ..messages import AnyResponse, ClassicConnectGroup, DraftResult
from ..records import CurrentMemberAssignment, DraftRecord, DraftRecordType, MemberMetadata, Value
from .group import ConnectGroup
from .settings import SESSION_TIMEOUT_CONFIG, DraftSettings

SESSION = "connect_session"
REBALANCE = "connect_rebalance"
ASSIGNMENT = "connect_assignment"
CLASSIC_JOIN = "connect_classic_join"
CLASSIC_SYNC = "connect_classic_sync"
MEMBER_TIMERS = (SESSION, REBALANCE, CLASSIC_JOIN, CLASSIC_SYNC)


@dataclass(slots=True)
class Effects:
    """One step while it is being carried out; every change of a group goes through `append`, so through a record."""

    now_ms: int
    settings: DraftSettings
    groups: dict[str, ConnectGroup]
    timers: Timers
    new_uuid: Callable[[], str]
    records: list[DraftRecord] = field(default_factory=list)
    timer_changes: list[TimerChange] = field(default_factory=list)
    downgraded: ClassicConnectGroup | None = None

    def group(self, group_id: str) -> ConnectGroup:
        """Return a group, or an empty one that exists once its first record is written."""
        return self.groups.get(group_id) or ConnectGroup(group_id)

    def append(self, group: ConnectGroup, record_type: DraftRecordType, value: Value | None, *member: str) -> None:
        """Write one record of the group or of one of its members, and apply it."""
        record = DraftRecord(record_type, (group.group_id, *member), value)
        self.groups.setdefault(group.group_id, group).apply(record)
        self.records.append(record)
        if group.is_blank():
            del self.groups[group.group_id]

    def bump(self, group: ConnectGroup) -> None:
        """Raise the group epoch: a new assignment is wanted (item 65)."""
        self.append(group, DraftRecordType.GROUP_METADATA, replace(group.metadata, epoch=group.epoch + 1))

    def put_member(self, group: ConnectGroup, member_id: str, member: MemberMetadata) -> None:
        """Write a member unless it is written like this already."""
        if group.members.get(member_id) != member:
            self.append(group, DraftRecordType.MEMBER_METADATA, member, member_id)

    def put_current(self, group: ConnectGroup, member_id: str, current: CurrentMemberAssignment) -> None:
        """Write what a worker has unless it is written already, and keep the time limit of a revocation in step."""
        had = group.current.get(member_id)
        if had == current:
            return
        self.append(group, DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, current, member_id)
        if not current.revoking:
            self.cancel(REBALANCE, group, member_id)
        elif had is None or not had.revoking:
            self.arm(REBALANCE, group, member_id, group.members[member_id].rebalance_timeout_ms)

    def drop_member(self, group: ConnectGroup, member_id: str) -> None:
        """Write the tombstones of a worker and forget it; what it held is free from here on."""
        if member_id in group.current:
            self.append(group, DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, None, member_id)
        self.append(group, DraftRecordType.MEMBER_METADATA, None, member_id)
        for kind in MEMBER_TIMERS:
            self.cancel(kind, group, member_id)
        memory = group.memory
        memory.declined.discard(member_id)
        memory.rejoining.discard(member_id)
        memory.syncing.discard(member_id)
        memory.reported.pop(member_id, None)
        if memory.chosen == member_id:
            memory.chosen = None
            self.cancel(ASSIGNMENT, group)

    def arm_session(self, group: ConnectGroup, member_id: str) -> None:
        """Restart a worker's session: the group's timeout, else the coordinator's; a classic worker names its own."""
        classic = group.members[member_id].classic
        default_ms = self.settings.session_timeout_ms
        timeout_ms = classic.session_timeout_ms if classic else group.setting_ms(SESSION_TIMEOUT_CONFIG, default_ms)
        self.arm(SESSION, group, member_id, timeout_ms)

    def arm(self, kind: str, group: ConnectGroup, member_id: str, delay_ms: int) -> None:
        """Set or replace a timer; member_id "" for one of the whole group."""
        key = _key(kind, group, member_id)
        self.timers.arm(key, self.now_ms + delay_ms)
        self.timer_changes.append(TimerChange(key, self.now_ms + delay_ms))

    def cancel(self, kind: str, group: ConnectGroup, member_id: str = "") -> None:
        """Drop a timer if it is armed."""
        key = _key(kind, group, member_id)
        if self.timers.cancel(key):
            self.timer_changes.append(TimerChange(key, None))

    def is_armed(self, kind: str, group: ConnectGroup, member_id: str = "") -> bool:
        """Whether a timer is armed."""
        return self.timers.deadline_ms(_key(kind, group, member_id)) is not None

    def result(self, response: AnyResponse | None) -> DraftResult:
        """Return the finished step."""
        return DraftResult(response, tuple(self.records), tuple(self.timer_changes), self.downgraded)


def _key(kind: str, group: ConnectGroup, member_id: str) -> TimerKey:
    return (kind, group.group_id, member_id)
