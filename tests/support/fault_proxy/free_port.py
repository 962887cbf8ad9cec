"""A free port of loopback."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return one; the caller must bind it soon."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
