"""Subscriptions by regular expression: GMMT tests with Regex in their name."""

from __future__ import annotations

import pytest

from conformance.answers import answered
from conformance.consumer_bench import CURRENT, EPOCH, GROUP, MEMBER, REGEX, TARGET, TARGET_EPOCH, ConsumerBench, member
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import TopicPartitions
from coordinator_model.consumer.group import ResolvedRegex

FOO: TopicPartitions = (("foo", (0, 1, 2, 3, 4, 5)),)
TIMER = ("consumer-regex", GROUP)


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


@pytest.mark.parametrize("regex", ["[", "*", "(?=foo)", "(foo)\\1", "(?<!a)b", "fo*+", "(?>foo)", "foo\\Z"])
def test_invalid_regex_is_refused(bench: ConsumerBench, regex: str) -> None:
    """GMMT.testConsumerHeartbeatRegexValidation; look-around, back-references and the like are none of RE2's."""
    answer = bench.join("m1", topics=None, regex=regex)
    assert answer.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.coordinator.groups == {}


def test_new_regex_is_resolved_after_the_join(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupMemberJoinsWithNewRegex: no bump until the resolution is there."""
    answer = bench.join("m1", topics=None, regex="foo.*")
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 1, ())
    assert bench.types() == [MEMBER, CURRENT]
    bench.advance(0)
    assert bench.types() == [REGEX, EPOCH]
    assert bench.last.records[0].value == ResolvedRegex(("foo",), bench.now_ms)
    answer = bench.beat("m1", 1)
    assert (answer.member_epoch, answer.assignment) == (2, FOO)
    assert bench.types() == [TARGET, TARGET_EPOCH, CURRENT]


@pytest.mark.parametrize("regex", ["\\p{L}+", "foo\\z", "\\Qfoo\\E", "[[:alpha:]]{3}", "(?i)FOO|bar"])
def test_what_only_re2_knows_is_resolved(bench: ConsumerBench, regex: str) -> None:
    """TopicRegexResolver compiles with com.google.re2j.Pattern."""
    assert bench.join("m1", topics=None, regex=regex).error_code is ErrorCode.NONE
    bench.advance(0)
    assert "foo" in bench.group.regexes[regex].topics


def test_regex_matches_whole_names(bench: ConsumerBench) -> None:
    """TopicRegexResolver: matches(), not find()."""
    bench.join("m1", topics=None, regex="fo|ba.")
    bench.advance(0)
    assert bench.group.regexes["fo|ba."].topics == ("bar",)


def test_known_regex_is_taken_at_once(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupMemberPicksUpExistingResolvedRegularExpression."""
    bench.join("m1", topics=None, regex="foo*")
    bench.advance(0)
    bench.beat("m1", 1)
    answer = bench.join("m2", topics=None, regex="foo*")
    assert (answer.member_epoch, bench.group.group_epoch) == (3, 3)
    assert bench.coordinator.timers.deadline_ms(TIMER) is None


def test_a_member_that_holds_nothing_and_changes_its_regex_moves_its_previous_epoch(bench: ConsumerBench) -> None:
    """CurrentAssignmentBuilder.updateCurrentAssignment: without subscription the (empty) assignment is written.

    maybeReconcile writes the change itself: each field that differs, here the previous member epoch.
    """
    bench.join("m1", topics=None, regex="foo.*")
    bench.advance(0)
    bench.join("m2", topics=None, regex="none.*")
    bench.advance(10_001)
    bench.settle(("m1", None), ("m2", None))
    held = bench.group.members["m2"].current
    assert (held.assigned, held.previous_member_epoch < held.member_epoch) == ({}, True)
    bench.beat("m2", held.member_epoch, None, (), regex="other.*")
    assert bench.types() == [MEMBER, REGEX, CURRENT]
    moved = bench.group.members["m2"].current
    assert (moved.member_epoch, moved.previous_member_epoch) == (held.member_epoch, held.member_epoch)
    bench.beat("m2", held.member_epoch, None, (), regex="none.*")
    assert CURRENT not in bench.types()


def test_updated_regex_drops_the_old_one(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupMemberJoinsWithUpdatedRegex: the last subscriber's expression goes, the new one follows."""
    bench.join("m1", topics=None, regex="foo.*")
    bench.advance(0)
    bench.beat("m1", 1)
    bench.now_ms += 10_001
    answer = bench.beat("m1", 2, None, FOO, regex="bar.*")
    assert (answer.member_epoch, answer.assignment) == (2, ())
    assert [r.value for r in bench.last.records if r.record_type is REGEX] == [None]
    bench.advance(0)
    assert set(bench.group.regexes) == {"bar.*"}
    bench.beat("m1", 2, None, ())
    assert bench.group.targets["m1"] == (("bar", (0, 1, 2)),)


def test_cleared_regex_bumps_at_once(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupMemberClearsRegex."""
    bench.join("m1", topics=("bar",), regex="foo.*")
    bench.advance(0)
    bench.beat("m1", 2)
    epoch = bench.group.group_epoch
    bench.beat("m1", bench.epochs["m1"], None, (), regex="")
    assert bench.group.group_epoch == epoch + 1
    assert (bench.group.regexes, bench.group.targets["m1"]) == ({}, (("bar", (0, 1, 2)),))


def test_new_topic_is_found_but_not_within_ten_seconds(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupMemberJoinRefreshesExpiredRegexes: new topics, and at most one resolution per 10 s."""
    bench.join("m1", topics=None, regex="foo.*")
    bench.advance(0)
    bench.beat("m1", 1)
    bench.coordinator.image = bench.coordinator.image.with_topic("foo2", 1)
    bench.advance(10_000)
    bench.beat("m1", 2)
    assert bench.coordinator.timers.deadline_ms(TIMER) is None
    bench.advance(1)
    bench.beat("m1", 2)
    bench.advance(0)
    assert bench.group.regexes["foo.*"].topics == ("foo", "foo2")
    assert bench.group.group_epoch == 3


def test_expressions_are_resolved_again_every_ten_minutes(bench: ConsumerBench) -> None:
    """group.consumer.regex.refresh.interval.ms: also without new topics; nothing changed, so no bump."""
    bench.join("m1", topics=None, regex="foo.*")
    bench.advance(0)
    bench.beat("m1", 1)
    for _ in range(14):
        bench.advance(44_000)
        bench.beat("m1", 2)
    bench.advance(0)
    assert bench.types() == [REGEX]
    assert bench.group.group_epoch == 2


def test_regex_of_the_last_leaver_is_deleted() -> None:
    """GMMT.testResolvedRegularExpressionsRemovedWhenMembersLeaveOrFenced, …RemovedByAdminApi."""
    bench = ConsumerBench(image=TopicImage({"foo": 6}))
    for n in range(3):
        bench.join(f"m{n}", f"x{n}", topics=None, regex="foo.*" if n else "bar.*")
    bench.advance(0)
    assert set(bench.group.regexes) == {"foo.*", "bar.*"}
    bench.leave(("", "x1"), ("", "x0"))
    assert set(bench.group.regexes) == {"foo.*"}
    bench.beat("m2", -1, "x2")
    assert bench.group.regexes == {}


def test_static_member_returns_with_the_same_regex() -> None:
    """GMMT.testStaticConsumerGroupMemberJoinsWithUpdatedRegex, unchanged expression: seven records, no bump."""
    bench = ConsumerBench()
    bench.join("m1", "x", topics=None, regex="foo.*")
    bench.advance(0)
    bench.beat("m1", 1, "x")
    bench.beat("m1", -2, "x")
    back = bench.join("m1-again", "x", topics=None, regex="foo.*")
    assert (back.member_epoch, back.assignment, len(bench.last.records)) == (2, FOO, 7)
    assert bench.group.regex_counts == {"foo.*": 1}


def test_regex_member_replaced_by_a_classic_one() -> None:
    """GMMT.testConsumerMemberWithRegexReplacedByClassicMemberWith…Subscription: the expression goes with it."""
    bench = ConsumerBench()
    bench.join("m1", "x", topics=("bar",), regex="foo.*")
    bench.join("m2", "y")
    bench.advance(0)
    epoch = bench.group.group_epoch
    assert answered(bench.join_classic("", "x")).error_code is ErrorCode.NONE
    assert (bench.group.group_epoch, bench.group.regexes) == (epoch + 1, {})


def test_resolution_of_a_group_that_is_gone_does_nothing(bench: ConsumerBench) -> None:
    """handleRegularExpressionsResult: the group may have no such subscription any more."""
    bench.join("m1", topics=None, regex="foo.*")
    bench.beat("m1", -1)
    bench.advance(0)
    assert (bench.last.records, bench.group.regexes) == ((), {})


def test_fail_over_resolves_again(bench: ConsumerBench) -> None:
    """replay(ConsumerGroupRegularExpression…): resolved topics are in the log; new topics are resolved at once."""
    bench.given(member("m1", None, FOO, topics=(), regex="foo.*"))
    answer = bench.beat("m1", 10)
    assert answer.error_code is ErrorCode.NONE
    assert bench.coordinator.timers.deadline_ms(TIMER) == bench.now_ms
