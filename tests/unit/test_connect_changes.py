"""The judge of change events can say no: to what is lost, skipped, made up, or not ended by its tombstone."""

from __future__ import annotations

import pytest

from support.connect.changes import Change, Event, judge, replayed

HISTORY = [
    Change(number=1, op="c", key=1, before=None, after=10, committed_ms=0),
    Change(number=2, op="c", key=2, before=None, after=11, committed_ms=0),
    Change(number=3, op="u", key=1, before=10, after=12, committed_ms=1000),
    Change(number=4, op="d", key=2, before=11, after=None, committed_ms=2000),
    Change(number=5, op="u", key=1, before=12, after=13, committed_ms=3000),
    Change(number=6, op="c", key=2, before=None, after=14, committed_ms=4000),
]
READ_1 = Event(op="r", key=1, after=10)
READ_2 = Event(op="r", key=2, after=11)
UPDATED = Event(op="u", key=1, before=10, after=12, appended_ms=1500)
DELETED = Event(op="d", key=2, before=11, appended_ms=2100)
TOMBSTONE = Event(op="", key=2)
AGAIN = Event(op="u", key=1, before=12, after=13, appended_ms=3100)
CREATED = Event(op="c", key=2, after=14, body="back", appended_ms=4100)
WHOLE = [READ_1, READ_2, UPDATED, DELETED, TOMBSTONE, AGAIN, CREATED]


def test_a_whole_topic_is_right_and_has_delays() -> None:
    account = judge(HISTORY, WHOLE)
    assert (account.snapshot, account.streamed, account.again, account.wrong) == (2, 4, 0, [])
    assert account.delays_ms == [(1000, 500), (3000, 100), (2000, 100), (4000, 100)]


def test_a_connector_may_go_back_and_repeat_records() -> None:
    account = judge(HISTORY, [READ_1, READ_2, READ_2, *WHOLE[2:], UPDATED, DELETED, TOMBSTONE, AGAIN, CREATED])
    assert (account.snapshot, account.streamed, account.again, account.wrong) == (2, 4, 5, [])
    assert account.delays_ms[0] == (1000, 500)  # of the first report


@pytest.mark.parametrize("missing", [event for event in WHOLE if event is not TOMBSTONE])
def test_one_missing_event_is_seen(missing: Event) -> None:
    assert judge(HISTORY, [event for event in WHOLE if event is not missing]).wrong


def test_a_missing_tombstone_is_seen() -> None:
    untold = [event for event in WHOLE if event is not TOMBSTONE]
    assert judge(HISTORY, untold).wrong == ["2: a delete without tombstone"]
    assert judge(HISTORY[:4], [READ_1, READ_2, UPDATED, DELETED]).wrong == ["2: the last delete is without tombstone"]


def test_a_change_out_of_order_is_seen() -> None:
    wrong = judge(HISTORY, [READ_1, READ_2, AGAIN, UPDATED, DELETED, TOMBSTONE, CREATED]).wrong
    assert wrong == ["1: skipped from change 0 to 2 of its life"]


def test_what_the_database_does_not_know_is_seen() -> None:
    assert judge(HISTORY, [*WHOLE, Event(op="u", key=1, before=13, after=99)]).wrong
    assert judge(HISTORY, [*WHOLE, Event(op="", key=1)]).wrong == ["1: a tombstone after u"]


def test_a_snapshot_must_be_the_table_right_before_the_stream() -> None:
    from_three = [Event(op="r", key=1, after=10), READ_2, *WHOLE[3:]]
    assert judge(HISTORY, from_three).wrong  # the first update was before the stream, and the snapshot does not show it
    assert judge(HISTORY, [Event(op="r", key=1, after=12), READ_2, *WHOLE[3:]]).wrong == []


def test_a_snapshot_that_was_begun_again_may_be_of_a_later_moment_than_the_stream() -> None:
    later = [READ_1, Event(op="r", key=1, after=12), Event(op="r", key=2, after=11), *WHOLE[2:]]
    assert judge(HISTORY, later, snapshots=2).wrong == []
    assert judge(HISTORY, [later[1], later[2], *WHOLE[2:]], snapshots=2).wrong == []
    assert judge(HISTORY, [later[1], later[2], *WHOLE[2:]], snapshots=1).wrong == [
        "1: version 10 was in the table before the stream, unread"
    ]
    untold = judge(HISTORY, [later[2], *WHOLE[2:]], snapshots=2).wrong
    assert untold == ["1: version 10 was in the table before the stream, unread"]


def test_a_reader_has_the_table_in_the_end() -> None:
    assert replayed(WHOLE) == {1: (13, ""), 2: (14, "back")}
