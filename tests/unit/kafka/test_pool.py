"""Connections: few, checked, bounded in time, renewed, and given up when the Secret is rotated."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import GroupView, KafkaProblem, KafkaProblemKind, LeaveEntry, LeaveResult
from staticgroup.kafka.connection import FRAME_MAX_BYTES
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, SaslSettings, SecretText, TlsSettings
from staticgroup.kafka.wire import Api
from support.devcluster import kafka_tls
from support.sockets import socket_count
from unit.kafka.fake_broker import SILENT, Cluster, FakeBroker, Group

from .gateway_script import Kafka


def kind(outcome: object) -> KafkaProblemKind:
    assert isinstance(outcome, KafkaProblem), outcome
    return outcome.kind


class RawServer:
    """A listener that is no broker: it sends given bytes, or nothing."""

    def __init__(self, content: bytes | None = None, *, closes: bool = False) -> None:
        self.content, self.closes, self.connections = content, closes, 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def _serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        if self.content:
            writer.write(self.content)
        if self.closes:
            writer.close()

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


@pytest_asyncio.fixture
async def raw_servers() -> AsyncIterator[list[RawServer]]:
    servers: list[RawServer] = []
    yield servers
    for server in servers:
        await server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem and a broker certificate for kafka.test."""
    folder = tmp_path_factory.mktemp("tls")
    kafka_tls.make_authority(folder, "test authority")
    kafka_tls.make_broker_store(folder, "kafka.test")
    return folder


def server_context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    return context


@pytest.mark.parametrize("scheme", ["plain", "tls"])
async def test_silent_server_is_given_up_at_the_deadline(
    gateway: KioGateway, raw_servers: list[RawServer], scheme: str
) -> None:
    server = await RawServer().start()
    raw_servers.append(server)
    settings = ConnectionSettings(
        bootstrap_servers=(server.address,), allow_loopback=True, request_timeout_s=0.2,
        tls=TlsSettings() if scheme == "tls" else None,
    )
    started_s = asyncio.get_running_loop().time()
    outcomes = await asyncio.gather(
        gateway.probe(settings), gateway.describe(settings, "orders"), gateway.bounds(settings, "orders"),
        gateway.leave(settings, "orders", [LeaveEntry(member_id="m", instance_id="i")]),
    )
    assert {kind(outcome) for outcome in outcomes} == {KafkaProblemKind.UNREACHABLE}
    assert asyncio.get_running_loop().time() - started_s < 2.0
    assert socket_count(gateway) == 0


async def test_refused_silent_and_closing_brokers_share_one_reason(
    gateway: KioGateway, raw_servers: list[RawServer]
) -> None:
    silent, closing = await RawServer().start(), await RawServer(closes=True).start()
    gone = await RawServer().start()
    await gone.stop()
    raw_servers += [silent, closing]
    outcomes = [
        await gateway.probe(
            ConnectionSettings(bootstrap_servers=(server.address,), allow_loopback=True, request_timeout_s=0.2)
        )
        for server in (silent, closing, gone)
    ]
    assert {kind(outcome) for outcome in outcomes} == {KafkaProblemKind.UNREACHABLE}


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        (FRAME_MAX_BYTES + 1).to_bytes(4, "big"),
        b"\0\0\0\4\0\0\0\x63",
        b"\0\0\0\1\0",
        b"\0\0\0\0",
    ],
    ids=["http", "2 GiB", "negative", "over the cap", "other correlation", "one byte", "empty"],
)
async def test_server_that_is_no_broker_is_an_unexpected_answer(
    gateway: KioGateway, raw_servers: list[RawServer], content: bytes
) -> None:
    server = await RawServer(content).start()
    raw_servers.append(server)
    settings = ConnectionSettings(bootstrap_servers=(server.address,), allow_loopback=True, request_timeout_s=1.0)
    outcome = await gateway.probe(settings)
    assert kind(outcome) is KafkaProblemKind.UNEXPECTED_ANSWER
    assert socket_count(gateway) == 0


async def test_silent_bootstrap_server_leaves_time_for_the_next(
    broker: FakeBroker, gateway: KioGateway, raw_servers: list[RawServer], settings: ConnectionSettings
) -> None:
    silent = await RawServer().start()
    raw_servers.append(silent)
    for seed in range(4):
        gateway = KioGateway(rng=random.Random(seed))
        both = replace(settings, bootstrap_servers=(silent.address, broker.address), request_timeout_s=0.6)
        assert isinstance(await gateway.probe(both), ClusterFacts)
        await gateway.close()
    assert silent.connections > 0  # some order began with the silent one


async def test_bootstrap_order_is_the_given_rngs(cluster: Cluster, settings: ConnectionSettings) -> None:
    others = [await FakeBroker(Cluster(), node_id=n).start() for n in range(2, 6)]
    all_servers = tuple(b.address for b in (cluster.brokers[0], *others))
    first_asked: set[int] = set()
    for seed in range(12):
        gateway = KioGateway(rng=random.Random(seed))
        before = [b.connections for b in (cluster.brokers[0], *others)]
        await gateway.probe(replace(settings, bootstrap_servers=all_servers))
        after = [b.connections for b in (cluster.brokers[0], *others)]
        first_asked.add([a - b for a, b in zip(after, before, strict=True)].index(1))
        await gateway.close()
    for broker in others:
        await broker.stop()
    assert len(first_asked) >= 3


async def test_wrong_cluster_is_refused_before_any_group_call(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.settings = replace(kafka.settings, cluster_id="another")
    entry = LeaveEntry(member_id="m", instance_id="i")
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.WRONG_CLUSTER
    assert kind(await kafka.gateway.leave(kafka.settings, "orders", [entry])) is KafkaProblemKind.WRONG_CLUSTER
    assert {api for api, _ in broker.requests} == {Api.METADATA}


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ("redpanda.2d339cd9-b540-484d-80da-16cd0650e49b", "redpanda.2d339cd9-b540-484d-80da-16cd0650e49b"),
        ("broken\x1b[2J", "an unreadable one"),
        ("c" * 300, "an unreadable one"),
    ],
)
async def test_the_other_clusters_id_is_shown_when_it_can_be_written_into_the_spec(
    kafka: Kafka, reported: str, shown: str
) -> None:
    kafka.cluster.cluster_id = reported
    outcome = await kafka.gateway.describe(replace(kafka.settings, cluster_id="expected"), "orders")
    assert isinstance(outcome, KafkaProblem)
    assert outcome.message.startswith(f"the brokers report cluster id {shown}, but spec.clusterId is expected")


async def test_coordinator_of_another_cluster_is_never_asked_to_remove(kafka: Kafka) -> None:
    """A stale address may belong to another cluster by now; each connection proves itself."""
    foreign = await FakeBroker(Cluster(cluster_id="foreign"), node_id=2).start()
    kafka.cluster.brokers.append(foreign)
    kafka.cluster.coordinator = 2
    outcome = await kafka.gateway.leave(
        replace(kafka.settings, request_timeout_s=0.3), "orders", [LeaveEntry(member_id="m", instance_id="i")]
    )
    assert kind(outcome) is KafkaProblemKind.COORDINATOR_UNAVAILABLE
    assert {api for api, _ in foreign.requests} == {Api.METADATA}


async def test_loopback_bootstrap_is_refused_without_a_connection(kafka: Kafka, broker: FakeBroker) -> None:
    outcome = await kafka.gateway.probe(replace(kafka.settings, allow_loopback=False))
    assert kind(outcome) is KafkaProblemKind.ADDRESS_REFUSED
    assert broker.connections == 0


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "::ffff:169.254.169.254"])
async def test_broker_that_advertises_a_refused_address_is_not_followed(kafka: Kafka, host: str) -> None:
    kafka.broker.advertised = (host, 80)
    outcome = await kafka.describe("orders")
    assert kind(outcome) is KafkaProblemKind.ADDRESS_REFUSED


async def test_checked_address_is_dialled_and_the_name_verified(authority: Path) -> None:
    """The resolver is asked once per connection; the certificate is for the name, not for 127.0.0.1."""
    asked: list[str] = []

    async def resolver(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ("127.0.0.1",)

    cluster = Cluster()
    broker = await FakeBroker(cluster).start(server_context(authority))
    broker.advertised = ("kafka.test", broker.port)
    gateway = KioGateway(resolver=resolver)
    settings = ConnectionSettings(
        bootstrap_servers=(f"kafka.test:{broker.port}",), allow_loopback=True,
        tls=TlsSettings(ca_pem=(authority / "ca.pem").read_text()), request_timeout_s=3.0,
    )
    assert isinstance(await gateway.probe(settings), ClusterFacts)
    assert isinstance(await gateway.describe(settings, "orders"), GroupView)
    assert asked == ["kafka.test"]
    other_name = replace(settings, bootstrap_servers=(f"other.test:{broker.port}",))
    assert kind(await gateway.probe(other_name)) is KafkaProblemKind.TLS_FAILED
    no_authority = replace(settings, tls=TlsSettings())
    assert kind(await gateway.probe(no_authority)) is KafkaProblemKind.TLS_FAILED
    await gateway.close()
    await broker.stop()


async def test_idle_connection_is_renewed_before_the_broker_would_close_it(kafka: Kafka, clock: Any) -> None:
    await kafka.gateway.probe(kafka.settings)
    clock.now_s += 8 * 60
    await kafka.gateway.probe(kafka.settings)
    assert kafka.broker.connections == 1
    clock.now_s += 9 * 60 + 1
    await kafka.gateway.probe(kafka.settings)
    assert (kafka.broker.connections, socket_count(kafka.gateway)) == (2, 1)


def sasl(settings: ConnectionSettings, password: str, username: str = "op") -> ConnectionSettings:
    mechanism = SaslMechanism.PLAIN
    return replace(settings, sasl=SaslSettings(mechanism=mechanism, username=username, password=SecretText(password)))


async def test_sasl_connection_is_renewed_by_age_and_others_are_not(kafka: Kafka, clock: Any) -> None:
    """aiokafka does not re-authenticate (KIP-368); managed brokers end sessions after an hour."""
    with_login = sasl(kafka.settings, "secret")
    for _step in range(10):  # 63 minutes, never idle for long
        await kafka.gateway.probe(kafka.settings)
        await kafka.gateway.probe(with_login)
        clock.now_s += 7 * 60
    assert kafka.broker.connections == 1 + 2
    assert kafka.broker.most_open <= 1 + 2


async def test_busy_old_connection_finishes_its_request_beside_the_new_one(kafka: Kafka, clock: Any) -> None:
    kafka.groups["orders"] = Group(members=[("m", "i")])
    with_login = sasl(kafka.settings, "secret")
    await kafka.gateway.describe(with_login, "orders")
    kafka.broker.handlers[Api.DESCRIBE_CONFIGS] = lambda _request, _version: SILENT
    waiting = asyncio.ensure_future(kafka.gateway.bounds(replace(with_login, request_timeout_s=2.0), "orders"))
    await kafka.broker.has_seen(Api.DESCRIBE_CONFIGS)
    for _renewal in range(3):
        clock.now_s += 51 * 60
        assert isinstance(await kafka.gateway.describe(with_login, "orders"), GroupView)
        assert kafka.broker.open_now <= 2
    waiting.cancel()


async def test_rotated_secret_gives_up_the_old_connections(kafka: Kafka, broker: FakeBroker) -> None:
    old = sasl(replace(kafka.settings, name="shop/kafka"), "old-secret")
    new = sasl(replace(kafka.settings, name="shop/kafka"), "new-secret")
    assert isinstance(await kafka.gateway.probe(old), ClusterFacts)
    assert isinstance(await kafka.gateway.probe(new), ClusterFacts)
    assert (broker.connections, socket_count(kafka.gateway)) == (2, 1)
    assert isinstance(await kafka.gateway.probe(new), ClusterFacts)
    assert broker.connections == 2


async def test_settings_shared_by_two_names_stay_while_one_of_them_rotates(kafka: Kafka, broker: FakeBroker) -> None:
    first, second = replace(kafka.settings, name="a/kafka"), replace(kafka.settings, name="b/kafka")
    await kafka.gateway.probe(first)
    await kafka.gateway.probe(second)
    await kafka.gateway.probe(sasl(first, "secret"))
    await kafka.gateway.probe(second)
    assert broker.connections == 2


async def test_operation_under_way_ends_well_when_its_settings_are_rotated_away(kafka: Kafka) -> None:
    kafka.groups["orders"] = Group(members=[("m", "i")])
    old = replace(kafka.settings, name="shop/kafka")
    under_way = asyncio.ensure_future(kafka.gateway.describe(old, "orders"))
    await kafka.broker.has_seen(Api.DESCRIBE_GROUPS)
    await kafka.gateway.probe(sasl(old, "new"))
    assert isinstance(await under_way, GroupView)
    assert socket_count(kafka.gateway) == 1


async def test_unused_settings_lose_their_connections(kafka: Kafka, clock: Any) -> None:
    await kafka.gateway.probe(kafka.settings)
    with_login = sasl(kafka.settings, "secret")
    await kafka.gateway.probe(with_login)
    assert socket_count(kafka.gateway) == 2
    clock.now_s += 16 * 60
    await kafka.gateway.probe(sasl(kafka.settings, "another secret"))
    assert socket_count(kafka.gateway) == 1


async def test_connection_lost_while_idle_is_opened_again(kafka: Kafka, broker: FakeBroker) -> None:
    await kafka.describe("orders")
    broker.drop_connections()
    await kafka.read("orders")


async def test_leave_after_the_coordinator_went_down_changes_nothing(kafka: Kafka) -> None:
    second = await FakeBroker(kafka.cluster, node_id=2).start()
    kafka.cluster.coordinator = 2
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0")])
    await kafka.describe("orders")
    await second.stop()
    outcome = await kafka.gateway.leave(kafka.settings, "orders", [LeaveEntry(member_id="m-0", instance_id="orders-0")])
    assert isinstance(outcome, LeaveResult | KafkaProblem)
    assert kafka.groups["orders"].members == [("m-0", "orders-0")]
    kafka.cluster.coordinator = 1
    again = await kafka.gateway.leave(kafka.settings, "orders", [LeaveEntry(member_id="m-0", instance_id="orders-0")])
    assert isinstance(again, LeaveResult)
    assert kafka.groups["orders"].members == []
