"""Causes from a group's records: stories of members that come and go, as the coordinator's records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet_learner.bill.causes import Cause, CauseKind, Memberships
from fleet_learner.bill.restarts import RETURN_MAX_MS, STATIC_BACK_MAX_MS
from fleet_learner.offsets.codec import GroupRecord, GroupType, Member, RecordKind
from unit.fleet_learner.offsets_encoder import CLASSIC_GONE
from unit.fleet_learner.offsets_encoder import classic_group as classic

MINUTE_MS = 60_000


def member(name: str, *partitions: int, client: str = "", host: str = "", instance: str | None = None) -> Member:
    """A member; its client id is its name without the number behind the dot."""
    return Member(
        member_id=name, instance_id=instance, client_id=client or name.split(".", maxsplit=1)[0],
        client_host=host or "/10.0.0.1", assignment=tuple(f"orders-{p}" for p in partitions),
    )  # fmt: skip


def causes_of(*records: tuple[int, GroupRecord]) -> list[Cause]:
    """Fold records, each with its time."""
    fold = Memberships()
    return [cause for at_ms, record in records for cause in fold.take(record, at_ms)]


def kinds(causes: Sequence[Cause]) -> list[CauseKind]:
    return [cause.kind for cause in causes]


A, B, B2, C = member("a.1", 0, 1), member("b.1", 2, 3), member("b.2", 2, 3), member("c.1", 2)


def test_a_restart_that_leaves_and_joins_is_two_rebalances_of_one_restart() -> None:
    found = causes_of((0, classic(1, A, B)), (10, classic(2, A)), (MINUTE_MS, classic(3, A, B2)))
    assert kinds(found) == [CauseKind.FOUND, CauseKind.DEPARTURE, CauseKind.RESTART]
    departure, restart = found[1:]
    assert (departure.caused, departure.bystanders, departure.clients) == (("orders-2", "orders-3"), 1, ("a",))
    assert (restart.returned, restart.halves_before, restart.rebalances) == (1, 1, 1)


def test_a_crash_joins_before_its_former_self_is_found_dead() -> None:
    found = causes_of((0, classic(1, A, B)), (10, classic(2, A, B, B2)), (50_000, classic(3, A, B2)))
    assert kinds(found) == [CauseKind.FOUND, CauseKind.JOIN, CauseKind.RESTART]
    assert found[2].halves_before == 1


@pytest.mark.parametrize(
    ("records", "first", "second"),
    [
        pytest.param([classic(1, A), classic(2, A, B), classic(3, A)], "JOIN", "DEPARTURE", id="joined and left"),
        pytest.param([classic(1), classic(2, A, B), classic(3, A)], "STARTED", "DEPARTURE", id="started and lost one"),
        pytest.param([classic(1, A), classic(2, A, B), classic(3, B)], "JOIN", "DEPARTURE", id="another one left"),
        pytest.param(
            [classic(1, A, B), classic(2, A), classic(3, A, C, member("d.1"), member("e.1"))], "DEPARTURE", "JOIN",
            id="more members than before",
        ),
    ],
)  # fmt: skip
def test_what_is_no_restart(records: list[GroupRecord], first: str, second: str) -> None:
    found = causes_of(*((10 * number, record) for number, record in enumerate(records)))
    assert kinds(found) == [CauseKind.FOUND, CauseKind[first], CauseKind[second]]


def test_a_restart_within_one_rebalance() -> None:
    found = causes_of((0, classic(1, A, B)), (10, classic(2, A, B2)))
    assert (found[1].kind, found[1].returned, found[1].halves_before) == (CauseKind.RESTART, 1, 0)


@pytest.mark.parametrize(
    ("back", "after_ms", "kind"),
    [
        (member("b.9", host="/10.9.9.9"), RETURN_MAX_MS, CauseKind.RESTART),  # a pod with another address
        (member("other.1"), RETURN_MAX_MS, CauseKind.RESTART),  # a client with a random id; the number of members fits
        (member("b.9"), RETURN_MAX_MS + 1, CauseKind.JOIN),
    ],
)
def test_who_counts_as_back(back: Member, after_ms: int, kind: CauseKind) -> None:
    assert kinds(causes_of((0, classic(1, A, B)), (10, classic(2, A)), (10 + after_ms, classic(3, A, back))))[2] is kind


def test_static_members() -> None:
    one, same, again = (member(f"s.{n}", 2, 3, instance="s") for n in range(3))
    absorbed = causes_of((0, classic(1, A, one)), (10, classic(1, A, same)))
    assert (absorbed[1].kind, absorbed[1].rebalances, absorbed[1].caused) == (
        CauseKind.ABSORBED,
        0,
        ("orders-2", "orders-3"),
    )
    assert absorbed[1].clients == ("a",)
    gone = causes_of((0, classic(1, A, one)), (10, classic(2, A)), (STATIC_BACK_MAX_MS, classic(3, A, again)))
    assert kinds(gone)[1:] == [CauseKind.STATIC_GONE, CauseKind.STATIC_BACK]
    late = causes_of((0, classic(1, A, one)), (10, classic(2, A)), (STATIC_BACK_MAX_MS + 11, classic(3, A, again)))
    assert kinds(late)[2] is CauseKind.JOIN
    assert kinds(causes_of((0, classic(1, A, one)), (10, classic(2, A, same))))[1] is CauseKind.STATIC_REPLACED


def test_generations_that_were_never_written_down_are_counted() -> None:
    assert [c.rebalances for c in causes_of((0, classic(1, A)), (10, classic(4, A)), (20, classic(4, A)))] == [0, 3]


def test_a_group_that_empties_and_starts_again() -> None:
    found = causes_of((0, classic(1, A, B)), (10, classic(2)), (20, classic(3, B2)))
    assert kinds(found)[1:] == [CauseKind.EMPTIED, CauseKind.STARTED]
    assert found[2].returned == 1
    again = causes_of((0, classic(1, A)), (10, CLASSIC_GONE), (20, classic(1, A)))
    assert kinds(again) == [CauseKind.FOUND, CauseKind.DELETED, CauseKind.FOUND]


def test_what_bystanders_must_give_up_has_moved() -> None:
    found = causes_of((0, classic(1, A, B)), (10, classic(2, member("a.1", 0), B, member("n.1", 1))))
    assert (found[1].kind, found[1].moved, found[1].caused) == (CauseKind.JOIN, ("orders-1",), ())


# KIP-848 -------------------------------------------------------------------------------------------------------------


def modern(kind: RecordKind, *, epoch: int | None = None, of: Member | None = None, gone: bool = False) -> GroupRecord:
    return GroupRecord(
        kind=kind, key_type=3, group_id="g", group_type=GroupType.CONSUMER, epoch=epoch, tombstone=gone,
        members=() if of is None else (of,),
    )  # fmt: skip


def joins(one: Member, epoch: int) -> list[GroupRecord]:
    bare = Member(
        member_id=one.member_id, instance_id=one.instance_id, client_id=one.client_id, client_host=one.client_host
    )
    held = Member(member_id=one.member_id, member_epoch=epoch, assignment=one.assignment, pending_revocation=())
    return [
        modern(RecordKind.MEMBER, of=bare),
        modern(RecordKind.EPOCH, epoch=epoch),
        modern(RecordKind.CURRENT_MEMBER, of=held),
    ]


def leaves(one: Member) -> GroupRecord:
    return modern(RecordKind.MEMBER, of=Member(member_id=one.member_id), gone=True)


def test_kip_848_restart_of_a_dynamic_member() -> None:
    records = [*joins(A, 1), *joins(B, 2), leaves(B), modern(RecordKind.EPOCH, epoch=3), *joins(B2, 4)]
    found = causes_of(*enumerate(records))
    assert [c.kind for c in found if c.rebalances] == [CauseKind.JOIN, CauseKind.DEPARTURE, CauseKind.RESTART]
    departure = next(c for c in found if c.kind is CauseKind.DEPARTURE)
    assert (departure.caused, departure.bystanders, departure.group_epoch) == (("orders-2", "orders-3"), 1, 3)
    assert sum(c.kind is CauseKind.RECONCILED for c in found) == 3


def test_kip_848_static_member_that_returns_in_time() -> None:
    one, same = (member(f"s.{n}", 2, instance="s") for n in (1, 2))
    away = modern(
        RecordKind.CURRENT_MEMBER, of=Member(member_id=one.member_id, member_epoch=-2, assignment=one.assignment)
    )
    new = joins(same, 1)[0]
    found = causes_of(*enumerate([*joins(one, 1), away, away, leaves(one), new]))
    assert kinds(found) == [CauseKind.FOUND, CauseKind.RECONCILED, CauseKind.LEFT_FOR_A_WHILE, CauseKind.ABSORBED]
    assert found[3].caused == ("orders-2",)
