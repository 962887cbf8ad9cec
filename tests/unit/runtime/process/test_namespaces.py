"""Which namespaces a process serves: one that is deleted holds nobody else back, and one that may not be read is waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.kube.transport import NAMESPACES, Resource
from staticgroup.runtime.process.namespaces import LOOK_EVERY_S, serving, there, until_others
from staticgroup.runtime.process.settings import Settings

WANTED = ("team-a", "team-b")


@dataclass
class ApiServer:
    """Answers what is asked of namespaces: which there are, and where nothing may be read.

    Parameters
    ----------
    statuses: of the answers to a GET of a namespace, where they are others.
    hidden: kinds that may not be read in any namespace.
    """

    existing: set[str] = field(default_factory=lambda: set(WANTED))
    forbidden: set[str] = field(default_factory=set)
    hidden: frozenset[str] = frozenset()
    statuses: dict[str, int] = field(default_factory=dict)
    slept_s: float = 0.0
    happens: dict[int, Any] = field(default_factory=dict)
    looks: int = 0

    async def call(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", query: Any = None
    ) -> dict[str, Any] | KubeProblem:
        label = resource.label()
        if resource == NAMESPACES:
            status = self.statuses.get(name, 0 if name in self.existing else 404)
            return problem_of(status, verb=verb, resource=label) if status else {"metadata": {"name": name}}
        # A Role in a namespace is gone with it, and an API server looks at rights first.
        is_allowed = namespace in self.existing - self.forbidden and resource.plural not in self.hidden
        return {"items": []} if is_allowed else problem_of(403, verb=verb, resource=label, namespace=namespace)

    async def sleep(self, seconds: float) -> None:
        self.looks += 1
        self.slept_s += seconds
        change = self.happens.get(self.looks)
        if change is not None:
            change()
        if self.looks > 20:
            raise TimeoutError("nothing was other for ten minutes")

    async def wait(self, served: tuple[str, ...]) -> float:
        await until_others(self, WANTED, served, sleep=self.sleep)  # type: ignore[arg-type]
        return self.slept_s


async def test_what_does_not_exist_is_not_served() -> None:
    settings = Settings(identity="one", namespace="ops", watch_namespaces=WANTED)
    server = ApiServer(existing={"team-b"})
    found = await serving(server, settings)  # type: ignore[arg-type]
    assert (found.watch_namespaces, found.gone_namespaces) == (("team-b",), ("team-a",))


@pytest.mark.parametrize("status", [403, 500, 503])
@pytest.mark.parametrize("asked", [("team-b",), WANTED])
async def test_no_answer_and_a_missing_right_say_nothing(status: int, asked: tuple[str, ...]) -> None:
    """An operator that was installed by an older chart may not ask."""
    server = ApiServer(statuses=dict.fromkeys(asked, status))
    assert await there(server, WANTED) == WANTED  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await server.wait(WANTED)


async def test_none_at_all_is_not_taken_for_all() -> None:
    """Without a namespace an operator serves the whole cluster, so it goes on waiting for those that it was told."""
    server = ApiServer(existing=set())
    assert await there(server, WANTED) == WANTED  # type: ignore[arg-type]
    assert await there(server, ()) == ()  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await server.wait(WANTED)


async def test_a_process_ends_when_a_namespace_is_gone_that_it_serves() -> None:
    server = ApiServer(happens={3: lambda: server.existing.remove("team-b")})
    assert await server.wait(WANTED) == 4 * LOOK_EVERY_S


async def test_one_answer_alone_that_it_is_gone_is_not_believed() -> None:
    server = ApiServer(happens={3: lambda: server.existing.remove("team-b"), 4: lambda: server.existing.add("team-b")})
    with pytest.raises(TimeoutError):
        await server.wait(WANTED)


async def test_a_process_ends_when_a_namespace_can_be_read_again_and_not_before() -> None:
    """It is made again, and its Role only by the next upgrade of the chart."""
    server = ApiServer(existing={"team-a"}, forbidden={"team-b"})
    server.happens = {2: lambda: server.existing.add("team-b"), 6: server.forbidden.clear}
    assert await server.wait(("team-a",)) == 7 * LOOK_EVERY_S


@pytest.mark.parametrize("hidden", ["pods", "statefulsets", "staticgroups", "kafkaconnections"])
async def test_a_namespace_of_which_not_everything_can_be_read_ends_no_process(hidden: str) -> None:
    """Others may let all service accounts view the pods of a namespace, and a process that begins with it would wait for the rest."""
    server = ApiServer(existing={"team-a"}, hidden=frozenset({hidden}))
    server.happens = {2: lambda: server.existing.add("team-b")}
    with pytest.raises(TimeoutError):
        await server.wait(("team-a",))


async def test_when_the_last_one_is_gone_too_it_ends_and_waits_for_any() -> None:
    last = ApiServer(existing={"team-a"})
    last.happens = {2: last.existing.clear}
    assert await last.wait(("team-a",)) == 3 * LOOK_EVERY_S
    none = ApiServer(existing=set(), happens={2: lambda: none.existing.add("team-a")})
    assert await none.wait(await there(none, WANTED)) == 3 * LOOK_EVERY_S  # type: ignore[arg-type]
