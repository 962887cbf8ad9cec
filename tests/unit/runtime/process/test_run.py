"""One process with kopf in it, over a real-HTTP API server: it starts, outlasts an outage, and ends upon a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from staticgroup.runtime.process import run as process
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from support.long_drills import by_length
from unit.kube.raw_objects import eventually
from unit.kube.test_decoding import nested

from ..operator_world import KEY, static_group
from ..process_world import GROUPS, Cluster

GROUPS_PATH = "/apis/staticgroup.io/v1alpha1/staticgroups"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: me, user: {{token: '{token}'}}}}]
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
async def server(untouched_logging: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running_server:
        path = tmp_path / "config"
        path.write_text(KUBECONFIG.format(port=running_server.port, token="not-a-secret"))
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
    async with asyncio.timeout(60):
        while await answer(port, path) != status:
            assert not task.done()
            await asyncio.sleep(0.02)


async def text(port: int, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return await response.text()


def asked(server: FakeApiServer, path: str) -> bool:
    return any(p == path for _, p in server.requests)


def edit(server: FakeApiServer, **spec: object) -> None:
    """Edit the StaticGroup as a user does."""
    body = server.objects[GROUPS, *KEY]
    body["metadata"]["generation"] += 1
    server.put(body | {"spec": body["spec"] | spec}, GROUPS)


def is_observed(server: FakeApiServer) -> bool:
    body = server.objects[GROUPS, *KEY]
    return (body.get("status") or {}).get("observedGeneration") == body["metadata"]["generation"]


def lists(server: FakeApiServer) -> int:
    return sum(path.startswith(GROUPS_PATH) and "watch=true" not in path for _, path in server.requests)


async def test_the_metrics_name_the_release_and_tell_of_the_process(server: FakeApiServer) -> None:
    async with running(lease_name="b-operator") as (task, port):
        await answers(task, port, "/healthz", 200)
        page = await text(port, "/metrics")
    assert 'staticgroup_lease_held{lease="ops/b-operator"} ' in page
    assert "staticgroup_build_info{" in page
    assert ("process_resident_memory_bytes " in page) is (sys.platform == "linux")


@pytest.mark.parametrize("namespaces", [(), ("shop", "bill")])
async def test_kopf_brings_each_change_and_a_signal_ends_the_process_in_good_order(
    server: FakeApiServer, namespaces: tuple[str, ...]
) -> None:
    async with running(watch_namespaces=namespaces) as (task, port):
        await answers(task, port, "/readyz", 200)
        await eventually(lambda: is_observed(server))
        before = lists(server)
        edit(server, mode="Observe")
        await eventually(lambda: is_observed(server))
        assert lists(server) == before
        assert not any(agent.startswith("kopf") for agent, _ in server.agents), "everything goes through the operator's own connection"
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(4):
            assert await task == 0
    assert server.objects["leases.coordination.k8s.io", "ops", "staticgroup-operator"]["spec"]["holderIdentity"] == ""


async def test_process_that_starts_during_an_outage_waits_for_its_end(server: FakeApiServer) -> None:
    server.failing_status = 503
    async with running() as (task, port):
        await answers(task, port, "/healthz", 200)
        assert await answer(port, "/readyz") == 503
        await eventually(lambda: server.requests)
        server.failing_status = 0
        await answers(task, port, "/readyz", 200)


async def test_signal_during_an_outage_ends_a_process_that_has_not_begun(server: FakeApiServer) -> None:
    server.failing_status = 503
    async with running() as (task, port):
        await answers(task, port, "/healthz", 200)
        await eventually(lambda: server.requests)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(4):
            assert await task == 0


async def test_kopf_goes_on_after_an_outage_and_acts_at_once(server: FakeApiServer) -> None:
    async with running() as (task, _):
        await eventually(lambda: is_observed(server))
        server.failing_status = 503
        server.break_watches()
        await asyncio.sleep(by_length(short=8, long=300))
        assert not task.done()
        edit(server, mode="Observe")
        server.failing_status = 0
        await eventually(lambda: is_observed(server))
        edit(server, mode="Manage")
        await eventually(lambda: is_observed(server))


@pytest.mark.parametrize("trouble", ["error 500", "error 410", "deep", "no object", "no json"])
async def test_nothing_that_a_watch_sends_ends_kopfs_watcher(server: FakeApiServer, trouble: str) -> None:
    """kopf alone ends a watcher for good by any of these but 410 (seen with 1.45.2)."""
    async with running() as (task, _):
        await eventually(lambda: is_observed(server))
        await eventually(lambda: any(w.resource == GROUPS for w in server.watches))
        if trouble == "deep":
            body = server.objects[GROUPS, *KEY]
            entry = {"manager": "x", "operation": "Apply", "fieldsV1": nested(1_500), "time": "2026-01-01T00:00:07Z"}
            body["metadata"].setdefault("managedFields", []).append(entry)
            edit(server, mode="Observe")
        elif trouble.startswith("error"):
            server.send_error(int(trouble.partition(" ")[2]))
        else:
            server.send_line('{"type": "MODIFIED"}' if trouble == "no object" else "<html>")
        await asyncio.sleep(0.2)
        edit(server, groupId="orders")
        await eventually(lambda: is_observed(server))
        assert not task.done()


async def test_deletion_that_no_watch_sent_and_a_successor_are_seen_by_the_next_list(server: FakeApiServer) -> None:
    async with running() as (task, _):
        await eventually(lambda: is_observed(server))
        watches = server.watches.copy()
        server.watches.clear()  # what happens now is sent to nobody
        server.remove(*KEY, GROUPS)
        server.put(static_group(uid="sg-2"), GROUPS)
        server.watches += watches
        server.break_watches()
        await eventually(lambda: is_observed(server))
        server.remove(*KEY, GROUPS)
        await asyncio.sleep(0.5)
        assert not task.done()


async def test_kind_whose_definition_comes_later_is_followed_from_then_on(server: FakeApiServer) -> None:
    connections = "clusterkafkaconnections.staticgroup.io"
    server.failing["list", GROUPS] = [404] * 6
    server.failing["list", connections] = [404] * 6
    async with running() as (task, port):
        await answers(task, port, "/readyz", 200)
        await eventually(lambda: is_observed(server))
        await eventually(lambda: any(w.resource == connections for w in server.watches))
        edit(server, mode="Observe")
        await eventually(lambda: is_observed(server))


async def test_part_that_fails_ends_the_process_in_good_order(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> None:
        await asyncio.sleep(0.3)
        raise KeyError("heap")

    monkeypatch.setattr("staticgroup.runtime.process.heap.follow_growth", fails)
    async with running() as (task, _):
        async with asyncio.timeout(60):
            assert await task == 1
