"""One Kafka request by hand: FindCoordinator v0.

Why: a fresh cluster answers NOT_COORDINATOR for ever until a client sends FindCoordinator, which creates
`__consumer_offsets`; starting brokers should not need a client library for that. One idea: an answer with error 0
from a node is the proof that this node serves groups, so it is also the readiness probe.
Source: FindCoordinatorRequest.json (v0 is still served after KIP-896).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_FIND_COORDINATOR = 10
_CLIENT_ID = b"devcluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The answer of FindCoordinator; `node_id` is -1 with an error code."""

    error_code: int
    node_id: int
    host: str
    port: int


def find_coordinator(address: tuple[str, int], group_id: str, timeout_s: float = 5.0) -> Coordinator:
    """Ask one broker for the coordinator of a group, over PLAINTEXT."""
    group = group_id.encode()
    body = struct.pack(">hhih", _FIND_COORDINATOR, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID
    body += struct.pack(">h", len(group)) + group
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _read(connection, 4))
        answer = _read(connection, size)
    _, error_code, node_id, host_length = struct.unpack_from(">ihih", answer)
    host = answer[12 : 12 + host_length].decode()
    (port,) = struct.unpack_from(">i", answer, 12 + host_length)
    return Coordinator(error_code=error_code, node_id=node_id, host=host, port=port)


def _read(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        received += chunk
    return received
