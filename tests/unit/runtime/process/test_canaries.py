"""A real operator process at log level DEBUG whose logins all fail in their own ways: nothing that it says or writes shows one."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from staticgroup.api import names
from support.canaries import Canaries
from support.devcluster import kafka_tls
from support.fake_apiserver import FakeApiServer
from support.faults.process import OperatorProcess
from unit.kafka.fake_broker import Cluster, FakeBroker
from unit.kube.raw_objects import eventually

from .test_run import KUBECONFIG

CONNECTIONS, GROUPS = "kafkaconnections.staticgroup.io", "staticgroups.staticgroup.io"
Json = dict[str, Any]


class Scene:
    """An API server, a broker that repeats logins, an identity provider, and every kind of connection."""

    def __init__(self, server: FakeApiServer, folder: Path) -> None:
        self.server, self.folder, self.canaries = server, folder, Canaries()
        self.tls = folder / "tls"
        kafka_tls.make_authority(self.tls, "test authority")
        kafka_tls.make_broker_store(self.tls, "127.0.0.1")
        self.names: list[str] = []
        self.tokens_fetched = 0
        self.brokers: list[FakeBroker] = []
        server.put({"metadata": {"name": "kube-system", "uid": "cluster-1"}}, "namespaces")
        ca = {"ca.crt": (self.tls / "ca.pem").read_text()}
        self.secret("ca", ca)

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.tls / "broker.pem", self.tls / "broker.key")
        return context

    async def token(self, request: web.Request) -> web.Response:
        """Give a token, and every second time repeat the caller's secret in a refusal."""
        self.tokens_fetched += 1
        if self.tokens_fetched % 2:
            return web.json_response({"access_token": self.canaries.new("fetched-token", is_token=True), "expires_in": 3600, "token_type": "Bearer"})
        repeated = f"{request.headers.get('Authorization')} {await request.text()}"
        return web.json_response({"error": "invalid_client", "error_description": repeated}, status=401)

    def secret(self, name: str, entries: dict[str, str]) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in entries.items()}
        self.server.put({"metadata": {"namespace": "shop", "name": name, "uid": f"s-{name}"}, "data": data}, "secrets")

    def connection(self, name: str, port: int, *, is_tls: bool = True, tls: Json | None = None, sasl: Json | None = None) -> None:
        """Make a connection, and a StaticGroup that uses it, so that Events and conditions are about it."""
        self.names.append(name)
        encryption = {"enabled": True, "caSecretRef": {"name": "ca"}, **(tls or {})} if is_tls else {"enabled": False}
        spec: Json = {
            "bootstrapServers": [f"127.0.0.1:{port}"], "requestTimeoutSeconds": 1, "allowLoopback": True, "tls": encryption,
            **({"sasl": sasl} if sasl else {}),
        }  # fmt: skip
        self._put(names.KAFKA_CONNECTION_KIND, CONNECTIONS, name, spec)
        group = {"workloadRef": {"name": name}, "connectionRef": {"name": name}, "groupId": name, "groupProtocol": "Classic"}
        self._put(names.STATIC_GROUP_KIND, GROUPS, name, group)

    def _put(self, kind: str, resource: str, name: str, spec: Json) -> None:
        metadata = {"namespace": "shop", "name": name, "uid": f"{resource}-{name}", "generation": 1,
                    "creationTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
        self.server.put({"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}, resource)

    def told_of(self, name: str) -> bool:
        """Say whether both the connection's status and the group's say what is wrong."""
        found = [self.server.objects[resource, "shop", name].get("status", {}) for resource in (CONNECTIONS, GROUPS)]
        return all(any(c["status"] != "True" for c in status.get("conditions", [])) for status in found)

    def furnish(self, broker: int, plain_broker: int, echo: int, idp: int) -> None:
        """Make a connection of each kind of login, and of each way in which one fails."""
        new, login = self.canaries.new, lambda mechanism, name: {"mechanism": mechanism, "credentialsSecretRef": {"name": name}}
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            name = mechanism.lower()
            self.secret(name, {"username": "op", "password": new(name)})
            self.connection(f"refused-{name}", broker, sasl=login(mechanism, name))
            self.connection(f"echoed-{name}", echo, is_tls=mechanism == "PLAIN", sasl=login(mechanism, name))
        self.connection("unreachable", 1, is_tls=False, sasl=login("SCRAM-SHA-512", "scram-sha-512"))
        self.secret("broken-password", {"username": "op", "password": new("broken-password") + "\n"})
        self.connection("broken-password", plain_broker, is_tls=False, sasl=login("SCRAM-SHA-512", "broken-password"))
        self.secret("client", {"clientId": "op", "clientSecret": new("client-secret")})
        endpoint = f"https://127.0.0.1:{idp}/token"
        for name in ("oauth-given", "oauth-refused"):
            oauth = {"tokenEndpoint": endpoint, "clientSecretRef": {"name": "client"}}
            self.connection(name, broker, sasl={"mechanism": "OAUTHBEARER", "oauth": oauth})
        (self.folder / "tokens" / "shop").mkdir(parents=True)
        (self.folder / "tokens" / "shop" / "shared").write_text(new("token-file", is_token=True))
        self.connection("oauth-file", broker, sasl={"mechanism": "OAUTHBEARER", "oauth": {"tokenFile": "shared"}})
        assertion = {"tokenEndpoint": endpoint, "tokenFile": "shared", "clientId": "op"}
        self.connection("oauth-assertion", broker, sasl={"mechanism": "OAUTHBEARER", "oauth": assertion})
        ours, other = kafka_tls.make_client(self.tls, "op"), kafka_tls.make_client(self.tls, "other")
        for name, key in (("mtls", ours.key), ("mtls-other-key", other.key)):
            text = key.read_text()
            self.canaries.add(name, text.splitlines()[4])
            self.secret(name, {"tls.crt": ours.certificate.read_text(), "tls.key": text})
            self.connection(name, echo, tls={"clientCertificateSecretRef": {"name": name}})
        encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n" + new("encrypted-key") + "\n-----END ENCRYPTED PRIVATE KEY-----\n"
        self.secret("encrypted", {"tls.crt": ours.certificate.read_text(), "tls.key": encrypted})
        self.connection("encrypted-key", broker, tls={"clientCertificateSecretRef": {"name": "encrypted"}})

    def were_sent(self, *kinds: str) -> bool:
        """Return whether secrets were really used: a login that was too slow is tried again."""
        sent = b" ".join(frame for broker in self.brokers for frame in broker.sasl_bytes)
        return all(f"canary-{kind}-".encode() in sent for kind in kinds)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with closing(writer), suppress(OSError):  # who logs in to it gives up
        while piece := await reader.read(4096):
            writer.write(piece)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with FakeApiServer().serving() as server:
        made = Scene(server, tmp_path)
        app = web.Application()
        app.router.add_post("/token", made.token)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.context()).start()
        echoing = await asyncio.start_server(echo, "127.0.0.1", 0)
        made.brokers = [await FakeBroker(Cluster()).start(context) for context in (made.context(), None)]
        for broker in made.brokers:
            broker.echoes_logins = True
        made.furnish(made.brokers[0].port, made.brokers[1].port, echoing.sockets[0].getsockname()[1], runner.addresses[0][1])
        yield made
        echoing.close()
        for broker in made.brokers:
            await broker.stop()
        await runner.cleanup()


def metrics_of(operator: OperatorProcess) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


async def test_no_secret_leaves_the_process_but_to_its_broker(scene: Scene) -> None:
    kubeconfig, journal = scene.folder / "kubeconfig", scene.folder / "journal"
    journal.mkdir()
    kubeconfig.write_text(KUBECONFIG.format(port=scene.server.port, token=scene.canaries.new("service-account", is_token=True)))
    operator = OperatorProcess(
        namespace="shop", kubeconfig=kubeconfig, folder=scene.folder,
        settings={
            "LOG_LEVEL": "DEBUG", "ALLOW_LOOPBACK": "true", "TOKENS_PATH": str(scene.folder / "tokens"), "CONCURRENCY": "64",
            "JOURNAL_FILES_PATH": str(journal), "SECRET_MAX_AGE_S": "1", "GROUP_POLL_S": "5",
        },
    )  # fmt: skip
    await asyncio.to_thread(operator.start)
    try:
        await eventually(lambda: all(scene.told_of(name) for name in scene.names) and scene.were_sent("plain", "token-file", "fetched-token"))
        metrics = await asyncio.to_thread(metrics_of, operator)
    finally:
        await asyncio.to_thread(operator.stop)
    written = {key: value for key, value in scene.server.objects.items() if key[0] != "secrets"}
    events = [key for key in written if key[0] == "events.events.k8s.io"]
    shown = [
        *((" ".join(key), json.dumps(value)) for key, value in written.items()),
        ("log", operator.log.read_text()), ("metrics", metrics),
        *((path.name, path.read_text()) for path in journal.rglob("*") if path.is_file()),
    ]  # fmt: skip
    assert events, "Events are part of what is searched"
    assert "staticgroup_" in metrics
    assert '"level": "DEBUG"' in operator.log.read_text()
    assert scene.tokens_fetched, "the identity provider was asked"
    assert scene.canaries.hits(shown) == []
