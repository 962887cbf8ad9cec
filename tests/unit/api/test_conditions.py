"""Conditions and their reasons, as users and alerts read them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from staticgroup.api.conditions import MESSAGE_LENGTH_MAX, Condition, condition, find_condition, set_condition, stated
from staticgroup.api.reasons import REASON_TEXTS, ConditionStatus, ConditionType, Reason

T0 = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
T0_SECONDS = T0.replace(microsecond=0)
T1 = T0 + timedelta(minutes=5)
FACTS: dict[str, str | int] = dict.fromkeys(
    {fact for text in REASON_TEXTS.values() for fact in text.facts()}, "something"
)
# A False condition whose message need not tell anybody to do anything: the state passes by itself.
PASSING = {Reason.MEMBERS_AWAY, Reason.REMOVAL_IN_PROGRESS, Reason.WATCH_GAP}
REMEDY = re.compile(
    r"\b(Set|Allow|Grant|grant|Create|Add|Check|check|Correct|correct|Delete|Raise|Lower|Upgrade|restart|"
    r"taint|see|compare|try|read)\b"
)


def build(kind: ConditionType, reason: Reason, now: datetime = T0, generation: int = 1) -> Condition:
    facts = {fact: FACTS[fact] for fact in REASON_TEXTS[reason].facts()}
    return condition(kind, reason, observed_generation=generation, now=now, **facts)


def test_every_reason_has_its_text() -> None:
    assert REASON_TEXTS.keys() == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_one_camel_case_word_and_renders_for_each_of_its_conditions(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)*", reason)
    text = REASON_TEXTS[reason]
    assert text.types
    for kind in text.types:
        built = build(kind, reason)
        assert (built.type, built.reason, built.status) == (kind, reason, text.status)
        assert "{" not in built.message.replace("{scope}", "")
        assert 10 < len(built.message) <= MESSAGE_LENGTH_MAX


@pytest.mark.parametrize("reason", [each for each in Reason if REASON_TEXTS[each].status is ConditionStatus.FALSE])
def test_a_reason_for_false_says_what_to_do(reason: Reason) -> None:
    text = REASON_TEXTS[reason].template
    assert ("othing to do" in text) if reason in PASSING else REMEDY.search(text)


@pytest.mark.parametrize("kind", ConditionType)
def test_every_condition_can_be_true_false_and_unknown(kind: ConditionType) -> None:
    reachable = {text.status for text in REASON_TEXTS.values() if kind in text.types}
    assert reachable == set(ConditionStatus)


def test_a_reason_of_another_condition_is_refused() -> None:
    with pytest.raises(ValueError, match="does not belong"):
        condition(ConditionType.CONNECTED, Reason.SUSPENDED, observed_generation=1, now=T0)


@pytest.mark.parametrize("facts", [{}, {"workload": "web", "password": "x"}])
def test_missing_and_unasked_facts_are_refused(facts: dict[str, str]) -> None:
    """Nothing but the named facts can reach a message; that is how no secret does."""
    with pytest.raises(ValueError, match="needs the facts"):
        condition(ConditionType.WORKLOAD_FOUND, Reason.WORKLOAD_NOT_FOUND, observed_generation=1, now=T0, **facts)


def test_a_status_may_only_be_softened_to_unknown() -> None:
    soft = condition(
        ConditionType.READY, Reason.SUSPENDED, observed_generation=1, now=T0, status=ConditionStatus.UNKNOWN
    )
    assert soft.status is ConditionStatus.UNKNOWN
    with pytest.raises(ValueError, match="stands for False"):
        condition(ConditionType.READY, Reason.SUSPENDED, observed_generation=1, now=T0, status=ConditionStatus.TRUE)


def test_a_long_message_is_cut_at_its_bound() -> None:
    built = condition(ConditionType.READY, Reason.DEGRADED, observed_generation=1, now=T0, condition="x" * 2000)
    assert len(built.message) == MESSAGE_LENGTH_MAX
    assert built.message.endswith("…")


def test_a_fact_that_looks_like_a_placeholder_stays_text() -> None:
    built = condition(ConditionType.READY, Reason.DEGRADED, observed_generation=1, now=T0, condition="{now}")
    assert built.message.startswith("{now} is not True")


def test_last_transition_time_moves_only_when_the_status_flips() -> None:
    """meta.SetStatusCondition of apimachinery; KEP-1623."""
    suspended = build(ConditionType.READY, Reason.SUSPENDED)
    first = set_condition((), suspended, T0)
    assert first[0].last_transition_time == T0_SECONDS
    same_status = set_condition(first, build(ConditionType.READY, Reason.DEGRADED, T1, generation=2), T1)
    assert (same_status[0].last_transition_time, same_status[0].reason) == (T0_SECONDS, "Degraded")
    assert same_status[0].observed_generation == 2
    flipped = set_condition(same_status, build(ConditionType.READY, Reason.RECONCILED, T1), T1)
    assert flipped[0].last_transition_time == T1.replace(microsecond=0)


def test_setting_the_same_again_later_changes_nothing() -> None:
    before = set_condition((), build(ConditionType.READY, Reason.SUSPENDED), T0)
    assert set_condition(before, build(ConditionType.READY, Reason.SUSPENDED, T1), T1) == before


def test_a_condition_keeps_its_place_and_the_others_stay_as_they_are() -> None:
    conditions: tuple[Condition, ...] = ()
    for kind in ConditionType:
        conditions = set_condition(conditions, build(kind, Reason.NOT_OBSERVED_YET), T0)
    changed = set_condition(conditions, build(ConditionType.CONNECTED, Reason.BROKERS_REACHABLE, T1), T1)
    assert [each.type for each in changed] == list(ConditionType)
    assert [new for new, old in zip(changed, conditions, strict=True) if new != old] == [
        find_condition(changed, ConditionType.CONNECTED)
    ]
    assert find_condition((), ConditionType.READY) is None


def test_a_condition_is_written_in_the_standard_form() -> None:
    (written,) = set_condition((), build(ConditionType.READY, Reason.SUSPENDED, generation=7), T0)
    assert written.to_wire() == {
        "type": "Ready",
        "status": "False",
        "reason": "Suspended",
        "message": "Nothing is done because spec.suspend is true. Set it to false to go on.",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 7,
    }


def test_a_sentence_of_the_callers_own_is_kept_as_it_is_and_cut_at_the_bound() -> None:
    def say(message: str) -> Condition:
        kind, status = ConditionType.REMOVAL_SETTLED, ConditionStatus.UNKNOWN
        return stated(kind, Reason.REMOVAL_HELD, status=status, message=message, observed_generation=2, now=T0)

    short = say("{not} a template")
    assert (short.message, short.status, short.observed_generation) == ("{not} a template", ConditionStatus.UNKNOWN, 2)
    assert say("x" * MESSAGE_LENGTH_MAX).message == "x" * MESSAGE_LENGTH_MAX
    assert say("x" * (MESSAGE_LENGTH_MAX + 1)).message == "x" * (MESSAGE_LENGTH_MAX - 1) + "…"
