"""A scripted broker on a loopback socket: the other end of the wire, not a fake of our own code.

Why: traps of the protocol (hidden members, moved coordinators, lost or unreadable answers) must come over a real socket
in real frames. One idea: default handlers serve a small cluster model; a test replaces a handler to set its trap.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from staticgroup.kafka.wire import Api
from unit.kafka.answers import altered, element, encode, leave_answer, nested_element, released, respond, streams_left

SASL = {17: (0, 1), 36: (0, 2)}
MODERN = SASL | {
    3: (0, 13), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 15: (0, 6), 16: (0, 5), 32: (1, 4), 44: (0, 1),
    68: (0, 1), 69: (0, 1), 88: (0, 1), 89: (0, 1),
}  # fmt: skip
"""API versions of Kafka 4.4."""
KAFKA_3_7 = MODERN | {15: (0, 5), 16: (0, 4), 69: (0, 0)}
KAFKA_2_3 = SASL | {3: (0, 8), 10: (0, 2), 11: (0, 5), 12: (0, 3), 13: (0, 2), 15: (0, 3), 16: (0, 2), 32: (0, 2)}

SILENT = object()
"""Handler result: never answer."""
CLOSE = object()
"""Handler result: close the connection instead of answering."""

Handler = Callable[[Any, int], Any]


@dataclass
class Group:
    """What the coordinator holds of one group; `members` are (member_id, instance_id), `away` who left for a while."""

    type: str = "classic"
    state: str = "Stable"
    members: list[tuple[str, str | None]] = field(default_factory=list)
    epoch: int = 7
    away: set[str] = field(default_factory=set)

    def compare(self, member_id: str, instance_id: str) -> int:
        """Return the error code for a member that is to leave: unknown, fenced, or none."""
        holders = {i: m for m, i in self.members}
        return 25 if instance_id not in holders else 82 if holders[instance_id] != member_id else 0


@dataclass
class Cluster:
    """A cluster of fake brokers: who is there, who coordinates, which groups exist."""

    cluster_id: str = "MkU3OEVBNTcwNTJENDM2Qk"
    brokers: list[FakeBroker] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    coordinator: int = 1

    def broker(self, node_id: int) -> FakeBroker:
        return next(broker for broker in self.brokers if broker.node_id == node_id)


class FakeBroker:
    """One broker; `requests` records (api, request) of everything it understood."""

    def __init__(self, cluster: Cluster, node_id: int = 1, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.versions = dict(versions or MODERN)
        self.advertised: tuple[str, int] | None = None
        self.requests: list[tuple[Api, Any]] = []
        self.handlers: dict[Api, Handler] = {}
        self.connections = 0
        self.open_now = 0
        self.most_open = 0
        self.sasl_bytes: list[bytes] = []
        self.stored: dict[str, str] = {}
        """What is set on the group, whichever is asked for."""
        self.echoes_logins = False
        """A login is refused, and its content is sent back: as the message of the refusal, and to mechanisms that go on, as a challenge."""
        self.held: asyncio.Event | None = None
        """While it is there and not set, answers wait for it, in order."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._arrivals: dict[Api, asyncio.Event] = {}
        self.port = 0
        cluster.brokers.append(self)

    async def start(self, context: ssl.SSLContext | None = None) -> FakeBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, api: Api) -> int:
        return sum(1 for seen, _ in self.requests if seen is api)

    async def has_seen(self, api: Api) -> None:
        """Wait until such a request has come."""
        async with asyncio.timeout(60):
            await self._arrivals.setdefault(api, asyncio.Event()).wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer(await reader.readexactly(size))
                if answer is CLOSE:
                    return
                if self.held is not None:
                    await self.held.wait()
                if answer is not SILENT:
                    writer.write(struct.pack(">i", len(answer)) + answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.open_now -= 1
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: bytes) -> Any:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        head = struct.pack(">i", correlation_id)
        if key == 18:  # ApiVersions v0, which aiokafka asks
            rows = b"".join(struct.pack(">hhh", k, lo, hi) for k, (lo, hi) in sorted(self.versions.items()))
            return head + struct.pack(">hi", 0, len(self.versions)) + rows
        if key in (17, 36):
            return self._answer_sasl(key, version, frame, head)
        request_type = load_request_schema(key, version)
        _, start = entity_reader(request_type.__header_schema__)(frame, 0)
        request, _ = entity_reader(request_type)(frame, start)
        api = Api(key)
        self.requests.append((api, request))
        self._arrivals.setdefault(api, asyncio.Event()).set()
        handler = self.handlers.get(api) or getattr(self, f"_{api.name.lower()}")
        answer = handler(request, version)
        if answer is CLOSE or answer is SILENT:
            return answer
        response_type = load_response_schema(key, version)
        head += b"\0" if response_type.__header_schema__.__flexible__ else b""
        return head + (answer if isinstance(answer, bytes) else encode(answer))

    def _answer_sasl(self, key: int, version: int, frame: bytes, head: bytes) -> bytes:
        self.sasl_bytes.append(frame)
        if key == 17:
            mechanisms = (b"PLAIN", b"OAUTHBEARER")
            listed = b"".join(struct.pack(">h", len(m)) + m for m in mechanisms)
            return head + struct.pack(">hi", 0, len(mechanisms)) + listed
        lifetime = struct.pack(">q", 0) if version >= 1 else b""
        if self.echoes_logins:
            echoed = frame[-200:]
            return head + struct.pack(">h", 58) + struct.pack(">h", len(echoed)) + echoed + struct.pack(">i", len(echoed)) + echoed + lifetime
        return head + struct.pack(">hhi", 0, -1, 0) + lifetime

    def _consumer_group_heartbeat(self, request: Any, version: int) -> Any:
        """Let the sender leave for a while."""
        return released(version, 0, request.member_id)

    def _metadata(self, _request: Any, version: int) -> Any:
        brokers = []
        for broker in self.cluster.brokers:
            host, port = broker.advertised or ("127.0.0.1", broker.port)
            brokers.append(element(Api.METADATA, version, "brokers", node_id=broker.node_id, host=host, port=port))
        return respond(
            Api.METADATA, version, brokers=tuple(brokers), cluster_id=self.cluster.cluster_id, controller_id=1,
            topics=(),
        )

    def _find_coordinator(self, request: Any, version: int) -> Any:
        coordinator = self.cluster.broker(self.cluster.coordinator)
        host, port = coordinator.advertised or ("127.0.0.1", coordinator.port)
        where = {"node_id": coordinator.node_id, "host": host, "port": port, "error_code": 0, "error_message": None}
        if version < 4:
            return respond(Api.FIND_COORDINATOR, version, **where)
        keys = request.coordinator_keys
        rows = tuple(element(Api.FIND_COORDINATOR, version, "coordinators", key=key, **where) for key in keys)
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    def _list_groups(self, _request: Any, version: int) -> Any:
        rows = tuple(
            element(
                Api.LIST_GROUPS, version, "groups", group_id=group_id, protocol_type="consumer",
                group_state=group.state, group_type=group.type,
            )
            for group_id, group in self.cluster.groups.items()
        )
        return respond(Api.LIST_GROUPS, version, error_code=self._coordinator_error(), groups=rows)

    def _group_of(self, group_id: str, group_type: str, error_code: int) -> tuple[Group | None, int]:
        """Return a group if it is of this type and nothing hinders, and the error code; 69 where there is none."""
        group = self.cluster.groups.get(group_id)
        error_code = error_code or self._coordinator_error()
        if error_code or group is None or group.type != group_type:
            return None, error_code or 69
        return group, 0

    def _describe_groups(self, request: Any, version: int) -> Any:
        rows = tuple(self.describe_classic(g, version) for g in request.groups)
        return respond(Api.DESCRIBE_GROUPS, version, groups=rows)

    def describe_classic(self, group_id: str, version: int, error_code: int = 0) -> Any:
        group, code = self._group_of(group_id, "classic", error_code)
        if version < 6 and not error_code and code == 69:
            code = 0  # "Dead, no error"
        members = tuple(
            nested_element(
                Api.DESCRIBE_GROUPS, version, ("groups", "members"), member_id=member_id, group_instance_id=instance_id,
                client_id="orders", client_host="/10.0.0.7", member_metadata=b"", member_assignment=b"",
            )
            for member_id, instance_id in (group.members if group else ())
        )
        return element(
            Api.DESCRIBE_GROUPS, version, "groups", error_code=code, error_message=None, group_id=group_id,
            group_state=group.state if group else "Dead" if code in (0, 69) else "",
            protocol_type="consumer" if group else "", protocol_data="", members=members,
        )

    def _consumer_group_describe(self, request: Any, version: int) -> Any:
        rows = tuple(self.describe_consumer(g, version) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    def describe_consumer(self, group_id: str, version: int, error_code: int = 0) -> Any:
        api, path = Api.CONSUMER_GROUP_DESCRIBE, ("groups", "members")
        group, code = self._group_of(group_id, "consumer", error_code)
        nothing = nested_element(api, version, (*path, "assignment"), topic_partitions=())
        members = tuple(
            nested_element(
                api, version, path, member_id=member_id, instance_id=instance_id, member_epoch=group.epoch,
                client_id="orders", client_host="/10.0.0.7", assignment=nothing, target_assignment=nothing,
            )
            for member_id, instance_id in (group.members if group else ())
        )
        return described(api, version, group_id, group, code, assignor_name="uniform", members=members)

    def _streams_group_describe(self, request: Any, version: int) -> Any:
        rows = tuple(self.describe_streams(g, version) for g in request.group_ids)
        return respond(Api.STREAMS_GROUP_DESCRIBE, version, groups=rows)

    def describe_streams(self, group_id: str, version: int, error_code: int = 0) -> Any:
        """Describe with a topology; each member has two active tasks and a standby one."""
        api, path = Api.STREAMS_GROUP_DESCRIBE, ("groups", "members")
        group, code = self._group_of(group_id, "streams", error_code)

        def tasks(role: str, *partitions: int) -> Any:
            held = nested_element(api, version, (*path, "assignment", role), subtopology_id="0", partitions=partitions)
            return {role: (held,) if partitions else ()}

        held = {**tasks("active_tasks", 0, 1), **tasks("standby_tasks", 2), **tasks("warmup_tasks")}
        held_now = nested_element(api, version, (*path, "assignment"), **held)
        members = tuple(
            nested_element(
                api, version, path, member_id=member_id, instance_id=instance_id, client_id="app", client_host="/10.0.0.7",
                member_epoch=-2 if member_id in group.away else group.epoch, topology_epoch=1, process_id="p", client_tags=(),
                task_offsets=(), task_end_offsets=(), assignment=held_now, target_assignment=held_now, is_classic=False,
            )
            for member_id, instance_id in (group.members if group else ())
        )
        part = nested_element(
            api, version, ("groups", "topology", "subtopologies"), subtopology_id="0", source_topics=("orders",),
            repartition_sink_topics=(), state_changelog_topics=(), repartition_source_topics=(),
        )
        topology = nested_element(api, version, ("groups", "topology"), epoch=1, subtopologies=(part,))
        of_group = topology if group else None
        return described(api, version, group_id, group, code, topology=of_group, members=members)

    def _streams_group_heartbeat(self, request: Any, version: int) -> Any:
        """Compare both ids of the member that leaves (GroupMetadataManager.streamsGroupLeave)."""
        return streams_left(version, self._coordinator_error() or self._leave_streams(request), request.member_id)

    def _leave_streams(self, request: Any) -> int:
        group, code = self._group_of(request.group_id, "streams", 0)
        if group is None:
            return code
        if request.instance_id is None:
            raise AssertionError("a leave without instance id would remove any member with this member id")
        code = group.compare(request.member_id, request.instance_id)
        if not code and request.member_epoch == -2:
            group.away.add(request.member_id)
        elif not code:
            group.members.remove((request.member_id, request.instance_id))
        return code

    def _leave_group(self, request: Any, version: int) -> Any:
        top = self._coordinator_error()
        rows = [(m.member_id, m.group_instance_id, self._leave(request, m)) for m in request.members if not top]
        return leave_answer(version, top, rows)

    def _leave(self, request: Any, identity: Any) -> int:
        group = self.cluster.groups.get(request.group_id) or Group()
        code = group.compare(identity.member_id, identity.group_instance_id)
        if not code:
            group.members.remove((identity.member_id, identity.group_instance_id))
        return code

    def _join_group(self, request: Any, version: int) -> Any:
        """Draw a member id for a member that has none (KIP-394); the join itself is not answered here."""
        return respond(
            Api.JOIN_GROUP, version, error_code=79, member_id=f"{request.group_id}-drawn", generation_id=-1,
            protocol_name="", leader="", members=(),
        )  # fmt: skip

    def _heartbeat(self, _request: Any, version: int) -> Any:
        return respond(Api.HEARTBEAT, version, error_code=25)

    def _describe_configs(self, request: Any, version: int) -> Any:
        values = {
            "group.min.session.timeout.ms": "6000",
            "group.max.session.timeout.ms": "1800000",
            "group.consumer.min.session.timeout.ms": "45000",
            "group.consumer.max.session.timeout.ms": "60000",
            "consumer.session.timeout.ms": "500000",
            "group.streams.min.session.timeout.ms": "45000",
            "group.streams.max.session.timeout.ms": "60000",
            "streams.session.timeout.ms": "45000",
            "group.consumer.min.heartbeat.interval.ms": "5000",
            "group.consumer.max.heartbeat.interval.ms": "15000",
            "consumer.heartbeat.interval.ms": "5000",
        } | self.stored
        rows = tuple(self.configs(r, version, 0, values) for r in request.resources)
        return respond(Api.DESCRIBE_CONFIGS, version, results=rows)

    def _incremental_alter_configs(self, request: Any, version: int) -> Any:
        """Take whatever is asked for, and forget it."""
        return altered(version, request, 0)

    def configs(self, resource: Any, version: int, error_code: int, values: dict[str, str]) -> Any:
        keys = resource.configuration_keys if not error_code else ()
        rows = tuple(
            nested_element(
                Api.DESCRIBE_CONFIGS, version, ("results", "configs"), name=key, value=values[key], read_only=False,
                config_source=8 if key in self.stored else 5, is_sensitive=False, synonyms=(), documentation=None,
            )
            for key in keys
            if key in values
        )
        return element(
            Api.DESCRIBE_CONFIGS, version, "results", error_code=error_code, error_message=None,
            resource_type=resource.resource_type, resource_name=resource.resource_name, configs=rows,
        )

    def _coordinator_error(self) -> int:
        return 0 if self.node_id == self.cluster.coordinator else 16


def described(api: Api, version: int, group_id: str, group: Group | None, code: int, **values: Any) -> Any:
    """A group with epochs."""
    epoch = group.epoch if group else -1
    return element(
        api, version, "groups", error_code=code, group_id=group_id, group_state=group.state if group else "",
        group_epoch=epoch, assignment_epoch=epoch, **values,
    )
