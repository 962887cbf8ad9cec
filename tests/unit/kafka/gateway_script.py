"""Answers of a scripted broker, and what the gateway made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticgroup.core.group import KafkaProblem, KafkaProblemKind, LeaveEntry, LeaveOutcome
from staticgroup.kafka.wire import Api
from unit.kafka.fake_broker import FakeBroker, respond

REMOVED, FENCED, UNKNOWN, RETRY = LeaveOutcome.REMOVED, LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN, LeaveOutcome.RETRY
Answer = Callable[[Any, int], Any]


def problem(outcome: object) -> KafkaProblem:
    assert isinstance(outcome, KafkaProblem), outcome
    return outcome


def kind(outcome: object) -> KafkaProblemKind:
    return problem(outcome).kind


def entry(member_id: str, instance_id: str) -> LeaveEntry:
    return LeaveEntry(member_id=member_id, instance_id=instance_id)


def first_then(first: Answer, then: Answer, times: int = 1) -> Answer:
    """Answer with `first` so many times, afterwards with `then`."""
    seen = 0

    def answer(request: Any, version: int) -> Any:
        nonlocal seen
        seen += 1
        return first(request, version) if seen <= times else then(request, version)

    return answer


def describing(broker: FakeBroker, code: int) -> Answer:
    def answer(request: Any, version: int) -> Any:
        groups = tuple(broker.describe_classic(g, version, error_code=code) for g in request.groups)
        return respond(Api.DESCRIBE_GROUPS, version, groups=groups)

    return answer
