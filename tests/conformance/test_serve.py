"""`python -m coordinator_model serve` with real consumers, an AdminClient and the operator's own gateway."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from py4j.java_gateway import JavaGateway

from conformance.serve_bench import (
    EVENTUALLY_S,
    PARTITIONS,
    SETTINGS,
    Group,
    Server,
    errors,
    owned,
    remove,
    settled,
    start,
    view,
    wait,
)
from staticgroup.core.group import GroupType, LeaveEntry, LeaveOutcome
from support.devcluster.kafka_jars import class_path, ensure_jars

pytestmark = [pytest.mark.timeout(900)]


KAFKA_RELEASE = "4.4.0"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = start("--listen", "127.0.0.1:0", "--topic", f"orders:{PARTITIONS}", *SETTINGS)
    yield running
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(EVENTUALLY_S) == 0


@pytest.fixture
def make_group(server: Server) -> Iterator[Callable[[str, str], Group]]:
    made: list[Group] = []

    def make(name: str, protocol: str) -> Group:
        made.append(Group(server, name, protocol))
        return made[-1]

    yield make
    for group in made:
        group.end()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_join_consume_bounce_and_are_removed(
    server: Server, make_group: Callable[[str, str], Group], protocol: str
) -> None:
    group = make_group(f"static-{protocol}", protocol)
    first, second = group.start("x0"), group.start("x1")
    wait(lambda: settled(first, second))
    before = view(server, group.name)
    assert before.group_type is GroupType(protocol.capitalize())
    assert sorted(str(member.instance_id) for member in before.members) == ["x0", "x1"]
    kept, had = owned(second), owned(first)
    before_bounce = len(second.history())

    first.terminate()
    back = group.start("x0")
    wait(lambda: settled(back, second))
    assert (owned(back), owned(second)) == (had, kept)
    assert [event.kind for event in second.history()[before_bounce:] if event.kind in ("revoked", "lost")] == []
    after = view(server, group.name)
    assert after.group_epoch == before.group_epoch
    old = next(member.member_id for member in before.members if member.instance_id == "x0")
    new = next(member.member_id for member in after.members if member.instance_id == "x0")
    assert old != new

    back.kill()
    refused = remove(server, group.name, [LeaveEntry(member_id=old, instance_id="x0")])
    assert refused.outcomes == (LeaveOutcome.FENCED,)
    removed = remove(server, group.name, [LeaveEntry(member_id=new, instance_id="x0")])
    assert removed.outcomes == (LeaveOutcome.REMOVED,)
    wait(lambda: settled(second))
    assert [member.instance_id for member in view(server, group.name).members] == ["x1"]
    assert errors(group) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_dynamic_members_share_and_leave(
    server: Server, make_group: Callable[[str, str], Group], protocol: str
) -> None:
    group = make_group(f"dynamic-{protocol}", protocol)
    first = group.start()
    wait(lambda: settled(first))
    second = group.start()
    wait(lambda: settled(first, second))
    first.terminate()
    wait(lambda: settled(second))
    assert len(view(server, group.name).members) == 1
    assert errors(group) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_batch_removes_all_and_the_admin_client_describes_and_deletes(
    server: Server, make_group: Callable[[str, str], Group], protocol: str
) -> None:
    group = make_group(f"batch-{protocol}", protocol)
    members = [group.start(f"x{i}") for i in range(3)]
    wait(lambda: settled(*members) and [len(owned(member)) for member in members] == [2, 2, 2])
    admin = AdminClient({"bootstrap.servers": server.address})
    described = admin.describe_consumer_groups([group.name])[group.name].result(10)
    assert sorted(member.group_instance_id for member in described.members) == ["x0", "x1", "x2"]
    assert [len(member.assignment.topic_partitions) for member in described.members] == [2, 2, 2]
    listed = admin.list_consumer_groups().result(10)
    assert group.name in {each.group_id for each in listed.valid}

    for member in members:
        member.kill()
    seen = view(server, group.name).members
    entries = [LeaveEntry(member_id=m.member_id, instance_id=str(m.instance_id)) for m in seen]
    assert remove(server, group.name, entries).outcomes == (LeaveOutcome.REMOVED,) * 3
    assert view(server, group.name).state == "Empty"
    admin.delete_consumer_groups([group.name])[group.name].result(10)
    assert view(server, group.name).group_type is GroupType.ABSENT


def test_an_aiokafka_consumer_polls_bounces_and_keeps_its_partitions(server: Server) -> None:
    """Another library than the others' librdkafka: it joins, fetches from empty partitions for a while, and returns."""

    def consumer() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            "orders", bootstrap_servers=server.address, group_id=f"aiokafka-{name}", group_instance_id="x0",
            session_timeout_ms=20_000, heartbeat_interval_ms=300, auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async def poll() -> tuple[set[int], dict[object, object], list[int]]:
        async with consumer() as running:
            async with asyncio.timeout(EVENTUALLY_S):
                while not running.assignment():
                    await running.getmany(timeout_ms=100)
            got = await running.getmany(timeout_ms=1_500)
            held = sorted(running.assignment(), key=lambda each: int(each.partition))
            return {each.partition for each in held}, got, [await running.position(each) for each in held]

    name = os.urandom(2).hex()
    for _ in range(2):
        assert asyncio.run(poll()) == (set(range(PARTITIONS)), {}, [0] * PARTITIONS)
    assert [member.instance_id for member in view(server, f"aiokafka-{name}").members] == ["x0"]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaGateway]:
    """Run a virtual machine with Kafka's own client in it, at the end of a pipe."""
    jars = ensure_jars(KAFKA_RELEASE, report=print)
    gateway = JavaGateway.launch_gateway(classpath=class_path(jars), die_on_exit=True, java_path=shutil.which("java"))
    yield gateway
    gateway.shutdown()
    gateway.java_process.stdin.close()
    gateway.java_process.wait(EVENTUALLY_S)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_polls_bounces_and_keeps_its_partitions(
    server: Server, java: JavaGateway, protocol: str
) -> None:
    """The client that most people run: it fetches from empty partitions for a while, and returns to the same ones."""
    name = f"java-{protocol}-{os.urandom(2).hex()}"
    settings = java.jvm.java.util.HashMap()
    for key, value in {
        **{
            "bootstrap.servers": server.address, "group.id": name, "group.instance.id": "x0",
            "group.protocol": protocol,
        },
        **{"enable.auto.commit": "false", "auto.offset.reset": "earliest"},
        **({"session.timeout.ms": "20000", "heartbeat.interval.ms": "300"} if protocol == "classic" else {}),
    }.items():
        settings[key] = value
    bytes_of = java.jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer

    def poll() -> tuple[set[int], list[int]]:
        consumer = java.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings, bytes_of(), bytes_of())
        try:
            consumer.subscribe(java.jvm.java.util.List.of("orders"))
            slice_of_time = java.jvm.java.time.Duration.ofMillis(300)
            wait(lambda: consumer.poll(slice_of_time).isEmpty() and len(consumer.assignment()) == PARTITIONS)
            assert all(consumer.poll(slice_of_time).isEmpty() for _ in range(5))
            return {each.partition() for each in consumer.assignment()}, [
                consumer.position(each) for each in consumer.assignment()
            ]
        finally:
            consumer.close()

    epochs = set()
    for _ in range(2):
        assert poll() == (set(range(PARTITIONS)), [0] * PARTITIONS)
        seen = view(server, name)
        assert [member.instance_id for member in seen.members] == ["x0"]
        epochs.add(seen.group_epoch)
    assert len(epochs) == 1


def test_offsets_are_kept(server: Server, make_group: Callable[[str, str], Group]) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    name = f"offsets-{os.urandom(2).hex()}"
    wanted = [TopicPartition("orders", 0, 7), TopicPartition("orders", 3, 9)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, wanted)])[name].result(10)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(10)
    assert {p.partition: p.offset for p in found.topic_partitions} == {0: 7, 3: 9}


def test_group_settings_are_altered_within_bounds(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    broker = ConfigResource(ResourceType.BROKER, "1")
    shown = admin.describe_configs([broker])[broker].result(10)
    assert shown["group.min.session.timeout.ms"].value == "1000"
    assert shown["group.consumer.max.session.timeout.ms"].value == "60000"


def test_topics_are_listed(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    topics = admin.list_topics(timeout=EVENTUALLY_S).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"orders": PARTITIONS}


def test_the_log_tells_what_members_do(server: Server, make_group: Callable[[str, str], Group]) -> None:
    group = make_group("logged", "consumer")
    member = group.start("x0")
    wait(lambda: settled(member))
    member.terminate()
    logged = wait(lambda: [line for line in server.lines if group.name in line and "leaves for a while" in line])
    assert "x0" in logged[0]
    assert any("x0 joins: epoch" in line for line in server.lines if group.name in line)


def test_it_begins_with_one_line_and_ends_gracefully_and_quietly() -> None:
    running = start("--listen", "127.0.0.1:0", "--quiet")
    assert "topics: none" in wait(lambda: running.lines and running.lines[0])
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(EVENTUALLY_S) == 0
    wait(lambda: running.lines[-1] == "ended")  # the thread that reads may be a little behind the process


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "nowhere"), "'nowhere' is not --listen HOST:PORT"),
        (("--topic", "orders"), "'orders' is not --topic NAME:PARTITIONS"),
        (("--listen", "127.0.0.1:70000"), "a port is at most 65535, not 70000"),
        (("--topic", "a/b:1"), "'a/b' is no name of a topic"),
        (("--topic", "orders:0"), "orders needs 1 to 10000 partitions, not 0"),
        (("--topic", "orders:1", "--topic", "orders:2"), "orders is given twice"),
        (("--set", "group.no.such=1"), "unknown property group.no.such"),
        (("--set", "group.max.size"), "'group.max.size' is not name=value"),
        (("--set", "group.max.size=many"), "group.max.size takes a number from 0 on, not 'many'"),
        (("--set", "group.max.size=-1"), "group.max.size takes a number from 0 on, not '-1'"),
        (("--set", "model.hot.standby=yes"), "model.hot.standby is true or false, not 'yes'"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], said: str) -> None:
    running = start(*arguments)
    assert running.process.wait(EVENTUALLY_S) == 2
    assert said in wait(lambda: " ".join(running.lines))


def test_a_taken_port_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running = start("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert running.process.wait(EVENTUALLY_S) == 1
    assert "cannot listen on" in wait(lambda: " ".join(running.lines))


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhihi", 15, 4, 1, -1, 2**31 - 1),  # an array that claims two thousand million groups
        struct.pack(">hhih", 15, 5, 1, -1) + b"\x00\xff\xff\xff\xff\x0f",  # the same in compact form
        struct.pack(">hhih", 9999, 0, 1, -1),
        struct.pack(">hhih", 11, 99, 1, -1),
        struct.pack(">hhih", 12, 0, 1, -1),
        b"\x00" * 9,
    ],
)
def test_a_hostile_frame_costs_its_connection_only(server: Server, frame: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=EVENTUALLY_S) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        assert connection.recv(1) == b""
    with socket.create_connection((host, int(port)), timeout=EVENTUALLY_S) as connection:
        body = struct.pack(">hhih", 18, 99, 5, -1)
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.recv(4096)
    assert struct.unpack_from(">iih", answer)[1:] == (5, 35)  # UNSUPPORTED_VERSION in version 0, with the versions
    assert server.process.poll() is None
