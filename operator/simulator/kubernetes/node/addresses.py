"""The addresses of pods: each node has a range of its own, and gives an address again once nothing uses it.

Source: Node.spec.podCIDR (it belongs to the Node's name), CNI host-local IPAM (the lowest free address after the last
one given).
"""

from __future__ import annotations

from zlib import crc32

from ..objects import Json
from .pod_worker import PodWorker


class Addresses:
    """The range of one node.

    Parameters
    ----------
    name: of the Node, which the range belongs to, whatever machine has it.
    host: the machine.
    """

    def __init__(self, name: str, host: str) -> None:
        self._host = host
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

    def shown(self, worker: PodWorker) -> Json:
        """Return what a status says of a pod's addresses: they are known once its sandbox is there."""
        if not any(record.run for record in worker.records):
            return {}
        address = self.of(worker.uid)
        return {"podIP": address, "podIPs": [{"ip": address}], "hostIP": node_address(self._host)}


def node_address(host: str) -> str:
    """Return the address of a machine itself."""
    return f"192.168.{crc32(host.encode()) % 250}.{crc32(host.encode()) // 250 % 250}"
