"""Workers of the old protocol in a group of the draft, and the steps that tests of the migration share."""

from __future__ import annotations

from dataclasses import dataclass

from connect_draft.messages import (
    ClassicConnectGroup,
    ClassicConnectMember,
)
from connect_draft.workers.assignors import ConnectAssignor, DeclarativeAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    Protocol,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_model.connect.cluster import ConnectCluster
from coordinator_model.connect.protocol import ConnectProtocolCompatibility, decode_assignment, encode_assignment
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks
from coordinator_model.connect.worker import ConnectWorker

GROUP = "connect-cluster"

CONFIG = ClusterConfig(2, {"A": 3, "B": 3})

SESSIONED = ConnectProtocolCompatibility.SESSIONED

EAGER = ConnectProtocolCompatibility.EAGER


@dataclass
class OldWorker:
    """A worker of today's protocol in a group of the draft's coordinator."""

    cluster: DraftCluster
    worker: ConnectWorker
    must_join: bool = True
    answered_at_ms: int = 0

    def join(self) -> ErrorCode:
        """JoinGroup, with the id it is given when it has none; SyncGroup is a step of its own."""
        self.worker.on_join_prepare()
        response = self._join()
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.worker.member_id = response.member_id
            response = self._join()
        if response.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._start_over()
        elif response.error_code is ErrorCode.NONE:
            self.worker.member_id = response.member_id
            self.generation_id = response.generation_id
            self.protocol = response.protocol_name or ""
        assert isinstance(response.error_code, ErrorCode)
        return response.error_code

    def _join(self) -> JoinGroupResponse:
        response = self.cluster.send(
            JoinGroupRequest(
                group_id=GROUP,
                client_id=self.worker.url,
                member_id=self.worker.member_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                protocol_type="connect",
                protocols=tuple(Protocol(name, data) for name, data in self.worker.protocols()),
            )
        )
        assert isinstance(response, JoinGroupResponse)
        return response

    def sync(self) -> ErrorCode:
        response = self.cluster.send(
            SyncGroupRequest(group_id=GROUP, generation_id=self.generation_id, member_id=self.worker.member_id)
        )
        assert isinstance(response, SyncGroupResponse)
        if response.error_code is ErrorCode.NONE:
            self.must_join = False
            self.worker.on_join_complete(self.generation_id, self.protocol, response.assignment, self.cluster.now_ms)
            self.must_join = bool(decode_assignment(response.assignment).revoked)
        elif response.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._start_over()
        assert isinstance(response.error_code, ErrorCode)
        return response.error_code

    def heartbeat(self) -> ErrorCode:
        response = self.cluster.send(
            HeartbeatRequest(group_id=GROUP, generation_id=self.worker.generation_id, member_id=self.worker.member_id)
        )
        assert isinstance(response, HeartbeatResponse)
        self.must_join = response.error_code is not ErrorCode.NONE
        if response.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._start_over()
        return response.error_code

    def step(self) -> None:
        """Whatever is next for it."""
        self.answered_at_ms = self.cluster.now_ms
        if not self.must_join:
            self.heartbeat()
        if self.must_join and self.join() is ErrorCode.NONE:
            self.sync()

    def leave(self) -> LeaveGroupResponse:
        self.worker.stop_everything()
        response = self.cluster.send(
            LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=self.worker.member_id),))
        )
        assert isinstance(response, LeaveGroupResponse)
        return response

    def give_up_in_time(self) -> None:
        """Stop everything when no answer came for a session (KAFKA-9184)."""
        if self.cluster.now_ms - self.answered_at_ms >= 10_000:
            self._start_over()

    def _start_over(self) -> None:
        self.worker.stop_everything()
        self.worker.member_id = ""
        self.must_join = True


def classic_group(*names: str, mode: ConnectProtocolCompatibility = SESSIONED) -> ConnectCluster:
    """A settled group of the old protocol."""
    classic = ConnectCluster(mode=mode)
    classic.start(*names)
    classic.configure("A", 3)
    classic.configure("B", 3)
    classic.advance(1_000)
    assert classic.config == CONFIG
    return classic


def snapshot(classic: ConnectCluster) -> ClassicConnectGroup:
    members = []
    for worker in classic.workers.values():
        assert worker.assignment is not None
        members.append(
            ClassicConnectMember(
                member_id=worker.member_id, client_id=worker.url, client_host="/127.0.0.1", session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000, protocols=worker.protocols(),
                assignment=encode_assignment(worker.assignment),
            )
        )
    return ClassicConnectGroup(GROUP, classic.generation_id, classic.rounds[-1].protocol, tuple(members))


def upgraded(*names: str, mode: ConnectProtocolCompatibility = SESSIONED) -> tuple[DraftCluster, dict[str, OldWorker]]:
    classic = classic_group(*names, mode=mode)
    cluster = DraftCluster()
    cluster.upgrade(snapshot(classic))
    return cluster, {n: OldWorker(cluster, w, must_join=False) for n, w in classic.workers.items()}


def running(cluster: DraftCluster, old: dict[str, OldWorker]) -> dict[str, ConnectorsAndTasks]:
    return {**cluster.running(), **{name: worker.worker.running for name, worker in old.items()}}


def assert_once(work: dict[str, ConnectorsAndTasks]) -> None:
    items = [item for w in work.values() for item in (*w.connectors, *w.tasks)]
    assert len(items) == len(set(items)), "something runs twice"


def settle(cluster: DraftCluster, old: dict[str, OldWorker]) -> None:
    for _ in range(12):
        for worker in old.values():
            worker.step()
            assert_once(running(cluster, old))
        cluster.settle(rounds=1)
        assert_once(running(cluster, old))


def new_worker(name: str, assignor: ConnectAssignor | None = None) -> DraftWorker:
    return DraftWorker(name, assignor or DeclarativeAssignor(max_delay_ms=0), CONFIG)
