"""Conditions and their reasons, as users and alerts read them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason
from staticgroup.api.schema import MESSAGE_LENGTH_MAX, Condition, with_conditions

T0 = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
T0_SECONDS = T0.replace(microsecond=0)
T1 = T0 + timedelta(minutes=5)


def stated(
    kind: ConditionType,
    reason: Reason,
    now: datetime = T0,
    *,
    before: tuple[Condition, ...] = (),
    generation: int = 1,
    message: str = "so",
) -> tuple[Condition, ...]:
    return with_conditions(
        before, [(kind, reason.status, reason, message)], observed_generation=generation, now=now
    )


def test_every_reason_belongs_to_a_condition() -> None:
    assert all(reason.types for reason in Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_one_camel_case_word(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)*", reason)


@pytest.mark.parametrize("kind", ConditionType)
def test_every_condition_can_be_true_false_and_unknown(kind: ConditionType) -> None:
    reachable = {reason.status for reason in Reason if kind in reason.types}
    assert reachable == set(ConditionStatus)


def test_last_transition_time_moves_only_when_the_status_flips() -> None:
    """meta.SetStatusCondition of apimachinery; KEP-1623."""
    first = stated(ConditionType.READY, Reason.SUSPENDED)
    assert first[0].last_transition_time == T0_SECONDS
    same_status = stated(ConditionType.READY, Reason.MEMBERS_MISSING, T1, before=first, generation=2)
    assert (same_status[0].last_transition_time, same_status[0].reason) == (T0_SECONDS, "MembersMissing")
    assert same_status[0].observed_generation == 2
    flipped = stated(ConditionType.READY, Reason.RECONCILED, T1, before=same_status)
    assert flipped[0].last_transition_time == T1.replace(microsecond=0)


def test_setting_the_same_again_later_changes_nothing() -> None:
    before = stated(ConditionType.READY, Reason.SUSPENDED)
    assert stated(ConditionType.READY, Reason.SUSPENDED, T1, before=before) == before


def test_a_condition_keeps_its_place_and_the_others_stay_as_they_are() -> None:
    unknown = [(kind, ConditionStatus.UNKNOWN, Reason.NOT_OBSERVED_YET, "so") for kind in ConditionType]
    conditions = with_conditions((), unknown, observed_generation=1, now=T0)
    changed = stated(ConditionType.CONNECTED, Reason.BROKERS_REACHABLE, T1, before=conditions)
    assert [each.type for each in changed] == list(ConditionType)
    assert [new.type for new, old in zip(changed, conditions, strict=True) if new != old] == ["Connected"]


def test_a_condition_is_written_in_the_standard_form() -> None:
    (written,) = stated(ConditionType.READY, Reason.SUSPENDED, generation=7, message="Set it to false.")
    assert written.to_wire() == {
        "type": "Ready", "status": "False", "reason": "Suspended", "message": "Set it to false.",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 7,
    }


def test_a_sentence_of_the_callers_own_is_kept_as_it_is_and_cut_at_the_bound() -> None:
    def say(message: str) -> Condition:
        found = (ConditionType.REMOVAL_SETTLED, ConditionStatus.UNKNOWN, Reason.REMOVAL_HELD, message)
        return with_conditions((), [found], observed_generation=2, now=T0)[0]

    short = say("{not} a template")
    assert (short.message, short.status, short.observed_generation) == ("{not} a template", ConditionStatus.UNKNOWN, 2)
    assert say("x" * MESSAGE_LENGTH_MAX).message == "x" * MESSAGE_LENGTH_MAX
    assert say("x" * (MESSAGE_LENGTH_MAX + 1)).message == "x" * (MESSAGE_LENGTH_MAX - 1) + "…"


def test_what_is_not_so_names_the_page_on_its_reason_also_behind_a_sentence_that_is_cut() -> None:
    def say(reason: Reason, message: str) -> str:
        found = (ConditionType.READY, reason.status, reason, message)
        (condition,) = with_conditions((), [found], observed_generation=2, now=T0, docs_url="https://docs.example/sg")
        return condition.message

    page = " (https://docs.example/sg/guide/troubleshooting.html#membersmissing)"
    assert say(Reason.MEMBERS_MISSING, "Pod orders-1 has none.") == f"Pod orders-1 has none.{page}"
    assert say(Reason.RECONCILED, "All is well.") == "All is well."
    long = say(Reason.MEMBERS_MISSING, "x" * 2 * MESSAGE_LENGTH_MAX)
    assert (len(long), long[-len(page) - 2 :]) == (MESSAGE_LENGTH_MAX, f"x…{page}")
