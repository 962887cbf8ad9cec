"""Kafka Connect workers in pods: rolled, scaled, killed for good, with the agent and as Connect comes.

The one idea: each cost is measured where it occurs: the tasks write when they ran and where, the brokers' log counts
rebalances, and the process table shows which processes lived when a member was removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.connect.rolls import CONNECTORS, TASK_COUNT, TASKS, Roll, assert_quiet, record_roll
from support.connect_pods.deployment import STATIC, surroundings, workload
from support.connect_pods.image import load_connect_image
from support.connect_pods.pods import ConnectPods, await_members
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import prompt_s, record
from support.scene.play import Play
from support.scene.stage import SYSTEM
from support.scene.witnesses import PodSighting, ProcessTable
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

WORKERS = 3
SESSION_S = 120
LONG_SESSION = {"sessionTimeout": {"seconds": SESSION_S}}
STOCK_DELAY_S = 15
ROLLOUTS = by_length(short=1, long=3)
"""Each restarts three workers, the leader among them."""
ELSEWHERE_S_MAX = prompt_s(4.0, otherwise_s=STOCK_DELAY_S * 2 / 3)
NEVER = (GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED, GroupEventKind.REBALANCE_TIMED_OUT)
FENCED = "another process holds"
"""In the log of a worker that the agent ends."""


@contextmanager
def workers(game: Play, shared: Path, *, is_static: bool, count: int = WORKERS, **spec: Any) -> Iterator[ConnectPods]:
    """Deploy workers: static ones with the agent and without a delay, or others as Connect comes but for its delay."""
    with game.watched() as watch:
        if is_static:
            game.stage.apply(game.static_group(**STATIC, **LONG_SESSION))
            until(lambda: (game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
        stock = {} if is_static else {"scheduled_rebalance_max_delay_ms": str(STOCK_DELAY_S * 1000)}
        game.stage.apply(*surroundings(game, **stock), workload(game, count, shared, has_agent=is_static, **spec))
        yield ConnectPods(game=game, shared=shared, watch=watch)


def give_work(*clusters: ConnectPods) -> None:
    """Create the connectors, and wait until all tasks run."""
    for pods in clusters:
        await_members(pods.game, WORKERS)
        for connector in CONNECTORS:
            pods.configure(connector, TASKS)
    for pods in clusters:
        pods.await_rest(TASK_COUNT, deadline_s=120)


def restarts(pods: ConnectPods, act: Callable[[], object]) -> list[Roll]:
    """Do something that makes pods anew, and return what each restart did, once all tasks run again."""
    before, led, began_ms = pods.await_rest(TASK_COUNT), pods.leader(), now_ms()
    act()
    pods.await_heartbeats()
    after = pods.await_rest(TASK_COUNT, deadline_s=120)
    return pods.rolled(before, after, led, pods.asked_to_end(began_ms))


def delete(pods: ConnectPods, ordinal: int) -> list[Roll]:
    """Delete one pod, which comes back, and return what that did."""
    game = pods.game
    return restarts(pods, lambda: game.stage.kubectl("delete", "pod", f"{game.name}-{ordinal}", "-n", game.name))


def crash(pods: ConnectPods, ordinal: int) -> Roll:
    """Kill one worker, which its kubelet starts again in the same pod, and return what that did."""
    before, led, pod = pods.await_rest(TASK_COUNT), pods.leader(), pods.sighting(f"{pods.game.name}-{ordinal}")
    began_ms = now_ms()
    pods.kill(pod)
    pods.await_heartbeats()
    after = pods.await_rest(TASK_COUNT, deadline_s=120)
    (measured,) = pods.rolled(before, after, led, [(began_ms, pod.name)])
    return measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A pod that goes for good, and the tasks that it ran."""

    pods: ConnectPods
    pod: PodSighting
    tasks: frozenset[str]
    since_ms: int

    def elsewhere_s(self) -> float:
        """Wait until all its tasks run elsewhere; returns how many seconds after its end was visible that was so."""
        back_ms = self.pods.taken_over(self.tasks, self.pod.name, self.since_ms, deadline_s=SESSION_S / 2)
        ended_ms = until(lambda: self.pod.terminal_at_ms, deadline_s=5, what=f"{self.pod.name} to be seen to end")
        return round((back_ms - ended_ms) / 1000, 3)

    def acknowledged_s(self) -> float:
        """Return how many seconds after its end was visible its member was removed by the operator."""
        (removal,) = self.pods.game.removals(self.since_ms)
        assert self.pod.terminal_at_ms is not None
        return round((removal.at_ms - self.pod.terminal_at_ms) / 1000, 3)


def depart(pods: ConnectPods, ordinal: int, *, kill: bool = False, **change: Any) -> Departure:
    """Change the StatefulSet such that a pod goes for good, and kill its process on the way if asked to."""
    before, since_ms = pods.await_ticking(TASK_COUNT), now_ms()
    pod = pods.sighting(f"{pods.game.name}-{ordinal}")
    pods.game.stage.apply_patch("statefulset", pods.game.name, pods.game.name, {"spec": change})
    if kill:
        until(lambda: pod.deletion_asked_at_ms, deadline_s=20, what=f"{pod.name} to be deleted", poll_s=0.01)
        pods.kill(pod)
    tasks = frozenset(task for task, where in before.items() if where == pod.name)
    assert len(tasks) >= TASKS
    return Departure(pods=pods, pod=pod, tasks=tasks, since_ms=since_ms)


def went(name: str, departure: Departure, led: bool) -> None:
    """Record and judge the end of a static worker: its tasks ran elsewhere at once, and no others stopped."""
    pods, elsewhere_s = departure.pods, departure.elsewhere_s()
    pods.await_heartbeats()
    stopped = pods.stopped(departure.since_ms, but=departure.pod.name)
    acknowledged_s = departure.acknowledged_s()
    record(name, led=led, acknowledged_s=acknowledged_s, elsewhere_s=elsewhere_s, others_stopped=len(stopped))
    assert (
        min(acknowledged_s, elsewhere_s) > -2.0
    )  # its end was the operator's reason; our own watch may be the slower one
    # Who stays learns of it with the next heartbeat, which Connect sends every 3 s.
    assert elsewhere_s - max(0.0, acknowledged_s) <= ELSEWHERE_S_MAX
    assert stopped == []


def explained(game: Play) -> str:
    """Return what `staticgroup plan` says."""
    command = ("staticgroup", "plan", game.name, "-n", game.name)
    return game.stage.kubectl("exec", "-n", SYSTEM, "deploy/staticgroup-operator", "--", *command)


def shows_work(pods: ConnectPods) -> bool:
    """Return whether the status shows of each static worker the tasks and connectors that it runs."""
    connect = (pods.game.status() or {}).get("connect") or {}
    tasks, connectors = Counter(pods.await_ticking(TASK_COUNT).values()), pods.connectors()
    shown = {w["instanceId"].partition(".")[0]: (w["connectors"], w["tasks"]) for w in connect.get("workers", [])}
    totals = tuple(connect.get(key) for key in ("connectors", "tasks", "unknown", "waiting", "rebalanceDelaySeconds"))
    return shown == {pod: (connectors[pod], count) for pod, count in tasks.items()} and totals == (
        len(CONNECTORS), TASK_COUNT, 0, 0, 0,
    )  # fmt: skip


def assert_explained(pods: ConnectPods) -> None:
    """Assert that `plan` shows the same, and the name of each worker."""
    text, connectors = explained(pods.game), pods.connectors()
    for pod, tasks in Counter(pods.await_ticking(TASK_COUNT).values()).items():
        (line,) = [each for each in text.splitlines() if each.startswith(f"  {pod}.")]
        work = f"{connectors[pod]} connectors and {tasks} tasks"
        assert line.endswith(
            f": Joined, {work}, advertised as {pod}.{pods.game.name}.{pods.game.name}.svc.cluster.local."
        )
    assert "MembershipComplete: True (AllMembersJoined). All " in text


def assert_observed(stock: ConnectPods) -> None:
    """Assert that workers without the agent are named as such, and left alone."""
    game, members = stock.game, {pod["metadata"]["name"] for pod in stock.game.pods()}

    def is_seen() -> bool:
        status = game.status() or {}
        dynamic = [each["message"] for each in status["issues"] if each["kind"] == "Dynamic"]
        named = {pod for pod in members for message in dynamic if pod in message}
        held = status.get("connect") or {}
        reasons = {each["reason"] for each in status["conditions"] if each["type"] == "MembershipComplete"}
        return (
            named == members
            and len(dynamic) == len(members) == status["members"]["dynamic"]
            and (held.get("connectors"), held.get("tasks")) == (len(CONNECTORS), TASK_COUNT)
            and reasons == {"WorkersWithoutAgent"}
        )

    until(is_seen, deadline_s=75, what="the status to show workers without the agent")
    line = f"MembershipComplete: False (WorkersWithoutAgent). {len(members)} Connect workers are in the group without"
    assert line in explained(game)
    assert game.removals() == []


def test_connect_workers_are_rolled_scaled_and_killed(
    new_play: Callable[..., Play], process_table: ProcessTable, tmp_path: Path
) -> None:
    games = new_play("static"), new_play("stock")
    load_connect_image(games[0].stage.cluster)
    with ExitStack() as stack:
        static = stack.enter_context(workers(games[0], tmp_path / "static", is_static=True))
        stock = stack.enter_context(workers(games[1], tmp_path / "stock", is_static=False))
        give_work(static, stock)

        rolls = [roll for _ in range(ROLLOUTS) for roll in restarts(static, static.game.roll)]
        for roll in rolls:
            record_roll("Connect in pods, static", roll)
        assert [roll.worker for roll in rolls] == [f"{static.game.name}-{n}" for n in (2, 1, 0)] * ROLLOUTS
        assert sum(roll.led for roll in rolls) == ROLLOUTS
        for roll in rolls:
            assert_quiet(roll, generations=int(roll.led))
        until(lambda: shows_work(static), deadline_s=40, what="the status to show the work of each worker")
        assert_explained(static)

        # From here on the operator also reads the stock workers: it gives ids, which Connect drops.
        stock.game.stage.apply(stock.game.static_group(**STATIC))
        until(lambda: (stock.game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
        (follower,) = delete(stock, 1)
        record_roll(f"Connect in pods as it comes, delay {STOCK_DELAY_S} s", follower)
        assert not follower.led
        assert follower.generations >= 2
        assert follower.own_down_s > STOCK_DELAY_S

        leader = static.leader()
        waits = depart(stock, 2, replicas=2)
        went(
            "Connect in pods, static, scaled down", depart(static, 2, replicas=2), led=leader == f"{static.game.name}-2"
        )
        killed = depart(static, 0, kill=True, replicas=1, ordinals={"start": 1})
        went("Connect in pods, static, killed for good", killed, led=leader == killed.pod.name)
        waited_s = waits.elsewhere_s()
        record(f"Connect in pods as it comes, delay {STOCK_DELAY_S} s, scaled down", elsewhere_s=waited_s)
        assert waited_s > STOCK_DELAY_S - 1, "the departure itself is seen a moment late"
        assert_observed(stock)
        until(lambda: shows_work(static), deadline_s=40, what="the status to show the work of each worker")

        assert len(static.game.removals()) == 2
        assert FENCED not in "".join(static.log(pod["metadata"]["name"]) for pod in static.game.pods())
        for pods, processes in ((static, WORKERS * (1 + ROLLOUTS)), (stock, WORKERS + 1)):
            assert_right(pods, processes)
    seen = {life.instance_id.partition(".")[0] for life in process_table.lives()}
    assert seen >= {f"{games[0].name}-{n}" for n in range(WORKERS)}  # so the table does record_roll of workers


def assert_right(pods: ConnectPods, processes: int) -> None:
    """Assert that all tasks run, none ever ran twice in so many processes, and no worker was put out of the group."""
    pods.await_ticking(TASK_COUNT)
    assert len(pods.files()) == processes
    assert pods.twice() == []
    assert pods.game.events(*NEVER) == []


@pytest.mark.long
def test_connect_leader_is_rolled_first_and_workers_crash(new_play: Callable[..., Play], tmp_path: Path) -> None:
    """The round that a returning leader asks for begins while the next worker is away."""
    game = new_play()
    load_connect_image(game.stage.cluster)
    last = WORKERS - 1
    with workers(game, tmp_path / "static", is_static=True, count=1, ordinals={"start": last}) as pods:
        await_members(pods.game, 1)
        game.stage.apply_patch(
            "statefulset", game.name, game.name, {"spec": {"replicas": WORKERS, "ordinals": {"start": 0}}}
        )
        give_work(pods)
        assert pods.leader() == f"{game.name}-{last}"

        rolls = restarts(pods, game.roll)
        for roll in rolls:
            record_roll("Connect in pods, static, leader first", roll)
        assert [roll.led for roll in rolls] == [True, *(False for _ in range(last))]
        assert sum(roll.generations for roll in rolls) <= 1
        for roll in rolls:
            assert_quiet(roll, generations=1)
        for ordinal in (1, last):
            measured = crash(pods, ordinal)
            record_roll("Connect in pods, static, killed", measured)
            assert_quiet(measured, generations=int(measured.led))
        assert game.removals() == []
        assert_right(pods, processes=1 + last + WORKERS + 2)
