"""What one description adds to what is remembered of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.resources.memory import TEMPLATES_MAX
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.members.memory import (
    PAUSE_MAX_S,
    SETTLE_MIN_S,
    Members,
    Sight,
    described,
    settle_s,
    watch_under,
    with_living,
    without_ended,
)
from unit.core.builders import NOW_S, WATCH, attributed, id_of, members, sight, suspect

SETTLE_S = 600.0
AT_S = 10_000.0
NOBODY = Members(watch=WATCH, watch_described=WATCH)


def look(remembered: Members, held: Mapping[int, str | None], seen: Sight) -> Members:
    """One description, in which members hold the ids of these ordinals."""
    return described(
        remembered, {id_of(n): m for n, m in held.items()}, seen, lambda s, i: i in s.instance_ids, settle_s=SETTLE_S
    )


def shown(**changes: Any) -> Sight:
    return sight(**({"ended": frozenset(), "carrying": {id_of(2): frozenset({"u2"})}} | changes))


def carriers(after: Members, ordinal: int = 2) -> set[str] | None:
    found = after.attributions.get(id_of(ordinal))
    return set(found.carriers) if found is not None else None


# members that are described for the first time ------------------------------------------------------------------------


def test_member_is_attributed_to_the_pods_that_carry_its_id_when_it_is_described_first() -> None:
    after = look(NOBODY, {2: "m2"}, shown())
    assert carriers(after) == {"u2"}
    assert after.first_seen_s(id_of(2), "m2") == NOW_S
    assert after.first_seen_s(id_of(2), "another") is None


def test_member_that_is_described_again_keeps_its_carriers_whatever_pods_came_since() -> None:
    """A pod that was born after the member joined is no carrier."""
    first = look(NOBODY, {2: "m2"}, shown())
    later = look(first, {2: "m2"}, shown(carrying={id_of(2): frozenset({"u2", "u9"})}, dated_at_s=NOW_S + 60))
    assert carriers(later) == {"u2"}
    assert later.first_seen_s(id_of(2), "m2") == NOW_S


def test_member_that_takes_the_place_of_another_is_attributed_by_itself() -> None:
    first = look(NOBODY, {2: "m2"}, shown())
    assert carriers(look(first, {2: "m9"}, shown(carrying={id_of(2): frozenset({"u2", "u9"})}))) == {"u2", "u9"}


def test_description_without_a_barrier_behind_it_is_none_for_whom_it_shows_first() -> None:
    """The pod of the member may be one that the watch has not shown yet."""
    after = look(NOBODY, {2: "m2"}, shown(has_passed=False))
    assert carriers(after) is None
    assert after == NOBODY


def test_description_without_a_barrier_counts_where_it_shows_no_new_member() -> None:
    first = look(NOBODY, {2: "m2"}, shown())
    kept = look(replace(first, suspects=(suspect("y", 1),)), {2: "m2"}, shown(has_passed=False))
    assert kept.suspects[0].silent_since_s == AT_S


def test_description_while_the_watch_is_not_whole_is_none() -> None:
    assert look(NOBODY, {2: "m2"}, shown(watch="")) == NOBODY


def test_id_of_several_members_is_attributed_to_none_and_takes_no_attribution_away() -> None:
    first = look(NOBODY, {2: "m2"}, shown())
    assert carriers(look(first, {2: None}, shown())) == {"u2"}
    assert carriers(look(NOBODY, {2: None}, shown())) is None


def test_pod_that_the_address_names_is_the_only_carrier_that_was_seen() -> None:
    many = shown(carrying={id_of(2): frozenset({"u2", "z"})}, addressed={id_of(2): "u2"})
    assert carriers(look(NOBODY, {2: "m2"}, many)) == {"u2"}
    young = replace(NOBODY, watch="before")
    assert carriers(look(young, {2: "m2"}, many)) == {"u2", UNSEEN}, "an unseen pod may have had the address before"


def test_member_before_is_without_the_pods_that_ended_meanwhile() -> None:
    """Its seat may be described empty for a moment; when it is described again, its carriers cannot end a second
    time."""
    first = look(NOBODY, {2: "m2"}, shown(carrying={id_of(2): frozenset({"u2", "z"})}))
    away = look(look(first, {}, shown()), {}, shown(ended=frozenset({"z"})))
    assert carriers(look(away, {2: "m2"}, shown(carrying={id_of(2): frozenset({"u2", "x"})}))) == {"u2"}


def test_member_is_dead_where_its_pod_ended_between_the_descriptions() -> None:
    none_left = {"carrying": {}, "ends": 5, "last_end": {id_of(2): 5}}
    assert carriers(look(replace(NOBODY, ends_seen=4), {2: "m2"}, shown(**none_left))) == set()
    assert carriers(look(replace(NOBODY, ends_seen=5), {2: "m2"}, shown(**none_left))) == {UNATTRIBUTED}


def test_an_end_counts_only_for_ids_that_its_pod_carried() -> None:
    of_another = shown(carrying={}, ends=5, last_end={id_of(1): 5})
    assert carriers(look(replace(NOBODY, ends_seen=4), {2: "m2"}, of_another)) == {UNATTRIBUTED}


def test_ends_are_counted_by_the_last_description() -> None:
    assert look(NOBODY, {}, shown(ends=7)).ends_seen == 7


# what becomes of it ---------------------------------------------------------------------------------------------------


def test_end_takes_its_pod_out_of_all_carriers_and_suspects() -> None:
    before = members({1: ["u1", "z"], 2: ["z"]}, suspects=(suspect("z"), suspect("y", 1)))
    after = without_ended(before, sight(ended=frozenset({"z"})))
    assert (carriers(after, 1), carriers(after, 2)) == ({"u1"}, set())
    assert [s.uid for s in after.suspects] == ["y"]


def test_no_time_takes_a_suspect_out_of_the_carriers_of_a_member() -> None:
    now = members({2: ["z"]}, suspects=(suspect("z", silent_since_s=0.0),))
    after = look(now, {0: "m0", 1: "m1"}, shown(described_at_s=1_000_000.0))
    held = look(now, {0: "m0", 1: "m1", 2: "m2"}, shown(described_at_s=1_000_000.0))
    assert carriers(held) == {"z"}
    assert [s.uid for s in after.suspects] == ["z"], "a pause as long as that is no silence"


def test_member_that_is_not_described_any_more_is_forgotten_unless_its_pod_is_guessed() -> None:
    """An id that is described empty for once may be held by the same member again."""
    now = members({0: ["u0"], 1: [UNSEEN, "u1"], 2: [UNATTRIBUTED]})
    after = look(now, {}, shown())
    assert set(after.attributions) == {id_of(1), id_of(2)}
    again = look(after, {1: "m1", 2: "m2"}, shown())
    assert (carriers(again, 1), carriers(again, 2)) == ({UNSEEN, "u1"}, {UNATTRIBUTED})


def test_nothing_new_leaves_what_is_remembered_as_it_is() -> None:
    now = members()
    assert without_ended(now, sight(ended=frozenset())) is now


# suspects -------------------------------------------------------------------------------------------------------------


def test_suspect_of_the_pod_store_is_taken_in_once() -> None:
    lost = suspect("z")
    first = without_ended(NOBODY, sight(suspects=(lost,)))
    assert first.suspects == (lost,)
    dropped = replace(first, suspects=())
    assert without_ended(dropped, sight(suspects=(lost,))).suspects == ()
    assert without_ended(dropped, sight(suspects=(replace(lost, since_s=NOW_S),))).suspects != (), (
        "it was there again, and is lost again"
    )


def test_suspect_of_the_pod_store_replaces_that_of_the_status() -> None:
    written, known = suspect("z", silent_since_s=5.0), suspect("z", since_s=NOW_S, node_name="n7")
    assert without_ended(replace(NOBODY, suspects=(written,)), sight(suspects=(known,))).suspects == (known,)


def test_suspect_that_has_ended_meanwhile_is_none() -> None:
    assert without_ended(NOBODY, sight(suspects=(suspect("u2"),), ended=frozenset({"u2"}))).suspects == ()


def test_suspect_that_is_there_after_all_is_none() -> None:
    now = replace(NOBODY, suspects=(suspect("z"), suspect("y", 1)))
    assert [s.uid for s in without_ended(now, sight(back=frozenset({"z"}))).suspects] == ["y"]


def test_suspects_are_remembered_also_without_a_description() -> None:
    for seen in (shown(suspects=(suspect(),), watch=""), shown(suspects=(suspect(),), has_passed=False)):
        assert [s.uid for s in look(NOBODY, {2: "m2"}, seen).suspects] == ["z"]


def descriptions(
    now: Members, every_s: float, count: int, held: Mapping[int, str | None] | None = None, **changes: Any
) -> Members:
    for n in range(count):
        now = look(now, held or {}, shown(described_at_s=AT_S + n * every_s, **changes))
    return now


def test_suspect_is_dropped_after_a_silence_of_descriptions_that_lie_close_together() -> None:
    lost = replace(NOBODY, suspects=(suspect(),))
    assert descriptions(lost, 60.0, 10).suspects != ()
    assert descriptions(lost, 60.0, 11).suspects == ()
    assert descriptions(lost, PAUSE_MAX_S, 6).suspects == ()
    assert descriptions(lost, PAUSE_MAX_S + 1, 50).suspects != ()


def test_clock_that_goes_back_is_a_pause() -> None:
    silent = descriptions(replace(NOBODY, suspects=(suspect(),)), 60.0, 9)
    (kept,) = look(silent, {}, shown(described_at_s=AT_S - 1)).suspects
    assert kept.silent_since_s == AT_S - 1


def test_suspect_holds_the_member_that_joins_before_it_is_dropped_and_none_after_that() -> None:
    lost = replace(NOBODY, suspects=(suspect(),))
    beside = look(lost, {2: "m2"}, shown(carrying={id_of(2): frozenset({"u9", "z"})}))
    assert carriers(beside) == {"u9", "z"}
    assert beside.suspects[0].silent_since_s is None


def test_silence_is_counted_only_while_something_is_waited_for() -> None:
    assert look(NOBODY, {}, shown()).described_at_s is None
    assert look(replace(NOBODY, suspects=(suspect(),)), {}, shown()).described_at_s == AT_S


# the watch ------------------------------------------------------------------------------------------------------------


YOUNG = Members(watch="before", watch_described="before")


def test_member_that_is_first_described_under_a_young_watch_may_be_of_an_unseen_pod() -> None:
    assert carriers(look(YOUNG, {2: "m2"}, shown())) == {"u2", UNSEEN}
    assert carriers(look(Members(), {2: "m2"}, shown())) == {"u2", UNSEEN}


def test_member_that_was_described_before_the_watch_began_anew_keeps_its_carriers() -> None:
    known = replace(YOUNG, attributions={id_of(2): attributed("m2", "u2")})
    assert carriers(look(known, {2: "m2"}, shown())) == {"u2"}


def test_watch_is_young_until_a_second_description_after_it_has_been_whole_for_a_silence() -> None:
    early = look(YOUNG, {}, shown())
    assert early.watch == "before"
    assert look(early, {}, shown(described_at_s=AT_S + SETTLE_S)).watch == WATCH
    assert look(YOUNG, {}, shown(described_at_s=AT_S + SETTLE_S)).watch == "before", (
        "the first description after it began cannot know who left before"
    )
    assert look(early, {}, shown(described_at_s=AT_S + SETTLE_S - 0.1)).watch == "before"


def test_memory_that_was_emptied_under_a_watch_that_is_days_old_waits_as_one_of_a_new_watch_does() -> None:
    """The suspects are lost with it, and the watch does not deliver them again."""
    early = look(Members(), {}, shown())
    soon = look(early, {}, shown(described_at_s=AT_S + 30.0))
    assert carriers(look(soon, {2: "m2"}, shown(described_at_s=AT_S + 60.0))) == {"u2", UNSEEN}


def test_restart_begins_the_wait_anew() -> None:
    """What a process that is gone described is in no memory."""
    early = look(YOUNG, {}, shown())
    assert (
        look(replace(early, watch_described="", young_since_s=None), {}, shown(described_at_s=AT_S + SETTLE_S)).watch
        == "before"
    )


def test_whom_the_description_that_ends_the_youth_of_the_watch_shows_first_joined_before() -> None:
    early = look(YOUNG, {}, shown())
    last = look(early, {2: "m2"}, shown(described_at_s=AT_S + SETTLE_S))
    assert carriers(last) == {"u2", UNSEEN}
    assert carriers(look(last, {2: "m3"}, shown())) == {"u2"}


def test_watch_that_begins_anew_is_young_again() -> None:
    grown = look(look(YOUNG, {}, shown()), {}, shown(described_at_s=AT_S + SETTLE_S))
    anew = look(grown, {2: "m2"}, shown(watch="another", described_at_s=AT_S + 2 * SETTLE_S))
    assert carriers(anew) == {"u2", UNSEEN}
    assert (anew.watch, anew.watch_described) == (WATCH, "another")


def test_young_watch_that_was_described_without_a_barrier_for_whom_is_new_was_not_described() -> None:
    early = look(YOUNG, {2: "m2"}, shown(has_passed=False))
    assert look(early, {}, shown(described_at_s=AT_S + SETTLE_S)).watch == "before"


# how long a silence lasts, and which members it does not free ---------------------------------------------------------


def test_silence_is_the_longest_of_what_a_process_may_take() -> None:
    assert settle_s(SETTLE_MIN_S, (), ()) == 600.0
    assert settle_s(600.0, (45_000, 400_000), (30.0,)) == 800.0
    assert settle_s(600.0, (45_000,), (30.0, 3_600.0)) == 3_600.0


@pytest.mark.parametrize("ends", [0, 9])
def test_member_whose_durable_leave_was_acknowledged_is_of_an_unknown_pod(ends: int) -> None:
    now = members({2: []}, ends_seen=ends)
    after = with_living(now, {id_of(1): "m1", id_of(2): "m2"}, {id_of(2): "m2"}, NOW_S)
    assert (carriers(after, 1), carriers(after, 2)) == ({"u1"}, {UNATTRIBUTED})
    assert after.first_seen_s(id_of(2), "m2") == NOW_S - 300


def test_next_member_of_its_seat_or_none_is_not_it() -> None:
    now = members()
    assert with_living(now, {id_of(2): "m9"}, {id_of(2): "m2"}, NOW_S) is now
    assert with_living(now, {id_of(2): None}, {id_of(2): "m2"}, NOW_S) is now
    assert with_living(now, {}, {id_of(2): "m2"}, NOW_S) is now


def test_watch_under_which_ids_were_issued_before_any_brokers_were_known_is_young_under_none() -> None:
    first = look(Members(watch="w"), {2: "m2"}, shown(watch=watch_under("w", "a")))
    assert (carriers(first), first.watch) == ({"u2"}, watch_under("w", "a"))
    assert carriers(look(first, {2: "m3"}, shown(watch=watch_under("w", "b")))) == {"u2", UNSEEN}
    assert carriers(look(Members(watch=""), {2: "m2"}, shown(watch="w"))) == {"u2", UNSEEN}
    assert watch_under("", "a") == ""


@pytest.mark.parametrize(
    ("before", "now", "is_young"),
    [
        (watch_under("w", "a", ["x"]), watch_under("w", "a", ["x"]), False),
        (watch_under("w", "a", ["x", "y"]), watch_under("w", "a", ["y"]), False),
        (watch_under("w", "a", ["x"]), watch_under("w", "a"), False),
        (watch_under("w", "a", ["x"]), watch_under("w", "a", ["x", "y"]), True),
        (watch_under("w", "a"), watch_under("w", "a", ["x"]), True),
        (watch_under("w", "a", ["x"]), watch_under("w", "b", ["x"]), True),
        (watch_under("w", "a", ["x"]), watch_under("v", "a", ["x"]), True),
        ("w", watch_under("w", "a", ["x"]), True),
        ("", "w", True),
    ],
    ids=["the same", "fewer rules", "none left", "more rules", "the first rule", "other brokers", "another watch",
         "rules before any brokers", "no watch"],
)  # fmt: skip
def test_ids_without_a_scope_are_as_old_as_the_rule_that_makes_them_ours(before: str, now: str, is_young: bool) -> None:
    after = look(Members(watch=before, watch_described=now), {2: "m2"}, shown(watch=now))
    assert carriers(after) == ({"u2", UNSEEN} if is_young else {"u2"})


def test_a_moment_at_another_cluster_leaves_the_watch_as_old_as_it_was() -> None:
    here, there = watch_under("w", "a"), watch_under("w", "b")
    away = look(Members(watch=here, watch_described=here), {2: "m2"}, shown(watch=there))
    assert carriers(away) == {"u2", UNSEEN}
    assert carriers(look(away, {2: "m3"}, shown(watch=here))) == {"u2"}


def test_a_status_has_room_for_every_rule() -> None:
    assert len(watch_under("1796033843-1ece1262", "b", [str(n) for n in range(TEMPLATES_MAX + 1)])) <= 128
