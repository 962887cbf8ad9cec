"""The listener under requests that no client sends: odd values in sound frames, and sound frames with bytes changed.

What must hold: an answer or a closed connection, never an uncaught exception, never a listener that stands
still. Source: Processor.processException and RequestChannel of Kafka (a bad request costs its connection only).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import uuid
from typing import Any

import pytest

from conformance.wire.conversation import subscription
from conformance.wire.targets import TOPICS, model_settings
from coordinator_model.wire import cluster as wire_cluster
from coordinator_model.wire.codec import SERVED, Api, encode, fields_of, request_type
from coordinator_model.wire.listener import INTERNAL_ERROR, Listener

FRAMES_PER_VERSION = 12
ANSWER_S = 120.0
WORDS = ("", "g", "h", "m", "x0", "orders", "payments", "consumer", "range", "uniform", "classic", ".*", "a(", "é" * 40)
NUMBERS = (-(2**31), -3, -2, -1, 0, 1, 2, 7, 500, 6000, 2**31 - 1)
LIMITS = {"int8": 7, "int16": 15, "uint16": 15, "int32": 31, "int64": 63, "error_code": 7}
TOPIC_IDS = (uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**127))


def odd_body(entity: type, rng: random.Random) -> dict[str, Any]:
    """Return a body of which every field has a value that its type allows."""
    return {field.given: _odd_value(field, rng) for field in fields_of(entity)}


def _odd_value(field: Any, rng: random.Random) -> Any:
    if field.default is None and rng.random() < 0.3:
        return None
    if field.is_array:
        return [_odd_element(field, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _odd_element(field, rng)


def _odd_element(field: Any, rng: random.Random) -> Any:
    if field.nested is not None:
        return odd_body(field.nested, rng)
    kind = field.kafka_type
    if kind in ("string", "bytes", "records"):
        content = (b"", subscription("orders"), rng.randbytes(12))
        return rng.choice(WORDS) if kind == "string" else rng.choice(content) if kind == "bytes" else None
    if kind in ("bool", "uuid"):
        return rng.choice((True, False)) if kind == "bool" else rng.choice(TOPIC_IDS)
    number = rng.choice(NUMBERS)
    if kind in ("error_code", "uint16"):
        return abs(number) % 80
    if kind.startswith("timedelta"):
        return number if "max_wait" not in field.name else min(number, 1)
    bits = LIMITS.get(kind, 31)
    return max(-(2**bits), min(2**bits - 1, number))


def frames(rng: random.Random) -> list[tuple[str, bytes]]:
    """Return requests of every API in every version, one third with bytes changed, shuffled."""
    made = []
    for api, (low, high) in SERVED.items():
        for version in range(low, high + 1):
            for number in range(FRAMES_PER_VERSION):
                entity = request_type(api, version)
                head = {"request_api_key": api, "request_api_version": version, "correlation_id": 9, "client_id": "c"}
                frame = encode(entity.__header_schema__, head) + encode(entity, odd_body(entity, rng))
                made.append((f"{api.name} v{version}", _changed(frame, rng) if number % 3 == 0 else frame))
    rng.shuffle(made)
    return made


def _changed(frame: bytes, rng: random.Random) -> bytes:
    content = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4, len(content))
        change = rng.randrange(3)
        if change == 0:
            content[at] = rng.randrange(256)
        elif change == 1:
            del content[at:]
        else:
            content[at:at] = rng.randbytes(rng.randint(1, 5))
        if len(content) < 9:
            break
    return bytes(content)


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Ask for the versions, which the listener answers as long as it lives."""
    body = struct.pack(">hhih", Api.API_VERSIONS, 0, 5, -1)
    writer.write(struct.pack(">i", len(body)) + body)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@pytest.mark.parametrize("seed", range(2))
async def test_odd_requests_cost_their_connection_at_most(seed: int) -> None:
    complaints: list[str] = []
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: uncaught.append(context))
    listener = Listener(model_settings(), topics=TOPICS, complain=complaints.append)
    host, port = await listener.start("127.0.0.1", 0)
    steady = await asyncio.open_connection(host, port)
    answered = 0
    try:
        for _name, frame in frames(random.Random(seed)):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(struct.pack(">i", len(frame)) + frame)
            async with asyncio.timeout(ANSWER_S):
                assert len(await _answers(*steady)) > 8
                assert len(await _answers(*steady)) > 8
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                async with asyncio.timeout(0):  # what has been answered by now; a join may wait, as it should
                    answered += len(await reader.readexactly(8)) == 8
            writer.close()
    finally:
        steady[1].close()
        await listener.stop()
    assert [text for text in complaints if INTERNAL_ERROR in text] == []
    assert uncaught == []
    assert complaints, "no frame was refused, so none lied"
    assert answered > 500


def test_a_broken_rule_is_complained_about_and_the_listener_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz test can fail: an exception in an answer is logged as an internal error and closes the connection."""

    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a rule divides by zero")

    async def run() -> list[str]:
        complaints: list[str] = []
        listener = Listener(model_settings(), complain=complaints.append)
        monkeypatch.setitem(wire_cluster.CLUSTER_APIS, Api.DESCRIBE_CLUSTER, broken)
        address = await listener.start("127.0.0.1", 0)
        entity = request_type(Api.DESCRIBE_CLUSTER, 0)
        head = {"request_api_key": Api.DESCRIBE_CLUSTER, "request_api_version": 0, "correlation_id": 1}
        frame = encode(entity.__header_schema__, head) + encode(entity, {})
        reader, writer = await asyncio.open_connection(*address)
        writer.write(struct.pack(">i", len(frame)) + frame)
        assert await reader.read() == b""
        writer.close()
        reader, writer = await asyncio.open_connection(*address)
        assert len(await _answers(reader, writer)) > 8
        writer.close()
        await listener.stop()
        return complaints

    (complaint,) = asyncio.run(run())
    assert INTERNAL_ERROR in complaint
    assert "ZeroDivisionError" in complaint
