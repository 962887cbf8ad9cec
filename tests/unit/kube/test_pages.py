"""LIST pages follow the size of what is listed: large objects make pages small, and change nothing else."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from staticgroup.kube import pages as paging
from staticgroup.kube import transport as wire
from staticgroup.kube.gateway import KubeGateway
from staticgroup.kube.informer import Informer
from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.pages import PAGE_BYTES, PAGE_LIMIT, PAGE_LIMIT_SLOW, PageLimit
from staticgroup.kube.problem import KubeProblem, KubeProblemKind, problem_of
from staticgroup.kube.transport import NODES, connect
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import following
from unit.kube.raw_objects import eventually, pod

MIB = 1024 * 1024
SILENCE = problem_of(0, verb="list", resource="pods")
TOO_LARGE = KubeProblem(kind=KubeProblemKind.TOO_LARGE, verb="list", resource="pods")
PODS_LARGE, PODS_SMALL = 12, 60


def limits(server: FakeApiServer, plural: str) -> list[int]:
    """The limit of each page that was asked for."""
    asked = [urlsplit(path) for method, path in server.requests if method == "GET"]
    queries = [parse_qs(url.query) for url in asked if url.path.endswith(plural)]
    return [int(query["limit"][0]) for query in queries if "limit" in query and "watch" not in query]


def populate(server: FakeApiServer, resource: str = "pods") -> None:
    """Objects of 6 kB first, of less than 1 kB afterwards."""
    for n in range(PODS_LARGE + PODS_SMALL):
        made = pod(f"web-{n}", uid=f"uid-{n}")
        made["metadata"]["annotations"]["large"] = "x" * (5_000 if n < PODS_LARGE else 0)
        server.put(made, resource)


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world in which 10 kB is much and 20 kB too much."""
    monkeypatch.setattr(paging, "PAGE_BYTES", 10_000)
    monkeypatch.setattr(wire, "RESPONSE_MAX_BYTES", 20_000)


@pytest.mark.usefixtures("small_sizes")
async def test_pods_too_large_for_one_page_are_listed_in_smaller_ones_which_grow_back() -> None:
    async with FakeApiServer().serving() as server:
        populate(server)
        async with following(server, chunk_size=40) as world:
            assert len(world.store) == PODS_LARGE + PODS_SMALL
            assert not world.gaps
        asked = limits(server, "pods")
        assert asked[:5] == [40, 20, 10, 5, 2]
        assert asked[-1] > min(asked)


@pytest.mark.usefixtures("small_sizes")
async def test_own_resources_and_nodes_are_listed_in_pages_of_the_same_kind() -> None:
    async with FakeApiServer().serving() as server:
        populate(server, "staticgroups.staticgroup.io")
        populate(server, "nodes")
        transport = connect(server.configuration())
        found = await KubeGateway(transport, instance="x", now_s=lambda: 0.0).list_objects("staticgroups", "shop")
        assert isinstance(found, list)
        assert len(found) == PODS_LARGE + PODS_SMALL
        nodes = NodeStore(on_change=lambda _name: None)
        informer = Informer(transport, NODES, nodes.changed, scope="", outage=transport.outage, rng=Random(1), clock_s=lambda: 0.0)
        await informer.list()
        assert all(nodes.is_present(f"web-{n}") for n in range(PODS_LARGE + PODS_SMALL))
        await transport.close()
        assert limits(server, "staticgroups")[:2] == limits(server, "nodes")[:2] == [500, 250]


@pytest.mark.usefixtures("small_sizes")
async def test_answer_that_no_smaller_page_makes_small_enough_is_a_problem_and_not_asked_for_for_ever() -> None:
    async with FakeApiServer().serving() as server:
        server.put(pod("web-0", annotations={"large": "x" * 30_000}), "staticgroups.staticgroup.io")
        transport = connect(server.configuration())
        found = await KubeGateway(transport, instance="x", now_s=lambda: 0.0).list_objects("staticgroups", "shop")
        await transport.close()
        assert isinstance(found, KubeProblem)
        assert found.kind is KubeProblemKind.TOO_LARGE
        assert limits(server, "staticgroups") == [500, 250, 125, 62, 31, 15, 7, 3, 1]


async def test_list_that_is_not_answered_in_time_is_asked_for_in_smaller_pages_next_time() -> None:
    async with FakeApiServer().serving() as server:
        server.put(pod())
        server.failing_status = 504
        async with following(server, chunk_size=PAGE_LIMIT, anchored=False) as world:
            await eventually(lambda: len(limits(server, "pods")) >= 6)
            server.failing_status = 0
            await eventually(lambda: len(world.store) == 1)
        assert limits(server, "pods")[:6] == [500, 250, 125, 62, 50, 50]


def sizes(limit: PageLimit, *steps: Any) -> list[int]:
    """The limit after each page: its bytes, or the problem that came instead."""
    seen = []
    for step in steps:
        if isinstance(step, KubeProblem):
            limit.page_was_refused(step)
        else:
            limit.page_came(step)
        seen.append(limit.value)
    return seen


def test_large_page_halves_the_limit_and_small_ones_let_it_grow_by_quarters_to_where_it_began() -> None:
    assert sizes(PageLimit(), PAGE_BYTES + 1, PAGE_BYTES, PAGE_BYTES // 2, 10 * MIB) == [250, 250, 250, 250]
    assert sizes(PageLimit(10), PAGE_BYTES + 1, *[MIB] * 4) == [5, 7, 9, 10, 10]


def test_silence_stops_at_a_limit_that_bytes_may_pass() -> None:
    assert sizes(PageLimit(), *[SILENCE] * 6)[-1] == PAGE_LIMIT_SLOW
    assert sizes(PageLimit(), *[TOO_LARGE] * 9)[-1] == 1
    assert sizes(PageLimit(2), SILENCE, TOO_LARGE, SILENCE) == [2, 1, 1]


@pytest.mark.parametrize("status", [403, 410, 429, 500, 503])
def test_refusal_for_another_reason_says_nothing_about_the_size(status: int) -> None:
    limit = PageLimit()
    assert not limit.page_was_refused(problem_of(status, verb="list", resource="pods"))
    assert limit.value == PAGE_LIMIT


def test_page_of_unknown_size_is_taken_for_small() -> None:
    assert sizes(PageLimit(10), TOO_LARGE, 0) == [5, 7]
