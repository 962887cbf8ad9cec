"""Single calls against a fake API server over real HTTP."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from kubernetes.aio.client import Configuration

from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.api.workloads import DEPLOYMENT, STRIMZI_POD_SET
from staticgroup.core.workload import WorkloadView
from staticgroup.kube.event_poster import Involved
from staticgroup.kube.gateway import KubeGateway, PodRead
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import CONNECTIONS_MAX, PODS, Transport, connect
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type
from unit.kube.raw_objects import eventually, pod
from unit.kube.raw_rollouts import argo_rollout

GROUPS = "staticgroups.staticgroup.io"


@pytest.fixture
def gateway(transport: Transport, clock: Clock) -> KubeGateway:
    return KubeGateway(transport, instance="operator-0", now_s=clock)


def kind_of(outcome: object) -> KubeProblemKind:
    assert isinstance(outcome, KubeProblem)
    return outcome.kind


async def test_pod_is_read_with_the_version_of_the_list_and_whatever_its_labels(
    server: FakeApiServer, gateway: KubeGateway
) -> None:
    server.put(pod(labels={}))
    server.tick()
    found = of_type(PodRead, await gateway.read_pod("shop", "web-0"))
    assert found.version is not None
    assert (found.resource_version, found.version.resource_version) == (server.resource_version, server.resource_version - 1)


async def test_absent_pod_is_read_with_the_moment_of_its_absence(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.put(pod("web-1"))
    assert await gateway.read_pod("shop", "web-0") == PodRead(resource_version=server.resource_version, version=None)


async def test_absent_workload_is_none_and_a_refused_read_is_a_problem(server: FakeApiServer, gateway: KubeGateway) -> None:
    assert await gateway.read_workload("shop", WorkloadRef(name="web")) is None
    server.denied.add(("get", "statefulsets.apps"))
    problem = await gateway.read_workload("shop", WorkloadRef(name="web"))
    assert kind_of(problem) is KubeProblemKind.FORBIDDEN
    assert isinstance(problem, KubeProblem)
    assert "get statefulsets.apps in namespace shop" in problem.message


async def test_each_kind_is_read_as_what_it_is(server: FakeApiServer, gateway: KubeGateway) -> None:
    body = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"template": {"spec": {"containers": []}}}}
    server.put(body, "deployments.apps")
    server.put({"metadata": body["metadata"], "spec": {"pods": []}}, "strimzipodsets.core.strimzi.io")
    for ref, kind in (
        (WorkloadRef(name="web", kind="Deployment"), DEPLOYMENT),
        (WorkloadRef(name="web", kind="StrimziPodSet", api_version="core.strimzi.io/v1"), STRIMZI_POD_SET),
    ):
        assert of_type(WorkloadView, await gateway.read_workload("shop", ref)).kind is kind


async def test_a_rollout_has_the_pod_template_of_the_deployment_that_it_names(
    server: FakeApiServer, gateway: KubeGateway
) -> None:
    ref = WorkloadRef(name="web", kind="Rollout", api_version="argoproj.io/v1alpha1")
    names = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}
    raw = argo_rollout(workloadRef=names)
    template = raw["spec"].pop("template")
    server.put(raw, "rollouts.argoproj.io")
    problem = of_type(KubeProblem, await gateway.read_workload("shop", ref))
    assert (problem.kind, problem.resource) == (KubeProblemKind.NOT_FOUND, "deployments.apps"), "not that there is none"
    server.put({"metadata": {"namespace": "shop", "name": "orders"}, "spec": {"template": template}}, "deployments.apps")
    found = of_type(WorkloadView, await gateway.read_workload("shop", ref))
    assert ([c.name for c in found.containers], found.termination_grace_s) == (["app"], 45)
    server.put(argo_rollout(workloadRef=names | {"kind": "ReplicaSet"}, template=None), "rollouts.argoproj.io")
    problem = of_type(KubeProblem, await gateway.read_workload("shop", ref))
    assert "unreadable field spec.template" in problem.message


async def test_unavailable_server_is_never_an_absent_object(server: FakeApiServer, gateway: KubeGateway) -> None:
    for status in (429, 500, 503):
        server.failing_status = status
        assert kind_of(await gateway.read_workload("shop", WorkloadRef(name="web"))) is KubeProblemKind.UNAVAILABLE
        assert kind_of(await gateway.read_pod("shop", "web-0")) is KubeProblemKind.UNAVAILABLE


async def test_connection_refused_is_a_value(server: FakeApiServer, gateway: KubeGateway) -> None:
    configuration = server.configuration()
    configuration.host = "http://127.0.0.1:9"
    transport = connect(configuration)
    outcome = await KubeGateway(transport, instance="x", now_s=lambda: 0.0).cluster_uid()
    await transport.close()
    assert kind_of(outcome) is KubeProblemKind.UNAVAILABLE


@pytest.mark.parametrize(
    ("url", "no_proxy", "expected"),
    [
        ("https://api.example:6443", "", "http://proxy.example:3128"),
        ("https://api.example:6443", ".example", None),
        ("http://api.example", "", None),
    ],
)
async def test_proxy_of_the_environment_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, expected: str | None
) -> None:
    """aiohttp asks the environment and a netrc file before each request, in threads, when it may (trust_env)."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    for lower in ("https_proxy", "http_proxy", "HTTP_PROXY", "no_proxy"):
        monkeypatch.delenv(lower, raising=False)
    configuration = Configuration(host=url)
    transport = connect(configuration)
    await transport.close()
    assert configuration.proxy == expected
    assert configuration.client_session_kwargs == {"trust_env": False}


@asynccontextmanager
async def at_silent_server() -> AsyncIterator[tuple[Transport, list[asyncio.StreamWriter]]]:
    """Connect to a server that never answers, with what was opened there."""
    opened: list[asyncio.StreamWriter] = []

    async def never_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(never_answers, "127.0.0.1", 0)
    configuration = FakeApiServer().configuration()
    configuration.host = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    transport = connect(configuration)
    yield transport, opened
    await transport.close()
    listener.close()


async def test_silent_server_ends_in_the_call_timeout() -> None:
    async with at_silent_server() as (made, _):
        impatient = Transport(made._client, call_timeout_s=0.05)
        outcome = await KubeGateway(impatient, instance="x", now_s=lambda: 0.0).cluster_uid()
    assert kind_of(outcome) is KubeProblemKind.UNAVAILABLE


async def test_calls_are_answered_however_many_watches_are_open(server: FakeApiServer) -> None:
    transport = connect(server.configuration())
    async with AsyncExitStack() as watches:
        for _ in range(5 * CONNECTIONS_MAX):
            query = {"resourceVersion": str(server.resource_version)}
            await watches.enter_async_context(transport.watch(PODS, query=query))
        async with asyncio.timeout(5):
            assert not isinstance(await transport.call("list", PODS), KubeProblem)
    await transport.close()


async def test_calls_in_parallel_use_a_limited_number_of_connections() -> None:
    async with at_silent_server() as (transport, opened):
        calls = [asyncio.create_task(transport.call("list", PODS)) for _ in range(2 * CONNECTIONS_MAX)]
        await eventually(lambda: len(opened) >= CONNECTIONS_MAX)
        await asyncio.wait(calls, timeout=0.2)
        assert len(opened) == CONNECTIONS_MAX
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_secret_is_decoded_and_a_broken_one_does_not_leak(
    server: FakeApiServer, gateway: KubeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = {"metadata": {"namespace": "shop", "name": "s"}, "data": {"password": base64.b64encode(b"canary").decode()}}
    server.put(secret, "secrets")
    assert await gateway.read_secret("shop", "s") == {"password": b"canary"}
    assert await gateway.read_secret("shop", "absent") is None
    server.put({**secret, "data": {"password": "canary!not-base64"}}, "secrets")
    broken = await gateway.read_secret("shop", "s")
    assert kind_of(broken) is KubeProblemKind.INVALID
    assert "canary" not in repr(broken) + caplog.text


@pytest.mark.parametrize(
    ("asked", "labels", "is_used"),
    [
        ("", {}, True),
        ("staticgroup.io/kafka", {}, False),
        ("staticgroup.io/kafka", {"staticgroup.io/kafka": "anything"}, True),
        ("staticgroup.io/kafka", {"staticgroup.io/kafka": ""}, True),
        ("staticgroup.io/kafka=yes", {"staticgroup.io/kafka": "yes"}, True),
        ("staticgroup.io/kafka=yes", {"staticgroup.io/kafka": "no"}, False),
        ("staticgroup.io/kafka=", {"staticgroup.io/kafka": "no"}, False),
        ("staticgroup.io/kafka=", {"staticgroup.io/kafka": ""}, True),
    ],
)
async def test_secret_without_the_label_that_is_asked_for_is_refused_naming_it(
    server: FakeApiServer, transport: Transport, asked: str, labels: dict[str, str], is_used: bool
) -> None:
    metadata = {"namespace": "shop", "name": "s", "labels": labels}
    server.put({"metadata": metadata, "data": {"password": base64.b64encode(b"canary").decode()}}, "secrets")
    found = await KubeGateway(transport, instance="x", now_s=lambda: 0.0, secret_label=asked).read_secret("shop", "s")
    if is_used:
        assert found == {"password": b"canary"}
        return
    assert isinstance(found, KubeProblem)
    assert found.kind is KubeProblemKind.FORBIDDEN
    assert f"lacks the label {asked}," in found.message
    assert "operator.secretLabel" in found.message
    assert "canary" not in repr(found)


async def test_content_of_a_secret_without_the_label_is_not_even_read(
    server: FakeApiServer, transport: Transport
) -> None:
    server.put({"metadata": {"namespace": "shop", "name": "s"}, "data": {"password": "not-base64!"}}, "secrets")
    careful = KubeGateway(transport, instance="x", now_s=lambda: 0.0, secret_label="staticgroup.io/kafka")
    assert kind_of(await careful.read_secret("shop", "s")) is KubeProblemKind.FORBIDDEN


async def test_status_is_applied_to_the_object_of_this_uid_only(server: FakeApiServer, gateway: KubeGateway) -> None:
    server.put({"metadata": {"namespace": "shop", "name": "orders", "uid": "u1"}, "spec": {"mode": "Manage"}}, GROUPS)
    written = of_type(dict, await gateway.apply_status("staticgroups", "shop", "orders", "u1", {"protocol": "Classic"}))
    assert written["status"] == {"protocol": "Classic"}
    stored = server.objects[GROUPS, "shop", "orders"]
    assert (stored["status"], stored["spec"]) == ({"protocol": "Classic"}, {"mode": "Manage"})
    assert any("fieldManager=staticgroup-operator&force=true" in query for _, query in server.requests)
    again = await gateway.apply_status("staticgroups", "shop", "orders", "u2", {"protocol": "Consumer"})
    assert kind_of(again) is KubeProblemKind.CONFLICT
    assert server.objects[GROUPS, "shop", "orders"]["status"] == {"protocol": "Classic"}


async def test_status_write_is_bound_to_the_object_that_was_read(
    server: FakeApiServer, transport: Transport, gateway: KubeGateway
) -> None:
    """The object is deleted and created again between the read and the write."""
    raw = {"metadata": {"namespace": "shop", "name": "orders", "uid": "u1"}}
    server.put(raw, GROUPS)
    moved = transport.call

    async def recreated(verb: str, *args: object, **rest: object) -> object:
        if verb == "patch":
            server.put({"metadata": {"namespace": "shop", "name": "orders", "uid": "u2"}}, GROUPS)
        return await moved(verb, *args, **rest)  # type: ignore[arg-type]

    transport.call = recreated  # type: ignore[method-assign,assignment]
    outcome = await gateway.apply_status("staticgroups", "shop", "orders", "u1", {"protocol": "Classic"})
    assert kind_of(outcome) is KubeProblemKind.CONFLICT
    assert "status" not in server.objects[GROUPS, "shop", "orders"]


async def test_status_write_is_bound_to_the_version_that_the_caller_knows(
    server: FakeApiServer, gateway: KubeGateway
) -> None:
    """A write that came in between is not overwritten: a replica that was paused must not undo what its successor wrote."""
    group = ("staticgroups", "shop", "orders", "u1")
    known = server.put({"metadata": {"namespace": "shop", "name": "orders", "uid": "u1"}}, GROUPS)
    version = known["metadata"]["resourceVersion"]
    first = of_type(dict, await gateway.apply_status(*group, {"protocol": "Classic"}, resource_version=version))
    late = await gateway.apply_status(*group, {"protocol": "Consumer"}, resource_version=version)
    assert kind_of(late) is KubeProblemKind.CONFLICT
    second = await gateway.apply_status(
        *group, {"protocol": "Unknown"}, resource_version=first["metadata"]["resourceVersion"]
    )
    assert isinstance(second, dict)
    assert server.objects[GROUPS, "shop", "orders"]["status"] == {"protocol": "Unknown"}


async def test_repeated_event_is_counted_up_within_ten_minutes_and_new_after(
    server: FakeApiServer, gateway: KubeGateway, clock: Clock
) -> None:
    involved = Involved(api_version="staticgroup.io/v1alpha1", kind="StaticGroup", namespace="shop", name="orders", uid="u")

    async def post(message: str) -> None:
        assert await gateway.post_event(involved, type_="Normal", reason="Removed", message=message, action="Remove") is None

    for _ in range(3):
        await post("one")
    await post("two")
    clock.now_s += 601
    await post("one")
    events = [o for (resource, _, _), o in server.objects.items() if resource == "events.events.k8s.io"]
    assert sorted((e["note"], e.get("series", {}).get("count", 1)) for e in events) == [("one", 1), ("one", 3), ("two", 1)]
    assert events[0]["regarding"]["uid"] == "u"


async def test_event_deleted_meanwhile_is_posted_again(server: FakeApiServer, gateway: KubeGateway) -> None:
    involved = Involved(api_version="v1", kind="Pod", namespace="shop", name="p", uid="u")
    for _ in range(2):
        await gateway.post_event(involved, type_="Normal", reason="R", message="m" * 2000, action="A")
        (key,) = [k for k in server.objects if k[0] == "events.events.k8s.io"]
        assert len(server.objects[key]["note"]) == 1024
        server.remove(key[1], key[2], key[0])


UNDECLARED_TEXT = "failed to create typed patch object (shop/orders): .status.secret-7: field not declared in schema"


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (500, UNDECLARED_TEXT, KubeProblemKind.UNDECLARED),
        (400, UNDECLARED_TEXT, KubeProblemKind.UNDECLARED),
        (500, "x" * 100_000 + UNDECLARED_TEXT, KubeProblemKind.UNAVAILABLE),
        (500, "etcdserver: request is too large", KubeProblemKind.TOO_LARGE),
        (413, "", KubeProblemKind.TOO_LARGE),
        (500, "etcdserver: leader changed", KubeProblemKind.UNAVAILABLE),
        (422, "status.phase: Unsupported value", KubeProblemKind.INVALID),
    ],
)
async def test_refused_status_is_an_answer_with_its_kind_and_nothing_of_its_text(
    server: FakeApiServer, gateway: KubeGateway, transport: Transport, status: int, text: str, kind: KubeProblemKind
) -> None:
    server.put({"metadata": {"name": "orders", "namespace": "shop", "uid": "sg-1"}}, GROUPS)
    server.failing["patch", GROUPS] = [status]
    server.failure_text = text
    noted: list[str] = []
    transport.outage.answered = lambda: noted.append("answered")  # type: ignore[method-assign]
    transport.outage.missed = lambda message: noted.append("missed")  # type: ignore[method-assign]
    answer = await gateway.apply_status("staticgroups", "shop", "orders", "sg-1", {}, resource_version="101")
    assert isinstance(answer, KubeProblem)
    assert (answer.kind, answer.status) == (kind, status)
    assert answer.message
    assert "secret-7" not in answer.message
    assert noted == ["missed" if kind is KubeProblemKind.UNAVAILABLE else "answered"]
