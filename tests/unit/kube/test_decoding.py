"""What an API server sends is read however deep its owners made it, what is not JSON is reported as such, and the parser keeps no value."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from staticgroup.kube.decoding import NO_JSON, decoded
from staticgroup.kube.outage import OUTAGE_AFTER_S, Outage
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import STATEFULSETS, Resource, Transport
from support.fake_apiserver import FakeApiServer
from support.narrowing import of_type
from unit.kube.pods.watched import following as watching_pods
from unit.kube.raw_objects import pod

from .test_fuzz_objects import odd_server
from .test_informer import RESOURCE, Clock, following, watched, workload

POD_SETS = Resource(group="core.strimzi.io", version="v1", plural="strimzipodsets")


LEVELS = [150, 250, 1_500, 9_990]
"""From what the parser takes to what an API server takes."""


def nested(levels: int) -> str:
    """As many objects inside each other, once it is JSON."""
    return f"{{nested {levels}}}"


def deep_workload(levels: int, **metadata: Any) -> dict[str, Any]:
    raw = workload("deep", **metadata)
    raw["metadata"]["managedFields"] = [{"manager": "x", "operation": "Update", "fieldsV1": nested(levels)}]
    return raw


def levels_of(value: Any) -> int:
    count = 0
    while isinstance(value, dict | list):
        count, value = count + 1, next(iter(value.values() if isinstance(value, dict) else value), None)
    return count


@pytest.mark.parametrize("levels", LEVELS)
def test_what_lies_beside_and_above_the_depth_is_kept(levels: int) -> None:
    text = b'{"a": %s%s, "b": {"text": "[{\\"}", "list": [{}, [[1, true, null]]]}, "c": [%s1%s, "last"]}' % (
        b'{"f:a": ' * levels, b"1" + b"}" * levels, b"[" * levels, b"]" * levels,
    )  # fmt: skip
    read: Any = decoded(bytearray(text))
    assert read["b"] == {"text": '[{"}', "list": [{}, [[1, True, None]]]}
    assert read["c"][1] == "last"
    assert 100 <= levels_of(read) <= 200


@pytest.mark.parametrize("text", [b"[" * 9_990, b"[" * 9_990 + b"]" * 9_991, b"[" * 9_990 + b"}" * 9_990, b"[" * 300 + b'"' + b'\\"' * 1_000])
def test_deep_text_that_is_no_json_is_not_made_json(text: bytes) -> None:
    with pytest.raises(NO_JSON):
        decoded(text)


@pytest.mark.parametrize("levels", LEVELS)
async def test_pod_set_with_deep_unknown_fields_is_read(server: FakeApiServer, transport: Transport, levels: int) -> None:
    """`spec.pods[]` of Strimzi's CRD preserves unknown fields, so its owner may put anything there."""
    pods = [{"x": nested(levels), "metadata": {"name": "connect-0"}}]
    server.put(workload("connect") | {"spec": {"selector": {}, "pods": pods}}, "strimzipodsets.core.strimzi.io")
    answer = of_type(dict, await transport.call("get", POD_SETS, namespace="shop", name="connect"))
    assert answer["spec"]["pods"][0]["metadata"] == {"name": "connect-0"}


@pytest.mark.parametrize("levels", LEVELS)
async def test_deep_object_does_not_affect_the_others(server: FakeApiServer, levels: int) -> None:
    server.put(workload("other"), RESOURCE)
    server.put(deep_workload(levels, namespace="bill"), RESOURCE)
    async with following(server, Clock()) as (informer, store):
        async with asyncio.timeout(5):
            await informer.wait_complete()
        assert store.uids.keys() == {"other", "deep"}
        await watched(server)
        server.put(deep_workload(levels, namespace="bill"), RESOURCE)
        server.put(workload("later"), RESOURCE)
        async with asyncio.timeout(5):
            while "later" not in store.uids:  # noqa: ASYNC110 - the store has no callback
                await asyncio.sleep(0.01)
        assert store.received.count(("uid-deep", False)) == 2


@pytest.mark.parametrize("levels", LEVELS)
async def test_deep_pod_of_one_namespace_keeps_no_other_from_being_watched(server: FakeApiServer, levels: int) -> None:
    """A tenant needs no more than the right to change a pod of its own, and 13 kB."""

    def deep_pod() -> dict[str, Any]:
        entry = {"manager": "x", "operation": "Apply", "fieldsV1": nested(levels), "time": "2026-01-01T00:00:07Z"}
        made = pod("deep", namespace="bill", uid="uid-deep")
        made["metadata"]["managedFields"].append(entry)
        return made

    server.put(pod("web-0"))
    server.put(deep_pod())
    async with watching_pods(server) as world:
        server.put(deep_pod())
        server.put(pod("web-1", uid="uid-1"))
        assert await world.store.barrier("shop", server.resource_version)
        assert [world.store.get(uid) is not None for uid in ("uid-0", "uid-1", "uid-deep")] == [True] * 3
        assert not world.gaps


async def test_answer_that_cannot_be_decoded_is_reported_and_is_an_outage() -> None:
    async with odd_server() as (server, transport):
        now_s = 100.0
        transport.outage = Outage(clock_s=lambda: now_s)
        server.answer, now_s = b"<html>sign in</html>", now_s + OUTAGE_AFTER_S
        outcome = await transport.call("get", STATEFULSETS, namespace="shop", name="web")
    assert isinstance(outcome, KubeProblem)
    assert outcome.kind is KubeProblemKind.UNAVAILABLE
    assert "answer to get statefulsets.apps in namespace shop cannot be decoded" in outcome.message
    assert transport.outage.is_on


def test_value_of_a_secret_is_held_by_its_reader_only() -> None:
    read: Any = decoded(b'{"data": {"password": "b2Ygbm9ib2R5IGVsc2U="}}')
    value = read["data"].pop("password")
    assert sys.getrefcount(value) == 2, "the variable, and the argument of the count"


def test_keys_of_objects_are_kept_once_for_all_of_them() -> None:
    """Of ten thousand pods each label has one name, not ten thousand."""
    first, second = ([*decoded(b'{"topology-of-nobody": "1"}')] for _ in range(2))  # type: ignore[misc]
    assert first[0] is second[0]
