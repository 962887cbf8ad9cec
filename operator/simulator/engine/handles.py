"""Callbacks of a loop that is never debugged, made without the checks for it, which asyncio makes each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


class Handle(asyncio.Handle):
    """A callback that is due."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None


class Timer(asyncio.TimerHandle):
    """A callback for later; its place in the heap is its time, which is compared first and without Python code."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when, self._scheduled = when, True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __lt__(self, other: object) -> bool:
        return False


def close(task: asyncio.Task[Any]) -> None:
    """End a coroutine that waits even in its cleanup, so that the garbage collector need not."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    while coroutine is not None:
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it awaited something in a `finally`: go on to the next one
        return
