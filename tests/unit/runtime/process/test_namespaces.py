"""Which namespaces a process serves: one that is gone, or may not be read, costs itself alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.kube.transport import NAMESPACES, Resource
from staticgroup.runtime.process.namespaces import CHECK_EVERY_S, serving, there, until_others
from staticgroup.runtime.process.settings import Settings

WANTED = ("team-a", "team-b")
ALL = frozenset({"pods", "statefulsets", "staticgroups", "kafkaconnections"})


@dataclass
class ApiServer:
    """Answers what is asked of namespaces: which there are, and where nothing may be read.

    Parameters
    ----------
    statuses: by namespace and kind, of the answers to what is asked of it, where they are others.
    forbidden: by namespace, the kinds in it that may not be read.
    """

    existing: set[str] = field(default_factory=lambda: set(WANTED))
    forbidden: dict[str, frozenset[str]] = field(default_factory=dict)
    statuses: dict[tuple[str, str], int] = field(default_factory=dict)
    slept_s: float = 0.0
    happens: dict[int, Any] = field(default_factory=dict)
    reads: int = 0

    async def call(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", query: Any = None
    ) -> dict[str, Any] | KubeProblem:
        status = self.statuses.get((name or namespace, resource.plural))
        if status is None:
            status = self._status(resource, name or namespace)
        return {"items": []} if status == 200 else problem_of(status, verb=verb, resource=resource.label(), namespace=namespace)

    def _status(self, resource: Resource, namespace: str) -> int:
        if resource == NAMESPACES:
            return 200 if namespace in self.existing else 404
        # A Role in a namespace is gone with it, and an API server checks rights first.
        return 200 if namespace in self.existing and resource.plural not in self.forbidden.get(namespace, ()) else 403

    async def sleep(self, seconds: float) -> None:
        self.reads += 1
        self.slept_s += seconds
        change = self.happens.get(self.reads)
        if change is not None:
            change()
        if self.reads > 20:
            raise TimeoutError("nothing was other for ten minutes")

    async def wait(self, served: tuple[str, ...]) -> float:
        await until_others(self, WANTED, served, sleep=self.sleep)  # type: ignore[arg-type]
        return self.slept_s


async def test_what_does_not_exist_is_not_served() -> None:
    settings = Settings(identity="one", namespace="ops", watch_namespaces=WANTED)
    server = ApiServer(existing={"team-b"})
    found = await serving(server, settings)  # type: ignore[arg-type]
    assert found.watch_namespaces == ("team-b",)


@pytest.mark.parametrize("hidden", ["pods", "statefulsets", "staticgroups", "kafkaconnections"])
async def test_what_may_not_be_read_is_not_served(hidden: str) -> None:
    """Who administers a namespace deletes the operator's RoleBinding in it, or it is stuck in Terminating without its Role."""
    server = ApiServer(forbidden={"team-a": frozenset({hidden})})
    assert await there(server, WANTED) == ("team-b",)  # type: ignore[arg-type]


async def test_it_may_be_asked_for_no_namespace_and_serves_what_it_can_read() -> None:
    """An operator that was installed by an older chart may not ask."""
    server = ApiServer(statuses={(name, "namespaces"): 403 for name in WANTED}, forbidden={"team-b": ALL})
    assert await there(server, WANTED) == ("team-a",)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [0, 429, 500, 503])
@pytest.mark.parametrize("asked", ["namespaces", "pods"])
@pytest.mark.parametrize("busy", [("team-b",), WANTED])
async def test_an_api_server_that_is_busy_says_nothing(status: int, asked: str, busy: tuple[str, ...]) -> None:
    server = ApiServer(statuses={(name, asked): status for name in busy})
    assert await there(server, WANTED) == WANTED  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await server.wait(WANTED)
    with pytest.raises(TimeoutError):
        await server.wait(("team-a",))


async def test_none_at_all_is_not_taken_for_all() -> None:
    """Without a namespace an operator serves the whole cluster, so it goes on waiting for those that it is to serve."""
    for server in (ApiServer(existing=set()), ApiServer(forbidden=dict.fromkeys(WANTED, ALL))):
        assert await there(server, WANTED) == WANTED  # type: ignore[arg-type]
        assert await there(server, ()) == ()  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            await server.wait(WANTED)


async def test_a_process_ends_when_a_namespace_is_gone_that_it_serves() -> None:
    server = ApiServer(happens={3: lambda: server.existing.remove("team-b")})
    assert await server.wait(WANTED) == 4 * CHECK_EVERY_S


async def test_a_process_ends_when_it_may_not_read_a_namespace_any_more_that_it_serves(caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer(happens={3: lambda: server.forbidden.update({"team-b": ALL})})
    assert await server.wait(WANTED) == 4 * CHECK_EVERY_S
    (record,) = caplog.records
    assert (record.levelname, record.__dict__["namespace"], record.__dict__["found"]) == ("WARNING", "team-b", "it is gone, or may not be read")


async def test_a_namespace_that_is_gone_is_so_although_everything_may_be_read_in_it() -> None:
    """Rights in the whole cluster outlive it, and what is not there is listed as nothing."""
    everywhere = {("team-b", kind): 200 for kind in ALL}
    server = ApiServer(existing={"team-a"}, statuses=everywhere)
    assert await there(server, WANTED) == ("team-a",)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await server.wait(("team-a",))


@pytest.mark.parametrize("status", [403, 503])
async def test_a_namespace_is_not_served_again_before_somebody_says_that_it_is_there(status: int) -> None:
    server = ApiServer(statuses={("team-b", "namespaces"): status})
    with pytest.raises(TimeoutError):
        await server.wait(("team-a",))


async def test_one_answer_alone_that_it_is_gone_is_not_believed() -> None:
    server = ApiServer(happens={3: lambda: server.existing.remove("team-b"), 4: lambda: server.existing.add("team-b")})
    with pytest.raises(TimeoutError):
        await server.wait(WANTED)


async def test_a_process_ends_when_a_namespace_can_be_read_again_and_not_before(caplog: pytest.LogCaptureFixture) -> None:
    """It is made again, and its Role only by the next upgrade of the chart."""
    server = ApiServer(existing={"team-a"}, forbidden={"team-b": ALL})
    server.happens = {2: lambda: server.existing.add("team-b"), 6: server.forbidden.clear}
    assert await server.wait(("team-a",)) == 7 * CHECK_EVERY_S
    waited, ended = caplog.records
    assert (waited.__dict__["namespace"], ended.__dict__["found"]) == ("team-b", "can be read")


@pytest.mark.parametrize("hidden", ["pods", "statefulsets", "staticgroups", "kafkaconnections"])
async def test_a_namespace_of_which_not_everything_can_be_read_ends_no_process(hidden: str) -> None:
    """Others may let all service accounts view the pods of a namespace, and a process that begins with it would wait for the rest."""
    server = ApiServer(existing={"team-a"}, forbidden={"team-b": frozenset({hidden})})
    server.happens = {2: lambda: server.existing.add("team-b")}
    with pytest.raises(TimeoutError):
        await server.wait(("team-a",))


async def test_what_is_left_of_several_that_could_not_be_served_is_served() -> None:
    server = ApiServer(existing=set())
    served = await there(server, WANTED)  # type: ignore[arg-type]
    server.happens = {2: lambda: server.existing.add("team-a")}
    assert await server.wait(served) == 3 * CHECK_EVERY_S


async def test_when_the_last_one_is_gone_too_it_ends_and_waits_for_any() -> None:
    last = ApiServer(existing={"team-a"})
    last.happens = {2: last.existing.clear}
    assert await last.wait(("team-a",)) == 3 * CHECK_EVERY_S
