"""Decide which addresses may be dialled.

Why: whoever may create a KafkaConnection, or answers as a broker, chooses where the operator connects; it must not be
sent to the machine it runs on or to a cloud's metadata service. One idea: resolve once, judge the addresses, dial the
judged address itself (a second resolution could answer differently), and keep the name for TLS.
Source: RFC 6890 (special-purpose addresses), RFC 6052 (NAT64), cloud vendors' metadata addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakValueDictionary

from staticgroup.core.group import KafkaProblem, KafkaProblemKind

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) → addresses in text; raises OSError when the name does not resolve."""

DNS_THREADS = 64
"""Own threads: dead name servers must not starve asyncio's default executor, and a look-up cannot be cut short."""
LOOK_UPS_OF_TENANT = 8
"""Look-ups of one tenant at once, those included that nobody waits for any more."""

METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds (also link-local)
        "169.254.170.2",  # container credentials of one
        "fd00:ec2::254",  # the same over IPv6
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    )
)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A host name or IP literal and a port, as a user or a broker wrote it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_host_port(text: str) -> HostPort | KafkaProblem:
    """Read `host:port` or `[IPv6]:port`."""
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not separator or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return KafkaProblem(
            kind=KafkaProblemKind.CONNECTION_INVALID,
            message=f"bootstrap server {text!r} is not host:port; correct spec.bootstrapServers",
        )
    return HostPort(host=host, port=int(port))


def refusal_reason(address: IpAddress, *, allow_loopback: bool) -> str:
    """Say why an address may not be dialled; "" when it may.

    Parameters
    ----------
    allow_loopback: permits loopback and link-local addresses (spec.allowLoopback), never a metadata address.
    """
    address = _embedded(address)
    if address in METADATA_ADDRESSES:
        return "a cloud metadata address"
    if address.is_loopback or address.is_link_local:
        kind = "loopback" if address.is_loopback else "link-local"
        return "" if allow_loopback else f"a {kind} address"
    if address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK):
        return "an unspecified address"
    if address.is_multicast:
        return "a multicast address"
    if address.version == 4 and address.is_reserved:
        return "a reserved address"
    return ""


def _embedded(address: IpAddress) -> IpAddress:
    """Return the IPv4 address inside a mapped, 6to4 or NAT64 one: the packets end there."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return inner
        return ipaddress.IPv6Address(int(address))  # without the zone of a scoped address
    return address


async def check(target: HostPort, *, allow_loopback: bool, resolver: Resolver) -> str | KafkaProblem:
    """Resolve a host once and choose the address to dial.

    Returns
    -------
    str: an address that may be dialled; KafkaProblem when the name does not resolve or all addresses are refused.
    """
    try:
        found = await resolver(target.host, target.port)
    except (OSError, UnicodeError):
        return KafkaProblem(
            kind=KafkaProblemKind.UNREACHABLE,
            message=f"broker {target} cannot be reached: its name does not resolve; check the address and DNS",
        )
    reasons: list[str] = []
    for text in found:
        reason = refusal_reason(ipaddress.ip_address(text), allow_loopback=allow_loopback)
        if not reason:
            return text
        reasons.append(reason)
    return KafkaProblem(
        kind=KafkaProblemKind.ADDRESS_REFUSED,
        message=f"broker {target} is not dialled: it is {' and '.join(sorted(set(reasons))) or 'no address at all'}; "
        "use the brokers' own addresses (bootstrapServers and advertised.listeners)"
        + ("" if allow_loopback else ", or set spec.allowLoopback on a test machine"),
    )


def _look_up(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class SystemResolver:
    """Ask the system's resolver, in threads of its own, for each tenant within its share of them.

    Parameters
    ----------
    look_up: blocks until it knows the addresses; tests give one that hangs.
    """

    def __init__(self, look_up: Callable[[str, int], list[str]] = _look_up) -> None:
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(max_workers=DNS_THREADS, thread_name_prefix="kafka-dns")
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(self, tenants: Sequence[str], host: str, port: int) -> Sequence[str]:
        """Look a name up; IP literals are answered at once.

        Parameters
        ----------
        tenants: namespaces that use the connection, at least one; the first with a free place lends it.
        """
        try:
            return (str(ipaddress.ip_address(host)),)
        except ValueError:
            pass  # a name, which the resolver knows
        shares = [self._places.setdefault(tenant, asyncio.Semaphore(LOOK_UPS_OF_TENANT)) for tenant in tenants]
        places = next((share for share in shares if not share.locked()), shares[0])
        await places.acquire()
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host, port)
        running.add_done_callback(lambda ended: _give_back(places, ended))
        # The thread goes on when nobody waits any more, and keeps its place until it ends.
        return tuple(dict.fromkeys(await asyncio.shield(running)))

    def close(self) -> None:
        """Let the threads end; a hanging look-up is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _give_back(places: asyncio.Semaphore, ended: asyncio.Future[list[str]]) -> None:
    places.release()
    if not ended.cancelled():
        ended.exception()  # seen, or asyncio would report one that nobody waited for
