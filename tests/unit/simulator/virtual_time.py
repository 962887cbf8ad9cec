"""Tests that are stories in virtual time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from simulator.engine.loop import run

Test = Callable[..., Coroutine[Any, Any, None]]
Decorator = Callable[[Test], Callable[..., None]]


def simulate(main: Callable[[], Coroutine[Any, Any, Any]], seed: object = 1) -> Any:
    """Run a story and return its result."""
    return run(main, seed=seed, until_s=10_000.0)


def simulated(test: Test) -> Callable[..., None]:
    """Let a test be a story."""

    @wraps(test)
    def played(**parameters: Any) -> None:
        simulate(lambda: test(**parameters))

    return played


def told_by(play: Callable[..., object]) -> Callable[..., Decorator]:
    """Return the decorator of tests for `play(story, **options)`, where a story takes a world.

    Its names are options that the parameters of the same name of the test set.
    """

    def options_of(*names: str, **options: Any) -> Decorator:
        def decorate(test: Test) -> Callable[..., None]:
            @wraps(test)
            def played(**parameters: Any) -> None:
                own = {name: parameters[name] for name in names}
                play(lambda world: test(world, **parameters), **options, **own)

            _, *others = inspect.signature(test).parameters.values()
            played.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
            return played

        return decorate

    return options_of
