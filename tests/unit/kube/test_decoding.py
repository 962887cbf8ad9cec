"""What an API server sends is read however deep its owners made it, what is not is told for what it is, and no value stays with the parser."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from staticgroup.kube.decoding import decoded
from staticgroup.kube.outage import OUTAGE_AFTER_S, Outage
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import STATEFULSETS, Resource, Transport
from support.fake_apiserver import FakeApiServer

from .test_fuzz_objects import odd_server
from .test_object_stream import RESOURCE, Clock, following, watched, workload

POD_SETS = Resource(group="core.strimzi.io", version="v1", plural="strimzipodsets")


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"f:a": value}
    return value


def deep_workload(levels: int) -> dict[str, Any]:
    raw = workload("deep")
    raw["metadata"]["managedFields"] = [{"manager": "x", "operation": "Update", "fieldsV1": deep(levels)}]
    return raw


@pytest.mark.parametrize("levels", [150, 250, 400])
async def test_pod_set_with_deep_unknown_fields_is_read(server: FakeApiServer, transport: Transport, levels: int) -> None:
    """`spec.pods[]` of Strimzi's CRD preserves unknown fields, so its owner may put anything there."""
    pods = [{"metadata": {"name": "connect-0"}, "x": deep(levels)}]
    server.put(workload("connect") | {"spec": {"selector": {}, "pods": pods}}, "strimzipodsets.core.strimzi.io")
    answer = await transport.call("get", POD_SETS, namespace="shop", name="connect")
    assert isinstance(answer, dict), answer
    assert answer["spec"]["pods"] == pods


async def test_deep_object_keeps_no_other_from_being_told(server: FakeApiServer) -> None:
    server.put(workload("other"), RESOURCE)
    server.put(deep_workload(400), RESOURCE)
    async with following(server, Clock()) as (stream, store):
        async with asyncio.timeout(5):
            await stream.wait_complete()
        assert store.uids.keys() == {"other", "deep"}
        await watched(server)
        server.put(deep_workload(250), RESOURCE)
        server.put(workload("later"), RESOURCE)
        async with asyncio.timeout(5):
            while "later" not in store.uids:  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(0.01)
        assert store.told.count(("uid-deep", False)) == 2


@pytest.mark.parametrize(
    ("body", "is_of_another"), [(b'{"metadata": {"x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}", False), (b"<html>sign in</html>", True)]
)
async def test_answer_that_cannot_be_decoded_is_told_as_one_and_is_an_outage_only_where_it_is_no_json(body: bytes, is_of_another: bool) -> None:
    async with odd_server() as (server, transport):
        now_s = 100.0
        transport.outage = Outage(clock_s=lambda: now_s)
        server.answer, now_s = body, now_s + OUTAGE_AFTER_S
        outcome = await transport.call("get", STATEFULSETS, namespace="shop", name="web")
    assert isinstance(outcome, KubeProblem)
    assert outcome.kind is KubeProblemKind.UNAVAILABLE
    assert "answer to get statefulsets.apps in namespace shop cannot be decoded" in outcome.message
    assert transport.outage.is_on is is_of_another


def test_value_of_a_secret_is_held_by_whoever_asked_for_it_only() -> None:
    read: Any = decoded(b'{"data": {"password": "b2Ygbm9ib2R5IGVsc2U="}}')
    value = read["data"].pop("password")
    assert sys.getrefcount(value) == 2, "the variable, and the argument of the count"


def test_keys_of_objects_are_kept_once_for_all_of_them() -> None:
    """Of ten thousand pods each label has one name, not ten thousand."""
    first, second = ([*decoded(b'{"topology-of-nobody": "1"}')] for _ in range(2))  # type: ignore[misc]
    assert first[0] is second[0]
