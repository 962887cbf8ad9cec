"""What is written and read on the wire: removals always name both ids, and no answer can hurt the process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_frames import BadFrame
from staticgroup.core.group import LeaveEntry, MemberView, WorkerView
from staticgroup.kafka.calls import joining, leaving, reading, settings
from staticgroup.kafka.wire import PINNED, Api, Call, negotiate
from unit.kafka.answers import element, encode, leave_answer, nested_element, respond
from unit.kafka.fake_broker import Cluster, FakeBroker, Group

CALLS: dict[Api, Call[Any]] = {
    Api.METADATA: reading.metadata(),
    Api.FIND_COORDINATOR: reading.find_coordinators(["orders"]),
    Api.JOIN_GROUP: joining.join("orders", "range"),
    Api.HEARTBEAT: settings.heartbeat("orders", "m"),
    Api.LEAVE_GROUP: leaving.leave_group("orders", [LeaveEntry(member_id="m-0", instance_id="orders-0")]),
    Api.DESCRIBE_GROUPS: reading.describe_groups(["orders"]),
    Api.LIST_GROUPS: reading.list_groups(),
    Api.DESCRIBE_CONFIGS: settings.describe_configs({(4, "1"): ["group.min.session.timeout.ms"]}),
    Api.INCREMENTAL_ALTER_CONFIGS: settings.alter_group_config("orders", {"consumer.session.timeout.ms": "60000"}),
    Api.CONSUMER_GROUP_HEARTBEAT: leaving.temporary_leave("orders", LeaveEntry(member_id="m-0", instance_id="orders-0")),
    Api.CONSUMER_GROUP_DESCRIBE: reading.consumer_group_describe(["orders"]),
    Api.STREAMS_GROUP_HEARTBEAT: leaving.streams_leave("orders", LeaveEntry(member_id="m-0", instance_id="orders-0")),
    Api.STREAMS_GROUP_DESCRIBE: reading.streams_group_describe(["orders"]),
}
TYPES = {Api.CONSUMER_GROUP_DESCRIBE: "consumer", Api.STREAMS_GROUP_DESCRIBE: "streams", Api.STREAMS_GROUP_HEARTBEAT: "streams"}
WITHOUT_NAME = (
    Api.METADATA, Api.JOIN_GROUP, Api.HEARTBEAT, Api.DESCRIBE_CONFIGS, Api.INCREMENTAL_ALTER_CONFIGS, Api.CONSUMER_GROUP_HEARTBEAT,
    Api.STREAMS_GROUP_HEARTBEAT,
)  # fmt: skip
"""Calls whose answers name no group."""
EVERY_VERSION = [(api, version) for api, (lowest, highest) in PINNED.items() for version in range(lowest, highest + 1)]


def forged(member_id: str, instance_id: str | None) -> LeaveEntry:
    """An entry that LeaveEntry itself would refuse."""
    entry = LeaveEntry(member_id="m", instance_id="i")
    object.__setattr__(entry, "member_id", member_id)
    object.__setattr__(entry, "instance_id", instance_id)
    return entry


def sent(call: Call[Any], api: Api, version: int) -> Any:
    """Encode for a broker that serves one version, and decode as the broker does."""
    frame = call.prepare({api: (version, version)})
    assert version == frame.API_VERSION
    return entity_reader(load_request_schema(api, version))(frame.encode(), 0)[0]


def answer_of(api: Api, version: int) -> bytes:
    cluster = Cluster(groups={"orders": Group(type=TYPES.get(api, "classic"))})
    cluster.groups["orders"].members = [("m-0", "orders-0"), ("m-1", None)]
    broker = FakeBroker(cluster)
    broker.port = 9092
    request = sent(CALLS[api], api, version)
    return encode(getattr(broker, f"_{api.name.lower()}")(request, version))


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    "entries",
    [
        [],
        [forged("", "orders-0")],
        [forged("m-0", "")],
        [forged("m-0", None)],
        [forged("", None)],
        [LeaveEntry(member_id="m", instance_id="i"), forged("", "orders-0")],
    ],
)
def test_removal_without_both_ids_is_refused(version: int, entries: list[LeaveEntry]) -> None:
    """With the instance id alone the broker removes the member that holds it (GroupMetadataManager, case "" + X)."""
    with pytest.raises(ValueError, match="refused"):
        leaving.leave_group("orders", entries).prepare({Api.LEAVE_GROUP: (version, version)})


@pytest.mark.parametrize("version", [3, 4, 5])
def test_entry_emptied_after_the_call_was_made_is_refused_at_encoding(version: int) -> None:
    entry = LeaveEntry(member_id="m", instance_id="i")
    call = leaving.leave_group("orders", [entry])
    object.__setattr__(entry, "member_id", "")
    with pytest.raises(ValueError, match="refused"):
        call.prepare({Api.LEAVE_GROUP: (version, version)})


@given(
    version=st.sampled_from([3, 4, 5]),
    pairs=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5) | st.none()), max_size=5),
)
def test_whatever_reaches_the_wire_names_both_ids(version: int, pairs: list[tuple[str, str | None]]) -> None:
    try:
        request = sent(leaving.leave_group("orders", [forged(m, i) for m, i in pairs]), Api.LEAVE_GROUP, version)
    except ValueError:
        assert not pairs or not all(m and i for m, i in pairs)
        return
    assert [(m.member_id, m.group_instance_id) for m in request.members] == pairs
    assert request.members
    assert all(m.member_id and m.group_instance_id for m in request.members)


def test_old_removals_that_know_no_instance_id_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="none of the versions"):
        CALLS[Api.LEAVE_GROUP].prepare({Api.LEAVE_GROUP: (0, 2)})


def test_reason_is_cut_and_only_sent_where_it_exists() -> None:
    """KIP-800: LeaveGroup v5; the Java client cuts at 255 characters."""
    entry = LeaveEntry(member_id="m", instance_id="i", reason="ä" * 300)
    call = leaving.leave_group("orders", [entry])
    assert sent(call, Api.LEAVE_GROUP, 5).members[0].reason == "ä" * 255
    assert not hasattr(sent(call, Api.LEAVE_GROUP, 4).members[0], "reason")


@pytest.mark.parametrize(
    ("offered", "chosen"), [((0, 5), 5), ((0, 4), 4), ((3, 9), 5), ((0, 2), None), ((6, 9), None), (None, None)]
)
def test_version_is_the_highest_that_both_sides_speak(offered: tuple[int, int] | None, chosen: int | None) -> None:
    assert negotiate(Api.LEAVE_GROUP, {Api.LEAVE_GROUP: offered} if offered else {}) == chosen


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_every_version_is_written_and_read(api: Api, version: int) -> None:
    answer = CALLS[api].decode(version, answer_of(api, version))
    assert "orders" in repr(answer) or api in WITHOUT_NAME
    if api is Api.DESCRIBE_CONFIGS:
        assert answer[0].values == {"group.min.session.timeout.ms": "6000"}
    if api is Api.METADATA:
        assert [str(node) for node in answer.brokers] == ["1@127.0.0.1:9092"]


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_answer_cut_anywhere_or_too_long_is_unreadable(api: Api, version: int) -> None:
    whole = answer_of(api, version)
    for cut in range(len(whole)):
        with pytest.raises(BadFrame):
            CALLS[api].decode(version, whole[:cut])
    with pytest.raises(BadFrame):
        CALLS[api].decode(version, whole + b"\0")


@pytest.mark.parametrize(
    ("api", "version", "frame"),
    [
        (Api.LIST_GROUPS, 5, b"\0\0\0\0" + b"\0\0" + b"\xff\xff\xff\xff\x0f" + b"\0"),
        (Api.LIST_GROUPS, 2, b"\0\0\0\0" + b"\0\0" + b"\x7f\xff\xff\xff"),
        (Api.LEAVE_GROUP, 5, b"\0\0\0\0" + b"\0\0" + b"\xff\xff\xff\xff\x0f"),
        (Api.DESCRIBE_GROUPS, 6, b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f"),
        (Api.METADATA, 8, b"\0\0\0\0" + b"\x7f\xff\xff\xff"),
    ],
)
def test_claim_of_billions_of_elements_does_not_end_the_process(api: Api, version: int, frame: bytes) -> None:
    """kio 0.6.5 reserves memory for the claim and aborts; the shape is checked first."""
    with pytest.raises(BadFrame):
        CALLS[api].decode(version, frame)


@pytest.mark.parametrize("code", [134, 136, 999, -2])
def test_error_code_that_kio_does_not_know_is_unreadable(code: int) -> None:
    frame = bytearray(encode(leave_answer(5, 0, [])))
    frame[4:6] = code.to_bytes(2, "big", signed=True)
    with pytest.raises(BadFrame):
        CALLS[Api.LEAVE_GROUP].decode(5, bytes(frame))


@pytest.mark.parametrize("content", [b"", b"\0\1", b"\0\1\x7f\xff\xff\xff", b"not an assignment"])
def test_assignment_that_a_member_made_up_only_loses_a_number(content: bytes) -> None:
    assert reading._count_assignment(content) is None


def stable(*members: tuple[bytes, bytes]) -> Any:
    rows = [SimpleNamespace(member_metadata=metadata, member_assignment=assignment) for metadata, assignment in members]
    return SimpleNamespace(protocol_type="consumer", group_state="Stable", members=rows)


def test_more_topics_than_anybody_consumes_are_not_looked_at() -> None:
    """A member writes its subscription itself, and each topic in it would be asked for."""
    nothing = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"

    def subscribed(count: int) -> bytes:
        names = b"".join(b"\0\5" + f"{n:05}".encode() for n in range(count))
        return b"\0\0" + count.to_bytes(4, "big") + names + b"\xff\xff\xff\xff"

    found = reading._topics(stable((subscribed(reading.TOPICS_MAX), nothing)))
    assert found is not None
    assert (len(found), found[0]) == (reading.TOPICS_MAX, ("00000", 0))
    assert reading._topics(stable((subscribed(reading.TOPICS_MAX + 1), nothing))) is None
    assert reading._topics(stable((subscribed(1), nothing), (b"\0\0garbage", nothing))) is None


def test_topic_that_an_assignment_names_twice_is_counted_whole() -> None:
    """librdkafka's cooperative-sticky writes partitions in the order in which it gave them, not by topic."""
    subscribed = b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\xff\xff\xff\xff"
    rows = b"".join(b"\0\6orders" + b"\0\0\0\1" + n.to_bytes(4, "big") for n in range(2))
    assigned = b"\0\0" + b"\0\0\0\2" + rows + b"\xff\xff\xff\xff"
    assert reading._topics(stable((subscribed, assigned))) == (("orders", 2),)


def test_partitions_of_a_classic_assignment_are_counted() -> None:
    topic = b"\0\6orders" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\1"
    assert reading._count_assignment(b"\0\1" + b"\0\0\0\1" + topic + b"\xff\xff\xff\xff") == 2


def described(protocol_type: str, metadata: bytes, assignment: bytes) -> MemberView:
    members = nested_element(
        Api.DESCRIBE_GROUPS, 5, ("groups", "members"),
        member_id="m", group_instance_id="web-0", client_id="c", client_host="/10.0.0.7",
        member_metadata=metadata, member_assignment=assignment,
    )
    group = element(
        Api.DESCRIBE_GROUPS, 5, "groups",
        error_code=0, group_id="orders", group_state="Stable", protocol_type=protocol_type, protocol_data="", members=(members,),
    )
    answer = encode(respond(Api.DESCRIBE_GROUPS, 5, groups=(group,)))
    (member,) = CALLS[Api.DESCRIBE_GROUPS].decode(5, answer)["orders"].members
    assert isinstance(member, MemberView)
    return member


METADATA = bytes.fromhex("00020010687474703a2f2f772d313a383038332f0000000000000008ffffffff")
ASSIGNMENT = bytes.fromhex("0002000000000000000000000000000700000001000161000000020000000000000001" + "00" * 8)


def test_of_a_connect_clusters_members_it_is_known_what_they_hold() -> None:
    found = described("connect", METADATA, ASSIGNMENT)
    assert found.worker == WorkerView(host="w-1", connectors=0, tasks=2)
    assert found.assigned_partitions is None
    assert described("consumer", METADATA, ASSIGNMENT).worker is None


@pytest.mark.parametrize("content", [b"", b"\0\2", b"\0\2" + b"\x7f\xff\xff\xff" * 4, b"not an assignment"])
def test_odd_bytes_of_a_worker_cost_what_it_holds_and_not_who_is_in_the_group(content: bytes) -> None:
    found = described("connect", content, content)
    assert (found.member_id, found.instance_id, found.worker) == ("m", "web-0", WorkerView())
