"""What a fold over the coordinator's records proves, for both kinds of groups.

The sequences of records are those of Kafka's own tests (GroupMetadataManagerTest): a static rejoin in a stable classic
group writes one record of the same generation; a replaced member of KIP-848 has its tombstones and its successor's
records without an epoch; a fenced one has tombstones and then an epoch.
"""

from __future__ import annotations

import pytest

from fleet_learner.offsets.codec import GroupRecord, GroupType, Member, RecordKind
from fleet_learner.sources.offsets_evidence import Change, ChangeKind, Fold
from unit.fleet_learner.offsets_encoder import CLASSIC_GONE, classic_group


def classic(epoch: int, **members: str) -> GroupRecord:
    """Return a record of a classic group with these instance ids."""
    return classic_group(epoch, *(Member(member_id=m, instance_id=i) for i, m in members.items()))


def modern(kind: RecordKind, member: Member | None = None, **more: object) -> GroupRecord:
    """Return a record of a KIP-848 group."""
    return GroupRecord(
        kind=kind,
        key_type=3,
        group_id="g",
        group_type=GroupType.CONSUMER,
        members=(member,) if member else (),
        **more,  # type: ignore[arg-type]
    )


def epoch(number: int) -> GroupRecord:
    return modern(RecordKind.EPOCH, epoch=number)


def joined(member_id: str, instance_id: str | None) -> GroupRecord:
    return modern(RecordKind.MEMBER, Member(member_id=member_id, instance_id=instance_id))


def gone(member_id: str) -> GroupRecord:
    return modern(RecordKind.MEMBER, Member(member_id=member_id), tombstone=True)


def at(member_id: str, member_epoch: int) -> GroupRecord:
    return modern(RecordKind.CURRENT_MEMBER, Member(member_id=member_id, member_epoch=member_epoch))


def fold(*records: GroupRecord) -> list[tuple[ChangeKind, str | None, int | None]]:
    """Return (kind, instance id, epochs) of every change but that a group was found."""
    one = Fold()
    changes = [c for record in records for c in one.take(record)]
    return [(c.kind, c.instance_id, c.epochs) for c in changes if c.kind is not ChangeKind.FOUND]


def found(*records: GroupRecord) -> list[tuple[str, int | None]]:
    """Return (type, epoch) of every group that was found."""
    one = Fold()
    changes = [c for record in records for c in one.take(record)]
    return [(c.group_type, c.epoch) for c in changes if c.kind is ChangeKind.FOUND]


def test_a_classic_restart_is_absorbed_when_the_generation_stays() -> None:
    one = Fold()
    first = [change.kind for change in one.take(classic(7, a="m1", b="m2"))]
    assert first == [ChangeKind.FOUND], "the first record proves nothing"
    assert list(one.take(classic(7, a="m3", b="m2"))) == [
        Change(
            kind=ChangeKind.ABSORBED, group_id="g", group_type="Classic", epoch=7, instance_id="a", member_id="m3",
            previous_member_id="m1",
        )
    ]  # fmt: skip


REBALANCED = (ChangeKind.REBALANCED, None, 1)


@pytest.mark.parametrize(
    ("records", "changes"),
    [
        pytest.param(
            [classic(7, a="m1"), classic(8, a="m2")], [REBALANCED, (ChangeKind.REPLACED, "a", None)],
            id="a classic restart with a new generation is a rebalance",
        ),
        pytest.param(
            [classic(7, a="m1"), classic(12, a="m1")], [(ChangeKind.REBALANCED, None, 5)],
            id="generations between two records are counted: compaction keeps the last record only",
        ),
        pytest.param(
            [classic(7, a="m1", b="m2"), classic(8, a="m1"), classic(9)],
            [REBALANCED, (ChangeKind.GONE, "b", None), REBALANCED, (ChangeKind.GONE, "a", None)],
            id="a classic member that is missing is gone",
        ),
        pytest.param(
            [joined("m1", "a"), epoch(10), at("m1", 10), at("m1", -2), at("m1", -2), gone("m1"), joined("m2", "a"),
             at("m2", 10)],
            [(ChangeKind.LEFT_FOR_A_WHILE, "a", None), (ChangeKind.ABSORBED, "a", None)],
            id="KIP-848: epoch -2, tombstones, records of the new member and no group epoch are absorbed",
        ),
        pytest.param(
            [joined("m1", "a"), epoch(10), gone("m1"), epoch(11), joined("m2", "a"), epoch(12)],
            [(ChangeKind.GONE, "a", None), REBALANCED, REBALANCED],
            id="a member of KIP-848 that is fenced is gone, and another one when it is back",
        ),
        pytest.param(
            [joined("m1", "a"), epoch(10), joined("m1", "a"), epoch(11)], [REBALANCED],
            id="a new subscription writes the member's record again and is no restart",
        ),
        pytest.param(
            [joined("m1", None), epoch(10), at("m1", 10), gone("m1"), epoch(11)], [REBALANCED],
            id="dynamic members are not distinguished",
        ),
    ],
)  # fmt: skip
def test_changes_of_a_group(records: list[GroupRecord], changes: list[tuple[ChangeKind, str | None, int | None]]) -> None:
    assert fold(*records) == changes


def test_after_its_tombstone_a_classic_group_begins_again() -> None:
    assert fold(classic(7, a="m1"), CLASSIC_GONE, classic(1, a="m9")) == []
    assert found(classic(7, a="m1"), CLASSIC_GONE, classic(1, a="m9")) == [("Classic", 7), ("Classic", 1)]


def test_groups_do_not_mix_and_records_of_no_group_prove_nothing() -> None:
    other = GroupRecord(kind=RecordKind.EPOCH, key_type=17, group_id="g", group_type=GroupType.STREAMS, epoch=3)
    unknown = GroupRecord(kind=RecordKind.UNKNOWN, key_type=99)
    assert fold(epoch(10), other, unknown, epoch(10)) == []
    assert found(epoch(10), other, unknown, epoch(10)) == [("Consumer", 10), ("Streams", 3)]


def test_the_end_of_a_group_takes_its_members() -> None:
    end = modern(RecordKind.EPOCH, tombstone=True)
    assert fold(joined("m1", "a"), epoch(10), gone("m1"), end) == [(ChangeKind.GONE, "a", None)]
    assert found(joined("m1", "a"), epoch(10), gone("m1"), end, epoch(1)) == [("Consumer", 10), ("Consumer", 1)]
