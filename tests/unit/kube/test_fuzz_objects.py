"""Any JSON where an API server, or something before it, should have sent an object: a view or a refusal, and no stream ends by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes.aio.client import Configuration

from simulator.operators.entrance import follow
from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.envelope import is_object
from staticgroup.kube.gateway import KubeGateway
from staticgroup.kube.informer import Informer, OnObject
from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.pods.store import PodStore, PodStoreHooks
from staticgroup.kube.translate import MalformedObject, node_view, pod_set_view, pod_version, workload_view
from staticgroup.kube.translate.pods import may_hold_a_seat, uid_of
from staticgroup.kube.transport import MUTATING_POLICIES, NODES, STATEFULSETS, Resource, Transport, connect
from support.long_drills import by_length
from support.mutations import json_values, mutated_json
from unit.kube.raw_objects import at, composed, ended, pod, running, waiting

FUZZED = settings(
    max_examples=by_length(short=700, long=25_000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
POD = composed(at(pod(statuses=[running(), ended("side"), waiting("late")]), 7))
POD["spec"] |= {
    "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always", "args": ["--id", "$(POD)"]}],
    "ephemeralContainers": [{"name": "debug"}],
    "volumes": [{"name": "podinfo", "downwardAPI": {"items": [{"path": "id", "fieldRef": {"fieldPath": "metadata.name"}}]}}],
}
POD["spec"]["containers"][0]["env"] += [
    {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": "45000"},
    {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['staticgroup.io/instance-id']"}}},
]
POD["status"] |= {
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
    ],
    "initContainerStatuses": [ended("setup"), running("proxy")],
    "ephemeralContainerStatuses": [running("debug")],
}
NODE = {
    "metadata": {"name": "node-a", "uid": "n", "resourceVersion": "5", "labels": {"type": "worker"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}},
}
WORKLOAD = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "w", "resourceVersion": "6", "generation": 2, "annotations": {"a": "b"}},
    "spec": {
        "replicas": 3, "ordinals": {"start": 1}, "selector": {"matchLabels": {"app": "web"}}, "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]},
    },
    "status": {"observedGeneration": 2, "currentRevision": "r1", "updateRevision": "r2", "replicas": 3},
}  # fmt: skip
LEASE = {
    "metadata": {"name": "staticgroup-operator", "namespace": "ops", "uid": "l", "resourceVersion": "9", "annotations": {"x": "y"}},
    "spec": {"holderIdentity": "other", "leaseTransitions": 3, "leaseDurationSeconds": 15},
}


def odd(original: Any) -> st.SearchStrategy[Any]:
    return mutated_json(original) | json_values


@FUZZED
@given(raw=odd(POD))
def test_any_pod_is_a_version_or_refused(raw: Any) -> None:
    if is_object(raw):
        assert isinstance(may_hold_a_seat(raw), bool)
        assert isinstance(uid_of(raw), str)
    version = pod_version(raw)
    assert isinstance(version, PodVersion | MalformedObject)


@FUZZED
@given(raw=odd(WORKLOAD))
def test_any_workload_is_a_view_or_refused(raw: Any) -> None:
    for read in (workload_view, pod_set_view):
        assert isinstance(read(raw), WorkloadView | MalformedObject)


@FUZZED
@given(raw=odd(NODE))
def test_any_node_is_a_view_or_refused(raw: Any) -> None:
    assert isinstance(node_view(raw), NodeView | MalformedObject)


class OddServer:
    """Answers every call with one JSON text, every watch with lines."""

    def __init__(self) -> None:
        self.answer: bytes = b"{}"
        self.events: list[bytes] = []
        self.asked = asyncio.Event()
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer."""
        self.asked.set()
        if "watch" not in request.query:
            return web.Response(body=self.answer, content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        for line in self.events:
            await response.write(line + b"\n")
        return response


@asynccontextmanager
async def odd_server() -> AsyncIterator[tuple[OddServer, Transport]]:
    server = OddServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    transport = connect(Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    try:
        yield server, transport
    finally:
        await transport.close()
        await runner.cleanup()


def list_of(items: list[Any]) -> dict[str, Any]:
    return {"kind": "List", "metadata": {"resourceVersion": "12"}, "items": items}


events = st.lists(
    mutated_json({"type": "MODIFIED", "object": at(POD, 13)}) | mutated_json({"type": "BOOKMARK", "object": at(POD, 14)}) | json_values,
    max_size=3,
)


def drawn(count: int) -> list[tuple[Any, list[Any]]]:
    """Return answers and events as Hypothesis draws them, for tests that keep one server for all."""
    found: list[tuple[Any, list[Any]]] = []

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(answer=odd(list_of([at(POD, 11), NODE, WORKLOAD])) | mutated_json(LEASE) | mutated_json(POD), lines=events)
    def draw(answer: Any, lines: list[Any]) -> None:
        found.append((answer, lines))

    draw()
    return found


COUNT = by_length(short=150, long=6_000)


async def turns(running: Iterable[asyncio.Task[Any]], server: OddServer) -> None:
    """Let streams meet what the server says now, and see that none has ended."""
    for _ in range(2):
        server.asked.clear()
        await asyncio.wait_for(server.asked.wait(), 5)
    for task in running:
        assert not task.done(), task


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_no_stream_ends_by_what_it_receives() -> None:
    async with odd_server() as (server, transport):
        rng, clock_s = Random(7), asyncio.get_running_loop().time
        taken: list[Any] = []
        hooks = PodStoreHooks(
            node_of=lambda name: None, is_managed=lambda namespace, name: True, on_change=lambda *key: None,
            on_gap=lambda reason: None, on_uncertified=lambda reason: None,
        )  # fmt: skip
        pods = PodStore(
            transport, hooks, rng=rng, now_s=lambda: 50.0, clock_s=clock_s, scopes=("",), sleep=no_pause,
        )  # fmt: skip
        nodes = NodeStore(on_change=lambda name: None)
        handlers: tuple[tuple[Resource, OnObject], ...] = ((NODES, nodes.changed), (STATEFULSETS, lambda raw, is_deleted: taken.append(raw)))
        informers = [
            Informer(transport, resource, on_object, scope="", outage=transport.outage, rng=rng, clock_s=clock_s, sleep=no_pause)
            for resource, on_object in handlers
        ]
        running = [asyncio.create_task(pods.run(None)), *(asyncio.create_task(follow(i)) for i in informers)]
        try:
            for answer, lines in drawn(COUNT):
                server.answer, server.events = json.dumps(answer).encode(), [json.dumps(line).encode() for line in lines]
                await turns(running, server)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def test_no_question_and_no_lease_fails_by_its_answer() -> None:
    async with odd_server() as (server, transport):
        gateway = KubeGateway(transport, instance="op", now_s=lambda: 50.0)
        lease = ActiveLease(
            transport, LeaseSettings(namespace="ops"), identity="op", position=lambda: None, clock_s=lambda: 50.0,
            now_s=lambda: 50.0, sleep=no_pause,
        )  # fmt: skip
        questions: list[Callable[[], Any]] = [
            lambda: gateway.read_workload("shop", WorkloadRef(name="web")), lambda: gateway.read_pod("shop", "web-0"),
            lambda: gateway.read_secret("shop", "login"), gateway.cluster_uid,
            lambda: gateway.read_object("staticgroups", "shop", "orders"),
            lambda: gateway.list_objects("staticgroups", "shop"),
            lambda: gateway.apply_status("staticgroups", "shop", "orders", "u", {}), lambda: gateway.has_policy(MUTATING_POLICIES, "p"),
            lambda: gateway.has_webhook("w"), lease.attempt, lease.confirm,
        ]
        for answer, _ in drawn(COUNT):
            server.answer = json.dumps(answer).encode()
            for question in questions:
                await question()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"metadata": ' + b"1" * 10_000 + b"}", b"\xff\xfe", b"null", b"{}", b'{"message": "sign in"}', b'{"metadata": {"resourceVersion": 7}}'])
async def test_json_that_no_reader_takes_is_no_answer(body: bytes) -> None:
    async with odd_server() as (server, transport):
        server.answer, server.events = body, [body]
        outcome = await transport.call("get", STATEFULSETS, namespace="shop", name="web")
        assert not isinstance(outcome, dict)
        async with transport.watch(STATEFULSETS, query={}) as stream:
            with pytest.raises(aiohttp.ClientError):
                await stream.next_event(5.0)  # type: ignore[union-attr]
