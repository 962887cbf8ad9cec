"""One process with kopf in it, over a real-HTTP API server: it starts, outlasts an outage, and ends when told."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from staticgroup.runtime.process import logs
from staticgroup.runtime.process import run as process
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import eventually

from ..operator_world import KEY
from ..test_operator import GROUPS, Cluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{token: not-a-secret}}}}]
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    levels = {name: logging.getLogger(name).level for name in logs.LOUDEST_LEVELS}
    yield
    root.handlers[:], _ = before[0], root.setLevel(before[1])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
async def server(untouched_logging: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        path = tmp_path / "config"
        path.write_text(KUBECONFIG.format(port=running_server.port))
        monkeypatch.setenv("KUBECONFIG", str(path))
        monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        Cluster(running_server)
        yield running_server


@asynccontextmanager
async def running(**changes: object) -> AsyncIterator[tuple[asyncio.Task[int], int]]:
    """Run one process; yields its task and the port of its probes."""
    port = free_port()
    settings = Settings(identity="one", namespace="ops", health_port=port, **changes)  # type: ignore[arg-type]
    task = asyncio.create_task(process.run(settings))
    try:
        yield task, port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def answer(port: int, path: str) -> int:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status
    except aiohttp.ClientError:
        return 0


async def answers(task: asyncio.Task[int], port: int, path: str, status: int) -> None:
    async with asyncio.timeout(20):
        while await answer(port, path) != status:
            assert not task.done()
            await asyncio.sleep(0.02)


def asked(server: FakeApiServer, path: str) -> bool:
    return any(p == path for _, p in server.requests)


@pytest.mark.parametrize("namespaces", [(), ("shop", "bank")])
async def test_kopf_runs_in_the_process_and_ends_it_in_good_order_on_sigterm(
    server: FakeApiServer, namespaces: tuple[str, ...]
) -> None:
    """kopf logs in, looks what the API server serves, and watches nothing; a signal ends it without a wait."""
    async with running(watch_namespaces=namespaces) as (task, port):
        await answers(task, port, "/readyz", 200)
        await eventually(lambda: asked(server, "/apis"), 20)
        await eventually(lambda: "status" in server.objects[GROUPS, *KEY], 20)
        assert {path for agent, path in server.agents if agent.startswith("kopf")} <= {"/api", "/apis"}
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(4):
            assert await task == 0
    assert server.objects["leases.coordination.k8s.io", "ops", "staticgroup-operator"]["spec"]["holderIdentity"] == ""


async def test_process_that_starts_during_an_outage_waits_for_its_end(server: FakeApiServer) -> None:
    server.failing_status = 503
    async with running() as (task, port):
        await answers(task, port, "/healthz", 200)
        assert await answer(port, "/readyz") == 503
        await eventually(lambda: server.requests, 20)
        server.failing_status = 0
        await answers(task, port, "/readyz", 200)


async def test_process_goes_on_when_kopf_is_refused_at_its_first_look(server: FakeApiServer) -> None:
    """The outage begins between our own first answer and kopf's."""
    server.failing_paths.add("/apis")
    async with running() as (task, port):
        await answers(task, port, "/readyz", 200)
        await eventually(lambda: sum(p == "/apis" for _, p in server.requests) >= 3, 20)
        assert not task.done()
