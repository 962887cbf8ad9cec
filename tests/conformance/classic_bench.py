"""A coordinator under test, with its clock, its log and the answers that its clients wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.answers import answered, expect
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    Protocol,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_model.base.records import Record
from coordinator_model.base.result import Result
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.coordinator import GroupCoordinator

GROUP = "orders"
RANGE = (Protocol("range", b"topics"),)
ROUND_ROBIN = (Protocol("roundrobin", b"topics"),)
BOTH = (Protocol("range", b"topics"), Protocol("roundrobin", b"topics"))


@dataclass
class Pending:
    """A request and, once it is there, its answer."""

    request: Request
    response: Response | None = None

    @property
    def waits(self) -> bool:
        return self.response is None

    @property
    def error(self) -> ErrorCode:
        assert self.response is not None, "still waiting"
        return self.response.error_code

    @property
    def joined(self) -> JoinGroupResponse:
        assert isinstance(self.response, JoinGroupResponse), self.response
        return self.response

    @property
    def synced(self) -> SyncGroupResponse:
        assert isinstance(self.response, SyncGroupResponse), self.response
        return self.response

    @property
    def left(self) -> LeaveGroupResponse:
        assert isinstance(self.response, LeaveGroupResponse), self.response
        return self.response


@dataclass
class ClassicBench:
    """One coordinator and its clients."""

    settings: BrokerSettings = field(default_factory=BrokerSettings)
    now_ms: int = 0
    log: list[Record] = field(default_factory=list)
    waiting: dict[int, Pending] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.coordinator = GroupCoordinator(self.settings)

    @property
    def group(self) -> ClassicGroup:
        return expect(ClassicGroup, self.coordinator.groups[GROUP])

    def send(self, request: Request) -> Pending:
        """Send a request now; the answer may come with a later step."""
        pending = Pending(request)
        result = self.coordinator.handle(request, self.now_ms)
        if result.ticket is not None:
            self.waiting[result.ticket] = pending
        pending.response = result.response
        self._take(result)
        return pending

    def advance(self, milliseconds: int) -> Result:
        """Let time pass; every timer fires at its own deadline."""
        self.now_ms += milliseconds
        result = self.coordinator.expire(self.now_ms)
        self._take(result)
        return result

    def fail_over(self) -> None:
        """Start again from the log, as the next coordinator does."""
        self.coordinator = GroupCoordinator(self.coordinator.settings)
        self.coordinator.replay(self.log, self.now_ms)
        self.waiting.clear()

    def join(
        self,
        instance_id: str | None = None,
        member_id: str = "",
        *,
        protocols: tuple[Protocol, ...] = RANGE,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        api_version: int = 9,
        protocol_type: str = "consumer",
        client_id: str = "client",
    ) -> Pending:
        return self.send(
            JoinGroupRequest(
                api_version=api_version, group_id=GROUP, member_id=member_id, group_instance_id=instance_id,
                session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=rebalance_timeout_ms,
                protocol_type=protocol_type, protocols=protocols, client_id=client_id,
            )
        )

    def join_dynamic(self, **options: object) -> Pending:
        """Join without an instance id: ask for a member id, then come back with it."""
        first = self.join(**options)  # type: ignore[arg-type]
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(member_id=first.joined.member_id, **options)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        *,
        instance_id: str | None = None,
        generation_id: int | None = None,
        assign: Iterable[str] = (),
        api_version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Pending:
        """Send SyncGroup; `assign` names the members to which the leader gives `assigned-<member id>`."""
        generation = self.group.generation_id if generation_id is None else generation_id
        return self.send(
            SyncGroupRequest(
                api_version=api_version,
                group_id=GROUP,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=tuple((m, f"assigned-{m}".encode()) for m in assign),
            )
        )

    def heartbeat(self, member_id: str, instance_id: str | None = None, generation_id: int | None = None) -> ErrorCode:
        generation = self.group.generation_id if generation_id is None else generation_id
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.send(request).error

    def leave(self, *members: tuple[str, str | None], api_version: int = 5) -> list[ErrorCode]:
        """Send one LeaveGroup for (member id, instance id) pairs; returns the error of each, in order."""
        identities = tuple(MemberIdentity(member_id=m, group_instance_id=i) for m, i in members)
        answer = self.send(LeaveGroupRequest(group_id=GROUP, members=identities, api_version=api_version)).left
        assert answer.error_code is ErrorCode.NONE
        assert [(m.member_id, m.group_instance_id) for m in answer.members] == list(members)
        return [m.error_code for m in answer.members]

    def complete_round(self) -> None:
        """Let all members that were just admitted send SyncGroup, the leader last: the group becomes stable."""
        leader = answered(self.group.leader)
        answers = [self.sync(m, protocol_name=None) for m in self.group.members if m != leader]
        answers.append(self.sync(leader, assign=tuple(self.group.members), protocol_name=None))
        assert all(a.error is ErrorCode.NONE for a in answers)
        assert self.group.state == "Stable"

    def stable(self, *instance_ids: str, **options: object) -> list[str]:
        """Bring up a stable group of static members in generation 1; the first one leads. Returns their member ids."""
        joins = [self.join(i, **options) for i in instance_ids]  # type: ignore[arg-type]
        self.advance(self.settings.group_initial_rebalance_delay_ms)
        while any(j.waits for j in joins):
            self.advance(self.settings.group_initial_rebalance_delay_ms)
        self.complete_round()
        assert self.group.generation_id == 1
        assert self.group.leader == joins[0].joined.member_id
        return [j.joined.member_id for j in joins]

    def bounce(self, instance_id: str, **options: object) -> str:
        """Restart a static member of a stable group; returns its new member id."""
        answer = self.join(instance_id, **options)  # type: ignore[arg-type]
        assert answer.error is ErrorCode.NONE
        return answer.joined.member_id

    def _take(self, result: Result) -> None:
        self.log += result.records
        for completed in result.completed:
            self.waiting.pop(completed.ticket).response = completed.response
