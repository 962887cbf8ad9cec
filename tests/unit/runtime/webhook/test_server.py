"""The server over real TLS on loopback: it answers reviews, and shows the certificate that was renewed last."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from staticgroup.api.rendering import AgentImage
from staticgroup.runtime.webhook.certificates import CERTIFICATE, KEY, Material, due
from staticgroup.runtime.webhook.review import Json, Read, Reviewer
from staticgroup.runtime.webhook.server import WebhookMetrics, WebhookServer

from .test_review import group, pod, review

NOW_S = 1_900_000_000.0
LOCAL = "localhost"


def material() -> Material:
    import time

    made = due(None, (LOCAL,), now_s=time.time(), trusted_for_s=0)
    assert made is not None
    return made


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


async def one_group(_: str) -> list[Json]:
    return [group()]


@asynccontextmanager
async def serving(made: Material | None = None, read: Read = one_group) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(
        reviewer=Reviewer(read=read, agent=AgentImage(), waiter=AgentImage()), metrics=WebhookMetrics(), port=free_port(),
        health_port=free_port(), is_ready=lambda: False, host="127.0.0.1",
    )  # fmt: skip
    await server.start()
    if made is not None:
        show(server, made)
    try:
        yield server
    finally:
        await server.stop()


def show(server: WebhookServer, made: Material) -> None:
    server.show(made.entries()[CERTIFICATE], made.entries()[KEY])


async def ask(server: WebhookServer, trusted: Material, body: object) -> tuple[int, Json]:
    return await send(server, trusted, json.dumps(body))


async def send(server: WebhookServer, trusted: Material, body: str) -> tuple[int, Json]:
    context = ssl.create_default_context(cadata=trusted.bundle().decode())
    url = f"https://{LOCAL}:{server.port}/mutate?timeout=2s"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session, session.post(url, data=body) as answer:
        return answer.status, (await answer.json() if answer.status == 200 else {})


async def test_it_answers_over_tls_and_shows_what_was_renewed_without_a_restart() -> None:
    old, new = material(), material()
    async with serving(old) as server:
        status, answer = await ask(server, old, review(pod()))
        assert (status, answer["response"]["allowed"], answer["response"]["patchType"]) == (200, True, "JSONPatch")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(server, new, review(pod()))
        show(server, new)
        assert (await ask(server, new, review(pod())))[0] == 200


async def test_a_key_of_another_certificate_is_refused_and_the_old_one_stays_on_show() -> None:
    old, new = material(), material()
    async with serving(old) as server:
        with pytest.raises(ValueError, match="do not fit"):
            server.show(new.entries()[CERTIFICATE], old.entries()[KEY])
        assert (await ask(server, old, review(pod())))[0] == 200


@pytest.mark.parametrize("body", [[], {}, "text", {"request": {}}])
async def test_what_is_no_review_is_refused(body: object) -> None:
    made = material()
    async with serving(made) as server:
        assert (await ask(server, made, body))[0] == 400


@pytest.mark.parametrize("levels", [1_500, 9_990])
async def test_a_deep_pod_gets_its_id(levels: int) -> None:
    """Its creator may write any managedFields; an API server decodes 10,000 levels."""
    made = material()
    nested = '{"f:a":' * levels + "{}" + "}" * levels
    deep = json.dumps(review(pod(managedFields=[{"fieldsV1": "nested"}]))).replace('"nested"', nested)
    async with serving(made) as server:
        status, answer = await send(server, made, deep)
        assert (status, answer["response"]["patchType"]) == (200, "JSONPatch")


async def test_a_read_that_takes_too_long_is_given_up_before_the_api_server_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: str) -> list[Json]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr("staticgroup.runtime.webhook.server.ANSWER_WITHIN_S", 0.05)
    made = material()
    async with serving(made, never) as server:
        assert (await ask(server, made, review(pod())))[0] == 503


async def test_it_is_ready_only_with_a_certificate_and_leaves_no_key_on_a_disk(tmp_path: Path) -> None:
    async with serving() as server, aiohttp.ClientSession() as session:
        for path, status in (("/healthz", 200), ("/readyz", 503), ("/metrics", 200)):
            async with session.get(f"http://127.0.0.1:{server.health_port}{path}") as answer:
                assert answer.status == status
