"""The network of one cluster: a bridge on the host, and a network namespace per node.

The one idea: what must not be shared is in a namespace. Every node has its own loopback, ports and iptables chains, so
clusters and nodes never meet, and a real kube-proxy runs in each. The host has the first address of the bridge: tests
reach the API server from there, and what listens there (brokers, webhooks under test) is reached from pods, which keep
their own addresses on the way.

    host  10.k.0.1 ── bridge ──┬── node 1  10.k.0.2   pods 10.k.1.0/24
                               └── node 2  10.k.0.3   pods 10.k.2.0/24

Pods are routed (CNI plugin `ptp`), not bridged, so that service addresses work without the br_netfilter module.
"""

import ipaddress
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .process import run

SERVICE_SUBNET = "10.96.0.0/16"
MAX_NODES = 9
_SECOND_OCTETS = range(128, 248)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetwork:
    """Names and addresses of one cluster's network, derived from its id and its second octet."""

    cluster_id: str
    second_octet: int

    @property
    def bridge(self) -> str:
        """Name of the bridge on the host (at most 15 characters, the kernel's limit)."""
        return f"sg-{self.cluster_id}"

    @property
    def host_address(self) -> str:
        """The host's address on the bridge."""
        return f"10.{self.second_octet}.0.1"

    @property
    def subnet(self) -> str:
        """All addresses of the cluster but those of services."""
        return f"10.{self.second_octet}.0.0/16"

    def node_address(self, index: int) -> str:
        """Address of a node; the index counts from 1."""
        return f"10.{self.second_octet}.0.{index + 1}"

    def pod_subnet(self, index: int) -> str:
        """Addresses of a node's pods."""
        return f"10.{self.second_octet}.{index}.0/24"

    def namespace(self, index: int) -> str:
        """Name of a node's network namespace."""
        return f"sg-{self.cluster_id}-{index}"

    def host_interface(self, index: int) -> str:
        """Name of the host's end of a node's cable."""
        return f"sg{self.cluster_id}n{index}"

    def up(self) -> None:
        """Create the bridge unless it exists."""
        if not _exists(self.bridge):
            run(["ip", "link", "add", self.bridge, "type", "bridge"])
        run(["ip", "addr", "replace", f"{self.host_address}/24", "dev", self.bridge])
        run(["ip", "link", "set", self.bridge, "up"])

    def connect_node(self, index: int) -> None:
        """Create a node's network namespace and plug it into the bridge, unless it is there."""
        namespace, outside = self.namespace(index), self.host_interface(index)
        if namespace not in namespaces():
            run(["ip", "netns", "add", namespace])
        if not _exists(outside):
            run(["ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace])
        run(["ip", "link", "set", outside, "master", self.bridge, "up"])
        inside = ["ip", "-n", namespace]
        run([*inside, "link", "set", "lo", "up"])
        run([*inside, "addr", "replace", f"{self.node_address(index)}/24", "dev", "eth0"])
        run([*inside, "link", "set", "eth0", "up"])
        run([*inside, "route", "replace", "default", "via", self.host_address])
        run(["nsenter", f"--net=/run/netns/{namespace}", "--", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])

    def route_pods(self, indexes: Collection[int]) -> None:
        """Tell the host and every node the way to the pods of all nodes."""
        for target in indexes:
            route = ["route", "replace", self.pod_subnet(target), "via", self.node_address(target)]
            run(["ip", *route])
            for source in indexes:
                if source != target:
                    run(["ip", "-n", self.namespace(source), *route])

    def disconnect_node(self, index: int) -> None:
        """Delete a node's namespace and its cable; the host's route to its pods goes too."""
        run(["ip", "route", "del", self.pod_subnet(index)], check=False)
        if _exists(self.host_interface(index)):
            run(["ip", "link", "del", self.host_interface(index)])
        if self.namespace(index) in namespaces():
            run(["ip", "netns", "del", self.namespace(index)])


def leftovers(cluster_id: str) -> list[str]:
    """Return what exists of a cluster's network on the host, in words."""
    bridge = f"sg-{cluster_id}"
    found = [f"interface {link}" for link in _interfaces() if link == bridge or link.startswith(f"sg{cluster_id}n")]
    found += [f"network namespace {name}" for name in namespaces() if name.startswith(f"{bridge}-")]
    return found + [f"route {route['dst']}" for route in _route_table() if route.get("dev") == bridge]


def remove(cluster_id: str) -> None:
    """Remove a cluster's network from the host; its routes go with the bridge."""
    for namespace in namespaces():
        if namespace.startswith(f"sg-{cluster_id}-"):
            run(["ip", "netns", "del", namespace])
    for link in _interfaces():
        if link == f"sg-{cluster_id}" or link.startswith(f"sg{cluster_id}n"):
            # An interface of a deleted namespace goes by itself, a moment later.
            run(["ip", "link", "del", link], check=False)


def _interfaces() -> list[str]:
    return [path.name for path in Path("/sys/class/net").iterdir()]


def _exists(interface: str) -> bool:
    return (Path("/sys/class/net") / interface).exists()


def namespaces() -> list[str]:
    """Return the names of the network namespaces of this machine."""
    directory = Path("/run/netns")
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def _route_table() -> list[dict[str, str]]:
    table: list[dict[str, str]] = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]")
    return table


def _routed_subnets() -> list[ipaddress.IPv4Network]:
    destinations = [route.get("dst", "default") for route in _route_table()]
    return [ipaddress.IPv4Network(name, strict=False) for name in destinations if name[:1].isdigit()]


def free_second_octet(cluster_id: str, claimed: Collection[int]) -> int:
    """Choose a cluster's /16: by its id, unless another cluster claims it or the host already routes into it.

    Parameters
    ----------
    cluster_id: hexadecimal digits.
    claimed: second octets of the other clusters of this machine, running or not.
    """
    routes = _routed_subnets()
    first = int(cluster_id, 16)
    for offset in range(len(_SECOND_OCTETS)):
        octet = _SECOND_OCTETS[(first + offset) % len(_SECOND_OCTETS)]
        subnet = ipaddress.ip_network(f"10.{octet}.0.0/16")
        if octet not in claimed and not any(subnet.overlaps(route) for route in routes if route.prefixlen > 8):
            return octet
    raise RuntimeError("no free 10.x.0.0/16 for another cluster: delete one")
