"""Tokens come over verified https from a checked address, are kept for a while, and are never shown."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio
from aiohttp import web

from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText
from staticgroup.kafka.login.oauth import ANSWER_MAX_BYTES, ClientCredentials
from staticgroup.kafka.login.tokens import BearerToken
from support.devcluster import kafka_tls
from unit.kafka.fake_broker import FakeBroker

from .gateway_script import GivenToken, resolving

SECRET = "canary-oauth-51b7:&="


class Endpoint:
    """An identity provider on loopback with a certificate for idp.test."""

    def __init__(self) -> None:
        self.answers: list[web.Response] = []
        self.requests: list[tuple[str, str]] = []
        self.port = 0
        self.comes_in_pieces = False

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.headers.get("Authorization", ""), await request.text()))
        answer = self.answers.pop(0)
        return await self._in_pieces(request, answer) if self.comes_in_pieces else answer

    async def _in_pieces(self, request: web.Request, answer: web.Response) -> web.StreamResponse:
        """Send one character at a time, each in a record and a chunk of its own."""
        pieces = web.StreamResponse(headers={"Content-Type": "application/json"})
        await pieces.prepare(request)
        for character in answer.text or "":
            await pieces.write(character.encode())
            await asyncio.sleep(0)
        return pieces


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
    def build(
        host: str = "idp.test", *, allow_loopback: bool = True, trusted: bool = True, assertion: Any = None, **changes: Any
    ) -> ClientCredentials:
        context = ssl.create_default_context()
        if trusted:
            context.load_verify_locations(authority / "ca.pem")
        oauth = OAuthSettings(
            token_endpoint=f"https://{host}:{endpoint.port}/token", client_id="staticgroup operator",
            client_secret=SecretText(SECRET), scope="kafka",
        )
        return ClientCredentials(
            replace(oauth, **changes), clock=clock, resolver=resolving("127.0.0.1"), context=context,
            allow_loopback=allow_loopback,
            timeout_s=3.0, assertion=assertion,
        )

    return build


def token(text: str, **more: Any) -> web.Response:
    return web.json_response({"access_token": text, "token_type": "Bearer"} | more)


async def refused(call: Awaitable[BearerToken]) -> KafkaProblem:
    with pytest.raises(Refusal) as caught:
        await call
    assert SECRET not in caught.value.problem.message + repr(caught.value)
    return caught.value.problem


async def test_token_is_asked_with_the_client_credentials_grant(endpoint: Endpoint, make: Make) -> None:
    """RFC 6749 §2.3.1 and §4.4.2: id and secret are form-encoded inside the basic header."""
    endpoint.answers = [token("t-1", expires_in=600)]
    assert (await make().token()).text == "t-1"
    [(authorization, body)] = endpoint.requests
    sent = base64.b64decode(authorization.removeprefix("Basic ")).decode()
    assert sent == "staticgroup%20operator:canary-oauth-51b7%3A%26%3D"
    assert body == "grant_type=client_credentials&scope=kafka"


async def test_an_answer_that_comes_in_pieces_is_read_to_its_end(endpoint: Endpoint, make: Make) -> None:
    """Providers that send chunks, or a token with many claims, seemed to answer without one (StreamReader.read gives what is there)."""
    endpoint.comes_in_pieces = True
    endpoint.answers = [token("t-1", expires_in=600)]
    assert (await make().token()).text == "t-1"


async def test_an_answer_without_an_end_is_not_read_beyond_its_bound(endpoint: Endpoint, make: Make) -> None:
    endpoint.answers = [token("t-1", padding="x" * ANSWER_MAX_BYTES)]
    assert (await refused(make().token())).kind is KafkaProblemKind.UNEXPECTED_ANSWER


async def test_token_is_kept_until_shortly_before_its_end(endpoint: Endpoint, make: Make, clock: Any) -> None:
    endpoint.answers = [token("t-1", expires_in=600), token("t-2", expires_in=600)]
    provider = make()
    first = BearerToken(text="t-1", until_s=clock.now_s + 600)
    assert await asyncio.gather(*(provider.token() for _ in range(5))) == [first] * 5
    clock.now_s += 539
    assert await provider.token() == first
    clock.now_s += 2
    assert await provider.token() == BearerToken(text="t-2", until_s=clock.now_s + 600)
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("client_id", ["", "11111111-2222-3333-4444-555555555555"])
async def test_mounted_token_stands_in_place_of_the_client_secret(endpoint: Endpoint, make: Make, client_id: str) -> None:
    """RFC 7523 §2.2; the client id is left out where the provider knows the bearer without it (§3)."""
    endpoint.answers = [token("t-1"), token("t-2", expires_in=1)]
    assertion = GivenToken("assertion-1")
    provider = make(assertion=assertion, client_id=client_id, client_secret=SecretText(""))
    assert (await provider.token()).text == "t-1"
    [(authorization, body)] = endpoint.requests
    assert authorization == ""
    assert dict(parse_qsl(body)) == {
        "grant_type": "client_credentials",
        "scope": "kafka",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "assertion-1",
    } | ({"client_id": client_id} if client_id else {})


async def test_assertion_is_asked_for_again_with_each_token(endpoint: Endpoint, make: Make, clock: Any) -> None:
    endpoint.answers = [token("t-1", expires_in=600), token("t-2", expires_in=600), web.Response(status=400)]
    assertion = GivenToken("assertion-1")
    provider = make(assertion=assertion)
    await provider.token()
    assertion.answer = "assertion-2"
    clock.now_s += 541
    await provider.token()
    assert [dict(parse_qsl(body))["client_assertion"] for _, body in endpoint.requests] == ["assertion-1", "assertion-2"]
    clock.now_s += 541
    problem = await refused(provider.token())
    assert "tokenFile" in problem.message
    assert "assertion-2" not in problem.message
    expired = KafkaProblem(kind=KafkaProblemKind.AUTHENTICATION_FAILED, message="has expired")
    assertion.answer = Refusal(expired)
    assert await refused(provider.token()) == expired
    assert len(endpoint.requests) == 3


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
        (lambda: token("t", expires_in=10**400), KafkaProblemKind.UNEXPECTED_ANSWER),
        (lambda: web.Response(text="[" * 50_000), KafkaProblemKind.UNEXPECTED_ANSWER),
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
