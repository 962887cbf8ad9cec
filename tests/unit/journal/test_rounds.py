"""A round's facts about members and rebalances: each once, with correct bounds."""

from __future__ import annotations

from dataclasses import replace

from journal.records import fact_of, group_record
from journal.rounds.rebalances import EPOCHS_MAX, UNSETTLED_MAX_MS
from staticgroup.core.group import GroupType, GroupView
from staticgroup.core.snapshot import Snapshot
from unit.core.builders import group, id_of, member, spec
from unit.journal.observer import NOW_MS, STEP_MS, UNREACHABLE, Observer, bounds, kinds, kip848, running

ABSENT = GroupView(group_id="orders", group_type=GroupType.ABSENT, state="Dead", coordinator="1@b:1")


def test_first_look_tells_no_change() -> None:
    """A restarted operator knows no earlier state and must not record that all members joined just now."""
    assert Observer().look(running()) == []
    observer = Observer()
    observer.look(running(group=UNREACHABLE))
    assert observer.look(running()) == [], "nor one that could not read it before"


def test_absorbed_restart_of_a_classic_member(observer: Observer) -> None:
    """KIP-345: a known instance id that rejoins a stable group gets a new member.id without a rebalance."""
    (fact,) = observer.look(running(group=group(member(0), member(1, "m1b"), member(2))))
    assert fact.id == f"kc/orders/{id_of(1)}/m1b/rejoined"
    assert fact_of(group_record("k", fact.id, fact.data)) | {"workload": ""} == {
        "kafka_cluster_id": "kc", "group_id": "orders", "namespace": "shop", "static_group": "orders", "workload": "",
        "protocol": "Classic", "instance_id": id_of(1), "member_id": "m1b", "previous_member_id": "m1",
        "group_epoch": None, "absorbed": True, "members": 3, "partitions_total": None,
    }  # fmt: skip
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)
    assert fact.data.observed_at_ms == NOW_MS + 2 * STEP_MS + 100


def test_rejoin_is_not_absorbed_when_a_rebalance_is_in_flight_or_went_by() -> None:
    for after in (
        group(member(0), member(1, "m1b"), member(2), state="PreparingRebalance"),
        group(member(0), member(1, "m1b")),
    ):
        observer = Observer()
        observer.look(running())
        rejoined = [f for f in observer.look(running(group=after)) if f.data.noun == "member.rejoined"]
        assert [f.data.model_dump()["absorbed"] for f in rejoined] == [False]


def test_member_that_was_not_in_the_group_before_joins_without_a_predecessor() -> None:
    observer = Observer()
    observer.look(running(group=group(member(0), member(1))))
    facts = observer.look(running())
    assert kinds(facts) == ["group.rebalanced", "member.rejoined"]
    assert facts[1].data.model_dump()["previous_member_id"] is None


def test_members_of_others_are_not_recorded(observer: Observer) -> None:
    """Foreign and dynamic members are never ours, and an id with two holders is a wrong reading."""
    others = (
        replace(member(0), instance_id="somebody-else"),
        replace(member(0, "d"), instance_id=None),
        member(0, "x"),
        member(0, "y"),
    )
    assert "member.rejoined" not in kinds(observer.look(running(group=group(*others, member(1), member(2)))))


def test_classic_rebalance_is_recorded_when_it_has_settled(observer: Observer) -> None:
    """DescribeGroups shows no generation: in progress at one read, then Stable, is one rebalance."""
    assert observer.look(running(group=group(*(member(n) for n in range(3)), state="PreparingRebalance"))) == []
    (fact,) = observer.look(running())
    assert fact.data.noun == "group.rebalanced"
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 3 * STEP_MS + 100)
    assert observer.look(running()) == []


def test_classic_rebalance_that_nobody_saw_in_flight_is_known_by_the_members() -> None:
    def share(*counts: int) -> Snapshot:
        return running(group=group(*(member(n, assigned_partitions=c) for n, c in enumerate(counts))))

    observer = Observer()
    observer.look(share(4, 4, 4))
    assert observer.look(share(4, 4, 4)) == []
    (fact,) = observer.look(share(6, 3, 3))
    data = fact.data.model_dump()
    assert (data["partitions_total"], data["partitions_moved"], data["group_epoch"]) == (12, 2, None)
    assert kinds(observer.look(share(6, 6))) == ["group.rebalanced"]


def test_rebalances_between_the_same_members_have_different_ids() -> None:
    """Otherwise the second would be dropped as a copy of the first."""
    observer = Observer()
    for _ in range(3):
        observer.look(running())
        observer.look(running(group=group(*(member(n) for n in range(3)), state="CompletingRebalance")))
    observer.look(running())
    ids = [f.id for f in observer.facts if f.data.noun == "group.rebalanced"]
    assert len(ids) == len(set(ids)) == 3


def test_every_epoch_of_a_kip848_group_is_one_rebalance() -> None:
    observer = Observer()
    observer.look(running(group=kip848(7)), spec=spec(groupProtocol="Consumer"))
    facts = observer.look(running(group=kip848(9)), spec=spec(groupProtocol="Consumer"))
    assert [f.id for f in facts] == ["kc/orders/8/rebalanced", "kc/orders/9/rebalanced"]
    assert [f.data.model_dump()["members"] for f in facts] == [None, 3]
    assert {f.data.protocol for f in facts} == {"Consumer"}


def test_rebalance_of_a_kip848_group_is_recorded_with_what_moved_once_it_has_settled() -> None:
    """While members reconcile, the counts are not those of the new assignment; the bounds stay those of the epoch."""
    observer = Observer()
    observer.look(running(group=kip848(7)))
    behind = (member(0, member_epoch=7, assigned_partitions=4), member(1, member_epoch=8, assigned_partitions=0))
    assert kinds(observer.look(running(group=kip848(8, *behind, state="Reconciling")))) == []
    after = (member(0, member_epoch=8, assigned_partitions=6), member(1, member_epoch=8, assigned_partitions=6))
    (fact,) = observer.look(running(group=kip848(8, *after)))
    data = fact.data.model_dump()
    assert (data["partitions_moved"], data["partitions_total"], data["state_before"]) == (4, 12, "Stable")
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 2 * STEP_MS + 100)


def test_rebalance_that_never_settles_is_recorded_after_a_minute() -> None:
    observer = Observer()
    observer.look(running(group=kip848(7)))
    stuck = running(group=kip848(8, member(0, member_epoch=7), state="Reconciling"))
    looks = UNSETTLED_MAX_MS // STEP_MS
    assert [len(observer.look(stuck)) for _ in range(looks + 2)] == [0] * looks + [1, 0]
    assert observer.facts[-1].data.model_dump()["partitions_moved"] is None


def test_restart_in_a_kip848_group_is_absorbed_exactly_when_the_epoch_stays() -> None:
    """KIP-848: a static member that comes back takes over the assignment; the group epoch does not move."""
    for epoch, absorbed in ((7, True), (8, False)):
        observer = Observer()
        observer.look(running(group=kip848(7)))
        back = (member(0, "new", member_epoch=0), *(member(n, member_epoch=epoch) for n in (1, 2)))
        facts = observer.look(running(group=kip848(epoch, *back, state="Reconciling")))
        assert [f.data.model_dump()["absorbed"] for f in facts if f.data.noun == "member.rejoined"] == [absorbed]


def test_first_members_of_a_new_group_are_its_first_rebalances() -> None:
    """KAFKA-20268: the first epoch of a group is 2 since Kafka 4.3, so epoch 1 is no rebalance."""
    for first, count in ((kip848(1), 0), (kip848(2), 1), (kip848(4), 3), (group(*(member(n) for n in range(3))), 1)):
        observer = Observer()
        observer.look(running(group=ABSENT))
        assert kinds(observer.look(running(group=first))).count("group.rebalanced") == count


def test_only_the_newest_epochs_are_recorded_of_a_group_that_moved_on_very_far() -> None:
    observer = Observer()
    observer.look(running(group=kip848(1)))
    facts = observer.look(running(group=kip848(10_000)))
    assert [f.data.model_dump()["group_epoch"] for f in facts] == list(range(10_001 - EPOCHS_MAX, 10_001))


def test_group_that_went_back_is_another_one() -> None:
    observer = Observer()
    observer.look(running(group=kip848(9)))
    assert observer.look(running(group=kip848(1))) == []
    assert kinds(observer.look(running(group=kip848(2)))) == ["group.rebalanced"]


def test_epochs_of_a_group_that_was_made_again_are_not_those_of_the_first() -> None:
    """The epochs of a recreated KIP-848 group begin again; with the old ids readers would drop them as copies."""
    observer = Observer()
    for each in (ABSENT, kip848(2), kip848(4), ABSENT, ABSENT, kip848(2), kip848(5), kip848(2), kip848(3)):
        observer.look(running(group=each))
    rebalances = [f for f in observer.facts if f.data.noun == "group.rebalanced"]
    again_ms, once_more_ms = NOW_MS + 6 * STEP_MS, NOW_MS + 8 * STEP_MS
    assert [f.id for f in rebalances] == [
        *(f"kc/orders/{epoch}/rebalanced" for epoch in (2, 3, 4)),
        *(f"kc/orders/{again_ms}/{epoch}/rebalanced" for epoch in (2, 3, 4, 5)),
        f"kc/orders/{once_more_ms}/3/rebalanced",
    ]


def test_a_group_that_was_not_found_once_and_goes_on_with_its_epochs_is_the_same() -> None:
    """Repeated facts have their old ids and count as copies."""
    observer = Observer()
    for each in (kip848(2), kip848(3), ABSENT, kip848(3), kip848(4)):
        observer.look(running(group=each))
    ids = [f.id for f in observer.facts if f.data.noun == "group.rebalanced"]
    assert set(ids) == {f"kc/orders/{epoch}/rebalanced" for epoch in (2, 3, 4)}


def test_bounds_reach_back_to_the_last_look_that_read_the_group(observer: Observer) -> None:
    assert observer.look(running(group=UNREACHABLE)) == []
    (fact,) = observer.look(running(group=group(member(0), member(1, "m1b"), member(2))))
    assert bounds(fact) == (NOW_MS + STEP_MS, NOW_MS + 3 * STEP_MS + 100)


def test_other_staticgroup_and_other_cluster_have_no_past() -> None:
    """The former group's state does not apply to the new one: its members have not rejoined."""
    others = group(member(0, "x0"), member(1, "x1"), member(2, "x2"))
    for changes in ({"uid": "sg-2"}, {"kafka_cluster_id": "kc-2"}):
        observer = Observer()
        observer.look(running())
        uid = {"uid": changes.pop("uid")} if "uid" in changes else {}
        assert observer.look(running(group=others, **uid), **changes) == []
