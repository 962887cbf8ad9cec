"""What the restart of one worker does to all tasks, by the tasks' own lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.connect import ticks
from support.connect.workers import ConnectGroup, GroupSettings, Worker
from support.devcluster.kafka_log import GroupLog, now_ms
from support.scene.figures import record

NAMES = ("w-0", "w-1", "w-2")
CONNECTORS = ("a", "b", "c")
TASKS = 4
TASK_COUNT = len(CONNECTORS) * TASKS


@contextmanager
def running(bootstrap: str, settings: GroupSettings, folder: Path) -> Iterator[ConnectGroup]:
    """Three workers with twelve ticking tasks at rest, gone afterwards."""
    group = ConnectGroup(settings, bootstrap, folder)
    try:
        group.start(*NAMES)
        for connector in CONNECTORS:
            group.configure(connector, TASKS)
        group.await_rest(TASK_COUNT, deadline_s=120)
        yield group
    finally:
        group.down()


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """What the restart of one worker did; times in s, of tasks by their own ticks."""

    worker: str
    led: bool
    generations: int
    restart_s: float
    own_down_s: float
    others_stopped: int
    moved: int


def roll(
    group: ConnectGroup, name: str, group_log: GroupLog, *, task_count: int, end: Callable[[Worker], None] = Worker.stop
) -> Roll:
    """Restart one worker and measure what became of all tasks.

    Parameters
    ----------
    group_log: what the coordinator wrote: how many rounds there were.
    end: ends its process; a kubelet's SIGTERM if nothing else is given.
    """
    before, led = group.await_rest(task_count), group.leader() == name
    began_ms, worker = now_ms(), group.workers[name]
    end(worker)
    worker.start()
    worker.await_up()
    restart_ms = now_ms() - began_ms
    group.await_heartbeats()
    after = group.await_rest(task_count, deadline_s=120)
    ended_ms, lines = now_ms(), group.lines()
    gaps = ticks.gaps_ms(lines, began_ms, ended_ms)
    return Roll(
        worker=name, led=led, generations=group_log.count_rebalances(group.settings.group_id, since_ms=began_ms),
        restart_s=restart_ms / 1000,
        own_down_s=max((gaps[task] for task, where in before.items() if where == name), default=0) / 1000,
        others_stopped=len(ticks.stopped(lines, began_ms, ended_ms, but=name)),
        moved=sum(after[task] != where for task, where in before.items()),
    )  # fmt: skip


def record_roll(name: str, measured: Roll) -> None:
    """Record the figures of a restart."""
    record(
        f"{name}, {'leader' if measured.led else 'follower'} restarted", restart_s=measured.restart_s,
        generations=measured.generations, own_tasks_down_s=measured.own_down_s, others_stopped=measured.others_stopped,
        moved=measured.moved,
    )  # fmt: skip


def assert_quiet(measured: Roll, generations: int, start_s: float = 2) -> None:
    """Assert that no other worker noticed the restart; `start_s` is how long its tasks may take besides."""
    assert measured.generations <= generations, measured
    assert measured.others_stopped == 0, measured
    assert measured.moved == 0, measured
    assert 0 < measured.own_down_s <= measured.restart_s + start_s, measured
