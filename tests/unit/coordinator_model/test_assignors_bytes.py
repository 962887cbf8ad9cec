"""The consumer protocol's bytes, v0-3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.assignors.subscription import (
    DecodedAssignment,
    DecodedSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    to_topic_partitions,
)

names = st.text("abc.-_ü", min_size=1, max_size=5)
partitions = st.sets(st.tuples(names, st.integers(0, 2**31 - 1)), max_size=6).map(to_topic_partitions)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    version=st.integers(0, 3), topics=st.lists(names, max_size=4).map(tuple),
    user_data=st.none() | st.binary(max_size=6), owned=partitions, generation=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | names,
)
def test_subscription_round_trip_drops_what_its_version_lacks(
    version: int, topics: tuple[str, ...], user_data: bytes | None, owned: object, generation: int, rack_id: str | None
) -> None:
    """ConsumerProtocolTest.serializeDeserialize…: v1 brought owned partitions, v2 the generation, v3 the rack."""
    subscription = DecodedSubscription(version, topics, user_data, owned, generation, rack_id)  # type: ignore[arg-type]
    expected = DecodedSubscription(
        version,
        topics,
        user_data,
        owned if version >= 1 else (),  # type: ignore[arg-type]
        generation if version >= 2 else -1,
        rack_id if version >= 3 else None,
    )
    assert decode_subscription(encode_subscription(subscription)) == expected


@settings(max_examples=60, derandomize=True, deadline=None)
@given(version=st.integers(0, 3), assigned=partitions, user_data=st.none() | st.binary(max_size=6))
def test_assignment_round_trip(version: int, assigned: object, user_data: bytes | None) -> None:
    """ConsumerProtocolTest.serializeDeserializeAssignmentAllVersions."""
    assignment = DecodedAssignment(version, assigned, user_data)  # type: ignore[arg-type]
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_subscription_bytes_are_kafkas() -> None:
    """ConsumerProtocolSubscription.json v1, written out by hand."""
    subscription = DecodedSubscription(1, ("foo",), None, (("foo", (0, 1)),))
    assert encode_subscription(subscription).hex(" ") == (
        "00 01 00 00 00 01 00 03 66 6f 6f ff ff ff ff 00 00 00 01 00 03 66 6f 6f 00 00 00 02 00 00 00 00 00 00 00 01"
    )


def test_a_newer_version_is_read_as_the_highest_known() -> None:
    """ConsumerProtocolTest.deserializeFutureSubscriptionVersion."""
    data = encode_subscription(DecodedSubscription(3, ("foo",), b"x", (), 4, "rack"))
    future = b"\x00\x64" + data[2:] + b"whatever follows"
    assert decode_subscription(future) == DecodedSubscription(3, ("foo",), b"x", (), 4, "rack")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_garbage_is_a_value_error(data: bytes) -> None:
    """ConsumerProtocol.deserializeVersion: too short, negative, or an array longer than the data."""
    with pytest.raises(ValueError, match=r"bytes wanted|version|array"):
        decode_subscription(data)


def test_every_truncation_is_a_value_error() -> None:
    """A prefix of a valid subscription is never a valid one."""
    data = encode_subscription(DecodedSubscription(3, ("foo", "bar"), b"xyz", (("foo", (0, 1)),), 4, "rack"))
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"bytes wanted|version|array"):
            decode_subscription(data[:length])


def test_no_bytes_assign_nothing() -> None:
    """ConsumerCoordinator.onJoinComplete sees an empty buffer only from a leader that named no assignment."""
    assert decode_assignment(b"").partitions == ()
