"""Every order in which processes of one container end, join and are told of: nobody who lives is released."""

from __future__ import annotations

import pytest

from simulator.evidence.runs import searched
from staticgroup.core import releases
from staticgroup.core.evidence import run
from support.long_drills import by_length

IS_LONG = by_length(short=False, long=True)


def test_no_process_that_lives_is_released() -> None:
    found = searched(steps=by_length(short=1, long=2))
    assert found.harm == ()
    assert found.states > 20_000
    assert found.releases > 50


@pytest.mark.skipif(not IS_LONG, reason="two steps of time take a minute")
def test_clock_within_the_margin_harms_nobody_and_the_margin_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = searched(steps=2, clock_off_s=9.0)
    assert ahead.harm == ()
    assert ahead.releases > 0
    assert searched(steps=2, clock_off_s=-9.0).harm == ()
    monkeypatch.setattr(releases, "MARGIN_S", 8.0)
    assert "operator releases" in searched(steps=2, clock_off_s=9.0).harm


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (releases, "_is_over", lambda pod, member, memory: not member.is_away),
        (releases, "MARGIN_S", -1000.0),
    ],
    ids=["age of the member not asked", "member younger than the end"],
)
def test_a_broken_rule_is_found_out(monkeypatch: pytest.MonkeyPatch, module: object, name: str, broken: object) -> None:
    monkeypatch.setattr(module, name, broken)
    harm = searched(steps=1).harm
    assert harm[-1] == "operator releases"
    assert "process joins" in harm


def test_clock_that_is_off_by_more_than_the_margin_is_seen_when_it_is_told_of_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was told late throughout is the rest that the rule does not cover; here something is always told in time."""
    monkeypatch.setattr(run, "_clock_doubt", lambda times_s, version, now_s: "")
    assert searched(steps=0, clock_off_s=30.0).harm != ()
    monkeypatch.undo()
    assert searched(steps=0, clock_off_s=30.0).harm == ()
