"""Packets of one pod that are lost silently, both ways or one way only, as when a network is partitioned.

The one idea: rules of netfilter in the pod's own network namespace, which go with the pod; no other pod's packets pass
there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path


class Way(StrEnum):
    """Which packets are lost."""

    BOTH = "both"
    REQUESTS = "requests"
    ANSWERS = "answers"


_CHAINS = {Way.BOTH: ("OUTPUT", "INPUT"), Way.REQUESTS: ("OUTPUT",), Way.ANSWERS: ("INPUT",)}
_SIDE = {"OUTPUT": "-d", "INPUT": "-s"}


@contextmanager
def cut(pid: int, address: str, way: Way = Way.BOTH) -> Iterator[None]:
    """Lose packets between a process of a pod and an IPv4 address meanwhile; connections stay open and say nothing."""

    def rules(action: str) -> None:
        for chain in _CHAINS[way]:
            rule = ["iptables", "--wait", action, chain, _SIDE[chain], address, "-j", "DROP"]
            subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "--", *rule], check=True, capture_output=True)

    rules("-I")
    try:
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            rules("-D")


def api_server_of(pid: int) -> str:
    """Return the address under which a process in a pod reaches the API server."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return next(each.partition("=")[2] for each in environment if each.startswith("KUBERNETES_SERVICE_HOST="))
