"""kopf brings events of objects by `on.event` alone, which writes nothing on them."""

from __future__ import annotations

import inspect

import kopf
import pytest

from staticgroup.kube.transport import connect
from staticgroup.runtime.handlers import register
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer


async def registered(*namespaces: str) -> kopf.OperatorRegistry:
    transport = connect(FakeApiServer().configuration())
    registry = kopf.OperatorRegistry()

    async def end() -> None:
        pass

    register(registry, Operator(Settings(watch_namespaces=namespaces), transport), end=end)
    await transport.close()
    return registry


OF_NAMESPACES = {"staticgroups", "kafkaconnections", "statefulsets", "nodes"}


@pytest.mark.parametrize(
    ("namespaces", "followed"),
    [((), OF_NAMESPACES | {"clusterkafkaconnections", "namespaces"}), (("shop",), OF_NAMESPACES)],
)
async def test_objects_have_event_handlers_only(namespaces: tuple[str, ...], followed: set[str]) -> None:
    """Timers, daemons and change handlers write finalizers and annotations; an index takes time in the square of the objects."""
    registry = await registered(*namespaces)
    assert {h.selector.any_name for h in registry._watching.get_all_handlers() if h.selector is not None} == followed
    assert registry._spawning.get_all_handlers() == []
    assert registry._changing.get_all_handlers() == []
    assert registry._indexing.get_all_handlers() == []
    assert registry._webhooks.get_all_handlers() == []


async def test_every_handler_is_a_coroutine_because_others_take_threads() -> None:
    registry = await registered()
    handlers = (*registry._activities.get_all_handlers(), *registry._watching.get_all_handlers())
    assert len(handlers) == 3 + 6
    assert all(inspect.iscoroutinefunction(h.fn) for h in handlers)


async def test_startup_turns_off_what_would_write_or_need_more_rights() -> None:
    (configure,) = (h.fn for h in (await registered())._activities.get_all_handlers() if h.fn.__name__ == "configure")
    settings = kopf.OperatorSettings()
    await configure(settings=settings)
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.persistence.finalizer == "staticgroup.io/finalizer"
    assert settings.persistence.diffbase_storage.build(body=kopf.Body({"spec": Uncopied()})) == {}


class Uncopied:
    """Part of an object that nobody copies."""

    def __deepcopy__(self, memo: object) -> Uncopied:
        raise AssertionError("copied")
