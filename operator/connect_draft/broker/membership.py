"""State that heartbeats, the old protocol's requests and timers share: members of a group, and its configured work."""

from __future__ import annotations

from ..messages import LEAVE_STATIC_EPOCH
from ..metadata import decode_worker_metadata
from ..records import Assignor, ConnectorsTasksMetadata, DraftRecordType
from .conversion import downgrade
from .effects import Effects
from .group import ConnectGroup
from .selection import Supported


def offered_by(group: ConnectGroup) -> Supported:
    """Return the assignors of every worker of the group."""
    return {member_id: member.assignors for member_id, member in group.members.items()}


def able_to_compute(group: ConnectGroup) -> list[str]:
    """Return the workers that can compute: those of the new protocol that are present."""
    return [
        member_id
        for member_id, member in group.members.items()
        if member.classic is None and group.current_of(member_id).member_epoch != LEAVE_STATIC_EPOCH
    ]


def update_configured(fx: Effects, group: ConnectGroup, assignors: tuple[Assignor, ...]) -> bool:
    """Take over what a worker read in the config topic if it is newer; returns whether other work is configured now.

    So each change of connectors or tasks raises the epoch once, with the first worker that reports it (item 65).
    """
    newest = max((decode_worker_metadata(a.metadata) for a in assignors), key=lambda m: m.config_offset, default=None)
    if newest is None or newest.config_offset <= group.connectors.config_offset:
        return False
    changed = not newest.configured.same_as(group.connectors.work)
    epoch = group.epoch + 1 if changed else group.connectors.epoch
    value = ConnectorsTasksMetadata(epoch, newest.configured, newest.config_offset)
    fx.append(group, DraftRecordType.CONNECTORS_TASKS_METADATA, value)
    return changed


def remove_member(fx: Effects, group: ConnectGroup, member_id: str) -> None:
    """Take a worker out: its work is free at once, a new assignment is wanted (item 65, trigger 4).

    When the last worker of the new protocol goes and others stay, the group goes back to the old one (item 75).
    """
    fx.drop_member(group, member_id)
    fx.bump(group)
    if group.members and all(member.classic for member in group.members.values()):
        downgrade(fx, group)
