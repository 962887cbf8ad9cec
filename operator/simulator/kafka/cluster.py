"""Three brokers, the log of `__consumer_offsets`, and the coordinator model on top of it.

What a fail-over forgets is exactly what is not in the log: the new coordinator is a fresh model that replays it. Faults
are methods: the schedule calls them, and clients and the operator meet them as a broker would show them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    EpochHeartbeatRequest,
    EpochHeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams.messages import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
)

from ..engine.loop import SimulationLoop
from ..engine.trace import Trace
from .births import Births
from .network import ConnectionLost, Exchange, KafkaLink
from .requests import AppliedLeave, group_of, java_hash, operation
from .shard import Shard, refusal

__all__ = ["AppliedLeave", "ModelKafkaCluster"]

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
"""LEAVE_GROUP_MEMBER_EPOCH and LEAVE_GROUP_STATIC_MEMBER_EPOCH of ConsumerGroupHeartbeatRequest and
StreamsGroupHeartbeatRequest."""
OFFSETS_PARTITIONS = 50
"""offsets.topic.num.partitions."""
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class ModelKafkaCluster:
    """A Kafka cluster in virtual time.

    Parameters
    ----------
    settings: of every broker.
    brokers: node ids.

    Attributes
    ----------
    applied: every entry of every LeaveGroup, and every leave from a streams group, that a coordinator decided on, in
        order.
    on_applied: called with each of them at once, before its answer leaves the broker.
    births: who created each member id, and when.
    on_released: called likewise with each temporary leave of a static member, from any sender.
    denied: (principal, operation) pairs that the authorizer refuses on every group; operations: READ, DESCRIBE,
        DESCRIBE_CONFIGS, DESCRIBE_TOPIC.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        *,
        settings: BrokerSettings | None = None,
        image: TopicImage | None = None,
        brokers: Sequence[int] = (1, 2, 3),
        cluster_id: str = "model-cluster",
        trace: Trace | None = None,
    ) -> None:
        self.loop = loop
        self.settings = settings or BrokerSettings()
        self.cluster_id = cluster_id
        self.brokers = tuple(brokers)
        self.applied: list[AppliedLeave] = []
        self.on_applied: list[Callable[[AppliedLeave], None]] = []
        self.on_released: list[Callable[[AppliedLeave], None]] = []
        self.denied: set[tuple[str, str]] = set()
        self.group_configs: dict[str, dict[str, str]] = {}
        self._image = image or TopicImage()
        self._trace = trace
        self._down: set[int] = set()
        self._deaths = dict.fromkeys(self.brokers, 0)
        self._at_broker: dict[int, dict[Exchange, None]] = {node_id: {} for node_id in self.brokers}
        self._shards: dict[int, Shard] = {}
        self.births = Births(loop)

    # what clients do ------------------------------------------------------------------------------------------------

    async def request(
        self, link: KafkaLink, request: Request, *, node_id: int | None = None, timeout_s: float | None = None,
        principal: str | None = None,
    ) -> Response:
        """Send a request to a broker and wait for its answer.

        Parameters
        ----------
        node_id: the broker; None: the coordinator of the request's group, as the client knows or finds it.
        timeout_s: after it the client gives up; None: the link's own.
        principal: of the sender; None: the link's own.

        Raises
        ------
        ConnectionLost: no answer; whether the broker has acted is unknown.
        """
        group_id = group_of(request)
        try:
            target = await self._find(link, group_id) if node_id is None else node_id
            response: Response = await self.exchange(
                link,
                target,
                lambda exchange: self._serve(request, exchange),
                timeout_s=timeout_s,
                principal=principal,
            )
        except ConnectionLost:
            link.coordinators.pop(group_id, None)
            raise
        if response.error_code in _MOVED:
            link.coordinators.pop(group_id, None)
        return response

    def exchange(
        self, link: KafkaLink, node_id: int, work: Callable[[Exchange], None], *, timeout_s: float | None = None,
        principal: str | None = None,
    ) -> asyncio.Future[Any]:
        """Carry any question to a broker; `work` answers it there by `Exchange.reply`.

        Returns
        -------
        A future of the answer; it raises ConnectionLost when none comes.
        """
        exchange = Exchange(
            self.loop, link, node_id, self._at(node_id, work), self._at_broker[node_id], timeout_s, principal
        )
        exchange.send()
        return exchange.answer

    async def _find(self, link: KafkaLink, group_id: str) -> int:
        known = link.coordinators.get(group_id)
        if known is not None:
            return known
        found: int | None = await self.exchange(
            link, self.any_broker(), lambda exchange: exchange.reply(self.locate(group_id))
        )
        if found is None:
            raise ConnectionLost(f"group {group_id!r} has no coordinator now")
        link.coordinators[group_id] = found
        return found

    # what any client may read -----------------------------------------------------------------------------------------

    @property
    def image(self) -> TopicImage:
        """The topics."""
        return self._image

    @image.setter
    def image(self, image: TopicImage) -> None:
        self._image = image
        for shard in self._shards.values():
            shard.coordinator.image = image

    def any_broker(self) -> int:
        """Return the first broker that is up; the first of all when none is."""
        return next((node_id for node_id in self.brokers if node_id not in self._down), self.brokers[0])

    def is_up(self, node_id: int) -> bool:
        """Whether a broker answers at all."""
        return node_id not in self._down

    def deaths(self, node_id: int) -> int:
        """Return how often a broker was killed: a connection opened before the last time is broken."""
        return self._deaths[node_id]

    def locate(self, group_id: str) -> int | None:
        """Return the broker that coordinates a group; None while none does."""
        return self.shard(group_id).leader

    def coordinator(self, group_id: str) -> GroupCoordinator:
        """Return the coordinator of a group, for oracles and tests."""
        return self.shard(group_id).coordinator

    def shard(self, group_id: str) -> Shard:
        """Return the partition that a group belongs to (Utils.abs(groupId.hashCode()) % partitions)."""
        index = (java_hash(group_id) & 0x7FFFFFFF) % OFFSETS_PARTITIONS
        shard = self._shards.get(index)
        if shard is None:
            up = [node_id for node_id in self.brokers if node_id not in self._down]
            shard = Shard(self.loop, index, up[index % len(up)] if up else None, self._make_coordinator)
            shard.on_request = self.births.note_request
            self._shards[index] = shard
        return shard

    # faults -----------------------------------------------------------------------------------------------------------

    def fail_over(
        self, group_id: str, *, to: int | None = None, is_clean: bool = True, outage_s: float = 0.3,
        loading_s: float = 0.0,
    ) -> None:
        """Move the coordination of a group to another broker.

        Parameters
        ----------
        to: the new broker; None: the next one that is up.
        is_clean: the old one resigns and says so; else its connections break.
        outage_s: time without any coordinator (0.2-0.3 s after a clean stop, 6-10 s after a kill).
        loading_s: time in which the new one answers COORDINATOR_LOAD_IN_PROGRESS.
        """
        shard = self.shard(group_id)
        before = shard.leader
        self._tell("coordinator changes", group=group_id, before=before, outage_s=outage_s)
        shard.resign(is_clean=is_clean)
        self.loop.world_call_later(outage_s, self._take_over, shard, before, to, loading_s)

    def kill_broker(self, node_id: int, *, outage_s: float = 7.0) -> None:
        """Kill a broker: connections break, its partitions have no leader until the others notice."""
        self._down.add(node_id)
        self._deaths[node_id] += 1
        self._tell("broker killed", node=node_id)
        for shard in self._shards.values():
            if shard.leader == node_id:
                shard.resign(is_clean=False)
                self.loop.world_call_later(outage_s, self._take_over, shard, node_id, None, 0.0)
        for exchange in list(self._at_broker[node_id]):
            exchange.refuse()

    def start_broker(self, node_id: int) -> None:
        """Start a killed broker; partitions without a leader find one now."""
        self._down.discard(node_id)
        self._tell("broker started", node=node_id)
        for shard in self._shards.values():
            if shard.leader is None:
                self.loop.world_call_later(1.0, self._take_over, shard, None, None, 0.0)

    def refuse(self, group_id: str, code: ErrorCode, *, for_s: float) -> None:
        """Answer an error to everything that concerns a group for a while, as when loading or short of replicas."""
        shard = self.shard(group_id)
        shard.refused_with, shard.refused_until_s = code, self.loop.time() + for_s
        self._tell("coordinator refuses", group=group_id, code=code.name, for_s=for_s)

    def refuse_writes(self, group_id: str, code: ErrorCode | None) -> None:
        """Let the log refuse appends (None: accept them again), as under min.insync.replicas."""
        self.shard(group_id).refuse_writes(code)
        self._tell("log refuses appends" if code else "log takes appends", group=group_id)

    def read_stale(self, group_id: str, *, behind_s: float, for_s: float) -> None:
        """Answer reads of a group for a while with what the log held `behind_s` before now."""
        self.shard(group_id).read_stale(behind_s=behind_s, for_s=for_s)
        self._tell("reads are stale", group=group_id, behind_s=behind_s, for_s=for_s)

    def deny(self, principal: str, operation: str) -> None:
        """Take a right away."""
        self.denied.add((principal, operation))
        self._tell("right lost", principal=principal, operation=operation)

    def grant(self, principal: str, operation: str) -> None:
        """Give a right back."""
        self.denied.discard((principal, operation))
        self._tell("right granted", principal=principal, operation=operation)

    # at the broker ----------------------------------------------------------------------------------------------------

    def _at(self, node_id: int, work: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
        return lambda exchange: exchange.refuse() if node_id in self._down else work(exchange)

    def _serve(self, request: Request, exchange: Exchange) -> None:
        response = self._answer(request, exchange)
        if response is not None:
            exchange.reply(response)
        else:
            exchange.time_out()

    def _answer(self, request: Request, exchange: Exchange) -> Response | None:
        if isinstance(request, ListGroupsRequest):
            return self._list(request, exchange)
        if (exchange.principal, operation(request)) in self.denied:
            return refusal(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if isinstance(request, DescribeGroupsRequest):
            alone = (replace(request, groups=(group_id,)) for group_id in request.groups)
            return DescribeGroupsResponse(groups=self._described(alone, exchange))
        if isinstance(request, ConsumerGroupDescribeRequest):
            single = (replace(request, group_ids=(group_id,)) for group_id in request.group_ids)
            return ConsumerGroupDescribeResponse(groups=self._described(single, exchange))
        if isinstance(request, StreamsGroupDescribeRequest):
            each = (replace(request, group_ids=(group_id,)) for group_id in request.group_ids)
            return StreamsGroupDescribeResponse(groups=self._described(each, exchange))
        holders = self._holders(request.group_id) if isinstance(request, LeaveGroupRequest) else {}
        response = self.shard(group_of(request)).handle(request, exchange)
        if isinstance(request, LeaveGroupRequest) and isinstance(response, LeaveGroupResponse):
            self._note_leave(request, response, exchange, holders)
        if isinstance(request, EpochHeartbeatRequest) and isinstance(response, EpochHeartbeatResponse):
            self._note_heartbeat(request, response, exchange)
        return response

    def _described(self, requests: Iterable[Request], exchange: Exchange) -> tuple[Any, ...]:
        """Ask each group's own coordinator."""
        answers: list[Any] = [self.shard(group_of(request)).handle(request, exchange) for request in requests]
        return tuple(group for answer in answers for group in answer.groups)

    def _list(self, request: ListGroupsRequest, exchange: Exchange) -> ListGroupsResponse:
        if (exchange.principal, "DESCRIBE") in self.denied:
            return ListGroupsResponse()  # a broker omits what may not be described, without an error
        groups: list[Any] = []
        for shard in self._shards.values():
            if shard.leader == exchange.node_id:
                listed: Any = shard.handle(request, exchange)
                if listed.error_code != ErrorCode.NONE:
                    return ListGroupsResponse(error_code=listed.error_code)
                groups += listed.groups
        return ListGroupsResponse(groups=tuple(groups))

    def _holders(self, group_id: str) -> dict[str, str]:
        """Return instance id → member id."""
        return dict(getattr(self.coordinator(group_id).groups.get(group_id), "static_members", ()))

    def _note_leave(
        self, request: LeaveGroupRequest, response: LeaveGroupResponse, exchange: Exchange, holders: Mapping[str, str],
    ) -> None:
        for member in response.members:
            applied = AppliedLeave(
                at_s=self.loop.time(),
                client=exchange.link.name,
                group_id=request.group_id,
                member_id=member.member_id or holders.get(member.group_instance_id or "", ""),
                instance_id=member.group_instance_id,
                error_code=member.error_code,
            )
            self._note_applied(applied)

    def _note_applied(self, applied: AppliedLeave) -> None:
        self.applied.append(applied)
        self._tell(
            "leave applied",
            group=applied.group_id,
            by=applied.client,
            member=applied.member_id,
            instance=applied.instance_id,
            result=applied.error_code.name,
        )
        for hook in self.on_applied:
            hook(applied)

    def _note_heartbeat(
        self, request: EpochHeartbeatRequest, response: EpochHeartbeatResponse, exchange: Exchange
    ) -> None:
        """Note a heartbeat that is a temporary leave, or the leave of a member of a streams group."""
        is_streams = isinstance(request, StreamsGroupHeartbeatRequest)
        if request.member_epoch != LEAVE_FOR_A_WHILE and not (is_streams and request.member_epoch == LEAVE):
            return
        applied = AppliedLeave(
            at_s=self.loop.time(),
            client=exchange.link.name,
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            error_code=response.error_code,
        )
        if request.member_epoch == LEAVE:
            self._note_applied(applied)
            return
        for hook in self.on_released:
            hook(applied)

    def _make_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.settings, image=self._image, new_uuid=self.births.new_uuid)
        coordinator.group_configs = self.group_configs
        return coordinator

    def _take_over(self, shard: Shard, before: int | None, to: int | None, loading_s: float) -> None:
        if shard.leader is not None:
            return
        up = [node_id for node_id in self.brokers if node_id not in self._down]
        others = [node_id for node_id in up if node_id != before] or up
        chosen = to if to in up else next((n for n in others if before is None or n > before), next(iter(others), None))
        if chosen is None:
            return  # `start_broker` tries again
        shard.load(chosen)
        if loading_s > 0:
            shard.refused_with = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            shard.refused_until_s = self.loop.time() + loading_s
        self._tell("coordinator loaded", node=chosen, partition=shard.index, records=len(shard.log))

    def _tell(self, what: str, **facts: object) -> None:
        if self._trace is not None:
            self._trace.add(self.loop.time(), "kafka", what, **facts)
