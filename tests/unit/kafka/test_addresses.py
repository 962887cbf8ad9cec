"""Which addresses are dialled, and that the checked address is the one that is dialled."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest

from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.addresses import HostPort, SystemResolver, check, parse_host_port, refusal_reason
from support.narrowing import of_type

from .gateway_script import resolving


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "169.254.1.1",
        "fe80::1", "fe80::1%eth0", "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
        "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "100.100.100.200",
        "168.63.129.16", "192.0.0.192", "169.254.170.23", "fd00:ec2::23", "fd20:ce::254", "::7f00:1", "::a9fe:a9fe",
        "::ffff:0:7f00:1", "64:ff9b:1::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:5:a9:fea9:fe00:0", "2001:0:a9fe:a9fe::1", "2001::5601:5601",
    ],
)  # fmt: skip
def test_address_that_is_no_brokers_is_refused(text: str) -> None:
    assert refusal_reason(ipaddress.ip_address(text), allow_loopback=False)


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1", "172.16.4.4", "192.168.1.1", "8.8.8.8", "fd12:3456::1", "2001:db8::1", "::ffff:10.0.0.1",
     "100.64.0.10", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "64:ff9b:1:fffe::a00:1", "2002:a00:1::", "fd00:ec2::255"],
)  # fmt: skip
def test_ordinary_address_is_dialled(text: str) -> None:
    assert refusal_reason(ipaddress.ip_address(text), allow_loopback=False) == ""


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("169.254.1.1", True), ("fe80::1", True),
        ("::7f00:1", True), ("64:ff9b:1::7f00:1", True), ("0.0.0.0", False), ("::", False), ("224.0.0.1", False),
        ("169.254.169.254", False), ("169.254.170.23", False), ("fd00:ec2::254", False), ("fd00:ec2::23", False),
        ("fd20:ce::254", False), ("100.100.100.200", False), ("::a9fe:a9fe", False), ("::ffff:a9fe:a9fe", False),
        ("64:ff9b::a9fe:a9fe", False), ("64:ff9b:1::a9fe:a9fe", False), ("2002:a9fe:a9fe::", False),
    ],
)  # fmt: skip
def test_allow_loopback_never_allows_metadata_unspecified_or_multicast(text: str, is_allowed: bool) -> None:
    assert (refusal_reason(ipaddress.ip_address(text), allow_loopback=True) == "") is is_allowed


async def test_only_a_checked_address_of_a_name_is_chosen() -> None:
    target = HostPort(host="kafka.example", port=9092)
    resolver = resolving("127.0.0.1", "169.254.169.254", "10.0.0.5")
    assert await check(target, allow_loopback=False, resolver=resolver) == "10.0.0.5"


async def test_name_with_nothing_but_refused_addresses_is_refused() -> None:
    resolver = resolving("127.0.0.1", "169.254.169.254")
    said = await check(HostPort(host="kafka.example", port=9092), allow_loopback=False, resolver=resolver)
    assert isinstance(said, KafkaProblem)
    assert said.kind is KafkaProblemKind.ADDRESS_REFUSED
    assert "a cloud metadata address and a loopback address" in said.message


async def test_refusal_says_what_allows_a_test_cluster_and_only_where_that_helps() -> None:
    async def said(text: str) -> str:
        refused = await check(HostPort(host="kafka.example", port=9092), allow_loopback=False, resolver=resolving(text))
        assert isinstance(refused, KafkaProblem)
        return refused.message

    for setting in ("STATICGROUP_ALLOW_LOOPBACK", "operator.allowLoopback", "spec.allowLoopback"):
        assert setting in await said("127.0.0.1")
        assert setting not in await said("169.254.169.254")


async def test_name_that_does_not_resolve_is_unreachable() -> None:
    async def resolver(_host: str, _port: int) -> Sequence[str]:
        raise OSError("no such name")

    said = await check(HostPort(host="kafka.example", port=9092), allow_loopback=False, resolver=resolver)
    assert isinstance(said, KafkaProblem)
    assert said.kind is KafkaProblemKind.UNREACHABLE


async def test_system_resolver_answers_literals_and_local_names() -> None:
    system = SystemResolver()
    assert await system.resolve(["shop"], "10.0.0.5", 9092) == ("10.0.0.5",)
    assert "127.0.0.1" in await system.resolve(["shop"], "localhost", 9092)
    system.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka-0.example:9092", HostPort(host="kafka-0.example", port=9092)),
        ("[2001:db8::1]:9093", HostPort(host="2001:db8::1", port=9093)),
        (" 10.0.0.1:1 ", HostPort(host="10.0.0.1", port=1)),
    ],
)
def test_bootstrap_server_is_read(text: str, expected: HostPort) -> None:
    assert parse_host_port(text) == expected


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "kafka:9x", "kafka:-1", "k:٩"])
def test_bootstrap_server_that_is_none_is_named(text: str) -> None:
    said = of_type(KafkaProblem, parse_host_port(text))
    assert "spec.bootstrapServers" in said.message
