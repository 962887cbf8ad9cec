"""A broker that sends a login back in its refusal gets it into no message, exception or log, for each kind of login."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText
from staticgroup.kafka.login.msk_iam import AwsMskIamSettings
from staticgroup.kafka.login.shared_credentials import TokenFile
from staticgroup.kafka.login.tokens import BearerToken
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker

CANARY = "canary-5e1d-do-not-show"
REGION = "eu-central-1"
MSK = f"b-1.shop.x1y2z3.c4.kafka.{REGION}.amazonaws.com"


class Signed:
    """A login as the vendor's signer makes it."""

    async def token(self) -> BearerToken:
        """Return it."""
        return BearerToken(text=CANARY)


def logins(root: Path) -> dict[str, tuple[SaslSettings, str]]:
    """Return each kind of login, and the name under which the broker has to be known for it."""
    (root / "shop").mkdir()
    (root / "shop" / "kafka").write_text(CANARY)
    bearer = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER)
    mounted = OAuthSettings(token_endpoint=None, token_file=TokenFile(root=str(root), namespace="shop", name="kafka"))
    fetched = OAuthSettings(token_endpoint="https://idp.test/token", client_id="op", client_secret=SecretText(CANARY))
    return {
        "password": (SaslSettings(mechanism=SaslMechanism.PLAIN, username="op", password=SecretText(CANARY)), "127.0.0.1"),
        "mounted token": (replace(bearer, oauth=mounted), "127.0.0.1"),
        "fetched token": (replace(bearer, oauth=fetched), "127.0.0.1"),
        "signed login": (replace(bearer, aws_msk_iam=AwsMskIamSettings(region=REGION)), MSK),
    }


@pytest_asyncio.fixture
async def gateways() -> AsyncIterator[list[KioGateway]]:
    made: list[KioGateway] = []
    yield made
    for gateway in made:
        await gateway.close()


@pytest.mark.parametrize("kind", ["password", "mounted token", "fetched token", "signed login"])
async def test_a_login_that_is_sent_back_is_shown_nowhere(
    broker: FakeBroker, settings: ConnectionSettings, gateways: list[KioGateway], tmp_path: Path,
    caplog: pytest.LogCaptureFixture, kind: str,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    for name in ("aiokafka", "aiokafka.conn", "asyncio", "kio"):
        logging.getLogger(name).setLevel(logging.DEBUG)

    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return ("127.0.0.1",)

    sasl, host = logins(tmp_path)[kind]
    made: dict[str, Any] = {"make_tokens": lambda _settings: Signed()} if kind in ("fetched token", "signed login") else {}
    gateway = KioGateway(resolver=resolver, **made)
    gateways.append(gateway)
    login = replace(settings, sasl=sasl, bootstrap_servers=(f"{host}:{broker.port}",), name="shop/kafka")
    broker.echoes_logins = True
    problem = of_type(KafkaProblem, await gateway.probe(login))
    assert problem.kind is KafkaProblemKind.AUTHENTICATION_FAILED
    assert any(CANARY.encode() in frame for frame in broker.sasl_bytes)  # it was really sent
    shown = [repr(problem), problem.message, repr(login), str(login), repr(gateway), repr(vars(gateway)), caplog.text]
    assert [text for text in shown if CANARY in text] == []
