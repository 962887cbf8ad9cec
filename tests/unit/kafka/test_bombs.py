"""Answers within the size that is read, made of millions of the smallest entries, stop nobody: they are refused before they are decoded.

One of 8 MiB would take the event loop for 5 to 8 s of a core (seen), in which no other tenant is served and no Lease renewed, and
200 MiB of memory.
"""

from __future__ import annotations

import struct

import pytest

from kafka_frames import BadFrame, TooManyElements
from staticgroup.core.group import KafkaProblemKind
from staticgroup.kafka.connection import FRAME_MAX_BYTES
from staticgroup.kafka.wire import ELEMENTS_MAX, Api
from unit.kafka.fake_broker import Group
from unit.kafka.test_wire import CALLS

from .gateway_script import Kafka, kind

NOTHING = b"\0\0\0\0"
"""Throttle time; also an error code and two more zero bytes, or a null."""


def varint(value: int) -> bytes:
    written = b""
    while value >= 0x80:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def array(entry: bytes, count: int) -> bytes:
    """A compact array (KIP-482)."""
    return varint(count + 1) + entry * count


def listing(count: int) -> bytes:
    return NOTHING + b"\0\0" + array(b"\1\1\1\1\0", count) + b"\0"


def described(members: int) -> bytes:
    group = b"\0\0" + b"\7orders" + b"\7Stable" + b"\1\1" + array(b"\1\0\1\1\1\1\0", members) + NOTHING + b"\0"
    return NOTHING + varint(2) + group + b"\0"


def brokers(count: int) -> bytes:
    return NOTHING + array(b"\0\0\0\0\1\0\0\0\0\0\0", count) + b"\0" + NOTHING + varint(1) + b"\0"


def settings_of(count: int) -> bytes:
    return NOTHING + array(b"\0\0\1\0\1\1\0", count) + b"\0"


def assigned(partitions: int) -> bytes:
    """A KIP-848 group whose one member is given many partitions of one topic."""
    topic = bytes(16) + b"\1" + array(struct.pack(">i", 1), partitions) + b"\0"
    assignment = varint(2) + topic + b"\0"
    member = b"\2m\0\0" + struct.pack(">i", 1) + b"\1\1\1\0" + assignment + varint(1) + b"\0" + b"\0\0"
    group = b"\0\0\0" + b"\7orders" + b"\7Stable" + struct.pack(">ii", 1, 1) + b"\1" + varint(2) + member + NOTHING + b"\0"
    return NOTHING + varint(2) + group + b"\0"


BOMBS = {
    "groups": (Api.LIST_GROUPS, 5, listing),
    "members": (Api.DESCRIBE_GROUPS, 5, described),
    "brokers": (Api.METADATA, 12, brokers),
    "settings": (Api.DESCRIBE_CONFIGS, 4, settings_of),
}


@pytest.mark.parametrize("name", BOMBS)
def test_more_entries_than_are_read_are_refused_before_they_are_decoded(name: str) -> None:
    api, version, bomb = BOMBS[name]
    CALLS[api].decode(version, bomb(ELEMENTS_MAX // 100))
    with pytest.raises(TooManyElements):
        CALLS[api].decode(version, bomb(ELEMENTS_MAX + 1))


def test_as_many_partitions_as_a_frame_holds_are_read() -> None:
    """They are numbers, which cost little: a thousand groups of a thousand partitions are no attack."""
    frame = assigned(1_200_000)
    assert len(frame) < FRAME_MAX_BYTES
    try:
        (group,) = CALLS[Api.CONSUMER_GROUP_DESCRIBE].decode(1, frame).values()
    except BadFrame as error:  # for the message: a frame that is written wrongly would be refused as well
        raise AssertionError(str(error)) from error
    assert group.members[0].assigned_partitions == 1_200_000


async def test_a_group_that_is_a_bomb_is_named_and_keeps_no_other_from_being_read(kafka: Kafka) -> None:
    kafka.groups |= {"orders": Group(members=[("m", "orders-0")]), "other": Group(members=[("m", "other-0")])}
    plain = kafka.broker._describe_groups
    kafka.broker.handlers[Api.DESCRIBE_GROUPS] = lambda request, version: (
        described(ELEMENTS_MAX + 1) if "orders" in request.groups else plain(request, version)
    )
    kafka.broker.versions[Api.DESCRIBE_GROUPS] = (0, 5)
    assert kind(await kafka.describe("orders")) is KafkaProblemKind.ANSWER_TOO_LARGE
    await kafka.read("other")
    assert kafka.broker.connections == 1
