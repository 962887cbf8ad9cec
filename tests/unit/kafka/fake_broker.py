"""A scripted broker on a loopback socket: the other end of the wire, not a fake of our own code.

Why: traps of the protocol (hidden members, moved coordinators, lost or unreadable answers) must come over a real socket
in real frames. One idea: default handlers serve a small cluster model; a test replaces a handler to set its trap.
"""

from __future__ import annotations

import asyncio
import io
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from staticgroup.kafka.wire import Api

SASL = {17: (0, 1), 36: (0, 2)}
MODERN = SASL | {
    3: (0, 13),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    15: (0, 6),
    16: (0, 5),
    32: (1, 4),
    69: (0, 1),
}
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
    """What the coordinator holds of one group; `members` are (member_id, instance_id) or with a member epoch."""

    type: str = "classic"
    state: str = "Stable"
    members: list[tuple[str, str | None]] = field(default_factory=list)
    epoch: int = 7


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
        async with asyncio.timeout(5.0):
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
        return head + struct.pack(">hhi", 0, -1, 0) + lifetime

    def respond(self, api: Api, version: int, **values: Any) -> Any:
        return respond(api, version, **values)

    def _metadata(self, _request: Any, version: int) -> Any:
        brokers = []
        for broker in self.cluster.brokers:
            host, port = broker.advertised or ("127.0.0.1", broker.port)
            brokers.append(element(Api.METADATA, version, "brokers", node_id=broker.node_id, host=host, port=port))
        return respond(
            Api.METADATA,
            version,
            brokers=tuple(brokers),
            cluster_id=self.cluster.cluster_id,
            controller_id=1,
            topics=(),
        )

    def _find_coordinator(self, request: Any, version: int) -> Any:
        host, port = (self.cluster.broker(self.cluster.coordinator).advertised) or (
            "127.0.0.1",
            self.cluster.broker(self.cluster.coordinator).port,
        )
        where = {
            "node_id": self.cluster.coordinator,
            "host": host,
            "port": port,
            "error_code": 0,
            "error_message": None,
        }
        if version < 4:
            return respond(Api.FIND_COORDINATOR, version, **where)
        rows = tuple(
            element(Api.FIND_COORDINATOR, version, "coordinators", key=key, **where) for key in request.coordinator_keys
        )
        return respond(Api.FIND_COORDINATOR, version, coordinators=rows)

    def _list_groups(self, _request: Any, version: int) -> Any:
        rows = tuple(
            element(
                Api.LIST_GROUPS,
                version,
                "groups",
                group_id=group_id,
                protocol_type="consumer",
                group_state=group.state,
                group_type=group.type,
            )
            for group_id, group in self.cluster.groups.items()
        )
        return respond(Api.LIST_GROUPS, version, error_code=self._coordinator_error(), groups=rows)

    def _describe_groups(self, request: Any, version: int) -> Any:
        return respond(
            Api.DESCRIBE_GROUPS, version, groups=tuple(self.describe_classic(g, version) for g in request.groups)
        )

    def describe_classic(self, group_id: str, version: int, error_code: int = 0) -> Any:
        group = self.cluster.groups.get(group_id)
        error_code = error_code or self._coordinator_error()
        known = group is not None and group.type == "classic" and not error_code
        if not known and not error_code and version >= 6:
            error_code = 69
        members = tuple(
            nested_element(
                Api.DESCRIBE_GROUPS,
                version,
                ("groups", "members"),
                member_id=member_id,
                group_instance_id=instance_id,
                client_id="orders",
                client_host="/10.0.0.7",
                member_metadata=b"",
                member_assignment=b"",
            )
            for member_id, instance_id in (group.members if known and group else ())
        )
        return element(
            Api.DESCRIBE_GROUPS,
            version,
            "groups",
            error_code=error_code,
            error_message=None,
            group_id=group_id,
            group_state=group.state if known and group else "Dead" if not error_code or error_code == 69 else "",
            protocol_type="consumer" if known else "",
            protocol_data="",
            members=members,
        )

    def _consumer_group_describe(self, request: Any, version: int) -> Any:
        rows = tuple(self.describe_consumer(g, version) for g in request.group_ids)
        return respond(Api.CONSUMER_GROUP_DESCRIBE, version, groups=rows)

    def describe_consumer(self, group_id: str, version: int, error_code: int = 0) -> Any:
        group = self.cluster.groups.get(group_id)
        error_code = error_code or self._coordinator_error()
        known = group is not None and group.type == "consumer" and not error_code
        if not known and not error_code:
            error_code = 69
        path = ("groups", "members")
        api = Api.CONSUMER_GROUP_DESCRIBE
        nothing = nested_element(api, version, (*path, "assignment"), topic_partitions=())
        members = tuple(
            nested_element(
                api,
                version,
                path,
                member_id=member_id,
                instance_id=instance_id,
                member_epoch=group.epoch,
                client_id="orders",
                client_host="/10.0.0.7",
                assignment=nothing,
                target_assignment=nothing,
            )
            for member_id, instance_id in (group.members if known and group else ())
        )
        return element(
            api,
            version,
            "groups",
            error_code=error_code,
            group_id=group_id,
            group_state=group.state if known and group else "",
            group_epoch=group.epoch if known and group else -1,
            assignment_epoch=group.epoch if known and group else -1,
            assignor_name="uniform",
            members=members,
        )

    def _leave_group(self, request: Any, version: int) -> Any:
        top = self._coordinator_error()
        return leave_answer(
            version,
            top,
            () if top else [(m.member_id, m.group_instance_id, self._leave(request, m)) for m in request.members],
        )

    def _leave(self, request: Any, identity: Any) -> int:
        group = self.cluster.groups.get(request.group_id)
        holders = {i: m for m, i in group.members} if group else {}
        if identity.group_instance_id not in holders:
            return 25
        if holders[identity.group_instance_id] != identity.member_id:
            return 82
        assert group
        group.members.remove((identity.member_id, identity.group_instance_id))
        return 0

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
        }
        rows = tuple(self.configs(r, version, 0, values) for r in request.resources)
        return respond(Api.DESCRIBE_CONFIGS, version, results=rows)

    def configs(self, resource: Any, version: int, error_code: int, values: dict[str, str]) -> Any:
        keys = resource.configuration_keys if not error_code else ()
        rows = tuple(
            nested_element(
                Api.DESCRIBE_CONFIGS,
                version,
                ("results", "configs"),
                name=key,
                value=values[key],
                read_only=False,
                is_sensitive=False,
                synonyms=(),
                documentation=None,
            )
            for key in keys
        )
        return element(
            Api.DESCRIBE_CONFIGS,
            version,
            "results",
            error_code=error_code,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=rows,
        )

    def _coordinator_error(self) -> int:
        return 0 if self.node_id == self.cluster.coordinator else 16


def leave_answer(version: int, top: int, rows: Any) -> Any:
    members = tuple(
        element(Api.LEAVE_GROUP, version, "members", member_id=m, group_instance_id=i, error_code=code)
        for m, i, code in rows
    )
    return respond(Api.LEAVE_GROUP, version, error_code=top, members=members)


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def respond(api: Api, version: int, **values: Any) -> Any:
    return fill(load_response_schema(int(api), version), throttle_time=timedelta(0), **values)


def element(api: Api, version: int, field_name: str, **values: Any) -> Any:
    return nested_element(api, version, (field_name,), **values)


def nested_element(api: Api, version: int, path: tuple[str, ...], **values: Any) -> Any:
    current: Any = load_response_schema(int(api), version)
    for name in path:
        annotation = current.__dataclass_fields__[name].type
        current = annotation.__args__[0] if hasattr(annotation, "__args__") else annotation
    return fill(current, **values)


def fill(cls: Any, **values: Any) -> Any:
    from kio.schema.errors import ErrorCode

    if "error_code" in values:
        values["error_code"] = ErrorCode(values["error_code"])
    return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})
