"""Secrets: resolved with names in every complaint, never shown, and part of the fingerprint."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from staticgroup.api.resources.kafkaconnection import KafkaConnectionSpec
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.login.credentials import (
    ConnectionSettings,
    OAuthSettings,
    SaslSettings,
    SecretText,
    TlsSettings,
    resolve,
)
from staticgroup.kafka.login.msk_iam import AwsMskIamSettings
from staticgroup.kafka.login.shared_credentials import TokenFile
from staticgroup.runtime.connections.connections import secret_names
from support.devcluster import kafka_tls
from support.narrowing import of_type

from .gateway_script import Kafka

CANARY = "canary-93d1-do-not-show"
LOGIN = {"login": {"username": b"op", "password": CANARY.encode()}}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("pem")
    kafka_tls.make_authority(folder, "test authority")
    ours, other = kafka_tls.make_client(folder, "op"), kafka_tls.make_client(folder, "other")
    return {
        "ca": (folder / "ca.pem").read_bytes(),
        "cert": ours.certificate.read_bytes(),
        "key": ours.key.read_bytes(),
        "other-key": other.key.read_bytes(),
    }


def spec(**changes: Any) -> KafkaConnectionSpec:
    return KafkaConnectionSpec.model_validate({"bootstrapServers": ["kafka:9092"]} | changes)


SCRAM = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "login"}}
TLS = {"enabled": True, "caSecretRef": {"name": "ca"}, "clientCertificateSecretRef": {"name": "client"}}


def settings_of(outcome: object) -> ConnectionSettings:
    assert isinstance(outcome, ConnectionSettings), outcome
    return outcome


def test_spec_and_secrets_become_settings(pem: dict[str, bytes]) -> None:
    contents = LOGIN | {"ca": {"ca.crt": pem["ca"]}, "client": {"tls.crt": pem["cert"], "tls.key": pem["key"]}}
    wanted = spec(tls=TLS, sasl=SCRAM, clusterId="abc", requestTimeoutSeconds=3, allowLoopback=True)
    assert secret_names(wanted) == ("ca", "client", "login")
    assert settings_of(resolve(wanted, contents, name="shop/kafka", allow_loopback=True)) == ConnectionSettings(
        name="shop/kafka",
        bootstrap_servers=("kafka:9092",),
        cluster_id="abc",
        tls=TlsSettings(
            ca_pem=pem["ca"].decode(), certificate_pem=pem["cert"].decode(), key_pem=SecretText(pem["key"].decode())
        ),
        sasl=SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="op", password=SecretText(CANARY)),
        request_timeout_s=3.0,
        allow_loopback=True,
    )


@pytest.mark.parametrize(("asked", "allowed"), [(False, False), (False, True), (True, False), (True, True)])
def test_loopback_is_dialled_only_when_the_connection_asks_for_it_and_the_operator_allows_it(
    asked: bool, allowed: bool
) -> None:
    settings = settings_of(resolve(spec(allowLoopback=asked), {}, allow_loopback=allowed))
    assert settings.allow_loopback is (asked and allowed)


def test_oauth_client_is_read_from_its_secret() -> None:
    oauth = {"tokenEndpoint": "https://idp.example/token", "clientSecretRef": {"name": "idp"}, "scope": "kafka"}
    wanted = spec(tls={"enabled": True}, sasl={"mechanism": "OAUTHBEARER", "oauth": oauth})
    assert secret_names(wanted) == ("idp",)
    contents = {"idp": {"clientId": b"op", "clientSecret": CANARY.encode()}}
    sasl = settings_of(resolve(wanted, contents)).sasl
    assert sasl
    assert sasl.oauth == OAuthSettings(
        token_endpoint="https://idp.example/token", client_id="op", client_secret=SecretText(CANARY), scope="kafka"
    )


def test_user_may_stand_in_the_spec_for_a_secret_that_holds_only_the_password() -> None:
    """As Strimzi's KafkaUsers make it: password and sasl.jaas.config, and the user is the object's name."""
    wanted = spec(sasl=SCRAM | {"username": "orders"})
    of_strimzi = {"login": {"password": CANARY.encode(), "sasl.jaas.config": b"org.apache..."}}
    sasl = settings_of(resolve(wanted, of_strimzi)).sasl
    assert sasl
    assert (sasl.username, sasl.password) == ("orders", SecretText(CANARY))
    for content in (b"orders", b"another"):
        said = resolve(wanted, {"login": of_strimzi["login"] | {"username": content}})
        assert isinstance(said, ConnectionSettings) == (content == b"orders")
        if isinstance(said, KafkaProblem):
            assert said.kind is KafkaProblemKind.SECRET_INVALID
            assert "spec.sasl.username" in said.message


@pytest.mark.parametrize(
    ("contents", "kind", "words"),
    [
        ({}, KafkaProblemKind.SECRET_MISSING, ["'login'", "does not exist"]),
        ({"login": {"username": b"op"}}, KafkaProblemKind.SECRET_MISSING, ["'login'", "'password'"]),
        ({"login": {"password": b"x"}}, KafkaProblemKind.SECRET_MISSING, ["'login'", "'username'"]),
        ({"login": {"username": b"op", "password": b""}}, KafkaProblemKind.SECRET_INVALID, ["'login'", "'password'"]),
        ({"login": {"username": b"op", "password": b"\xff"}}, KafkaProblemKind.SECRET_INVALID, ["UTF-8"]),
        ({"login": {"username": b"op", "password": b"x\n"}}, KafkaProblemKind.SECRET_INVALID, ["line break"]),
        ({"login": {"username": b"o\0p", "password": b"x"}}, KafkaProblemKind.SECRET_INVALID, ["'username'"]),
    ],
)
def test_bad_secret_is_named_with_its_key(contents: Any, kind: KafkaProblemKind, words: list[str]) -> None:
    said = of_type(KafkaProblem, resolve(spec(sasl=SCRAM), contents))
    assert said.kind is kind
    assert all(word in said.message for word in words)


def test_bad_pem_is_named_with_its_key(pem: dict[str, bytes]) -> None:
    good = {"ca": {"ca.crt": pem["ca"]}, "client": {"tls.crt": pem["cert"], "tls.key": pem["key"]}}
    assert isinstance(resolve(spec(tls=TLS), good), ConnectionSettings)
    for secret, key, content in (
        ("ca", "ca.crt", b"no pem"),
        ("client", "tls.crt", b"no pem"),
        ("client", "tls.key", pem["other-key"]),
        ("client", "tls.key", CANARY.encode()),
    ):
        said = of_type(KafkaProblem, resolve(spec(tls=TLS), good | {secret: good[secret] | {key: content}}))
        assert said.kind is KafkaProblemKind.SECRET_INVALID
        assert f"'{secret}'" in said.message
        assert f"'{key}'" in said.message
        assert CANARY not in said.message


def test_loading_a_client_certificate_leaves_no_file(
    pem: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import tempfile

    contents = {"ca": {"ca.crt": pem["ca"]}, "client": {"tls.crt": pem["cert"], "tls.key": pem["key"]}}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert isinstance(resolve(spec(tls=TLS), contents), ConnectionSettings)
    monkeypatch.delattr(os, "memfd_create")  # as on systems without it
    assert isinstance(resolve(spec(tls=TLS), contents), ConnectionSettings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_secret_is_never_sent_in_the_clear(mechanism: str) -> None:
    """The API server refuses this too; an older object may still hold it."""
    oauth = {"tokenEndpoint": "https://idp.example/token", "clientSecretRef": {"name": "login"}}
    sasl = {"mechanism": mechanism} | (
        {"oauth": oauth} if mechanism == "OAUTHBEARER" else {"credentialsSecretRef": {"name": "login"}}
    )
    said = of_type(KafkaProblem, resolve(spec(sasl=sasl), LOGIN))
    assert said.kind is KafkaProblemKind.CONNECTION_INVALID


def test_token_endpoint_without_https_is_refused() -> None:
    oauth = {"tokenEndpoint": "http://idp.example/token", "clientSecretRef": {"name": "login"}}
    said = resolve(spec(tls={"enabled": True}, sasl={"mechanism": "OAUTHBEARER", "oauth": oauth}), LOGIN)
    assert isinstance(said, KafkaProblem)
    assert said.kind is KafkaProblemKind.CONNECTION_INVALID


def test_secret_shows_itself_only_to_reveal() -> None:
    secret = SecretText(CANARY)
    assert secret.reveal() == CANARY
    assert {str(secret), repr(secret), f"{secret}", f"{secret!r}", f"{secret:>10}", "%s" % secret} == {"***"}  # noqa: UP031
    for serialize in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            serialize(secret)
    assert not hasattr(secret, "__dict__")
    assert secret == SecretText(CANARY)
    assert secret != SecretText("other")
    assert secret != CANARY


TLS_ONLY = TlsSettings(ca_pem="ca")


def full(**changes: Any) -> ConnectionSettings:
    values: dict[str, Any] = {
        "bootstrap_servers": ("kafka:9092",),
        "cluster_id": "abc",
        "tls": TlsSettings(ca_pem="ca", certificate_pem="cert", key_pem=SecretText("key")),
        "sasl": SaslSettings(
            mechanism=SaslMechanism.OAUTHBEARER,
            username="op",
            password=SecretText("pw"),
            oauth=OAuthSettings(
                token_endpoint="https://idp", client_id="c", client_secret=SecretText("s"), scope="kafka"
            ),
        ),
    }
    return ConnectionSettings(**(values | changes))


@pytest.mark.parametrize(
    ("tls", "sasl", "principal"),
    [
        (None, None, "User:ANONYMOUS"),
        (TLS_ONLY, None, "the operator's principal"),
        (None, SaslMechanism.SCRAM_SHA_256, "User:op"),
        (TLS_ONLY, SaslMechanism.SCRAM_SHA_512, "User:op"),
        (TLS_ONLY, SaslMechanism.PLAIN, "the operator's principal"),
        (TLS_ONLY, SaslMechanism.OAUTHBEARER, "the operator's principal"),
    ],
)
def test_principal_is_named_only_where_the_login_is_the_principal(
    tls: TlsSettings | None, sasl: SaslMechanism | None, principal: str
) -> None:
    """PLAIN's user may be an API key, whose service account holds the rights."""
    login = SaslSettings(mechanism=sasl, username="op", password=SecretText("pw")) if sasl else None
    assert full(tls=tls, sasl=login).principal == principal


def test_fingerprint_follows_every_part_of_the_content_but_the_name() -> None:
    base = full()
    assert base.tls
    assert base.sasl
    assert base.sasl.oauth
    oauth = base.sasl.oauth
    variants = [
        full(bootstrap_servers=("kafka:9093",)), full(cluster_id=None), full(request_timeout_s=3.0),
        full(allow_loopback=True), full(tls=None), full(tls=replace(base.tls, ca_pem="x")),
        full(tls=replace(base.tls, certificate_pem="x")), full(tls=replace(base.tls, key_pem=SecretText("x"))),
        full(sasl=None), full(sasl=replace(base.sasl, mechanism=SaslMechanism.PLAIN)),
        full(sasl=replace(base.sasl, username="x")), full(sasl=replace(base.sasl, password=SecretText("x"))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, token_endpoint="https://x"))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, client_id="x"))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, client_secret=SecretText("x")))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, scope=None))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, extensions=(("a", "b"),)))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, token_file=TokenFile(root="/t", namespace="a", name="b")))),
        full(sasl=replace(base.sasl, oauth=replace(oauth, token_file=TokenFile(root="/t", namespace="b", name="b")))),
        full(sasl=replace(base.sasl, aws_msk_iam=AwsMskIamSettings(region="eu-central-1"))),
        full(sasl=replace(base.sasl, aws_msk_iam=AwsMskIamSettings(region="eu-central-1", role_arn="arn"))),
    ]
    assert len({base.fingerprint, *(variant.fingerprint for variant in variants)}) == 1 + len(variants)
    assert full(name="shop/kafka").fingerprint == full().fingerprint
    assert replace(base, allow_loopback=True).fingerprint == full(allow_loopback=True).fingerprint


async def test_canary_appears_nowhere_but_on_the_wire(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    """Everything is logged at DEBUG, asyncio's debug mode included; the password still shows up nowhere."""
    import asyncio

    caplog.set_level(logging.DEBUG)
    for name in ("aiokafka", "aiokafka.conn", "asyncio", "kio"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    login = SaslSettings(mechanism=SaslMechanism.PLAIN, username="op", password=SecretText(CANARY))
    kafka.settings = replace(kafka.settings, sasl=login, name="shop/kafka")
    shown = [repr(kafka.settings), str(kafka.settings), kafka.settings.fingerprint, repr(kafka.gateway), repr(vars(kafka.gateway))]
    shown += [repr(outcome) for outcome in (await kafka.gateway.probe(kafka.settings), await kafka.describe("orders"))]
    await kafka.broker.stop()
    shown += [repr(await kafka.gateway.describe(replace(kafka.settings, request_timeout_s=0.2), "orders"))]
    try:
        pickle.dumps(kafka.settings)
    except TypeError:
        shown.append(traceback.format_exc())
    with pytest.raises(TypeError):
        asdict(kafka.settings)
    asyncio.get_running_loop().set_debug(False)
    assert any(CANARY.encode() in frame for frame in kafka.broker.sasl_bytes)  # it was really used
    assert [text for text in [*shown, caplog.text] if CANARY in text] == []
