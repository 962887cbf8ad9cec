"""The kopf side registers event handlers only: nothing of it ever writes on an object or keeps one from deletion."""

from __future__ import annotations

import inspect
from typing import Any

import kopf
import pytest

from staticgroup.core.workload import WorkloadView
from staticgroup.runtime.handlers import register


class Told:
    """What the handlers tell the operator."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, bool]] = []

    def static_group_changed(self, body: dict[str, Any], *, is_deleted: bool) -> None:
        self.calls.append(("staticgroups", body, is_deleted))

    def kafka_connection_changed(self, body: dict[str, Any], *, is_deleted: bool) -> None:
        self.calls.append(("kafkaconnections", body, is_deleted))

    def workload_changed(self, view: WorkloadView, *, is_deleted: bool) -> None:
        self.calls.append(("statefulsets", view, is_deleted))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def registry(told: Told) -> kopf.OperatorRegistry:
    made = kopf.OperatorRegistry()
    register(made, told)  # type: ignore[arg-type]  # the three methods the handlers call
    return made


def test_no_handler_kind_that_would_add_a_finalizer_or_an_annotation_is_registered(
    registry: kopf.OperatorRegistry,
) -> None:
    """Timers, daemons and change handlers make kopf write finalizers; indexes are quadratic (kopf #1172, measured)."""
    assert registry._spawning.get_all_handlers() == []
    assert registry._changing.get_all_handlers() == []
    assert registry._indexing.get_all_handlers() == []
    assert registry._webhooks.get_all_handlers() == []


def test_events_of_exactly_three_resources_are_watched(registry: kopf.OperatorRegistry) -> None:
    watched = {
        (h.selector.group, h.selector.plural or h.selector.any_name)
        for h in registry._watching.get_all_handlers()
        if h.selector
    }
    assert watched == {
        ("staticgroup.io", "staticgroups"),
        ("staticgroup.io", "kafkaconnections"),
        ("apps", "statefulsets"),
    }


def test_every_handler_is_a_coroutine_because_others_take_threads(registry: kopf.OperatorRegistry) -> None:
    handlers = [*registry._watching.get_all_handlers(), *registry._activities.get_all_handlers()]
    assert len(handlers) == 5
    assert all(inspect.iscoroutinefunction(h.fn) for h in handlers)


def handler(registry: kopf.OperatorRegistry, plural: str) -> Any:
    (found,) = (
        h
        for h in registry._watching.get_all_handlers()
        if h.selector and plural in (h.selector.plural, h.selector.any_name)
    )
    return found.fn


@pytest.mark.parametrize("plural", ["staticgroups", "kafkaconnections"])
@pytest.mark.parametrize(
    ("event", "is_deleted"), [("ADDED", False), ("MODIFIED", False), (None, False), ("DELETED", True)]
)
async def test_event_is_passed_on_as_it_is(
    registry: kopf.OperatorRegistry, told: Told, plural: str, event: str | None, is_deleted: bool
) -> None:
    body = {"metadata": {"namespace": "shop", "name": "orders"}}
    assert await handler(registry, plural)(event={"type": event, "object": body}) is None
    assert told.calls == [(plural, body, is_deleted)]


async def test_stateful_set_is_parsed_at_the_edge(registry: kopf.OperatorRegistry, told: Told) -> None:
    body = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "w1", "generation": 2},
        "spec": {"replicas": 3, "ordinals": {"start": 5}, "template": {"spec": {"containers": [{"name": "app"}]}}},
        "status": {"observedGeneration": 2, "replicas": 3},
    }
    await handler(registry, "statefulsets")(event={"type": "ADDED", "object": body})
    ((_, view, is_deleted),) = told.calls
    assert (view.replicas, view.start, is_deleted) == (3, 5, False)


async def test_stateful_set_that_cannot_be_read_is_logged_and_changes_nothing(
    registry: kopf.OperatorRegistry, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    await handler(registry, "statefulsets")(event={"type": "ADDED", "object": {"metadata": {"name": "web"}}})
    assert told.calls == []
    assert "StatefulSet cannot be read" in caplog.text


async def test_startup_turns_off_what_would_write_or_need_more_rights(registry: kopf.OperatorRegistry) -> None:
    (configure,) = (h.fn for h in registry._activities.get_all_handlers() if h.fn.__name__ == "configure")
    settings = kopf.OperatorSettings()
    await configure(settings=settings)
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.persistence.finalizer == "staticgroup.io/finalizer"
