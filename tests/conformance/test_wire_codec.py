"""The listener's codec: every API in every version, and frames that lie."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.base.broker_config import (
    UnknownProperty,
    group_defaults,
    parse_pairs,
    properties,
    with_properties,
)
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.wire import codec as wire_codec
from coordinator_model.wire.cluster import topic_refusal
from coordinator_model.wire.codec import SERVED, Api, decode, encode, request_type, response_type
from kafka_frames import BadFrame, check_frame

ENTITIES = [
    pytest.param(kind(api, version), id=f"{api.name}-v{version}-{kind.__name__.split('_')[0]}")
    for api, (low, high) in SERVED.items()
    for version in range(low, high + 1)
    for kind in (request_type, response_type)
]


@pytest.mark.parametrize("entity", ENTITIES)
def test_what_is_written_is_read_again(entity: type) -> None:
    frame = encode(entity, {})
    body, end = decode(entity, b"head" + frame, 4)
    assert end == len(frame) + 4
    assert encode(entity, body) == frame


@pytest.mark.parametrize("entity", ENTITIES)
def test_a_frame_that_lies_is_refused_or_read_but_never_takes_the_process_along(entity: type) -> None:
    """kio reserves memory for what an array claims; the guard must see every such claim first."""
    frame = encode(entity, {})
    rng = random.Random(len(frame))
    for claim in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\xff\xff"):
        for _ in range(20):
            at = rng.randrange(len(frame) + 1)
            lying = frame[:at] + claim + frame[at + rng.randrange(6) :]
            try:
                _, end = decode(entity, lying)
            except BadFrame:
                continue
            assert end <= len(lying)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=80), st.sampled_from([e.values[0] for e in ENTITIES]))
def test_any_bytes_are_refused_or_read(frame: bytes, entity: type) -> None:
    try:
        _, end = decode(entity, frame)
    except BadFrame:
        return
    assert end <= len(frame)


def test_an_array_may_claim_what_the_frame_can_hold() -> None:
    describe = request_type(Api.DESCRIBE_GROUPS, 4)
    assert decode(describe, struct.pack(">ihx", 1, 0))[0]["groups"] == ("",)
    with pytest.raises(BadFrame, match="claims more elements"):
        check_frame(describe, struct.pack(">ihx", 4, 0))


def test_an_array_is_null_only_where_the_schema_lets_it() -> None:
    """DescribeGroups v4 has no nullable groups; Metadata v4 asks for all topics with a null."""
    assert decode(request_type(Api.METADATA, 4), struct.pack(">ib", -1, 0))[0]["topics"] is None
    with pytest.raises(BadFrame, match="null"):
        check_frame(request_type(Api.DESCRIBE_GROUPS, 4), struct.pack(">ib", -1, 0))


def test_the_header_s_client_id_is_never_compact() -> None:
    """RequestHeader v2 is flexible but for the client id (KIP-482)."""
    header = request_type(Api.HEARTBEAT, 4).__header_schema__
    fields = {"request_api_key": 12, "request_api_version": 4, "correlation_id": 7, "client_id": "c" * 300}
    assert decode(header, encode(header, fields))[0] == fields


def test_durations_are_milliseconds_and_missing_fields_get_the_schema_s_default() -> None:
    join = request_type(Api.JOIN_GROUP, 5)
    body = decode(join, encode(join, {"group_id": "g", "session_timeout_ms": 1234, "reason": "too new for v5"}))[0]
    assert (body["group_id"], body["session_timeout_ms"], body["rebalance_timeout_ms"]) == ("g", 1234, -1)
    assert "reason" not in body


def test_the_served_versions_are_those_that_the_codec_knows() -> None:
    for api, (low, high) in SERVED.items():
        for version in range(low, high + 1):
            assert wire_codec.request_type(api, version).__api_key__ == api


def test_properties_have_kafkas_names() -> None:
    names = set(properties(BrokerSettings()))
    assert {
        "group.min.session.timeout.ms", "group.consumer.session.timeout.ms", "group.consumer.migration.policy",
        "group.streams.session.timeout.ms", "group.consumer.assignors",
    } <= names
    assert all(name.startswith("group.") for name in names)
    assert with_properties(BrokerSettings(), {"model.static.self.rejoin": "in_place"}).static_self_rejoin == "in_place"


def test_properties_are_set_by_name() -> None:
    changes = parse_pairs(["group.max.size=3", "group.consumer.assignors=range, uniform"])
    changed = with_properties(BrokerSettings(), changes)
    assert (changed.group_max_size, changed.consumer_assignors) == (3, ("range", "uniform"))
    assert properties(changed)["group.max.size"] == "3"
    with pytest.raises(UnknownProperty, match=r"unknown property log\.dirs"):
        with_properties(BrokerSettings(), {"log.dirs": "x"})


def test_the_next_assignment_waits_as_long_as_kafkas_defaults_say() -> None:
    """GroupCoordinatorConfig.…_GROUP_ASSIGNMENT_INTERVAL_MS_DEFAULT of Kafka 4.4: 1000 ms, 0 to 15000 (KIP-1263)."""
    defaults = properties(BrokerSettings())
    for kind in ("consumer", "share", "streams"):
        bounds = [defaults[f"group.{kind}.{bound}assignment.interval.ms"] for bound in ("", "min.", "max.")]
        assert bounds == ["1000", "0", "15000"]


def test_a_group_shows_the_broker_s_defaults() -> None:
    shown = group_defaults(BrokerSettings(consumer_session_timeout_ms=50_000))
    assert shown["consumer.session.timeout.ms"] == "50000"
    assert "group.max.size" not in shown


@pytest.mark.parametrize(
    ("name", "partitions", "code"),
    [
        *[("orders", 1, None), ("a" * 249, 10_000, None)],
        *[("a" * 250, 1, 17), ("", 1, 17), ("..", 1, 17), ("a/b", 1, 17)],
        *[("orders", 0, 37), ("orders", -2, 37), ("orders", 10_001, 37)],
    ],
)
def test_a_topic_needs_a_legal_name_and_partitions(name: str, partitions: int, code: int | None) -> None:
    """Topic.validate: INVALID_TOPIC_EXCEPTION; ReplicationControlManager.createTopic: INVALID_PARTITIONS."""
    assert topic_refusal(name, partitions) == code
