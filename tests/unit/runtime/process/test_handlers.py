"""The kopf side watches nothing and writes on nothing; it starts, logs in, and never gives up on an API server."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable

import kopf
import pytest

from staticgroup.runtime.process.handlers import register


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    made = kopf.OperatorRegistry()
    register(made)
    return made


def test_no_handler_of_any_resource_is_registered(registry: kopf.OperatorRegistry) -> None:
    """kopf's LIST after a 410 hides deletions; timers, daemons and change handlers write finalizers (kopf #1172)."""
    assert registry._watching.get_all_handlers() == []
    assert registry._spawning.get_all_handlers() == []
    assert registry._changing.get_all_handlers() == []
    assert registry._indexing.get_all_handlers() == []
    assert registry._webhooks.get_all_handlers() == []


def test_every_handler_is_a_coroutine_because_others_take_threads(registry: kopf.OperatorRegistry) -> None:
    handlers = registry._activities.get_all_handlers()
    assert len(handlers) == 2
    assert all(inspect.iscoroutinefunction(h.fn) for h in handlers)


async def configured(registry: kopf.OperatorRegistry) -> kopf.OperatorSettings:
    (configure,) = (h.fn for h in registry._activities.get_all_handlers() if h.fn.__name__ == "configure")
    settings = kopf.OperatorSettings()
    await configure(settings=settings)
    return settings


async def test_startup_turns_off_what_would_write_or_need_more_rights(registry: kopf.OperatorRegistry) -> None:
    settings = await configured(registry)
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert settings.persistence.finalizer == "staticgroup.io/finalizer"


async def test_a_request_of_kopf_is_tried_again_for_as_long_as_it_takes(registry: kopf.OperatorRegistry) -> None:
    """Each request begins a row of its own, and no delay is longer than the end of an outage may go unnoticed."""
    backoffs = (await configured(registry)).networking.error_backoffs
    assert isinstance(backoffs, Iterable)
    for _ in range(2):
        delays = list(itertools.islice(backoffs, 1000))
        assert delays[0] < 1
        assert len(delays) == 1000
        assert max(delays) <= 5
