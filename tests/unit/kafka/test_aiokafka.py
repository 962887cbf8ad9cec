"""The private members of aiokafka's connection that ours leans on, by name: an upgrade fails here first.

Source: aiokafka/conn.py 0.14, whose insides may change with any minor version.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection, AIOKafkaProtocol, CloseReason

from staticgroup.kafka import connection

ATTRIBUTES = {
    "_host": "kafka",
    "_port": 9092,
    "_loop": ...,  # the running one
    "_ssl_context": None,
    "_security_protocol": "PLAINTEXT",
    "_versions": {},
    "_reader": None,
    "_writer": None,
    "_protocol": None,
    "_read_task": None,
    "_requests": deque(),
    "_closed_fut": None,
}
"""What a fresh connection holds; `connect` of ours fills it as aiokafka's own does."""
CALLED = {
    "_create_reader_task": "(self)",
    "_do_version_lookup": "(self)",
    "_do_sasl_handshake": "(self)",
    "_handle_frame": "(self, resp)",
}
OVERRIDDEN = {"_read": "(self_ref)", "_on_read_task_error": "(self_ref, read_task)"}
OPTIONS = {
    "client_id", "request_timeout_ms", "ssl_context", "security_protocol", "sasl_mechanism", "sasl_plain_username",
    "sasl_plain_password", "sasl_oauth_token_provider",
}  # fmt: skip
OURS = {"_address", "_is_opened", "_refuse_answer", "_exchange"}


def fresh() -> AIOKafkaConnection:
    return AIOKafkaConnection("kafka", 9092)


def private_names() -> set[str]:
    """Return every private member that connection.py reads, calls or overrides."""
    tree = ast.parse(Path(connection.__file__).read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names |= {each.name for each in kind.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in names if re.match(r"_[^_]", name)}


def test_every_private_member_that_is_used_is_named_here() -> None:
    assert private_names() - OURS == ATTRIBUTES.keys() | CALLED.keys() | OVERRIDDEN.keys()


@pytest.mark.parametrize("name", ATTRIBUTES)
async def test_a_fresh_connection_has_the_attribute(name: str) -> None:
    expected = ATTRIBUTES[name]
    found = getattr(fresh(), name)
    assert found == (asyncio.get_running_loop() if expected is ... else expected)


@pytest.mark.parametrize(("name", "signature"), [*CALLED.items(), *OVERRIDDEN.items()])
def test_a_method_takes_what_it_took(name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(AIOKafkaConnection, name))) == signature


def test_what_ours_overrides_is_of_the_same_kind() -> None:
    for name in OVERRIDDEN:
        theirs, own = (inspect.getattr_static(c, name) for c in (AIOKafkaConnection, connection.LimitedConnection))
        assert type(theirs) is type(own)
    assert inspect.iscoroutinefunction(AIOKafkaConnection._read)
    started = AIOKafkaConnection._create_reader_task.__code__.co_names
    assert {"_read", "_on_read_task_error"} <= set(started)


def test_the_constructors_take_what_is_passed() -> None:
    assert set(inspect.signature(AIOKafkaConnection).parameters) >= OPTIONS
    assert str(inspect.signature(AIOKafkaProtocol)) == "(closed_fut, *args, loop, **kw)"
    assert CloseReason.CONNECTION_BROKEN.name == "CONNECTION_BROKEN"


class Writer:
    """A stream that takes everything."""

    def write(self, data: bytes) -> None:
        """Take it."""


class Request:
    """The least that aiokafka's connection sends."""

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Request:
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> Request:
        return self

    def encode(self) -> bytes:
        return b""


async def test_a_sent_request_waits_as_number_request_and_future() -> None:
    """`_refuse_answer` fails the first of them, by its number."""
    raw: Any = fresh()
    raw._writer = Writer()
    waiting = asyncio.ensure_future(raw.send(Request()))
    ((number, request, answer),) = raw._requests
    assert (number, type(request), answer.done()) == (1, Request, False)
    answer.set_result("answered")
    assert await waiting == "answered"
