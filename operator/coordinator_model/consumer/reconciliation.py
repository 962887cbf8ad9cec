"""One step of a member towards its target, such that no partition ever has two owners.

Source: KIP-848 "Reconciliation of the group"; states and order of tests as in CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..base.errors import ErrorCode, GroupError
from .member import CurrentAssignment, MemberState, Partition

NOT_OWNED = -1
"""What `owner_epoch` says of a partition that no member holds."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member is to be reconciled with.

    Parameters
    ----------
    target_epoch, target: the target assignment of the member.
    subscribed: existing topics that the member wants; partitions of other topics are taken from it.
    subscription_changed: whether this very heartbeat changed the subscription.
    owner_epoch: partition → epoch of the member that holds it (-2: one that is away), or NOT_OWNED.
    owned: what the member says it owns; None: it did not say.
    wants_nothing: whether it names no topic at all, existing or not.
    """

    target_epoch: int
    target: Collection[Partition]
    subscribed: Collection[str]
    subscription_changed: bool
    owner_epoch: Callable[[Partition], int]
    owned: Collection[Partition] | None
    wants_nothing: bool = False

    def next(self, current: CurrentAssignment) -> CurrentAssignment:
        """Return the member's next assignment; the same object when it cannot go on yet (CurrentAssignmentBuilder)."""
        match current.state:
            case MemberState.STABLE:
                if current.member_epoch != self.target_epoch:
                    return self._towards_target(current, current.member_epoch)
                return self._without_unsubscribed(current) if self.subscription_changed else current
            case MemberState.UNREVOKED_PARTITIONS:
                if self._still_owns(current.pending_revocation):
                    return self._without_unsubscribed(current) if self.subscription_changed else current
                return self._towards_target(current, current.member_epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(current, current.member_epoch)
        # A state of a newer Kafka in the log: the member starts again with empty hands.
        if self.owned is None or self.owned:
            raise GroupError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return self._towards_target(current, self.target_epoch)

    def _still_owns(self, revoked: Mapping[Partition, int]) -> bool:
        return self.owned is None or any(partition in revoked for partition in self.owned)

    def _without_unsubscribed(self, current: CurrentAssignment) -> CurrentAssignment:
        dropped = {p: e for p, e in current.assigned.items() if p[0] not in self.subscribed}
        if not dropped:
            if not self.wants_nothing or current.pending_revocation:
                return current
            # Kafka takes the short cut of a member without topics also where there is nothing to take away.
            return self._moved(current, current.member_epoch, current.state, {}, {})
        kept = {p: e for p, e in current.assigned.items() if p not in dropped}
        pending = {**current.pending_revocation, **dropped}
        if self._still_owns(pending):
            return self._moved(current, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
        return self._moved(current, current.member_epoch, current.state, kept, current.pending_revocation)

    def _towards_target(self, current: CurrentAssignment, epoch: int) -> CurrentAssignment:
        target = {p for p in self.target if p[0] in self.subscribed}
        kept = {p: e for p, e in current.assigned.items() if p in target}
        revoked = {p: e for p, e in current.assigned.items() if p not in target}
        if revoked and self._still_owns(revoked):
            return self._moved(current, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        missing = sorted(target - kept.keys())
        free = [p for p in missing if self._is_free(p, current)]
        state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
        assigned = dict(sorted({**kept, **dict.fromkeys(free, self.target_epoch)}.items())) if free else kept
        return self._moved(current, self.target_epoch, state, assigned, {})

    def _is_free(self, partition: Partition, current: CurrentAssignment) -> bool:
        # What the member itself was asked to give up is its own, so it may have it back.
        return self.owner_epoch(partition) == NOT_OWNED or partition in current.pending_revocation

    def _moved(
        self,
        current: CurrentAssignment,
        epoch: int,
        state: MemberState,
        assigned: Mapping[Partition, int],
        pending: Mapping[Partition, int],
    ) -> CurrentAssignment:
        return CurrentAssignment(epoch, current.member_epoch, state, assigned, pending)
