"""Tokens out of mounted files: read at each use, only those of the namespace, and never one that opens the cluster."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticgroup.api.resources.kafkaconnection import KafkaConnectionSpec
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, resolve
from staticgroup.kafka.login.shared_credentials import SharedCredentials, TokenFile
from staticgroup.kafka.login.tokens import TOKEN_MAX_BYTES, BearerToken, MountedToken
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker

NOW_S = 1_800_000_000.0
CANARY = "canary-77aa"


def jwt(**claims: Any) -> str:
    parts = ({"alg": "RS256"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts)
    return ".".join([*encoded, CANARY])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tokens"
    (root / "shop").mkdir(parents=True)
    return root


def mounted(root: Path, clock: Any, name: str = "entra", api_token: Path | None = None) -> MountedToken:
    """Return the provider of a token of namespace shop."""
    file = TokenFile(root=str(root), namespace="shop", name=name)
    path = api_token or root / "no-token-of-the-operator"
    return MountedToken(file, now_s=lambda: NOW_S, clock=clock, api_token_path=str(path))


async def refused(provider: MountedToken) -> KafkaProblem:
    with pytest.raises(Refusal) as caught:
        await provider.token()
    assert CANARY not in caught.value.problem.message + repr(caught.value)
    assert "'entra' of namespace shop" in caught.value.problem.message
    return caught.value.problem


async def test_token_is_read_again_at_each_use_and_lives_until_its_exp(root: Path, clock: Any) -> None:
    provider = mounted(root, clock)
    for seconds in (600, 1200):  # as the kubelet renews it
        text = jwt(exp=NOW_S + seconds, aud=["kafka"])
        (root / "shop" / "entra").write_text(text + "\n")
        assert await provider.token() == BearerToken(text=text, until_s=clock.now_s + seconds)


@pytest.mark.parametrize("text", [jwt(aud="kafka"), "opaque", "a.b.c", "a.e30.c", jwt(exp="soon")])
async def test_token_that_does_not_tell_its_end_is_taken_as_it_is(root: Path, clock: Any, text: str) -> None:
    (root / "shop" / "entra").write_text(text)
    token = await mounted(root, clock).token()
    assert (token.text, token.until_s) == (text, float("inf"))
    assert text not in repr(token)


async def test_token_that_has_expired_is_not_shown_to_anybody(root: Path, clock: Any) -> None:
    (root / "shop" / "entra").write_text(jwt(exp=NOW_S))
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.AUTHENTICATION_FAILED


@pytest.mark.parametrize("content", [b"", b"two words", b"a\x01auth=b", b"two\nlines", b"\xff", b"x" * (TOKEN_MAX_BYTES + 1)])
async def test_file_that_is_no_token_is_refused(root: Path, clock: Any, content: bytes) -> None:
    """RFC 6750 §2.1: a private key or a settings file has other characters, and is not sent to anybody."""
    (root / "shop" / "entra").write_bytes(content)
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.SECRET_INVALID


async def test_token_that_is_not_mounted_is_named(root: Path, clock: Any) -> None:
    problem = await refused(mounted(root, clock))
    assert problem.kind is KafkaProblemKind.SECRET_MISSING
    assert "operator.tokens" in problem.message


async def test_neither_a_folder_nor_a_pipe_is_read(root: Path, clock: Any) -> None:
    (root / "shop" / "entra").mkdir()
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.SECRET_MISSING
    (root / "shop" / "entra").rmdir()
    os.mkfifo(root / "shop" / "entra")
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.SECRET_MISSING


async def test_projected_volume_is_followed_and_a_link_out_of_it_is_not(root: Path, clock: Any, tmp_path: Path) -> None:
    """The kubelet's atomic writer: the folder of a namespace is a link to ..data, that one to a dated folder."""
    (root / "shop").rmdir()
    (root / "..2026" / "shop").mkdir(parents=True)
    (root / "..2026" / "shop" / "entra").write_text(jwt(aud="kafka"))
    (root / "..data").symlink_to("..2026")
    (root / "shop").symlink_to("..data/shop")
    assert (await mounted(root, clock).token()).text == jwt(aud="kafka")
    (tmp_path / "elsewhere").write_text(jwt(aud="kafka"))
    (root / "..2026" / "shop" / "entra").unlink()
    (root / "..2026" / "shop" / "entra").symlink_to(tmp_path / "elsewhere")
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.SECRET_INVALID


async def test_a_link_to_the_token_of_another_namespace_is_not_followed(root: Path, clock: Any) -> None:
    """On a volume that a tenant can write to, the link would have given him the token of another one."""
    (root / "bill").mkdir()
    (root / "bill" / "entra").write_text(jwt(aud="kafka"))
    (root / "shop" / "entra").symlink_to("../bill/entra")
    assert (await refused(mounted(root, clock))).kind is KafkaProblemKind.SECRET_INVALID
    (root / "shop" / "entra").unlink()
    (root / "shop" / "now").write_text(jwt(aud="kafka"))
    (root / "shop" / "entra").symlink_to("now")  # as a program that renews a token in place may do
    assert (await mounted(root, clock).token()).text == jwt(aud="kafka")


@pytest.mark.parametrize("audience", ["https://kubernetes.default.svc", ["kafka", "https://kubernetes.default.svc"]])
async def test_token_that_the_api_server_takes_is_never_given_away(root: Path, clock: Any, tmp_path: Path, audience: Any) -> None:
    api_token = tmp_path / "api-token"
    api_token.write_text(jwt(aud=["https://kubernetes.default.svc", "k3s"]))
    (root / "shop" / "entra").write_text(jwt(aud=audience))
    problem = await refused(mounted(root, clock, api_token=api_token))
    assert problem.kind is KafkaProblemKind.CONNECTION_INVALID
    (root / "shop" / "entra").write_text(jwt(aud="api://AzureADTokenExchange"))
    assert await mounted(root, clock, api_token=api_token).token()


# Who may name what


def spec(**oauth: Any) -> KafkaConnectionSpec:
    sasl = {"mechanism": "OAUTHBEARER", "oauth": oauth}
    return KafkaConnectionSpec.model_validate({"bootstrapServers": ["kafka:9093"], "tls": {"enabled": True}, "sasl": sasl})


def test_connection_gets_only_a_token_of_its_own_namespace() -> None:
    for namespace in ("shop", "bill"):
        settings = resolve(spec(tokenFile="entra"), {}, namespace=namespace, shared=SharedCredentials(tokens_path="/run/tokens/"))
        assert isinstance(settings, ConnectionSettings)
        assert settings.sasl
        assert settings.sasl.oauth
        assert settings.sasl.oauth.token_file
        assert settings.sasl.oauth.token_file.path == f"/run/tokens/{namespace}/entra"


@pytest.mark.parametrize("name", ["../bill/entra", "..", ".", "a/b", "/etc/passwd", "..data", "A", "a\n", "a" * 64, ""])
def test_name_of_a_token_is_no_path(name: str) -> None:
    """The API server refuses it too; an older object may still hold it."""
    asked = spec(tokenFile="entra")
    assert asked.sasl
    assert asked.sasl.oauth
    oauth = asked.sasl.oauth.model_copy(update={"token_file": name})
    asked = asked.model_copy(update={"sasl": asked.sasl.model_copy(update={"oauth": oauth})})
    said = resolve(asked, {}, namespace="shop", shared=SharedCredentials(tokens_path="/run/tokens"))
    assert isinstance(said, KafkaProblem)
    assert said.kind is KafkaProblemKind.CONNECTION_INVALID


def test_nothing_is_shared_unless_the_installer_says_so() -> None:
    said = of_type(KafkaProblem, resolve(spec(tokenFile="entra"), {}, namespace="shop"))
    assert "operator.tokens" in said.message
    for namespace in ("", "..", "*"):
        assert isinstance(resolve(spec(tokenFile="entra"), {}, namespace=namespace, shared=SharedCredentials(tokens_path="/t")), KafkaProblem)


@pytest.mark.parametrize(
    ("oauth", "words"),
    [
        ({}, "clientSecretRef or tokenFile"),
        ({"tokenFile": "t", "clientSecretRef": {"name": "s"}, "tokenEndpoint": "https://idp"}, "clientSecretRef or tokenFile"),
        ({"clientSecretRef": {"name": "s"}}, "tokenEndpoint is required"),
        ({"tokenFile": "t", "extensions": [{"name": "auth", "value": "x"}]}, "extensions"),
        ({"tokenFile": "t", "extensions": [{"name": "a", "value": "x"}, {"name": "a", "value": "y"}]}, "extensions"),
    ],
)
def test_what_the_api_server_refuses_is_refused_here_too(oauth: Any, words: str) -> None:
    said = resolve(spec(**oauth), {"s": {"clientId": b"c", "clientSecret": b"s"}}, namespace="shop", shared=SharedCredentials(tokens_path="/t"))
    assert isinstance(said, KafkaProblem)
    assert (said.kind, words in said.message) == (KafkaProblemKind.CONNECTION_INVALID, True)


# What a login with a token is


class GivenTokens:
    """A provider that tests inject; each token has its own end."""

    def __init__(self, *untils_s: float) -> None:
        self.untils_s = list(untils_s)

    async def token(self) -> BearerToken:
        return BearerToken(text="t-1", until_s=self.untils_s.pop(0))


def bearer(settings: ConnectionSettings, **oauth: Any) -> ConnectionSettings:
    sasl = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=OAuthSettings(token_endpoint="https://idp", **oauth))
    return replace(settings, sasl=sasl)


async def test_connection_is_given_up_shortly_before_its_token_ends(
    broker: FakeBroker, settings: ConnectionSettings, clock: Any
) -> None:
    """Brokers with connections.max.reauth.ms close it then, in the middle of whatever is asked (KIP-368)."""
    tokens = GivenTokens(clock.now_s + 300, clock.now_s + 600)
    gateway = KioGateway(clock=clock, make_tokens=lambda _settings: tokens)
    for seconds, connections in ((0, 1), (289, 1), (2, 2)):
        clock.now_s += seconds
        assert isinstance(await gateway.probe(bearer(settings)), ClusterFacts)
        assert broker.connections == connections
    await gateway.close()


async def test_mounted_token_is_shown_to_the_brokers_without_any_endpoint(
    broker: FakeBroker, settings: ConnectionSettings, root: Path, clock: Any
) -> None:
    text = jwt(exp=NOW_S + 600, aud=["kafka"])
    (root / "shop" / "kafka").write_text(text)
    oauth = OAuthSettings(token_endpoint=None, token_file=TokenFile(root=str(root), namespace="shop", name="kafka"))
    settings = replace(settings, sasl=SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=oauth))
    gateway = KioGateway(clock=clock, now_s=lambda: NOW_S)
    assert isinstance(await gateway.probe(settings), ClusterFacts)
    assert f"auth=Bearer {text}\x01".encode() in broker.sasl_bytes[-1]
    await gateway.close()
