"""The addresses of pods: each node has a range of its own, and gives an address again once nothing uses it.

Source: Node.spec.podCIDR (it belongs to the Node's name), CNI host-local IPAM (the lowest free address after the last
one given).
"""

from __future__ import annotations

from zlib import crc32


class Addresses:
    """The range of one node.

    Parameters
    ----------
    name: of the Node, which the range belongs to, whatever machine has it.
    """

    def __init__(self, name: str) -> None:
        self._prefix = f"10.{crc32(name.encode()) % 200 + 20}.0"
        self._given: dict[str, int] = {}

    def of(self, uid: str) -> str:
        """Return the address of a pod; it gets one when it is first asked for."""
        if uid not in self._given:
            self._given[uid] = next(n for n in range(2, 250) if n not in self._given.values())
        return f"{self._prefix}.{self._given[uid]}"

    def give_back(self, uid: str) -> None:
        """Take the address of a pod of which nothing runs any more."""
        self._given.pop(uid, None)


def node_address(host: str) -> str:
    """Return the address of a machine itself."""
    return f"192.168.{crc32(host.encode()) % 250}.{crc32(host.encode()) // 250 % 250}"
