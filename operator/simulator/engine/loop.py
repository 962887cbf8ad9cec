"""Run asyncio code in virtual time, repeatably, and kill or freeze parts of it as an operating system does.

When nothing is ready the clock jumps to the next timer, so ten minutes of a quiet world cost nothing. Callbacks that
are due at the same instant run in an order drawn from the seed: no code may rely on one, and every order gets tried.

A *process* is the part of the program that lives and dies together, such as one operator. It is recognised by its
context: whatever its tasks start belongs to it. A killed process simply runs no further, so no `finally` and no
`except` of it does anything to the world, as after SIGKILL. What must survive the death of a caller, such as a
request that is already on the wire, is scheduled by `world_call_later`.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from random import Random
from typing import Any, Final, TypeVar

from .handles import Handle, Timer, close

T = TypeVar("T")
BATCHES_AT_ONE_INSTANT_MAX: Final = 100_000
TEARDOWN_BATCHES_MAX: Final = 20_000


class SimulationError(Exception):
    """The simulated world is broken, as opposed to what is simulated in it."""


class OutOfTime(SimulationError):
    """The main coroutine has not ended by the given virtual time."""


class Deadlock(SimulationError):
    """Nothing is ready, no timer is set, and the main coroutine has not ended."""


class Process:
    """One process of the simulation; made by `SimulationLoop.process`.

    Attributes
    ----------
    resumptions: how often a task of this process was started or resumed after an await.
    crash_at_resumption: the process is killed instead of its n-th resumption, counted from 1; 0: never.
    on_death: called once, in the world, when the process was killed.
    """

    def __init__(self, loop: SimulationLoop, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.resumptions = 0
        self.crash_at_resumption = 0
        self.on_death: list[Callable[[], None]] = []
        self._loop = loop
        self._held: list[asyncio.Handle] = []
        self._graveyard: list[object] = []
        self.context = Context()
        self.context.run(_PROCESS.set, self)

    @property
    def is_running(self) -> bool:
        """True unless it is dead or frozen."""
        return not self.is_dead and not self.is_frozen

    def start(self, main: Coroutine[Any, Any, T], *, name: str = "") -> asyncio.Task[T]:
        """Run a coroutine as a task of this process."""
        return self._loop.create_task(main, name=name or self.name, context=self.context.copy())

    def call(self, callback: Callable[..., T], *arguments: object) -> T:
        """Call a function inside this process at once, so that all it starts belongs to the process."""
        return self.context.copy().run(callback, *arguments)

    def kill(self) -> None:
        """End the process without any cleanup, like SIGKILL; what it has sent stays on the wire."""
        if self.is_dead:
            return
        self.is_dead = True
        # A task that nothing refers to is closed by the garbage collector, which would run its `finally` blocks.
        self._graveyard += [t for t in asyncio.all_tasks(self._loop) if getattr(t, "process", None) is self]
        self._graveyard += self._held
        self._held.clear()
        for callback in self.on_death:
            self._loop.call_soon(callback, context=self._loop.world_context)

    def freeze(self) -> None:
        """Stop the process where it is, like SIGSTOP: time goes on without it."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Let a frozen process go on; timers that came due meanwhile fire now, late."""
        self.is_frozen = False
        for handle in self._held:
            self._loop.add_ready(handle)
        self._held.clear()

    def release(self, loop: SimulationLoop) -> None:
        """Give back every callback that death or frost has kept, so that each task can come to its end."""
        for handle in (*self._held, *(h for h in self._graveyard if isinstance(h, asyncio.Handle))):
            loop.add_ready(handle)
        self._held.clear()

    def takes(self, handle: asyncio.Handle) -> bool:
        """Decide whether a callback of this process may run now; a crash or freeze keeps it back."""
        if self.is_dead:
            self._graveyard.append(handle)
            return False
        if self.is_frozen:
            self._held.append(handle)
            return False
        if isinstance(getattr(handle._callback, "__self__", None), asyncio.Task):  # type: ignore[attr-defined]
            self.resumptions += 1
            if self.resumptions == self.crash_at_resumption:
                self._graveyard.append(handle)
                self.kill()
                return False
        return True


_PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


def current_process() -> Process | None:
    """Return the process whose code runs now; None for the world itself."""
    return _PROCESS.get()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where in memory it lies."""

    def __init__(
        self, coro: Any, *, loop: SimulationLoop, number: int, name: str | None, context: Context | None
    ) -> None:
        # Needed before the base class registers the task in a set.
        self._number = number
        super().__init__(coro, loop=loop, name=name, context=context)
        self.process = context.get(_PROCESS) if context is not None else _PROCESS.get()

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(asyncio.BaseEventLoop):
    """An event loop whose clock is a number.

    Parameters
    ----------
    seed: of the order of callbacks that are due at the same instant.
    is_fifo: run them in the order in which asyncio would instead.

    Attributes
    ----------
    world_context: context of everything that belongs to no process.
    step_hooks: called after each batch of callbacks, for oracles that judge after every step.
    """

    def __init__(self, *, seed: object, is_fifo: bool = False) -> None:
        super().__init__()
        self.world_context = Context()
        self.step_hooks: list[Callable[[], None]] = []
        self.is_closing = False
        self.until_s = float("inf")
        self._now_s = 0.0
        self._order = Random(f"{seed}/order")
        self._is_fifo = is_fifo
        self._task_count = 0
        self._batches_now = 0
        self._failure: BaseException | None = None
        self._processes: list[Process] = []
        self.set_exception_handler(_take_exception)

    # -- what simulated code calls

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self._now_s

    def process(self, name: str) -> Process:
        """Make a process; its tasks are started by `Process.start`."""
        made = Process(self, name)
        self._processes.append(made)
        return made

    def world_call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        """Call a function later on behalf of the world: the call survives the death of the process that asks for it."""
        return self.call_at(self._now_s + delay_s, callback, *arguments, context=self.world_context)

    def spawn(self, main: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine as a task of the world; if it fails, the simulation fails."""
        task = self.create_task(main, name=name, context=self.world_context.copy())
        task.add_done_callback(self._world_task_ended, context=self.world_context)
        return task

    def _world_task_ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End the simulation with an error of the world; the first one is reported."""
        if self._failure is None and not self.is_closing:
            self._failure = error
            self.stop()

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Make a task that knows its process and hashes by its number."""
        self._check_closed()  # type: ignore[attr-defined]
        self._task_count += 1
        return _Task(
            coro, loop=self, number=self._task_count, name=None if name is None else str(name), context=context
        )

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Put a callback among those that are due, as asyncio does, without its checks of threads and debugging."""
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Put a callback among those that will be due, likewise."""
        timer = Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, timer))  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refuse: a thread would bring real time and real order in."""
        raise SimulationError("threads do not exist in a simulation")

    # -- the machine

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread to wake, and the loop finds what a dropped generator schedules."""

    def add_ready(self, handle: asyncio.Handle) -> None:
        """Put a callback that was held back among those that are due."""
        self._ready.append(handle)  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if scheduled and (scheduled[0][1]._cancelled or 200 < len(scheduled) < self._timer_cancelled_count * 2):
            self._drop_cancelled_timers(scheduled)
        if not ready:
            self._go_on(scheduled)
        while scheduled and scheduled[0][0] <= self._now_s:
            timer = heapq.heappop(scheduled)[1]
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        self._batches_now += 1
        if self._batches_now > BATCHES_AT_ONE_INSTANT_MAX:
            raise SimulationError(f"time stands still at {self._now_s:.3f} s: something runs without ever waiting")
        batch = list(ready)
        ready.clear()
        if len(batch) > 1 and not self._is_fifo:
            self._shuffle(batch)
        for handle in batch:
            if not handle._cancelled:
                process = handle._context.get(_PROCESS)
                if process is None or self.is_closing or process.takes(handle):
                    handle._run()
        for hook in self.step_hooks:
            hook()

    def _go_on(self, scheduled: list[Any]) -> None:
        """Let time pass until the next timer is due."""
        if not scheduled:
            raise Deadlock(f"nothing can happen any more at {self._now_s:.3f} s")
        due_s = scheduled[0][0]
        if due_s > self.until_s:
            raise OutOfTime(f"not done at {self.until_s:.3f} s")
        if due_s > self._now_s:
            self._now_s = due_s
            self._batches_now = 0

    def _shuffle(self, batch: list[asyncio.Handle]) -> None:
        draw = self._order.random
        for last in range(len(batch) - 1, 0, -1):
            other = int(draw() * (last + 1))
            batch[last], batch[other] = batch[other], batch[last]

    def _drop_cancelled_timers(self, scheduled: list[Any]) -> None:
        while scheduled and scheduled[0][1]._cancelled:
            heapq.heappop(scheduled)[1]._scheduled = False
        if len(scheduled) > 200 and self._timer_cancelled_count * 2 > len(scheduled):
            for _, timer in scheduled:
                timer._scheduled = not timer._cancelled
            scheduled[:] = [entry for entry in scheduled if not entry[1]._cancelled]
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0

    _timer_cancelled_count: int

    def run_main(self, main: Callable[[], Coroutine[Any, Any, T]], until_s: float) -> T:
        """Run the main coroutine to its end; see `run`."""
        self.until_s = until_s
        task = self.spawn(main(), name="main")
        task.add_done_callback(lambda _: self.stop(), context=self.world_context)
        self.run_forever()
        if self._failure is not None:
            raise self._failure
        if not task.done():
            raise SimulationError("the simulation was stopped")
        return task.result()

    def finish(self) -> None:
        """End every task and close; processes run their cleanup now, cut off from the world by `is_closing`."""
        self.is_closing = True
        self.step_hooks.clear()
        self.until_s = float("inf")
        for process in self._processes:
            process.release(self)
        pending = asyncio.all_tasks(self)
        for task in sorted(pending, key=hash):
            task.cancel()
        if pending:
            gathered = asyncio.gather(*pending, return_exceptions=True)
            is_over = False
            # Later it would stop the last steps below, and hide what the simulation failed with.
            gathered.add_done_callback(lambda _: None if is_over else self.stop())
            try:
                self._batches_now = BATCHES_AT_ONE_INSTANT_MAX - TEARDOWN_BATCHES_MAX
                self.run_forever()
            except SimulationError:
                gathered.cancel()
            is_over = True
        for task in asyncio.all_tasks(self):
            close(task)
        self.run_until_complete(self.shutdown_asyncgens())
        for process in self._processes:
            process._graveyard.clear()
        self.close()


def _take_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take what asyncio could not hand to anybody: in the world it is a fault, in a process it is the process' own."""
    assert isinstance(loop, SimulationLoop)
    error = context.get("exception")
    task = context.get("task") or context.get("future")
    handle = context.get("handle")
    owner = getattr(task, "process", None) or (handle._context.get(_PROCESS) if handle is not None else None)
    if owner is None and error is not None:
        loop.fail(error)


def run(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: object, until_s: float = float("inf"), is_fifo: bool = False
) -> T:
    """Run a simulation.

    Parameters
    ----------
    main: makes the main coroutine; inside, `simulation()` is the loop.
    seed: anything with a stable `str`.
    until_s: virtual seconds.

    Returns
    -------
    What the main coroutine returned.

    Raises
    ------
    OutOfTime, Deadlock, SimulationError: When it did not return; and every exception of a task or callback of the
        world.
    """
    loop = SimulationLoop(seed=seed, is_fifo=is_fifo)
    collects = gc.isenabled()
    # The collector closes forgotten generators at moments that depend on memory, not on the seed.
    gc.disable()
    try:
        return loop.run_main(main, until_s)
    finally:
        loop.finish()
        if collects:
            gc.enable()


def simulation() -> SimulationLoop:
    """Return the running simulation loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulationLoop), "this code runs in virtual time only"
    return loop
