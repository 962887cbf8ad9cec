"""Laying the journal beside Kafka's own log."""

from __future__ import annotations

from fleet_learner.audit import Finding, GroupLog, compare


def test_the_journal_is_held_against_the_log_since_its_first_record() -> None:
    logs = {"g": GroupLog(first_ms=100, rebalances=2, gone=1)}
    same, missing = compare(logs, {"g": [50, 210, 310], "unknown": [1]}, {"g": [205]})
    assert (same.rebalances, same.removals, same.agrees) == (2, 1, True)
    assert missing == Finding(group_id="unknown", log=None, rebalances=1, removals=0)
    assert not missing.agrees


def test_a_rebalance_that_one_account_lacks_is_a_difference() -> None:
    logs = {"g": GroupLog(first_ms=100, rebalances=2)}
    assert not compare(logs, {"g": [210]}, {})[0].agrees
    assert not compare(logs, {"g": [210, 220, 230]}, {})[0].agrees


def test_more_removals_than_members_that_are_gone_is_a_difference_and_fewer_are_not() -> None:
    """Members also leave by themselves or are expelled by the coordinator, which the journal does not claim."""
    logs = {"g": GroupLog(first_ms=100, gone=2)}
    assert compare(logs, {}, {"g": [205]})[0].agrees
    assert not compare(logs, {}, {"g": [205, 206, 207]})[0].agrees
