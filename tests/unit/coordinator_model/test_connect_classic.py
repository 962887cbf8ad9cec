"""Today's Connect workers on the classic coordinator: the cluster in virtual time takes the same rounds as they do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from conformance.answers import expect
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    Protocol,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.connect.cluster import ConnectCluster
from coordinator_model.connect.incremental import IncrementalCooperativeAssignor
from coordinator_model.connect.protocol import ConnectProtocolCompatibility, decode_assignment, decode_metadata
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks
from coordinator_model.connect.worker import ConnectWorker
from coordinator_model.coordinator import GroupCoordinator

GROUP = "connect-cluster"
MAX_DELAY_MS = 60_000
COMPATIBLE = ConnectProtocolCompatibility.COMPATIBLE
SESSIONED = ConnectProtocolCompatibility.SESSIONED
EAGER = ConnectProtocolCompatibility.EAGER


@dataclass
class OnClassic:
    """Workers that send JoinGroup, SyncGroup and Heartbeat to the model of the classic coordinator."""

    mode: ConnectProtocolCompatibility = SESSIONED
    config: ClusterConfig = field(default_factory=lambda: ClusterConfig(2, {"a": 4, "b": 4}))
    now_ms: int = 0
    workers: dict[str, ConnectWorker] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    delay_ms: int = 0

    def __post_init__(self) -> None:
        settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
        self.coordinator = GroupCoordinator(settings)

    def start(self, name: str) -> None:
        worker = ConnectWorker(
            f"http://{name}:8083/", self.mode, self.config, IncrementalCooperativeAssignor(MAX_DELAY_MS)
        )
        self.workers[name] = worker
        asked = expect(JoinGroupResponse, self.ask(self.join_request(name)))
        assert asked.error_code is ErrorCode.MEMBER_ID_REQUIRED
        worker.member_id = asked.member_id
        self.settle()

    def stop(self, name: str) -> None:
        worker = self.workers.pop(name)
        worker.stop_everything()
        self.ask(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=worker.member_id),)))
        self.settle()

    def join_request(self, name: str) -> JoinGroupRequest:
        worker = self.workers[name]
        return JoinGroupRequest(
            group_id=GROUP,
            client_id=name,
            member_id=worker.member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="connect",
            protocols=tuple(Protocol(protocol, data) for protocol, data in worker.protocols()),
        )

    def ask(self, request: Request) -> Response | None:
        result = self.coordinator.handle(request, self.now_ms)
        self.answers = [(done.ticket, done.response) for done in result.completed]
        self.ticket = result.ticket
        return result.response

    def settle(self) -> None:
        """Heartbeat, join and sync until a heartbeat of each worker finds nothing to do."""
        while self.round_if_wanted():
            pass

    def round_if_wanted(self) -> bool:
        wanted = [name for name, worker in self.workers.items() if worker.wants_to_join(self.now_ms)]
        wanted += [name for name in self.workers if name not in wanted and self.must_rejoin(name)]
        if not wanted:
            return False
        joined: dict[str, JoinGroupResponse] = {}
        for _ in range(10):
            for name, worker in self.workers.items():
                if name in joined or name in self.waiting.values():
                    continue
                if not (worker.wants_to_join(self.now_ms) or self.must_rejoin(name)):
                    continue
                worker.on_join_prepare()
                response = self.ask(self.join_request(name))
                if self.ticket is not None:
                    self.waiting[self.ticket] = name
                fired = self.coordinator.expire(self.now_ms)
                self.answers += [(done.ticket, done.response) for done in fired.completed]
                answers = [(self.waiting.pop(ticket), answer) for ticket, answer in self.answers]
                if response is not None:
                    answers.append((name, response))
                for worker_name, answer in answers:
                    assert isinstance(answer, JoinGroupResponse)
                    assert answer.error_code is ErrorCode.NONE
                    joined[worker_name] = answer
        assert set(joined) == set(self.workers)
        self.sync(joined)
        return True

    def must_rejoin(self, name: str) -> bool:
        worker = self.workers[name]
        response = self.ask(
            HeartbeatRequest(group_id=GROUP, generation_id=worker.generation_id, member_id=worker.member_id)
        )
        assert response is not None
        return response.error_code is ErrorCode.REBALANCE_IN_PROGRESS

    def sync(self, joined: dict[str, JoinGroupResponse]) -> None:
        leader = next(name for name, answer in joined.items() if answer.leader == answer.member_id)
        answer = joined[leader]
        protocol = answer.protocol_name or ""
        assert not answer.skip_assignment, "Connect does not support static membership"
        members = {member.member_id: member.metadata for member in answer.members}
        assignments = self.workers[leader].on_leader_elected(protocol, members, answer.generation_id, self.now_ms)
        for name in [leader, *(name for name in joined if name != leader)]:
            worker = self.workers[name]
            response = self.ask(
                SyncGroupRequest(
                    group_id=GROUP,
                    generation_id=answer.generation_id,
                    member_id=worker.member_id,
                    assignments=tuple(assignments.items()) if name == leader else (),
                )
            )
            assert isinstance(response, SyncGroupResponse)
            assert response.error_code is ErrorCode.NONE
            worker.on_join_complete(answer.generation_id, protocol, response.assignment, self.now_ms)
        self.delay_ms = decode_assignment(assignments[answer.leader]).delay_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass in heartbeat intervals of 3 s."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + 3_000, end_ms)
            self.coordinator.expire(self.now_ms)
            self.settle()

    def running(self) -> dict[str, ConnectorsAndTasks]:
        return {name: worker.running for name, worker in self.workers.items()}

    def describe(self) -> DescribedGroup:
        return expect(DescribeGroupsResponse, self.ask(DescribeGroupsRequest(groups=(GROUP,)))).groups[0]


def pair(mode: ConnectProtocolCompatibility) -> tuple[OnClassic, ConnectCluster]:
    config = ClusterConfig(2, {"a": 4, "b": 4})
    return OnClassic(mode, config), ConnectCluster(max_delay_ms=MAX_DELAY_MS, mode=mode, config=config)


@pytest.mark.parametrize("mode", [EAGER, COMPATIBLE, SESSIONED])
def test_same_rounds_as_on_the_classic_coordinator(mode: ConnectProtocolCompatibility) -> None:
    """Joins, a follower's bounce, the leader's end: each worker's work and the delays are alike, step by step."""
    real, model = pair(mode)
    steps = [
        ("start", "w1"),
        ("start", "w2"),
        ("start", "w3"),
        ("wait", "60000"),
        ("stop", "w2"),
        ("wait", "20000"),
        ("start", "w2"),
        ("wait", "60000"),
        ("stop", "w1"),
        ("wait", "60000"),
        ("start", "w1"),
        ("wait", "60000"),
    ]
    for verb, what in steps:
        if verb == "wait":
            real.advance(int(what))
            model.advance(int(what))
        else:
            getattr(real, verb)(what)
            getattr(model, verb)(what)
        assert real.running() == model.running(), (verb, what)
        assert real.delay_ms == model.rounds[-1].delay_ms, (verb, what)
    assert sum(len(work) for work in real.running().values()) == 10


def test_what_describe_shows() -> None:
    """DescribeGroups of a stable group: metadata with protocol, URL and work; assignment with the leader."""
    real, _ = pair(SESSIONED)
    real.start("w1")
    real.start("w2")
    described = real.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable", "connect", "sessioned",
    )
    for member in described.members:
        worker = real.workers[member.client_id]
        assert member.group_instance_id is None
        state = decode_metadata(member.member_metadata)
        assignment = decode_assignment(member.member_assignment)
        assert (state.url, state.config_offset) == (worker.url, 2)
        assert assignment.leader == real.workers["w1"].member_id
        assert assignment.leader_url == "http://w1:8083/"
        held = state.allocation.assigned if state.allocation else ConnectorsAndTasks()
        assert held.minus(assignment.revoked).plus(assignment.assigned).same_as(worker.running)
