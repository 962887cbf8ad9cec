"""One step of reconciliation, as CurrentAssignmentBuilderTest pins it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from coordinator_model.base.errors import ErrorCode, GroupError
from coordinator_model.consumer.member import CurrentAssignment, MemberState, Partition, with_epoch
from coordinator_model.consumer.reconciliation import NOT_OWNED, Reconciliation

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def foo(*numbers: int) -> list[Partition]:
    return [("foo", n) for n in numbers]


def bar(*numbers: int) -> list[Partition]:
    return [("bar", n) for n in numbers]


def member(
    epoch: int = 10,
    state: MemberState = STABLE,
    assigned: Collection[Partition] = (),
    pending: Collection[Partition] = (),
) -> CurrentAssignment:
    return CurrentAssignment(epoch, epoch - 1, state, with_epoch(assigned, epoch), with_epoch(pending, epoch))


def step(
    current: CurrentAssignment,
    target: Collection[Partition],
    *,
    epoch: int = 11,
    owned: Collection[Partition] | None = None,
    taken: Collection[Partition] = (),
    subscribed: Collection[str] = ("foo", "bar"),
    changed: bool = False,
) -> CurrentAssignment:
    own = (*current.assigned, *current.pending_revocation)
    held = dict.fromkeys(own, current.member_epoch) | dict.fromkeys(taken, 10)
    reconciliation = Reconciliation(
        target_epoch=epoch, target=target, subscribed=subscribed, subscription_changed=changed,
        owner_epoch=lambda p: held.get(p, NOT_OWNED), owned=owned,
    )
    return reconciliation.next(current)


def shape(current: CurrentAssignment) -> tuple[MemberState, int, int, list[Partition], list[Partition]]:
    epochs = (current.member_epoch, current.previous_member_epoch)
    return current.state, *epochs, sorted(current.assigned), sorted(current.pending_revocation)


def test_stable_to_stable() -> None:
    """testStableToStable: nothing changes but the epoch."""
    kept = bar(4, 5, 6) + foo(1, 2, 3)
    after = step(member(assigned=kept), kept)
    assert shape(after) == (STABLE, 11, 10, kept, [])
    assert set(after.assigned.values()) == {10}


def test_stable_to_stable_with_new_partitions() -> None:
    """testStableToStableWithNewPartitions: what is free is given at once, with the new epoch."""
    after = step(member(assigned=foo(1, 2, 3)), foo(1, 2, 3, 4) + bar(7))
    assert shape(after) == (STABLE, 11, 10, bar(7) + foo(1, 2, 3, 4), [])
    assert {p for p, epoch in after.assigned.items() if epoch == 11} == {("foo", 4), ("bar", 7)}


def test_stable_to_unrevoked() -> None:
    """testStableToUnrevokedPartitions: the epoch stays until the member has let go."""
    after = step(member(assigned=foo(1, 2, 3)), foo(3, 4, 5), owned=foo(1, 2, 3))
    assert shape(after) == (UNREVOKED, 10, 10, foo(3), foo(1, 2))
    assert step(member(assigned=foo(1, 2, 3)), foo(3, 4, 5), owned=None).state is UNREVOKED


def test_stable_to_stable_when_the_revoked_is_not_owned() -> None:
    """testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions:
    a member that does not own it need not give it up.
    """
    after = step(member(assigned=foo(1, 2, 3)), foo(3, 4, 5), owned=foo(3))
    assert shape(after) == (STABLE, 11, 10, foo(3, 4, 5), [])


def test_stable_to_unreleased() -> None:
    """testStableToUnreleasedPartitions: it waits for partitions of another member, even of one that is away (-2)."""
    after = step(member(assigned=foo(1, 2, 3)), foo(1, 2, 3, 4, 5), taken=foo(4))
    assert shape(after) == (UNRELEASED, 11, 10, foo(1, 2, 3, 5), [])
    nothing_free = step(member(assigned=foo(1, 2, 3)), foo(1, 2, 3, 4), taken=foo(4))
    assert shape(nothing_free) == (UNRELEASED, 11, 10, foo(1, 2, 3), [])


def test_unrevoked_to_stable() -> None:
    """testUnrevokedPartitionsToStable: all let go, nothing to get."""
    after = step(member(state=UNREVOKED, assigned=foo(2, 3), pending=foo(1)), foo(2, 3), owned=foo(2, 3))
    assert shape(after) == (STABLE, 11, 10, foo(2, 3), [])


@pytest.mark.parametrize("owned", [None, foo(1, 2, 3)])
def test_unrevoked_stays(owned: list[Partition] | None) -> None:
    """testRemainsInUnrevokedPartitions: silence is no acknowledgement, and the target epoch may run ahead."""
    before = member(state=UNREVOKED, assigned=foo(3), pending=foo(1, 2))
    assert step(before, foo(3), epoch=12, owned=owned) is before


def test_unrevoked_to_unrevoked_of_a_newer_target() -> None:
    """testUnrevokedPartitionsToUnrevokedPartitions: the next target takes something else away."""
    before = member(state=UNREVOKED, assigned=foo(2, 3), pending=foo(1))
    after = step(before, foo(3), epoch=12, owned=foo(2, 3))
    assert shape(after) == (UNREVOKED, 10, 10, foo(3), foo(2))


def test_unrevoked_to_unreleased() -> None:
    """testUnrevokedPartitionsToUnreleasedPartitions."""
    before = member(state=UNREVOKED, assigned=foo(2, 3), pending=foo(1))
    after = step(before, foo(2, 3, 4), owned=foo(2, 3), taken=foo(4))
    assert shape(after) == (UNRELEASED, 11, 10, foo(2, 3), [])


def test_pending_partition_may_come_back() -> None:
    """testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation:
    its own revoked partition is not unreleased.
    """
    before = member(state=UNREVOKED, assigned=foo(2, 3), pending=foo(1))
    after = step(before, foo(1, 2, 3), epoch=12, owned=foo(2, 3))
    assert shape(after) == (STABLE, 12, 10, foo(1, 2, 3), [])


def test_unreleased_to_stable() -> None:
    """testUnreleasedPartitionsToStableWithNewPartitions: it became free."""
    after = step(member(11, UNRELEASED, foo(2, 3)), foo(2, 3, 4))
    assert shape(after) == (STABLE, 11, 11, foo(2, 3, 4), [])


def test_unreleased_stays() -> None:
    """testUnreleasedPartitionsToUnreleasedPartitions."""
    after = step(member(11, UNRELEASED, foo(2, 3)), foo(2, 3, 4), taken=foo(4))
    assert shape(after) == (UNRELEASED, 11, 11, foo(2, 3), [])


def test_unreleased_to_unrevoked() -> None:
    """testUnreleasedPartitionsToUnrevokedPartitions: a newer target takes away what it has."""
    after = step(member(11, UNRELEASED, foo(2, 3)), foo(3), epoch=12, owned=foo(2, 3))
    assert shape(after) == (UNREVOKED, 11, 11, foo(3), foo(2))


def test_unknown_state_starts_over() -> None:
    """testUnknownState: fenced unless the member comes with empty hands."""
    before = member(state=MemberState.UNKNOWN, assigned=foo(3, 4), pending=foo(6))
    for owned in (None, foo(3)):
        with pytest.raises(GroupError) as refused:
            step(before, foo(3), owned=owned)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert shape(step(before, foo(3), owned=())) == (STABLE, 11, 10, foo(3), [])


@pytest.mark.parametrize("owned", [None, foo(1) + bar(1), foo(1)])
def test_changed_subscription_takes_partitions_before_a_new_target(owned: list[Partition] | None) -> None:
    """test…WithAssignmentTopicsNoLongerInSubscription, stable:
    what is no longer subscribed goes at once, the epoch stays.
    """
    after = step(
        member(assigned=foo(1) + bar(1)), foo(1) + bar(1), epoch=10, owned=owned, subscribed=["foo"], changed=True
    )
    if owned == foo(1):
        assert shape(after) == (STABLE, 10, 10, foo(1), [])
    else:
        assert shape(after) == (UNREVOKED, 10, 10, foo(1), bar(1))


def test_changed_subscription_of_a_revoking_member_adds_to_what_it_revokes() -> None:
    """testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription."""
    before = member(state=UNREVOKED, assigned=foo(2) + bar(2), pending=foo(1))
    after = step(before, foo(2) + bar(2), owned=foo(1, 2) + bar(2), subscribed=["foo"], changed=True)
    assert shape(after) == (UNREVOKED, 10, 10, foo(2), bar(2) + foo(1))


def test_unsubscribed_topics_are_no_target() -> None:
    """testStableToStableWithAssignmentTopicsNoLongerInSubscription:
    a target computed before the subscription changed is not followed for other topics.
    """
    after = step(member(), foo(1) + bar(1), subscribed=["foo"])
    assert shape(after) == (STABLE, 11, 10, foo(1), [])
