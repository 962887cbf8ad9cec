"""Compare the journal with Kafka's own log: exact matches, and differences that no operator could avoid."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner.audit.accounts import Beat, seen_by, seen_spans
from fleet_learner.audit.compare import (
    LOOK_MS,
    Account,
    Fact,
    Finding,
    LogChange,
    LogRebalance,
    MemberFact,
    compare,
    log_rebalances,
)
from fleet_learner.audit.page import differences, document, lines
from fleet_learner.sources.offsets_evidence import ChangeKind

ALWAYS = ((0, 10_000_000),)


def found(at_ms: int, epoch: int = 0, group_type: str = "Classic") -> LogChange:
    return LogChange(kind=ChangeKind.FOUND, group_type=group_type, at_ms=at_ms, epoch=epoch)


def moved(at_ms: int, epoch: int, epochs: int = 1, group_type: str = "Classic") -> LogChange:
    return LogChange(kind=ChangeKind.REBALANCED, group_type=group_type, at_ms=at_ms, epoch=epoch, epochs=epochs)


def member(kind: ChangeKind, at_ms: int, instance_id: str, before: str, now: str | None = None) -> LogChange:
    return LogChange(
        kind=kind, group_type="Classic", at_ms=at_ms, instance_id=instance_id, member_id=now, previous_member_id=before
    )


def fact(lo_ms: int, hi_ms: int, epoch: int | None = None) -> Fact:
    return Fact(event_id=f"{lo_ms}-{hi_ms}-{epoch}", lo_ms=lo_ms, hi_ms=hi_ms, epoch=epoch)


def of(instance_id: str, member_id: str, at_ms: int = 500, *, is_claimed: bool = True) -> MemberFact:
    return MemberFact(instance_id=instance_id, member_id=member_id, at_ms=at_ms, is_claimed=is_claimed)


def audit(changes: list[LogChange], account: Account, *, from_ms: int = 0, tolerance_ms: int = 0) -> Finding:
    """Compare one group that was always watched unless its account says otherwise."""
    account = account if account.seen else replace(account, seen=ALWAYS)
    (one,) = compare({"g": changes}, {"g": account}, from_ms=from_ms, tolerance_ms=tolerance_ms)
    return one


def counts(finding: Finding) -> tuple[int, int, int, int, int, int]:
    """Return journal, log, merged, unseen, missing, extra."""
    r = finding.rebalances
    return r.journal, r.log, r.merged, r.unseen, len(r.missing), len(r.extra)


def test_a_rebalance_without_a_fact_is_missing_and_a_fact_without_one_is_extra_even_if_their_numbers_agree() -> None:
    one = audit([found(100), moved(200, 1), moved(600, 2)], Account(facts=[fact(150, 250), fact(300, 400)]))
    assert counts(one) == (2, 2, 0, 0, 1, 1)
    assert not one.agrees
    assert list(one.rebalances.missing) == [LogRebalance(epoch=2, lo_ms=600, hi_ms=600)]
    assert list(one.rebalances.extra) == [fact(300, 400)]


def test_bounds_that_overlap_by_a_look_are_shared_out_so_that_nothing_is_left() -> None:
    """The read that ends one fact begins the next: a rebalance at that moment may belong to either."""
    facts = [fact(100, 220), fact(200, 400)]
    assert counts(audit([found(50), moved(210, 1), moved(215, 2)], Account(facts=facts))) == (2, 2, 0, 0, 0, 0)
    assert counts(audit([found(50), moved(150, 1), moved(210, 2)], Account(facts=facts))) == (2, 2, 0, 0, 0, 0)


def test_clocks_may_differ_by_the_tolerance_and_no_more() -> None:
    account = Account(facts=[fact(150, 250)])
    for at_ms in (140, 260):
        changes = [found(100), moved(at_ms, 1)]
        assert not audit(changes, account, tolerance_ms=9).agrees
        assert audit(changes, account, tolerance_ms=10).agrees


def test_epochs_of_kip_848_are_matched_by_number_within_their_bounds() -> None:
    changes = [found(100, 1, "Consumer"), moved(200, 2, 1, "Consumer"), moved(220, 3, 1, "Consumer")]
    assert audit(changes, Account(facts=[fact(150, 250, 2), fact(150, 250, 3)])).agrees
    one = audit(changes, Account(facts=[fact(150, 250, 2)]))
    assert counts(one) == (1, 2, 0, 0, 1, 0), "numbers are never merged"
    assert counts(audit(changes, Account(facts=[fact(150, 250, 2), fact(150, 250, 4)]))) == (2, 2, 0, 0, 1, 1)
    elsewhere = audit(changes, Account(facts=[fact(150, 250, 2), fact(300, 400, 3)]))
    assert counts(elsewhere) == (2, 2, 0, 0, 1, 1)


def test_generations_without_a_record_ended_between_those_that_have_one() -> None:
    changes = [found(100, 4), moved(200, 5), moved(500, 8, 3)]
    assert log_rebalances(changes) == [
        LogRebalance(epoch=5, lo_ms=200, hi_ms=200),
        LogRebalance(epoch=6, lo_ms=200, hi_ms=500),
        LogRebalance(epoch=7, lo_ms=200, hi_ms=500),
        LogRebalance(epoch=8, lo_ms=500, hi_ms=500),
    ]
    facts = [fact(150, 210), fact(210, 300), fact(300, 400), fact(400, 510)]
    assert counts(audit(changes, Account(facts=facts))) == (4, 4, 0, 0, 0, 0)
    assert counts(audit(changes, Account(facts=[fact(150, 210), fact(210, 510)]))) == (2, 4, 2, 0, 0, 0)


def test_nothing_is_claimed_of_what_was_before_the_first_record() -> None:
    """Compaction removes old records; the first remaining one may be the rebalance of a fact, or come after it."""
    account = Account(facts=[fact(10, 50), fact(80, 120), fact(150, 250)], removals=[of("a", "m1", 50)])
    one = audit([found(100, 7), moved(200, 8)], account)
    assert counts(one) == (1, 1, 0, 0, 0, 0)
    assert one.removals.journal == 0
    assert one.agrees
    numbered = [found(100, 7, "Consumer"), moved(200, 8, 1, "Consumer")]
    assert audit(numbered, Account(facts=[fact(90, 150, n) for n in (6, 7)] + [fact(150, 250, 8)])).agrees
    assert not audit(numbered, Account(facts=[fact(90, 150, 9), fact(150, 250, 8)])).agrees


def test_a_group_that_the_log_does_not_know_differs() -> None:
    (one,) = compare({}, {"g": Account(facts=[fact(1, 2)])})
    assert not one.agrees
    assert "Kafka's log does not know this group" in list(differences(one))
    (nothing,) = compare({}, {"g": Account()})
    assert nothing.agrees


@pytest.mark.parametrize(
    ("seen", "agrees"),
    [
        (((0, 1_000_000),), True),
        (((0, 150_000), (250_000, 1_000_000)), True),
        (((0, 200_000 + LOOK_MS - 1),), True),
        (((0, 200_000 + LOOK_MS),), False),
        (((200_001, 1_000_000),), True),
        (((200_000, 1_000_000),), False),
    ],
)
def test_what_nobody_could_see_is_not_missing(seen: tuple[tuple[int, int], ...], agrees: bool) -> None:
    """Blind windows, the time before the first read, and the time after the last one, up to a read before the last
    beat."""
    at_ms = 500_000 if seen == ((0, 1_000_000),) else 200_000
    changes = [found(100), moved(at_ms, 1)]
    facts = [fact(at_ms - 1, at_ms + 1)] if at_ms == 500_000 else []
    one = audit(changes, Account(facts=facts, seen=seen))
    assert one.agrees is agrees
    assert one.rebalances.unseen == (1 if agrees and not facts else 0)


def test_what_was_before_the_beginning_does_not_count_and_still_pairs() -> None:
    changes = [found(100), moved(200, 1), moved(300, 2), member(ChangeKind.GONE, 200, "a", "m1")]
    account = Account(facts=[fact(150, 250), fact(180, 310)], removals=[of("a", "m1", 190)])
    one = audit(changes, account, from_ms=260)
    assert counts(one) == (1, 1, 0, 0, 0, 0)
    assert (one.removals.journal, one.removals.log) == (0, 0)
    late = audit([*changes[:3], member(ChangeKind.GONE, 300, "a", "m1")], account, from_ms=260)
    assert (late.removals.log, late.removals.others) == (1, 0), "removed before, gone in the log's next record"


def test_removals_are_matched_by_instance_and_member() -> None:
    changes = [found(100), member(ChangeKind.GONE, 510, "a", "m1"), member(ChangeKind.GONE, 510, "b", "m2")]
    one = audit(changes, Account(removals=[of("a", "m1")]))
    assert (one.removals.journal, one.removals.log, one.removals.others) == (1, 2, 1)
    assert one.agrees, "the other member was expelled, or left"
    for wrong in (of("a", "m2"), of("b", "m1"), of("c", "m1")):
        assert list(audit(changes, Account(removals=[wrong])).removals.unproven) == [wrong]


def test_a_removed_member_whose_id_is_taken_again_before_the_next_record_is_proven() -> None:
    changes = [found(100), moved(520, 1), member(ChangeKind.REPLACED, 520, "a", "m1", "m2")]
    one = audit(changes, Account(facts=[fact(400, 600)], removals=[of("a", "m1")]))
    assert (one.removals.journal, one.removals.log, one.removals.replaced) == (1, 0, 1)
    assert one.agrees


def test_a_removal_that_did_not_last_needs_no_proof() -> None:
    one = audit([found(100)], Account(removals=[of("a", "m1", is_claimed=False)]))
    assert one.agrees
    assert one.removals.journal == 0


def test_a_restart_called_absorbed_must_be_one_and_caution_is_no_difference() -> None:
    changes = [
        found(100),
        member(ChangeKind.ABSORBED, 400, "a", "m1", "m2"),
        member(ChangeKind.REPLACED, 450, "b", "m3", "m4"),
    ]
    right = Account(rejoins=[of("a", "m2"), of("b", "m4", is_claimed=False)])
    assert (audit(changes, right).absorbed.journal, audit(changes, right).absorbed.log) == (1, 1)
    assert audit(changes, right).agrees
    assert audit(changes, Account(rejoins=[of("a", "m2", is_claimed=False)])).agrees
    wrong = audit(changes, Account(rejoins=[of("b", "m4")]))
    assert list(wrong.absorbed.wrong) == [of("b", "m4")]
    assert not wrong.agrees


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.lists(st.integers(1, 61), max_size=8))
def test_whoever_looks_at_certain_times_agrees_with_the_log(times: list[int], looks: list[int]) -> None:
    """A journal from reads at these times has nothing missing and nothing extra, and merges only what it must.

    DescribeGroups shows no generation, so rebalances of a classic group between two reads are one fact.
    """
    rebalances = sorted(set(times))
    changes = [found(0), *(moved(10 * t, n) for n, t in enumerate(rebalances, 1))]
    at = sorted({0, 620, *(10 * look + 5 for look in looks)})
    facts = [fact(a, b) for a, b in pairwise(at) if any(a <= 10 * t <= b for t in rebalances)]
    one = audit(changes, Account(facts=facts))
    assert one.agrees
    assert counts(one) == (len(facts), len(rebalances), len(rebalances) - len(facts), 0, 0, 0)


# coverage ------------------------------------------------------------------------------------------------------------


def beat(at_ms: int, *unreachable: str, operator: str = "op", is_whole: bool = True) -> Beat:
    return Beat(
        k8s_cluster_uid="k", operator=(operator, "e"), at_ms=at_ms, interval_ms=30,
        unreachable=frozenset(unreachable), is_whole=is_whole,
    )  # fmt: skip


def seen(*beats: Beat) -> list[tuple[int, int]]:
    return seen_by(seen_spans(beats).get("k", ()), "ns/g")


def test_beats_of_one_operator_cover_the_time_between_them() -> None:
    assert seen(beat(0), beat(30), beat(60)) == [(0, 60)]
    assert seen(beat(0), beat(75), beat(151)) == [(0, 75)], "2.5 intervals and no more"
    assert seen(beat(0), beat(30, operator="other")) == []
    assert seen(beat(0), beat(30), beat(20, operator="other"), beat(50, operator="other")) == [(0, 50)]


def test_a_group_is_not_seen_where_it_could_not_be_read() -> None:
    assert seen(beat(0), beat(30, "ns/g"), beat(60), beat(90)) == [(60, 90)]
    assert seen(beat(0), beat(30, "ns/other"), beat(60)) == [(0, 60)]
    assert seen(beat(0), beat(30, is_whole=False), beat(60), beat(90)) == [(60, 90)], "the list was incomplete"


# output --------------------------------------------------------------------------------------------------------------


def test_what_differs_is_named_with_its_times() -> None:
    one = audit(
        [found(100), moved(1_790_812_800_123, 1)],
        Account(
            facts=[fact(1_000, 2_000)], removals=[of("a", "m1", 1_790_812_800_000)],
            rejoins=[of("b", "m2", 1_790_812_800_000)], seen=((0, 2_000_000_000_000),),
        ),
    )  # fmt: skip
    assert list(differences(one)) == [
        "missing in the journal: the rebalance to 1, 2026-10-01T00:00:00.123Z",
        "not in the log: a rebalance between 1970-01-01T00:00:01.000Z and 1970-01-01T00:00:02.000Z (1000-2000-None)",
        "removed by the journal, not gone from the log: a, member m1, 2026-10-01T00:00:00.000Z",
        "absorbed by the journal, not by the log: b, member m2, 2026-10-01T00:00:00.000Z",
    ]
    text = list(lines([one]))
    assert text[2].split() == ["g", "1", "1", "0", "0", "1", "1", "1", "0", "0", "1", "1", "0", "1", "differs"]
    assert text[3].startswith("    missing in the journal")


def test_a_name_neither_begins_a_line_nor_moves_the_cursor() -> None:
    odd = replace(audit([found(100)], Account()), group_id="g\nother 0 0\x1b[2J")
    text = list(lines([odd]))
    assert text[2].startswith("g\\nother 0 0\\x1b[2J ")
    assert all(line.isprintable() for line in text)


def test_the_document_for_programs_says_the_same() -> None:
    one = audit([found(100), moved(200, 1)], Account())
    made = document([one], kafka_cluster_id="kc", from_ms=5, tolerance_ms=7)
    assert (made["kafka_cluster_id"], made["from_ms"], made["tolerance_ms"], made["differing"]) == ("kc", 5, 7, 1)
    assert made["groups"][0]["rebalances"]["missing"] == [{"epoch": 1, "lo_ms": 200, "hi_ms": 200}]
    assert made["groups"][0]["agrees"] is False
