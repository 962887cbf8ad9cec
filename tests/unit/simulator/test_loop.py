"""The virtual loop: time that jumps, an order that comes from the seed, processes that die and freeze."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from simulator.engine.loop import Deadlock, OutOfTime, Process, SimulationError, current_process, run, simulation

Log = list[Any]


def simulated(main: Callable[[], Coroutine[Any, Any, Any]], *, seed: object = 1, **options: Any) -> Any:
    return run(main, seed=seed, **options)


async def ticking(log: Log, name: str, *, period_s: float = 1.0) -> None:
    """Note the time every period, and a cleanup at the end."""
    try:
        while True:
            await asyncio.sleep(period_s)
            log.append((name, simulation().time()))
    finally:
        log.append((name, "cleanup"))


def test_an_hour_costs_no_real_time() -> None:
    begun_s = time.perf_counter()

    async def main() -> float:
        await asyncio.sleep(3600)
        return simulation().time()

    assert simulated(main) == 3600
    assert time.perf_counter() - begun_s < 1


def test_asyncio_primitives_work_in_virtual_time() -> None:
    """timeout, TaskGroup, Queue, Event, shield and wait_for keep their documented meaning."""

    async def main() -> Log:
        log: Log = []
        queue: asyncio.Queue[int] = asyncio.Queue()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(60)
        log.append(simulation().time())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(3))
            tasks.create_task(queue.put(7))
            log.append(await queue.get())
        log.append(simulation().time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 2)
        log.append(simulation().time())
        return log

    assert simulated(main) == [5, 7, 8, 10]


@pytest.mark.parametrize("is_fifo", [True, False])
def test_order_at_one_instant_comes_from_the_seed_alone(is_fifo: bool) -> None:
    async def main() -> Log:
        log: Log = []
        for n in range(8):
            simulation().call_soon(log.append, n)
        await asyncio.sleep(2)
        return log

    orders = {tuple(simulated(main, seed=seed, is_fifo=is_fifo)) for seed in range(20)}
    assert tuple(simulated(main, seed=3, is_fifo=is_fifo)) == tuple(simulated(main, seed=3, is_fifo=is_fifo))
    if is_fifo:
        assert orders == {tuple(range(8))}
    else:
        assert len(orders) > 15


def test_sets_of_tasks_have_the_same_order_in_every_process() -> None:
    """TaskGroup cancels its tasks in the order of a set, which would depend on memory addresses."""

    async def main() -> list[int]:
        tasks = [asyncio.create_task(asyncio.sleep(1)) for _ in range(40)]
        numbers = {task: n for n, task in enumerate(tasks)}
        order = [numbers[task] for task in set(tasks)]
        hashes = [hash(task) for task in tasks]
        assert hashes == list(range(hashes[0], hashes[0] + 40))
        return order

    assert simulated(main) == simulated(main)


def test_killed_process_runs_nothing_any_more_not_even_its_cleanup() -> None:
    """SIGKILL: no `finally`, no `except`, no callback."""

    async def main() -> Log:
        log: Log = []
        process = simulation().process("operator")
        process.start(ticking(log, "a"))
        process.start(ticking(log, "b"))
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)
        return list(log)

    log = simulated(main)
    assert sorted(log) == [("a", 1.0), ("a", 2.0), ("b", 1.0), ("b", 2.0)]


def test_crash_at_each_resumption_in_turn_cuts_the_life_one_step_later() -> None:
    """Exhaustive crashes need every await to be counted, and one life to be repeatable up to the crash."""

    async def life(log: Log) -> None:
        for n in range(3):
            log.append(n)
            await asyncio.sleep(1)
        log.append("done")

    def lived(crash_at: int) -> tuple[Log, int, bool]:
        async def main() -> tuple[Log, int, bool]:
            log: Log = []
            process = simulation().process("operator")
            process.crash_at_resumption = crash_at
            process.start(life(log))
            await asyncio.sleep(10)
            return list(log), process.resumptions, process.is_dead

        found: tuple[Log, int, bool] = simulated(main)
        return found

    assert lived(0) == ([0, 1, 2, "done"], 4, False)
    assert [lived(n)[0] for n in (1, 2, 3, 4)] == [[], [0], [0, 1], [0, 1, 2]]
    assert all(lived(n)[2] for n in (1, 2, 3, 4))
    assert not lived(5)[2]


def test_a_death_is_reported_to_the_world_once() -> None:
    async def main() -> Log:
        deaths: Log = []
        process = simulation().process("operator")
        process.on_death.append(lambda: deaths.append((simulation().time(), current_process())))
        await asyncio.sleep(1)
        process.kill()
        process.kill()
        await asyncio.sleep(1)
        return deaths

    assert simulated(main) == [(1, None)]


def test_what_a_process_sent_survives_it() -> None:
    async def sender(log: Log) -> None:
        simulation().world_call_later(1, log.append, "arrived")
        simulation().call_later(1, log.append, "own timer")
        await asyncio.sleep(60)

    async def main() -> Log:
        log: Log = []
        process = simulation().process("operator")
        process.start(sender(log))
        await asyncio.sleep(0.5)
        process.kill()
        await asyncio.sleep(5)
        return list(log)

    assert simulated(main) == ["arrived"]


def test_frozen_process_goes_on_late_and_loses_nothing() -> None:
    """SIGSTOP and SIGCONT: a timer that came due meanwhile fires when the process goes on."""

    async def main() -> Log:
        log: Log = []
        process = simulation().process("operator")
        process.start(ticking(log, "a", period_s=2))
        await asyncio.sleep(1)
        process.freeze()
        await asyncio.sleep(9)
        assert not log
        process.thaw()
        await asyncio.sleep(2.5)
        return list(log)

    assert simulated(main) == [("a", 10.0), ("a", 12.0)]


def test_tasks_and_timers_of_a_process_belong_to_it() -> None:
    async def child(found: list[Process | None]) -> None:
        found.append(current_process())

    async def parent(found: list[Process | None]) -> None:
        await asyncio.gather(child(found), asyncio.create_task(child(found)))
        simulation().call_later(1, lambda: found.append(current_process()))

    async def main() -> list[str]:
        found: list[Process | None] = []
        process = simulation().process("operator")
        process.start(parent(found))
        process.call(lambda: found.append(current_process()))
        await asyncio.sleep(2)
        assert current_process() is None
        return [p.name if p else "" for p in found]

    assert simulated(main) == ["operator"] * 4


def test_failure_of_the_world_fails_the_simulation() -> None:
    def broken() -> None:
        raise RuntimeError("the model is wrong")

    async def main() -> None:
        simulation().world_call_later(1, broken)
        await asyncio.sleep(10)

    with pytest.raises(RuntimeError, match="the model is wrong"):
        simulated(main)


def test_failure_of_a_process_is_its_own() -> None:
    async def broken() -> None:
        raise RuntimeError("bug in the operator")

    async def main() -> str:
        task = simulation().process("operator").start(broken())
        await asyncio.sleep(1)
        return str(task.exception())

    assert simulated(main) == "bug in the operator"


def test_end_without_result_is_an_error() -> None:
    async def for_ever() -> None:
        await asyncio.sleep(1e6)

    async def nothing() -> None:
        await asyncio.get_running_loop().create_future()

    async def spinning() -> None:
        while True:  # noqa: ASYNC110 - it is what must be caught
            await asyncio.sleep(0)

    async def threaded() -> None:
        await asyncio.to_thread(time.monotonic)

    with pytest.raises(OutOfTime):
        simulated(for_ever, until_s=100)
    with pytest.raises(Deadlock):
        simulated(nothing)
    with pytest.raises(SimulationError, match="time stands still"):
        simulated(spinning)
    with pytest.raises(SimulationError, match="threads"):
        simulated(threaded)
