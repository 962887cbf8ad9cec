"""Logins at Amazon MSK: the vendor's signature, only for namespaces that may use it, and only to brokers of MSK."""

from __future__ import annotations

import asyncio
import base64
import datetime
import gc
import hashlib
import hmac
import logging
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from staticgroup.api.resources.kafkaconnection import KafkaConnectionSpec
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, SaslSettings, resolve
from staticgroup.kafka.login.msk_iam import AwsMskIamSettings, MskIamToken, vendor_signer
from staticgroup.kafka.login.shared_credentials import SharedCredentials
from staticgroup.kafka.login.tokens import BearerToken
from support.narrowing import of_type, some
from unit.kafka.fake_broker import FakeBroker

from .gateway_script import GivenToken, resolving

ACCESS_KEY, SECRET_KEY, SESSION = "AKIDEXAMPLE", "canary-wJalrXUtnFEMI/K7MDENG", "canary-session"
SIGNED_AT = datetime.datetime(2026, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
REGION = "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/kafka/shop"
BROKER = f"b-1.shop.x1y2z3.c4.kafka.{REGION}.amazonaws.com"


def signed_url(amz_date: str) -> str:
    """Sign by AWS Signature Version 4 in query parameters, from its specification alone."""
    scope = f"{amz_date[:8]}/{REGION}/kafka-cluster/aws4_request"
    query = {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{ACCESS_KEY}/{scope}",
        "X-Amz-Date": amz_date,
        "X-Amz-Expires": "900",
        "X-Amz-Security-Token": SESSION,
        "X-Amz-SignedHeaders": "host",
    }
    canonical = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(query.items()))
    host = f"kafka.{REGION}.amazonaws.com"
    request = f"GET\n/\n{canonical}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (amz_date[:8], REGION, "kafka-cluster", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return f"https://{host}/?{canonical}&X-Amz-Signature={hmac.new(key, text.encode(), hashlib.sha256).hexdigest()}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the library credentials of the environment, as a pod's role does, and a clock that stands."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    import botocore.auth

    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: SIGNED_AT.replace(tzinfo=None))


def provider(clock: Any, sign: Any = None, **options: Any) -> MskIamToken:
    values: dict[str, Any] = {"now_s": SIGNED_AT.timestamp, "clock": clock, "timeout_s": 5.0}
    values |= {"load": lambda: sign} if sign else {}
    role_arn = options.pop("role_arn", None)
    return MskIamToken(AwsMskIamSettings(region=REGION, role_arn=role_arn), **(values | options))


@pytest.mark.usefixtures("aws")
async def test_token_is_the_login_url_signed_by_version_4(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = await provider(clock).token()
    assert token.until_s == clock.now_s + 900
    url = urlsplit(base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    expected = urlsplit(signed_url("20260506T070809Z"))
    said = parse_qs(url.query)
    assert said.pop("User-Agent")
    assert (url.scheme, url.netloc, said) == (expected.scheme, expected.netloc, parse_qs(expected.query))
    assert "canary" not in caplog.text + repr(token)


@pytest.mark.usefixtures("aws")
async def test_token_is_the_librarys_own(clock: Any) -> None:
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    text, end_ms = MSKAuthTokenProvider.generate_auth_token(REGION)
    assert await provider(clock).token() == BearerToken(text=text, until_s=clock.now_s + end_ms / 1000 - SIGNED_AT.timestamp())


@pytest.mark.usefixtures("aws")
async def test_role_is_assumed_under_a_name_of_ours(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library asks STS through boto3; here its client is a fake of that service."""
    import boto3

    asked: list[dict[str, str]] = []

    class Sts:
        def assume_role(self, **request: str) -> dict[str, Any]:
            asked.append(request)
            return {"Credentials": {"AccessKeyId": "OF-ROLE", "SecretAccessKey": "s", "SessionToken": "t"}}

    monkeypatch.setattr(boto3, "client", lambda service, **_options: {"sts": Sts()}[service])
    token = await provider(clock, role_arn=ROLE).token()
    assert asked == [{"RoleArn": ROLE, "RoleSessionName": "staticgroup-operator"}]
    assert b"OF-ROLE" in base64.urlsafe_b64decode(token.text + "===")


async def test_library_that_is_not_installed_is_named_with_the_image_that_has_it(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.delitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", raising=False)
    with pytest.raises(Refusal) as caught:
        await provider(clock).token()
    assert caught.value.problem.kind is KafkaProblemKind.CONNECTION_INVALID
    for words in ("aws-msk-iam-sasl-signer-python", "--build-arg EXTRA=msk"):
        assert words in caught.value.problem.message


def ending(clock: Any, *texts: str) -> Any:
    left = list(texts)
    return lambda _region, _role: (left.pop(0), int((SIGNED_AT.timestamp() + 900) * 1000))


async def test_login_is_signed_once_for_half_of_its_life(clock: Any) -> None:
    tokens = provider(clock, ending(clock, "t-1", "t-2"))
    assert {token.text for token in await asyncio.gather(*(tokens.token() for _ in range(5)))} == {"t-1"}
    clock.now_s += 449
    assert (await tokens.token()).text == "t-1"
    clock.now_s += 2
    assert (await tokens.token()).text == "t-2"


class ClientError(Exception):
    """As botocore's, whose text holds what AWS answered."""

    response: ClassVar[dict[str, Any]] = {"Error": {"Code": "AccessDenied"}}


@pytest.mark.parametrize(
    ("error", "word"),
    [(ClientError("canary-arn"), "AccessDenied"), (AttributeError("canary"), "AttributeError"), (TimeoutError("canary"), "TimeoutError")],
)
async def test_refusal_of_aws_is_named_without_its_text(clock: Any, error: Exception, word: str) -> None:
    def sign(_region: str, _role: str | None) -> tuple[str, int]:
        raise error

    with pytest.raises(Refusal) as caught:
        await provider(clock, sign).token()
    assert caught.value.problem.kind is KafkaProblemKind.AUTHENTICATION_FAILED
    assert word in caught.value.problem.message
    assert "canary" not in caught.value.problem.message


async def test_silent_aws_keeps_one_thread_and_no_caller(clock: Any) -> None:
    answered, calls = threading.Event(), []

    def sign(_region: str, _role: str | None) -> tuple[str, int]:
        calls.append(1)
        answered.wait(10)
        return "t-1", int((SIGNED_AT.timestamp() + 900) * 1000)

    tokens = provider(clock, sign, timeout_s=0.01)
    for _try in range(3):
        with pytest.raises(Refusal) as caught:
            await tokens.token()
        assert caught.value.problem.kind is KafkaProblemKind.UNREACHABLE
    answered.set()
    tokens._timeout_s = 5.0
    assert (await tokens.token()).text == "t-1"
    assert len(calls) == 1


# Who gets it


async def test_what_aws_says_when_nobody_waits_any_more_is_not_logged(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A connection that is given up while AWS is silent: its error, whose text may hold anything, was never asked for and so logged."""
    answered = threading.Event()

    def sign(_region: str, _role: str | None) -> tuple[str, int]:
        answered.wait(10)
        raise OSError("canary of a credential process")

    tokens = provider(clock, sign, timeout_s=0.01)
    with pytest.raises(Refusal):
        await tokens.token()
    signing = some(tokens._signing)
    del tokens
    answered.set()
    await asyncio.wait({signing}, timeout=10)
    assert signing.done()
    del signing
    await asyncio.sleep(0)
    gc.collect()
    assert "canary" not in caplog.text


def spec(role_arn: str | None = None, **changes: Any) -> KafkaConnectionSpec:
    asked = {"region": REGION} | ({"roleArn": role_arn} if role_arn else {})
    sasl = {"mechanism": "OAUTHBEARER", "awsMskIam": asked}
    body = {"bootstrapServers": [f"{BROKER}:9098"], "tls": {"enabled": True}, "sasl": sasl}
    return KafkaConnectionSpec.model_validate(body | changes)


@pytest.mark.parametrize(
    ("shared", "namespace", "role_arn", "is_shared"),
    [
        ((), "shop", None, False),
        (("shop",), "shop", None, True),
        (("shop",), "bill", None, False),
        (("shop",), "shop", ROLE, False),
        ((f"shop={ROLE}",), "shop", ROLE, True),
        ((f"shop={ROLE}",), "shop", None, False),
        ((f"shop={ROLE}",), "bill", ROLE, False),
        ((f"shop={ROLE}",), "shop", f"{ROLE}2", False),
        (("*",), "bill", None, True),
        (("*",), "bill", ROLE, False),
        ((f"*={ROLE}",), "bill", ROLE, True),
        (("shop", f"bill={ROLE}"), "bill", ROLE, True),
    ],
)
def test_aws_identity_is_used_only_where_it_is_shared(
    shared: Sequence[str], namespace: str, role_arn: str | None, is_shared: bool
) -> None:
    said = resolve(spec(role_arn), {}, namespace=namespace, shared=SharedCredentials(aws_msk_iam=tuple(shared)))
    assert isinstance(said, ConnectionSettings) == is_shared
    if isinstance(said, ConnectionSettings):
        assert said.sasl == SaslSettings(
            mechanism=SaslMechanism.OAUTHBEARER, aws_msk_iam=AwsMskIamSettings(region=REGION, role_arn=role_arn)
        )
    if isinstance(said, KafkaProblem):
        assert said.kind is KafkaProblemKind.CONNECTION_INVALID
        assert f"namespace {namespace}" in said.message


def test_authority_of_the_users_own_is_refused() -> None:
    """With it, and a name server of his own, he would be a broker of MSK."""
    said = resolve(
        spec(tls={"enabled": True, "caSecretRef": {"name": "ca"}}), {}, namespace="shop", shared=SharedCredentials(aws_msk_iam=("shop",))
    )
    assert isinstance(said, KafkaProblem)
    assert "caSecretRef" in said.message


@pytest.mark.parametrize(
    ("host", "is_msk"),
    [
        (BROKER, True),
        (f"{BROKER.upper()}.", True),
        (f"boot-1.c1.kafka-serverless.{REGION}.amazonaws.com", True),
        (f"b-1.shop.kafka.{REGION}.amazonaws.com.cn", True),
        (f"kafka.{REGION}.amazonaws.com", False),
        ("b-1.shop.kafka.us-east-1.amazonaws.com", False),
        (f"b-1.kafka.{REGION}.amazonaws.com.evil.example", False),
        (f"b-1.evilkafka.{REGION}.amazonaws.com", False),
        ("kafka.evil.example", False),
        ("10.0.0.5", False),
    ],
)
def test_name_of_a_broker_is_one_of_msk_in_the_region(host: str, is_msk: bool) -> None:
    settings = AwsMskIamSettings(region=REGION)
    if is_msk:
        settings.check_host(host)
        return
    with pytest.raises(Refusal) as caught:
        settings.check_host(host)
    assert caught.value.problem.kind is KafkaProblemKind.ADDRESS_REFUSED


async def test_no_other_broker_is_even_dialled(broker: FakeBroker, settings: ConnectionSettings) -> None:
    """Neither a bootstrap server nor one that a broker advertises gets the signed login."""
    sasl = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, aws_msk_iam=AwsMskIamSettings(region=REGION))

    gateway = KioGateway(make_tokens=lambda _settings: GivenToken("signed-canary"), resolver=resolving("127.0.0.1"))
    said = of_type(KafkaProblem, await gateway.probe(replace(settings, sasl=sasl)))
    assert (said.kind, broker.connections) == (KafkaProblemKind.ADDRESS_REFUSED, 0)
    of_msk = replace(settings, sasl=sasl, bootstrap_servers=(f"{BROKER}:{broker.port}",))
    assert isinstance(await gateway.probe(of_msk), ClusterFacts)
    assert any(b"signed-canary" in frame for frame in broker.sasl_bytes)
    logins = len(broker.sasl_bytes)
    advertised = await gateway.describe(of_msk, "orders")  # its coordinator is advertised as 127.0.0.1
    assert isinstance(advertised, KafkaProblem)
    assert (advertised.kind, len(broker.sasl_bytes)) == (KafkaProblemKind.ADDRESS_REFUSED, logins)
    await gateway.close()


def test_vendors_library_is_loaded_only_when_it_is_asked_for() -> None:
    import subprocess

    code = "import sys, staticgroup.runtime.process.run; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert callable(vendor_signer())
