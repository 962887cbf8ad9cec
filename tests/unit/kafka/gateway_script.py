"""What a gateway is given, answers of a scripted broker, and what the gateway made of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from staticgroup.core.group import (
    BrokerBounds,
    GroupView,
    KafkaProblem,
    KafkaProblemKind,
    LeaveCall,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
)
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.login.tokens import BearerToken
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.answers import respond
from unit.kafka.fake_broker import Cluster, FakeBroker, Group

REMOVED, FENCED, UNKNOWN, RETRY = LeaveOutcome.REMOVED, LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN, LeaveOutcome.RETRY
Answer = Callable[[Any, int], Any]


@dataclass
class Kafka:
    """A cluster, and the gateway that calls it with these settings."""

    cluster: Cluster
    gateway: KioGateway
    settings: ConnectionSettings

    def __post_init__(self) -> None:
        self.groups: dict[str, Group] = self.cluster.groups
        self.broker = self.cluster.brokers[0]

    async def describe(self, group_id: str) -> GroupView | KafkaProblem:
        return await self.gateway.describe(self.settings, group_id)

    async def read(self, group_id: str) -> GroupView:
        """Describe a group that can be read."""
        view = of_type(GroupView, await self.describe(group_id))
        return view

    async def bounds(self, group_id: str) -> BrokerBounds:
        bounds = of_type(BrokerBounds, await self.gateway.bounds(self.settings, group_id))
        return bounds

    async def leave(
        self, group_id: str, entries: Sequence[LeaveEntry], call: LeaveCall = LeaveCall.LEAVE_GROUP
    ) -> LeaveResult:
        """Let members leave whose coordinator answers for each of them."""
        result = of_type(LeaveResult, await self.gateway.leave(self.settings, group_id, entries, call))
        return result


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


class GivenToken:
    """A provider that returns a token, or refuses."""

    def __init__(self, answer: str | Refusal) -> None:
        self.answer = answer

    async def token(self) -> BearerToken:
        if isinstance(self.answer, Refusal):
            raise self.answer
        return BearerToken(text=self.answer)


def resolving(*addresses: str) -> Callable[[str, int], Coroutine[Any, Any, Sequence[str]]]:
    """Return a resolver that finds these under any name."""

    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return resolver
