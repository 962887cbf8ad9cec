"""One step of reconciliation, as CurrentAssignmentBuilderTest pins it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

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


HELD = member(assigned=foo(1, 2, 3))
REVOKING, REVOKING_TWO = (
    member(state=UNREVOKED, assigned=foo(2, 3), pending=foo(1)),
    member(state=UNREVOKED, assigned=foo(3), pending=foo(1, 2)),
)
WAITING = member(11, UNRELEASED, foo(2, 3))


@pytest.mark.parametrize(
    ("before", "target", "options", "expected"),
    [
        # The epoch stays until the member has let go.
        pytest.param(HELD, foo(3, 4, 5), {"owned": foo(1, 2, 3)}, (UNREVOKED, 10, 10, foo(3), foo(1, 2)),
                     id="testStableToUnrevokedPartitions"),
        pytest.param(HELD, foo(3, 4, 5), {}, (UNREVOKED, 10, 10, foo(3), foo(1, 2)),
                     id="testStableToUnrevokedPartitions, nothing said"),
        # A member that does not own a partition need not give it up.
        pytest.param(HELD, foo(3, 4, 5), {"owned": foo(3)}, (STABLE, 11, 10, foo(3, 4, 5), []),
                     id="testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions"),
        # It waits for partitions of another member, even of one that is away (-2).
        pytest.param(HELD, foo(1, 2, 3, 4, 5), {"taken": foo(4)}, (UNRELEASED, 11, 10, foo(1, 2, 3, 5), []),
                     id="testStableToUnreleasedPartitions"),
        pytest.param(HELD, foo(1, 2, 3, 4), {"taken": foo(4)}, (UNRELEASED, 11, 10, foo(1, 2, 3), []),
                     id="testStableToUnreleasedPartitions, nothing free"),
        pytest.param(REVOKING, foo(2, 3), {"owned": foo(2, 3)}, (STABLE, 11, 10, foo(2, 3), []),
                     id="testUnrevokedPartitionsToStable"),
        # Silence is no acknowledgement, and the target epoch may run ahead.
        pytest.param(REVOKING_TWO, foo(3), {"epoch": 12}, shape(REVOKING_TWO),
                     id="testRemainsInUnrevokedPartitions, nothing said"),
        pytest.param(REVOKING_TWO, foo(3), {"epoch": 12, "owned": foo(1, 2, 3)}, shape(REVOKING_TWO),
                     id="testRemainsInUnrevokedPartitions"),
        # The next target takes something else away.
        pytest.param(REVOKING, foo(3), {"epoch": 12, "owned": foo(2, 3)}, (UNREVOKED, 10, 10, foo(3), foo(2)),
                     id="testUnrevokedPartitionsToUnrevokedPartitions"),
        pytest.param(REVOKING, foo(2, 3, 4), {"owned": foo(2, 3), "taken": foo(4)},
                     (UNRELEASED, 11, 10, foo(2, 3), []), id="testUnrevokedPartitionsToUnreleasedPartitions"),
        # Its own revoked partition is not unreleased.
        pytest.param(REVOKING, foo(1, 2, 3), {"epoch": 12, "owned": foo(2, 3)}, (STABLE, 12, 10, foo(1, 2, 3), []),
                     id="testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation"),
        pytest.param(WAITING, foo(2, 3, 4), {}, (STABLE, 11, 11, foo(2, 3, 4), []),
                     id="testUnreleasedPartitionsToStableWithNewPartitions"),
        pytest.param(WAITING, foo(2, 3, 4), {"taken": foo(4)}, (UNRELEASED, 11, 11, foo(2, 3), []),
                     id="testUnreleasedPartitionsToUnreleasedPartitions"),
        # A newer target takes away what it has.
        pytest.param(WAITING, foo(3), {"epoch": 12, "owned": foo(2, 3)}, (UNREVOKED, 11, 11, foo(3), foo(2)),
                     id="testUnreleasedPartitionsToUnrevokedPartitions"),
        # A target computed before the subscription changed is not followed for other topics.
        pytest.param(member(), foo(1) + bar(1), {"subscribed": ["foo"]}, (STABLE, 11, 10, foo(1), []),
                     id="testStableToStableWithAssignmentTopicsNoLongerInSubscription"),
        pytest.param(member(state=UNREVOKED, assigned=foo(2) + bar(2), pending=foo(1)), foo(2) + bar(2),
                     {"owned": foo(1, 2) + bar(2), "subscribed": ["foo"], "changed": True},
                     (UNREVOKED, 10, 10, foo(2), bar(2) + foo(1)),
                     id="testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription"),
    ],
)  # fmt: skip
def test_step(
    before: CurrentAssignment, target: list[Partition], options: dict[str, Any], expected: tuple[object, ...]
) -> None:
    after = step(before, target, **options)
    assert shape(after) == expected
    assert (after == before) is (expected == shape(before))


def test_partitions_keep_their_epoch_and_what_is_free_is_given_at_once_with_the_new_one() -> None:
    """testStableToStable, testStableToStableWithNewPartitions."""
    kept = bar(4, 5, 6) + foo(1, 2, 3)
    for new in ([], bar(7) + foo(4)):
        after = step(member(assigned=kept), kept + new)
        assert shape(after) == (STABLE, 11, 10, sorted(kept + new), [])
        assert after.assigned == with_epoch(kept, 10) | with_epoch(new, 11)


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
