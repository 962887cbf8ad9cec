"""Decide which addresses may be dialled.

Why: the author of a KafkaConnection, and anybody who answers as a broker, chooses where the operator connects; it must
not be sent to its own machine or to a cloud's metadata service. One idea: resolve once, judge the addresses, dial the
judged address itself (a second resolution could answer differently), and keep the name for TLS.
Source: RFC 6890 (special-purpose addresses), RFC 6052 and 8215 (NAT64), RFC 4291 and 2765 (IPv4 in IPv6), RFC 3056
(6to4), RFC 4380 (Teredo), cloud vendors' metadata addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakValueDictionary

from ..core.group import KafkaProblem, KafkaProblemKind

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
        "169.254.170.23",  # pod credentials of the same
        "fd00:ec2::254",  # its metadata over IPv6
        "fd00:ec2::23",  # its pod credentials over IPv6
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    )
)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_LOW_BITS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
    )
)
"""Whose last 32 bits are an IPv4 address."""
_LOOPBACK_HINT = (
    ", or on a test machine set the operator's STATICGROUP_ALLOW_LOOPBACK (chart value operator.allowLoopback) and "
    "spec.allowLoopback"
)
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
_NAT64_LAYOUTS = ((12, 13, 14, 15), (6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
"""Bytes of the IPv4 address behind a prefix of 96, 48, 56 and 64 bits; each network chooses its own."""


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
        message = f"bootstrap server {text!r} is not host:port; correct spec.bootstrapServers"
        return KafkaProblem(kind=KafkaProblemKind.CONNECTION_INVALID, message=message)
    return HostPort(host=host, port=int(port))


def refusal_reason(address: IpAddress, *, allow_loopback: bool) -> str:
    """Say why an address may not be dialled; "" when it may.

    Parameters
    ----------
    allow_loopback: permits loopback and link-local addresses, never a metadata address.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return _reason(address, allow_loopback)
    address = ipaddress.IPv6Address(int(address))  # without the zone of a scoped address
    reasons = (_reason(inner, allow_loopback) for inner in _embedded(address) or (address,))
    return next((reason for reason in reasons if reason), "")


def _reason(address: IpAddress, allow_loopback: bool) -> str:
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


def _embedded(address: ipaddress.IPv6Address) -> tuple[IpAddress, ...]:
    """Return the IPv4 addresses inside an IPv6 one, where the packets end; none when it is itself the destination."""
    if int(address) <= 1:  # "::" and "::1" are no IPv4-compatible addresses
        return ()
    if any(address in network for network in _LOW_BITS):
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    if address in _LOCAL_NAT64:
        usual, *others = (ipaddress.IPv4Address(bytes(address.packed[n] for n in at)) for at in _NAT64_LAYOUTS)
        # Under another layout the bits mean nothing, unless they happen to be an address that no broker has.
        return (usual, *(o for o in others if o in METADATA_ADDRESSES or o.is_loopback or o.is_link_local))
    if address.sixtofour is not None:
        return (address.sixtofour,)
    return address.teredo or ()


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
    hint = ""
    for text in found:
        address = ipaddress.ip_address(text)
        reason = refusal_reason(address, allow_loopback=allow_loopback)
        if not reason:
            return text
        reasons.append(reason)
        if not refusal_reason(address, allow_loopback=True):
            hint = _LOOPBACK_HINT
    return KafkaProblem(
        kind=KafkaProblemKind.ADDRESS_REFUSED,
        message=f"broker {target} is not dialled: it is {' and '.join(sorted(set(reasons))) or 'no address at all'}; "
        f"use the brokers' own addresses (bootstrapServers and advertised.listeners){hint}",
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
        tenants: namespaces that use the connection, at least one; the first with a free place gives it.
        """
        try:
            return (str(ipaddress.ip_address(host)),)
        except ValueError:
            pass  # a name, which the resolver knows
        shares = [self._places.setdefault(tenant, asyncio.Semaphore(LOOK_UPS_OF_TENANT)) for tenant in tenants]
        places = next((share for share in shares if not share.locked()), shares[0])

        def give_back(ended: asyncio.Future[list[str]]) -> None:
            places.release()
            if not ended.cancelled():
                ended.exception()  # seen, or asyncio would report one that nobody waited for

        await places.acquire()
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, host, port)
        running.add_done_callback(give_back)
        # The thread goes on when nobody waits any more, and keeps its place until it ends.
        return tuple(dict.fromkeys(await asyncio.shield(running)))

    def close(self) -> None:
        """Let the threads end; a hanging look-up is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
