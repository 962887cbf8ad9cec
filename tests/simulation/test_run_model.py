"""Every order in which processes of one container end, join and are told of: nobody who lives is released."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from simulator.evidence.runs import searched
from staticgroup.core import releases
from staticgroup.core.evidence import run
from staticgroup.core.evidence.run import every_end
from staticgroup.core.group import MemberView
from staticgroup.core.snapshot import SeatMemory
from support.long_drills import by_length

ALL_BUT_AGE = tuple(guard for guard in releases.RELEASE_GUARDS if guard is not releases.older_than_pod)
IS_LONG = by_length(short=False, long=True)


def test_no_process_that_lives_is_released() -> None:
    found = searched(steps=by_length(short=1, long=2))
    assert found.harm == ()
    assert found.states > 20_000
    assert found.releases > 50


def test_nobody_is_released_who_had_the_seat_before_the_pod_first_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod's processes are refused and end, one after the other, as those of crashed members do."""
    found = searched(steps=3, stranger=True, forgets=False)
    assert found.harm == ()
    assert found.states > 200
    monkeypatch.setattr(releases, "RELEASE_GUARDS", ALL_BUT_AGE)
    assert searched(steps=3, stranger=True, forgets=False).harm[-1] == "operator releases"


def test_what_an_operator_forgets_of_somebody_else_it_cannot_know() -> None:
    """The rest that the rule does not cover: of members that were there when it began it does not know who was first."""
    assert "operator restarts" in searched(steps=3, stranger=True).harm


@pytest.mark.skipif(not IS_LONG, reason="two steps of time take a minute")
def test_clock_within_the_margin_harms_nobody_and_the_margin_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = searched(steps=2, clock_off_s=9.0)
    assert ahead.harm == ()
    assert ahead.releases > 0
    assert searched(steps=2, clock_off_s=-9.0).harm == ()
    monkeypatch.setattr(releases, "MARGIN_S", 8.0)
    assert "operator releases" in searched(steps=2, clock_off_s=9.0).harm


def is_described(runs: object, member: MemberView, memory: SeatMemory) -> bool:
    return not member.is_away and member.member_id in dict(memory.described)


@pytest.mark.parametrize(
    "broken",
    [
        {"_may_be_over": is_described, "_is_over": lambda runs, since_s: bool(every_end(runs))},
        {"_may_be_over": is_described, "MARGIN_S": -1000.0},
    ],
    ids=["age of the member not asked", "member younger than the end"],
)
def test_a_broken_rule_is_found_out(monkeypatch: pytest.MonkeyPatch, broken: Mapping[str, object]) -> None:
    for name, rule in broken.items():
        monkeypatch.setattr(releases, name, rule)
    harm = searched(steps=1).harm
    assert harm[-1] == "operator releases"
    assert "process joins" in harm


def test_clock_that_is_off_by_more_than_the_margin_is_seen_when_it_is_told_of_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was told late throughout is the rest that the rule does not cover; here something is always told in time."""
    # Where the clock is ahead a member seems to be older than its own run, too.
    monkeypatch.setattr(releases, "RELEASE_GUARDS", ALL_BUT_AGE)
    monkeypatch.setattr(run, "_clock_doubt", lambda times_s, version, now_s: "")
    assert searched(steps=0, clock_off_s=30.0).harm != ()
    monkeypatch.undo()
    monkeypatch.setattr(releases, "RELEASE_GUARDS", ALL_BUT_AGE)
    assert searched(steps=0, clock_off_s=30.0).harm == ()
