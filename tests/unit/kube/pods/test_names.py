"""Which names keep their history over a gap: names are unique, and a uid never comes back on one timeline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.kube.pods.names import EPOCHS_MAX, Name, NameContinuity, Sighting


def name(ordinal: int = 0, namespace: str = "shop", workload: str = "web") -> Name:
    return namespace, f"{workload}-{ordinal}"


def gap(names: NameContinuity, before: dict[Name, Sighting], after: dict[Name, Sighting], ended: str, scope: str = "") -> None:
    names.begin_gap(scope, before)
    names.end_gap(scope, after)
    names.draw(ended)


def fixed(uid: str) -> Sighting:
    return Sighting(uid=uid, ids_are_fixed=True)


def test_name_with_the_same_object_at_both_ends_stays_unbroken() -> None:
    names = NameContinuity(("",))
    gap(names, {name(): Sighting(uid="a")}, {name(): Sighting(uid="a")}, "e1")
    assert names.epochs(*name()) == {"e1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({name(): Sighting(uid="a")}, {name(): Sighting(uid="b")}),
        ({name(): Sighting(uid="a")}, {}),
        ({}, {name(): Sighting(uid="a")}),
        ({}, {}),
    ],
    ids=["another object", "none after", "none before", "none at either end"],
)
def test_name_without_the_same_object_at_both_ends_is_blind_over_the_gap(
    before: dict[Name, Sighting], after: dict[Name, Sighting]
) -> None:
    names = NameContinuity(("",))
    gap(names, before, after, "e1")
    assert names.epochs(*name()) == frozenset()


def test_name_that_stayed_over_two_gaps_is_unbroken_since_before_the_first() -> None:
    names = NameContinuity(("",))
    there = {name(): fixed("a"), name(1): fixed("b")}
    gap(names, there, there, "e1")
    gap(names, there, {name(): fixed("a")}, "e2")
    assert names.epochs(*name()) == {"e1", "e2"}
    assert names.epochs(*name(1)) == frozenset()


def test_object_that_went_in_the_gap_and_whose_ids_could_be_edited_leaves_no_seat_clear() -> None:
    """It may have been started again with the id of another seat before it went."""
    names = NameContinuity(("",))
    gap(names, {name(): fixed("a"), name(1): Sighting(uid="b")}, {name(): fixed("a")}, "e1")
    assert names.epochs(*name()) == frozenset()


def test_name_that_was_blind_once_is_unbroken_from_the_next_epoch_on_only() -> None:
    names = NameContinuity(("",))
    gap(names, {}, {name(): Sighting(uid="a")}, "e1")
    gap(names, {name(): Sighting(uid="a")}, {name(): Sighting(uid="a")}, "e2")
    assert names.epochs(*name()) == {"e2"}


def test_second_gap_before_the_first_one_ended_counts_from_the_first() -> None:
    names = NameContinuity(("",))
    names.begin_gap("", {name(): Sighting(uid="a")})
    names.begin_gap("", {name(): Sighting(uid="b")})  # a page of the interrupted LIST was folded
    names.end_gap("", {name(): Sighting(uid="b")})
    names.draw("e1")
    assert names.epochs(*name()) == frozenset()


def test_second_gap_before_the_epoch_was_drawn_keeps_only_what_stayed_over_the_first() -> None:
    names = NameContinuity(("shop", "bill"))
    names.begin_gap("shop", {name(): Sighting(uid="a")})
    names.end_gap("shop", {name(): Sighting(uid="b")})
    names.begin_gap("shop", {name(): Sighting(uid="b")})
    names.end_gap("shop", {name(): Sighting(uid="b")})
    names.draw("e1")
    assert names.epochs(*name()) == frozenset()


def test_scope_without_a_gap_stays_unbroken_for_every_name_also_those_nobody_knows() -> None:
    names = NameContinuity(("shop", "bill"))
    gap(names, {}, {}, "e1", scope="shop")
    assert names.of_scope("bill") == {"e1"}
    assert names.epochs(*name(7, namespace="bill")) == {"e1"}
    assert names.of_scope("shop") == frozenset()


def test_container_that_restarted_while_nobody_looked_may_have_carried_the_id_of_any_seat() -> None:
    """Annotations can be edited, are read again when a container starts, and edited back."""
    names = NameContinuity(("",))
    before = {name(): Sighting(uid="a"), name(1): Sighting(uid="b"), name(workload="other"): Sighting(uid="c")}
    gap(names, before, before | {name(): Sighting(uid="a", restarts=1)}, "e1")
    assert names.epochs(*name()) == names.epochs(*name(1)) == frozenset()
    assert names.epochs(*name(workload="other")) == {"e1"}


def test_restart_of_a_container_whose_ids_cannot_be_edited_breaks_nothing() -> None:
    names = NameContinuity(("",))
    before = {name(): Sighting(uid="a", ids_are_fixed=True)}
    gap(names, before, {name(): Sighting(uid="a", restarts=1, ids_are_fixed=True)}, "e1")
    assert names.epochs(*name()) == {"e1"}


def test_nothing_stays_when_the_server_goes_back_in_time() -> None:
    names = NameContinuity(("shop", "bill"))
    there = {name(): Sighting(uid="a")}
    gap(names, there, there, "e1", scope="shop")
    names.rewind()
    names.end_gap("shop", there)
    names.draw("e2")
    assert names.epochs(*name()) == names.of_scope("bill") == frozenset()


def test_epoch_that_ends_by_name_only_is_kept_for_every_name() -> None:
    names = NameContinuity(("",))
    names.keep_all("own")
    assert names.epochs(*name(9)) == {"own"}
    gap(names, {}, {}, "e2")
    assert names.epochs(*name(9)) == frozenset()


def test_number_of_remembered_epochs_is_bounded() -> None:
    names = NameContinuity(("",))
    there = {name(): Sighting(uid="a")}
    for number in range(100):
        gap(names, there, there, f"e{number}")
    assert len(names.epochs(*name())) == EPOCHS_MAX


_UIDS = st.none() | st.sampled_from("abcd")


@given(st.lists(st.tuples(_UIDS, st.booleans()), min_size=1, max_size=12))
def test_unbroken_since_an_epoch_means_that_one_object_had_the_name_over_every_gap_since(
    looks: list[tuple[str | None, bool]],
) -> None:
    """Each look is what a LIST shows; between two looks there is a gap, or the watch shows every change."""
    names, epoch, since = NameContinuity(("",)), 0, {0}
    uid: str | None = None
    for shown, is_gap in looks:
        if is_gap:
            before = {name(): Sighting(uid=uid)} if uid else {}
            after = {name(): Sighting(uid=shown)} if shown else {}
            gap(names, before, after, f"e{epoch}")
            since = since | {epoch + 1} if uid is not None and uid == shown else {epoch + 1}
            epoch += 1
        uid = shown
    assert names.epochs(*name()) <= {f"e{n}" for n in since}
