"""Tokens come over verified https from a checked address, are kept for a while, and are never shown."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from staticgroup.api.resources.kafkaconnection import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.oauth import ClientCredentials
from support.devcluster import kafka_tls
from unit.kafka.fake_broker import FakeBroker

SECRET = "canary-oauth-51b7:&="


class Endpoint:
    """An identity provider on loopback with a certificate for idp.test."""

    def __init__(self) -> None:
        self.answers: list[web.Response] = []
        self.requests: list[tuple[str, str]] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.headers["Authorization"], await request.text()))
        return self.answers.pop(0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    kafka_tls.make_authority(folder, "test authority")
    kafka_tls.make_broker_store(folder, "idp.test")
    return folder


@pytest_asyncio.fixture
async def endpoint(authority: Path) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    application = web.Application()
    application.router.add_post("/token", endpoint.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "broker.pem", authority / "broker.key")
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    endpoint.port = runner.addresses[0][1]
    yield endpoint
    await runner.cleanup()


Make = Callable[..., ClientCredentials]


@pytest.fixture
def make(endpoint: Endpoint, authority: Path, clock: Any) -> Make:
    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return ("127.0.0.1",)

    def build(host: str = "idp.test", *, allow_loopback: bool = True, trusted: bool = True) -> ClientCredentials:
        context = ssl.create_default_context()
        if trusted:
            context.load_verify_locations(authority / "ca.pem")
        return ClientCredentials(
            OAuthSettings(
                token_endpoint=f"https://{host}:{endpoint.port}/token",
                client_id="staticgroup operator",
                client_secret=SecretText(SECRET),
                scope="kafka",
            ),
            clock=clock,
            resolver=resolver,
            context=context,
            allow_loopback=allow_loopback,
            timeout_s=3.0,
        )

    return build


def token(text: str, **more: Any) -> web.Response:
    return web.json_response({"access_token": text, "token_type": "Bearer"} | more)


async def refused(call: Awaitable[str]) -> KafkaProblem:
    with pytest.raises(Refusal) as caught:
        await call
    assert SECRET not in caught.value.problem.message + repr(caught.value)
    return caught.value.problem


async def test_token_is_asked_with_the_client_credentials_grant(endpoint: Endpoint, make: Make) -> None:
    """RFC 6749 §2.3.1 and §4.4.2: id and secret are form-encoded inside the basic header."""
    endpoint.answers = [token("t-1", expires_in=600)]
    assert await make().token() == "t-1"
    [(authorization, body)] = endpoint.requests
    sent = base64.b64decode(authorization.removeprefix("Basic ")).decode()
    assert sent == "staticgroup%20operator:canary-oauth-51b7%3A%26%3D"
    assert body == "grant_type=client_credentials&scope=kafka"


async def test_token_is_kept_until_shortly_before_its_end(endpoint: Endpoint, make: Make, clock: Any) -> None:
    endpoint.answers = [token("t-1", expires_in=600), token("t-2", expires_in=600)]
    provider = make()
    assert await asyncio.gather(*(provider.token() for _ in range(5))) == ["t-1"] * 5
    clock.now_s += 539
    assert await provider.token() == "t-1"
    clock.now_s += 2
    assert await provider.token() == "t-2"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda: web.Response(status=401, text=SECRET), KafkaProblemKind.AUTHENTICATION_FAILED),
        (lambda: web.Response(status=500), KafkaProblemKind.AUTHENTICATION_FAILED),
        (
            lambda: web.Response(status=302, headers={"Location": "https://other/"}),
            KafkaProblemKind.AUTHENTICATION_FAILED,
        ),
        (lambda: web.Response(text="no json"), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: web.json_response([]), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: web.json_response({"access_token": ""}), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: token("t", expires_in="soon"), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: token("t", expires_in=0), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: token("t" * 100_000), KafkaProblemKind.UNEXPECTED_ANSWER),
    ],
)
async def test_anything_but_a_token_is_a_problem(
    endpoint: Endpoint, make: Make, answer: Callable[[], web.Response], kind: KafkaProblemKind
) -> None:
    endpoint.answers = [answer()]
    assert (await refused(make().token())).kind is kind
    assert len(endpoint.requests) == 1


async def test_endpoint_is_verified_and_its_address_checked(endpoint: Endpoint, make: Make) -> None:
    assert (await refused(make(trusted=False).token())).kind is KafkaProblemKind.TLS_FAILED
    assert (await refused(make("other.test").token())).kind is KafkaProblemKind.TLS_FAILED
    assert (await refused(make(allow_loopback=False).token())).kind is KafkaProblemKind.ADDRESS_REFUSED
    assert endpoint.requests == []


class GivenToken:
    """A provider that tests inject."""

    def __init__(self, answer: str | Refusal) -> None:
        self.answer = answer

    async def token(self) -> str:
        if isinstance(self.answer, Refusal):
            raise self.answer
        return self.answer


async def test_broker_gets_the_token_and_a_failing_provider_is_a_value(
    broker: FakeBroker, settings: ConnectionSettings
) -> None:
    oauth = OAuthSettings(token_endpoint="https://idp", client_id="op", client_secret=SecretText(SECRET))
    settings = replace(settings, sasl=SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=oauth))
    gateway = KioGateway(make_tokens=lambda _settings: GivenToken("t-1"))
    assert isinstance(await gateway.probe(settings), ClusterFacts)
    assert b"auth=Bearer t-1\x01" in broker.sasl_bytes[-1]
    await gateway.close()
    problem = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no token")
    failing = KioGateway(make_tokens=lambda _settings: GivenToken(Refusal(problem)))
    assert await failing.probe(settings) == problem
