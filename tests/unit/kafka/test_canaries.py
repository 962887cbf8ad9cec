"""Whatever goes wrong with whatever login: it shows in no outcome, no log at DEBUG and no dump of an error with its locals."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText, TlsSettings
from staticgroup.kafka.login.msk_iam import AwsMskIamSettings
from staticgroup.kafka.login.shared_credentials import TokenFile
from support.canaries import Canaries, ErrorDump, dump_of, forms_of
from support.devcluster import kafka_tls
from support.narrowing import of_type

from .gateway_script import GivenToken, Kafka, resolving

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    folder = tmp_path_factory.mktemp("pem")
    kafka_tls.make_authority(folder, "test authority")
    client = kafka_tls.make_client(folder, "op")
    return (folder / "ca.pem").read_text(), client.certificate.read_text(), client.key.read_text()


@pytest.fixture
def dump() -> Iterator[ErrorDump]:
    """What an error reporter at the root logger would have sent; every logger of a library says all it has."""
    handler, root = ErrorDump(), logging.getLogger()
    names = ("", "aiokafka", "aiokafka.conn", "asyncio", "kio", "aiohttp", "staticgroup")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def logins(canaries: Canaries, root: Path, pem: tuple[str, str, str]) -> dict[str, dict[str, Any]]:
    """Return the settings of each kind of login."""
    ca, certificate, key = pem
    canaries.add("TLS key", key.splitlines()[5])
    (root / "shop").mkdir()
    (root / "shop" / "kafka").write_text(canaries.new("token-file", is_token=True))
    token_file = TokenFile(root=str(root), namespace="shop", name="kafka")
    bearer = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER)
    fetched = OAuthSettings(
        token_endpoint="https://idp.test:1/token", client_id="op", client_secret=SecretText(canaries.new("client-secret"))
    )
    return {
        **{
            str(m): {"sasl": SaslSettings(mechanism=m, username="op", password=SecretText(canaries.new(str(m))))}
            for m in (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
        },
        "token file": {"sasl": replace(bearer, oauth=OAuthSettings(token_endpoint=None, token_file=token_file))},
        "client secret": {"sasl": replace(bearer, oauth=fetched)},
        "assertion": {"sasl": replace(bearer, oauth=OAuthSettings(
            token_endpoint="https://idp.test:1/token", client_id="op", token_file=token_file))},
        "TLS key": {"tls": TlsSettings(ca_pem=ca, certificate_pem=certificate, key_pem=SecretText(key))},
    }  # fmt: skip


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say everything back, as a port of another service may."""
    while piece := await reader.read(4096):
        writer.write(piece)


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await reader.read(4096)


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(4096)


@asynccontextmanager
async def peer(serve: Serve | None) -> AsyncIterator[int]:
    """Have somebody listen who is no broker; None: nobody does."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)  # type: ignore[misc]
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    if serve is None:
        server.close()
    yield port
    server.close()


resolved = resolving("127.0.0.1")


async def breaking(_host: str, _port: int) -> Sequence[str]:
    raise RuntimeError("a resolver that nobody has foreseen")


@pytest.mark.parametrize("serve", [echo, greet, say_nothing, hang_up, None], ids=["echo", "greeting", "silence", "hang-up", "nobody"])
@pytest.mark.parametrize("resolver", [resolved, breaking], ids=["resolved", "resolver-breaks"])
async def test_no_login_shows_whatever_answers_it(
    serve: Serve | None, resolver: Any, canaries: Canaries, dump: ErrorDump, tmp_path: Path, pem: tuple[str, str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    shown: list[tuple[str, str]] = []
    async with peer(serve) as port:
        for kind, login in logins(canaries, tmp_path, pem).items():
            settings = ConnectionSettings(
                name=f"shop/{kind}", bootstrap_servers=(f"broker.test:{port}",), allow_loopback=True, request_timeout_s=0.3, **login
            )
            gateway = KioGateway(resolver=resolver)
            try:
                for outcome in (await gateway.probe(settings), await gateway.describe(settings, "orders")):
                    shown.append((f"outcome of {kind}", repr(outcome)))
            except Exception as error:
                shown.append((f"error of {kind}", dump_of(error) + str(error)))
            shown.append((f"gateway of {kind}", repr(gateway) + repr(vars(gateway)) + repr(settings)))
            await gateway.close()
    shown += [("log", caplog.text), *(("error dump", text) for text in dump.texts)]
    assert len(shown) >= 2 * 7
    assert canaries.hits(shown) == []


@pytest.mark.parametrize(
    "as_what", [str, lambda s: s.encode().hex(), lambda s: base64.b64encode(b"op\0" + s.encode()).decode()], ids=["plain", "hex", "base64"]
)
def test_a_canary_is_found_in_each_of_its_forms(as_what: Callable[[str], str]) -> None:
    """Or the test above would show nothing."""
    canaries = Canaries()
    secret = canaries.new("x")
    assert canaries.hits([("there", f"before {as_what(secret)} after")]) == ["x in there"]
    assert canaries.hits([("there", "nothing")]) == []
    assert len(forms_of(secret)) == 7


CANARY = "canary-5e1d-do-not-show"
REGION = "eu-central-1"


def sent_back(root: Path) -> dict[str, tuple[SaslSettings, str]]:
    """Return each kind of login, and the name under which the broker has to be known for it."""
    (root / "shop").mkdir()
    (root / "shop" / "kafka").write_text(CANARY)
    bearer, here = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER), "127.0.0.1"
    mounted = OAuthSettings(token_endpoint=None, token_file=TokenFile(root=str(root), namespace="shop", name="kafka"))
    fetched = OAuthSettings(token_endpoint="https://idp.test/token", client_id="op", client_secret=SecretText(CANARY))
    signed = replace(bearer, aws_msk_iam=AwsMskIamSettings(region=REGION))
    return {
        "password": (SaslSettings(mechanism=SaslMechanism.PLAIN, username="op", password=SecretText(CANARY)), here),
        "mounted token": (replace(bearer, oauth=mounted), here),
        "fetched token": (replace(bearer, oauth=fetched), here),
        "signed login": (signed, f"b-1.shop.x1y2z3.c4.kafka.{REGION}.amazonaws.com"),
    }


@pytest.mark.parametrize("kind", ["password", "mounted token", "fetched token", "signed login"])
async def test_a_login_that_a_refusal_sends_back_is_shown_nowhere(
    kafka: Kafka, dump: ErrorDump, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """In no message, exception or log."""
    sasl, host = sent_back(tmp_path)[kind]
    is_given = kind in ("fetched token", "signed login")
    made: dict[str, Any] = {"make_tokens": lambda _settings: GivenToken(CANARY)} if is_given else {}
    gateway, port = KioGateway(resolver=resolved, **made), kafka.broker.port
    login = replace(kafka.settings, sasl=sasl, bootstrap_servers=(f"{host}:{port}",), name="shop/kafka")
    kafka.broker.echoes_logins = True
    problem = of_type(KafkaProblem, await gateway.probe(login))
    await gateway.close()
    assert problem.kind is KafkaProblemKind.AUTHENTICATION_FAILED
    assert any(CANARY.encode() in frame for frame in kafka.broker.sasl_bytes)  # it was really sent
    shown = [repr(problem), problem.message, repr(login), str(login), repr(gateway), repr(vars(gateway)), caplog.text]
    assert [text for text in (*shown, *dump.texts) if CANARY in text] == []
