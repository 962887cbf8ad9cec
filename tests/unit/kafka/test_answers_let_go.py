"""No answer that could not be read is held any longer: garbage collection is rare, and an answer may have 8 MiB.

What is held is found among what all objects refer to, while nothing looks for circles.
"""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Iterator

import pytest

from staticgroup.core.group import KafkaProblem, LeaveResult
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from support.sockets import socket_count
from unit.kafka.fake_broker import FakeBroker, Group

from .gateway_script import Kafka, entry

SIZE = 2**20 + 12_345
"""Of the answers, bytes; nothing else is so large."""
UNREADABLE = bytes(10) + b"\xff" * (SIZE - 10)
TRIES = 4


@pytest.fixture(autouse=True)
def nothing_looks_for_circles() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def held() -> int:
    """Count the answers that anything refers to, but for the one of the module; what the broker sent last is one of them, maybe twice."""
    found = {
        id(part)
        for holder in gc.get_objects()
        for part in gc.get_referents(holder)
        if isinstance(part, bytes | bytearray) and SIZE <= len(part) < SIZE + 64 and part is not UNREADABLE
    }
    return len(found)


async def call(gateway: KioGateway, settings: ConnectionSettings, api: Api) -> object:
    """Make the gateway call a broker; what it learned before is forgotten."""
    pool = gateway._reader(settings).pool
    pool.forget_coordinators(("g",))
    pool.types.clear()
    if api is Api.METADATA:
        pool._close_connections()
        for slot in pool._slots.values():
            slot.problem = None
    if api is Api.LEAVE_GROUP:
        return await gateway.leave(settings, "g", [entry("m", "i")])
    return await (gateway.bounds if api is Api.DESCRIBE_CONFIGS else gateway.describe)(settings, "g")


@pytest.mark.parametrize(
    "api",
    [
        Api.METADATA, Api.FIND_COORDINATOR, Api.LIST_GROUPS, Api.DESCRIBE_GROUPS, Api.CONSUMER_GROUP_DESCRIBE, Api.DESCRIBE_CONFIGS,
        Api.LEAVE_GROUP,
    ],
)  # fmt: skip
async def test_answers_that_cannot_be_read_are_let_go(kafka: Kafka, broker: FakeBroker, api: Api) -> None:
    kafka.groups["g"] = Group(type="consumer" if api is Api.CONSUMER_GROUP_DESCRIBE else "classic", members=[("m", "i")])
    broker.handlers[api] = lambda _request, _version: UNREADABLE
    for _ in range(TRIES):
        assert isinstance(await call(kafka.gateway, kafka.settings, api), KafkaProblem | LeaveResult)
    assert broker.count(api) >= TRIES
    await asyncio.sleep(0.01)
    assert held() <= 2


async def test_frames_that_nobody_asked_for_are_let_go_with_their_connection(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups["g"] = Group(members=[("m", "i")])
    for _ in range(TRIES):
        await kafka.read("g")
        for writer in broker._writers:
            writer.write(struct.pack(">i", len(UNREADABLE)) + UNREADABLE)
        async with asyncio.timeout(5):
            while socket_count(kafka.gateway):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
    assert held() == 0


async def test_answer_that_was_read_is_not_kept_until_the_next_one(kafka: Kafka, broker: FakeBroker) -> None:
    broker.handlers[Api.LIST_GROUPS] = lambda _request, _version: UNREADABLE
    assert isinstance(await kafka.describe("g"), KafkaProblem)
    assert socket_count(kafka.gateway) == 1
    assert held() <= 1
