"""A person's word closes one suspicion, never a life, and never one that began after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api.resources.confirmation import PodEndConfirmation
from staticgroup.api.resources.gapconfirmation import WatchGapConfirmation
from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import Incarnation, IncarnationState, fold, judge, vanish
from staticgroup.core.evidence.spans import EVERY_ORDINAL, BlindSpan, GapWord
from staticgroup.core.evidence.words import (
    STATEMENT_MAX,
    Word,
    confirmed,
    gap_word_of,
    still_holds,
    taken_back,
    word_of,
)
from staticgroup.core.findings.seats import findings_of_seats
from staticgroup.core.guards import Guard
from staticgroup.core.plan import plan
from staticgroup.core.status.exceptions import MESSAGE_MAX, exceptions_of

from .builders import NODE, NOW_S, checkpoint, departure, ended, fresh, history, id_of, incarnation, pod_version, spec

SUSPECT = incarnation(state=IncarnationState.SUSPECT, refusal="its object vanished uncertified", since_s=NOW_S - 60.5)


def word(**changes: Any) -> Word:
    values: dict[str, Any] = {
        "namespace": "shop", "pod_name": "web-2", "pod_uid": "u2", "said_by": "alice",
        "statement": "node n1 was scrapped", "said_at_s": NOW_S - 30,
    }  # fmt: skip
    return Word(**(values | changes))


def test_a_suspect_is_dead_by_the_word_about_it_since_it_was_said() -> None:
    dead = confirmed(SUSPECT, [word()])
    assert (dead.state, dead.since_s, dead.refusal) == (IncarnationState.DEAD, NOW_S - 30, "")
    assert dead.certificate is not None
    assert (dead.certificate.kind.value, dead.certificate.said_by) == ("E2", "alice")
    assert dead.certificate.statement == "confirmed by alice: node n1 was scrapped"
    assert judge(id_of(2), [dead], continuous=True).is_proven


@pytest.mark.parametrize(
    "known",
    [
        incarnation(since_s=NOW_S - 60),
        replace(SUSPECT, object_present=True),
        incarnation(state=IncarnationState.DEAD),
    ],
    ids=["living", "present", "dead by proof"],
)
def test_nothing_but_a_suspect_without_an_object_is_confirmed(known: Incarnation) -> None:
    assert confirmed(known, [word()]) is known


@pytest.mark.parametrize("other", [{"pod_uid": "u3"}, {"pod_name": "web-1"}, {"namespace": "market"}])
def test_a_word_about_another_pod_does_not_count(other: dict[str, str]) -> None:
    assert confirmed(SUSPECT, [word(**other)]) is SUSPECT


def test_a_word_counts_from_the_second_in_which_the_suspicion_began() -> None:
    """The API server writes whole seconds, and so does a ledger."""
    began = int(SUSPECT.since_s)
    assert confirmed(SUSPECT, [word(said_at_s=began)]).state is IncarnationState.DEAD
    assert confirmed(SUSPECT, [word(said_at_s=began - 1)]) is SUSPECT


def test_one_of_several_words_is_enough() -> None:
    assert confirmed(SUSPECT, [word(said_at_s=0.0), word()]).state is IncarnationState.DEAD


def test_an_object_that_is_seen_again_lives_and_the_word_does_not_count_after_its_next_vanish() -> None:
    again = fold(confirmed(SUSPECT, [word()]), pod_version(resource_version=300), NODE, from_birth=False, now_s=NOW_S)
    assert (again.state, again.certificate, again.since_s) == (IncarnationState.LIVE, None, NOW_S)
    assert not judge(id_of(2), [again], continuous=True).is_proven
    gone = vanish(again, now_s=NOW_S + 1)
    assert confirmed(gone, [word()]).state is IncarnationState.SUSPECT
    assert confirmed(gone, [word(said_at_s=NOW_S + 1)]).state is IncarnationState.DEAD


def test_an_object_that_is_seen_again_and_ends_has_the_kubelets_proof_instead() -> None:
    again = fold(confirmed(SUSPECT, [word()]), ended(resource_version=300), NODE, from_birth=False, now_s=NOW_S)
    assert again.certificate is not None
    assert again.certificate.kind is CertificateKind.ENDED


def test_only_a_word_is_taken_back() -> None:
    proven = incarnation(state=IncarnationState.DEAD)
    assert taken_back(proven, now_s=NOW_S) is proven
    void = taken_back(confirmed(SUSPECT, [word()]), now_s=NOW_S)
    assert (void.state, void.certificate, void.since_s) == (IncarnationState.SUSPECT, None, NOW_S)
    assert "alice" in void.refusal
    assert confirmed(void, [word()]) is void


def test_a_ledger_brings_back_no_word_that_is_older_than_the_suspicion() -> None:
    entry = confirmed(SUSPECT, [word()])
    assert still_holds(entry, SUSPECT)
    assert not still_holds(entry, replace(SUSPECT, since_s=NOW_S))
    assert not still_holds(entry, incarnation(since_s=NOW_S - 60))
    assert still_holds(incarnation(state=IncarnationState.DEAD), incarnation())


def confirmation(**spec_changes: Any) -> PodEndConfirmation:
    said = {"podName": "web-2", "podUid": "u2", "statement": "node n1 was scrapped", "by": "alice"}
    created = datetime.fromtimestamp(NOW_S - 30, tz=UTC).isoformat()
    metadata = {"namespace": "shop", "name": "u2", "creationTimestamp": created}
    return PodEndConfirmation.from_wire({"metadata": metadata, "spec": said | spec_changes})


def test_the_resource_is_translated() -> None:
    assert word_of(confirmation()) == word()


def test_free_texts_become_one_printable_line_and_are_bounded() -> None:
    said = word_of(confirmation(statement="a\n\x1b[31mb\u202e" + "c" * 480, by="\u200b"))
    assert said.statement.startswith("a [31mb c")
    assert said.said_by == "(nothing readable)"
    certificate = confirmed(SUSPECT, [said]).certificate
    assert certificate is not None
    assert len(certificate.statement) == STATEMENT_MAX


def test_a_resource_without_a_creation_time_confirms_nothing() -> None:
    body = confirmation().model_copy(update={"metadata": confirmation().metadata.model_copy(update={"creation_timestamp": None})})
    assert confirmed(SUSPECT, [word_of(body)]) is SUSPECT


def test_a_departed_member_is_removed_on_the_word_about_its_suspect_and_held_without_it() -> None:
    held = plan(spec(), departure(chains={id_of(2): (SUSPECT,)}), history(), NOW_S)
    assert [h.reason for h in held.held] == [Guard.CHAIN]
    removed = plan(spec(), departure(chains={id_of(2): (confirmed(SUSPECT, [word()]),)}), history(), NOW_S)
    assert [r.entry.instance_id for action in removed.actions for r in action.removals] == [id_of(2)]


def test_an_object_that_is_read_again_holds_the_removal_though_its_end_was_confirmed() -> None:
    """The read of the removal may be ahead of the watch, which has not seen the object come back."""
    dead = confirmed(SUSPECT, [word()])
    held = plan(spec(), departure(chains={id_of(2): (dead,)}, fresh={id_of(2): fresh(objects=(("web-2", "u2"),))}), history(), NOW_S)
    assert [h.reason for h in held.held] == [Guard.POD_PRESENT]
    assert not held.actions


def test_the_message_of_a_suspect_names_the_way_out_however_long_the_cause_is() -> None:
    way_out = "if its process has surely ended: staticgroup -n shop confirm --list"
    assert judge(id_of(2), [SUSPECT], continuous=True).remedy == way_out
    long = replace(SUSPECT, refusal="x" * 400)
    snapshot = departure(chains={id_of(2): (long,)})
    rows = exceptions_of(findings_of_seats(plan(spec(), snapshot, history(), NOW_S), snapshot, [long]), [], datetime.fromtimestamp(NOW_S, tz=UTC))
    for kind in ("Suspect", "Held"):
        (row,) = (r for r in rows if r.kind == kind)
        assert row.message.endswith(way_out)
        assert len(row.message) == MESSAGE_MAX


def gap_word(**metadata: Any) -> GapWord:
    said = {"since": "2027-01-15T08:00:00Z", "until": "2027-01-15T08:05:00Z", "statement": "all\nwiped", "by": "alice"}
    return gap_word_of(WatchGapConfirmation.from_wire({"metadata": {"name": "word"} | metadata, "spec": said}))


def test_a_word_about_a_gap_is_read_from_its_resource() -> None:
    begin_s = datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()
    assert gap_word(creationTimestamp="2027-01-15T09:00:00Z") == GapWord(
        since_s=begin_s, until_s=begin_s + 300, said_at_s=begin_s + 3600, said_by="alice", statement="all wiped"
    )


def test_a_word_about_a_gap_that_was_said_nobody_knows_when_closes_nothing() -> None:
    begin_s = datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()
    span = BlindSpan(ordinals=EVERY_ORDINAL, since_s=begin_s, until_s=begin_s + 300, reason="WatchGap")
    assert not gap_word().closes(span)
    assert gap_word(creationTimestamp="2027-01-15T08:05:00Z").closes(span)


@pytest.mark.parametrize("times", [1, 2, 8])
def test_the_message_of_a_gap_keeps_the_way_out_however_often_nobody_looked(times: int) -> None:
    spans = tuple(
        BlindSpan(ordinals=EVERY_ORDINAL, since_s=60 * n, until_s=60 * n + 30, reason="MemoryLost") for n in range(times)
    )
    snapshot = departure(continuity=checkpoint(blind=spans))
    rows = exceptions_of(findings_of_seats(plan(spec(), snapshot, history(), NOW_S), snapshot, []), [], datetime.fromtimestamp(NOW_S, tz=UTC))
    (row,) = (r for r in rows if r.reason == "WatchGap")
    assert row.message.endswith("staticgroup confirm-gap --list")
    assert spans[-1].words in row.message
    assert (f"and {times - 1} times before" in row.message) is (times > 1)
