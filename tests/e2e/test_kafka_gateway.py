"""The gateway against a real broker: what it reads, what its removals do, and what it says when it may not or cannot.

The expectations restate what was measured on a 4.4.0 broker: LeaveGroup's compare-and-set (KIP-345, KAFKA-18188), the
rights each call needs (KafkaApis), and the wording of failures.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.broker_groups import started
from e2e.gateway_bench import (
    PASSWORDS,
    by_instance,
    described_when,
    entry,
    login,
    member_starter,
    problem,
    settings_of,
    stable_with,
)
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblemKind,
    LeaveOutcome,
    LeaveResult,
    SessionBounds,
)
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText, TlsSettings
from staticgroup.kafka.login.tokens import BearerToken
from support.devcluster import kafka_tls
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_member import Member
from support.sockets import socket_count

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]
REMOVED, FENCED, UNKNOWN = LeaveOutcome.REMOVED, LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN


@pytest.fixture(scope="module")
def plain() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-gw", profile="fast"))


@pytest.fixture(scope="module")
def secure() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-gws", profile="fast", security=True, users=PASSWORDS))


@pytest.fixture(scope="module")
def three() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-gw3", profile="fast", nodes=3))


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[KioGateway]:
    gateway = KioGateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def members() -> Iterator[Callable[..., Member]]:
    yield from member_starter()


async def test_probe_names_cluster_brokers_and_versions(plain: Brokers, gateway: KioGateway) -> None:
    facts = await gateway.probe(settings_of(plain))
    assert isinstance(facts, ClusterFacts)
    assert [(node.host, node.port) for node in facts.brokers] == [plain.address(plain.nodes[0])]
    assert facts.api_versions[13] == (0, 5)
    assert facts.api_versions[69] == (0, 1)
    assert facts.cluster_id
    right = await gateway.probe(settings_of(plain, cluster_id=facts.cluster_id))
    assert right == facts


async def test_another_cluster_is_refused_before_any_group_call(plain: Brokers, gateway: KioGateway) -> None:
    settings = settings_of(plain, cluster_id="MkU3OEVBNTcwNTJENDM2Qk")
    for outcome in (await gateway.describe(settings, "g"), await gateway.leave(settings, "g", [entry("m", "i")])):
        assert problem(outcome).kind is KafkaProblemKind.WRONG_CLUSTER
        assert "MkU3OEVBNTcwNTJENDM2Qk" in problem(outcome).message


async def test_group_that_does_not_exist_is_absent(plain: Brokers, gateway: KioGateway) -> None:
    view = await gateway.describe(settings_of(plain), "never-seen")
    assert isinstance(view, GroupView)
    assert (view.group_type, view.members) == (GroupType.ABSENT, ())
    assert await gateway.leave(settings_of(plain), "never-seen", [entry("m", "i")]) == LeaveResult(
        coordinator=view.coordinator, outcomes=(UNKNOWN,)
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_leave_is_a_compare_and_set(
    plain: Brokers, gateway: KioGateway, members: Callable[..., Member], protocol: str
) -> None:
    """LeaveGroupRequestTest; KAFKA-18188: the same for KIP-848 groups."""
    settings, group_id = settings_of(plain), f"cas-{protocol}"
    running = {i: members(plain, group_id, i, protocol=protocol) for i in ("x-0", "x-1", "x-2")}
    before = await described_when(gateway, settings, group_id, stable_with(3))
    held = by_instance(before)
    assert before.group_type is (GroupType.CLASSIC if protocol == "classic" else GroupType.CONSUMER)
    assert before.protocol_type == "consumer"
    assert sum(member.assigned_partitions or 0 for member in before.members) == 6
    for member in running.values():
        member.kill()

    refused = [
        entry("bogus", "x-0"), entry(held["x-1"].member_id, "x-0"), entry(held["x-0"].member_id, "unknown"),
        entry("bogus", "unknown"),
    ]  # fmt: skip
    result = await gateway.leave(settings, group_id, refused)
    assert result == LeaveResult(coordinator=before.coordinator, outcomes=(FENCED, FENCED, UNKNOWN, UNKNOWN))
    after_refusals = await gateway.describe(settings, group_id)
    assert isinstance(after_refusals, GroupView)
    assert by_instance(after_refusals) == held
    assert after_refusals.group_epoch == before.group_epoch

    batch = [entry("bogus", "x-2"), entry(held["x-0"].member_id, "x-0"), entry(held["x-1"].member_id, "x-1")]
    result = await gateway.leave(settings, group_id, batch)
    assert result == LeaveResult(coordinator=before.coordinator, outcomes=(FENCED, REMOVED, REMOVED))
    after = await described_when(gateway, settings, group_id, lambda view: len(view.members) == 1)
    assert set(by_instance(after)) == {"x-2"}
    again = await gateway.leave(settings, group_id, batch[1:])
    assert again == LeaveResult(coordinator=before.coordinator, outcomes=(UNKNOWN, UNKNOWN))
    last = await gateway.leave(settings, group_id, [entry(held["x-2"].member_id, "x-2")])
    assert isinstance(last, LeaveResult)
    assert last.outcomes == (REMOVED,)
    empty = await described_when(gateway, settings, group_id, lambda view: view.state == "Empty")
    assert empty.members == ()


async def test_successor_of_a_replaced_member_survives_the_late_removal(
    plain: Brokers, gateway: KioGateway, members: Callable[..., Member]
) -> None:
    settings, group_id = settings_of(plain), "successor"
    first = members(plain, group_id, "x-0")
    old = by_instance(await described_when(gateway, settings, group_id, stable_with(1)))["x-0"]
    first.kill()
    members(plain, group_id, "x-0")
    new_view = await described_when(
        gateway, settings, group_id,
        lambda view: view.is_settled and by_instance(view)["x-0"].member_id != old.member_id,
    )  # fmt: skip
    result = await gateway.leave(settings, group_id, [entry(old.member_id, "x-0")])
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (FENCED,)
    assert await gateway.describe(settings, group_id) == new_view


async def test_many_groups_are_read_together(
    plain: Brokers, gateway: KioGateway, members: Callable[..., Member]
) -> None:
    settings = settings_of(plain)
    members(plain, "mixed-classic", "x-0")
    members(plain, "mixed-consumer", "x-0", protocol="consumer")
    await described_when(gateway, settings, "mixed-classic", stable_with(1))
    await described_when(gateway, settings, "mixed-consumer", stable_with(1))
    group_ids = ["mixed-classic", "mixed-consumer", *(f"absent-{n}" for n in range(250))]
    views = await asyncio.gather(*(gateway.describe(settings, group_id) for group_id in group_ids))
    types = [view.group_type if isinstance(view, GroupView) else view for view in views]
    assert types == [GroupType.CLASSIC, GroupType.CONSUMER, *[GroupType.ABSENT] * 250]
    assert socket_count(gateway) == 1


async def test_bounds_are_the_brokers_and_the_group_setting_is_clamped(plain: Brokers, gateway: KioGateway) -> None:
    admin = BrokerAdmin(plain.bootstrap)
    admin.alter_group("tuned", {"consumer.session.timeout.ms": "7000"})
    tuned = await gateway.bounds(settings_of(plain), "tuned")
    assert isinstance(tuned, BrokerBounds)
    assert tuned.of(GroupType.CLASSIC) == SessionBounds(min_ms=500, max_ms=1800000)
    consumer = tuned.of(GroupType.CONSUMER)
    assert replace(consumer, heartbeat_ms=None) == SessionBounds(min_ms=1000, max_ms=600000, group_ms=7000)
    assert 0 < (consumer.heartbeat_ms or 0) < 7000
    assert (tuned.stored, tuned.misfits) == ({"consumer.session.timeout.ms": 7000}, {})
    streams = tuned.of(GroupType.STREAMS)
    assert 0 < (streams.min_ms or 0) <= (streams.group_ms or 0) <= (streams.max_ms or 0)
    untouched = await gateway.bounds(settings_of(plain), "untouched")
    assert isinstance(untouched, BrokerBounds)
    assert untouched.of(GroupType.CONSUMER).group_ms == 5000


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_every_mechanism_logs_in_and_refuses_a_bad_password_without_showing_it(
    secure: Brokers, gateway: KioGateway, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("aiokafka.conn").setLevel(logging.DEBUG)  # as a curious administrator would
    good = login(secure, "admin")
    assert good.sasl
    good = replace(good, sasl=replace(good.sasl, mechanism=SaslMechanism(mechanism)))
    assert isinstance(await gateway.probe(good), ClusterFacts)
    assert good.sasl
    bad = replace(good, sasl=replace(good.sasl, password=SecretText("wrong-canary-7391")))
    refused = problem(await gateway.probe(bad))
    assert refused.kind is KafkaProblemKind.AUTHENTICATION_FAILED
    assert "canary" not in refused.message + caplog.text + repr(bad)


async def test_bearer_token_logs_in(secure: Brokers) -> None:
    """The test broker accepts unsecured JWS with extensions (RFC 7515 appendix A.5); the subject is the principal."""

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now_s = int(time.time())

    class Tokens:
        async def token(self) -> BearerToken:
            text = f"{part({'alg': 'none'})}.{part({'sub': 'nobody', 'iat': now_s, 'exp': now_s + 600})}."
            return BearerToken(text=text)

    settings = login(secure, "nobody")
    extensions = (("logicalCluster", "lkc-1abc2d"), ("identityPoolId", "pool-x1"))
    oauth = OAuthSettings(
        token_endpoint="https://idp.test/token", client_id="op", client_secret=SecretText("canary"),
        extensions=extensions,
    )  # fmt: skip
    settings = replace(settings, sasl=SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=oauth))
    gateway = KioGateway(make_tokens=lambda _settings: Tokens())
    try:
        assert isinstance(await gateway.probe(settings), ClusterFacts)
        said = problem(await gateway.describe(settings, "shop-classic"))
        assert said.missing_acl == "DESCRIBE on Group 'shop-classic'"
    finally:
        await gateway.close()


async def test_certificate_of_another_authority_is_a_tls_problem(
    secure: Brokers, gateway: KioGateway, tmp_path: Path
) -> None:
    kafka_tls.make_authority(tmp_path / "other", "another authority")
    settings = replace(login(secure, "admin"), tls=TlsSettings(ca_pem=(tmp_path / "other" / "ca.pem").read_text()))
    assert problem(await gateway.probe(settings)).kind is KafkaProblemKind.TLS_FAILED


async def test_mutual_tls_needs_a_certificate_of_the_brokers_authority(
    secure: Brokers, gateway: KioGateway, tmp_path: Path
) -> None:
    ca_pem = secure.ca_path.read_text()
    ours = secure.client_certificate("full")
    kafka_tls.make_authority(tmp_path / "other", "another authority")
    forged = kafka_tls.make_client(tmp_path / "other", "full")
    bootstrap = tuple(secure.ssl_bootstrap.split(","))

    def with_certificate(client: kafka_tls.ClientCertificate | None) -> ConnectionSettings:
        tls = TlsSettings(
            ca_pem=ca_pem, certificate_pem=client.certificate.read_text() if client else None,
            key_pem=SecretText(client.key.read_text()) if client else None,
        )  # fmt: skip
        return settings_of(secure, bootstrap_servers=bootstrap, tls=tls)

    assert isinstance(await gateway.probe(with_certificate(ours)), ClusterFacts)
    for client in (None, forged):
        assert problem(await gateway.probe(with_certificate(client))).kind is KafkaProblemKind.TLS_FAILED


async def test_plaintext_to_a_tls_listener_and_back_are_problems_with_advice(
    secure: Brokers, gateway: KioGateway
) -> None:
    plain_to_tls = settings_of(secure, bootstrap_servers=tuple(secure.ssl_bootstrap.split(",")), request_timeout_s=3.0)
    said = problem(await gateway.probe(plain_to_tls))
    assert said.kind in (KafkaProblemKind.UNREACHABLE, KafkaProblemKind.UNEXPECTED_ANSWER)
    tls_to_plain = settings_of(secure, tls=TlsSettings(ca_pem=secure.ca_path.read_text()), request_timeout_s=3.0)
    said = problem(await gateway.probe(tls_to_plain))
    assert said.kind in (KafkaProblemKind.TLS_FAILED, KafkaProblemKind.UNREACHABLE)


async def test_loopback_broker_is_refused_unless_allowed(plain: Brokers, gateway: KioGateway) -> None:
    said = problem(await gateway.probe(settings_of(plain, allow_loopback=False)))
    assert said.kind is KafkaProblemKind.ADDRESS_REFUSED


async def test_reading_goes_on_when_the_coordinator_dies(
    three: Brokers, gateway: KioGateway, members: Callable[..., Member]
) -> None:
    settings, group_id = settings_of(three, request_timeout_s=30.0), "moving"
    members(three, group_id, "x-0")
    before = await described_when(gateway, settings, group_id, stable_with(1))
    node = three.coordinator(group_id)
    assert before.coordinator.startswith(f"{node}@")
    three.kill(node)

    def is_read_elsewhere(view: GroupView) -> bool:
        # The new coordinator may first show the state before the last write, which is Empty here.
        return view.coordinator != before.coordinator and set(by_instance(view)) == {"x-0"}

    await described_when(gateway, settings, group_id, is_read_elsewhere)
    three.restart(node)
