"""The play itself: start three groups, roll two of them, scale two of them down, and measure what their consumers felt.

The one idea: the two sides of a comparison act at the same moment on the same machine under the same load; the groups
are independent, so neither waits for the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from support.demo.groups import (
    BY_HAND,
    BY_HAND_SESSION_MS,
    DYNAMIC,
    MANAGED,
    NAMES,
    PARTITIONS,
    REPLICAS,
    TOPIC,
    DemoGroup,
)
from support.demo.measure import moves, standstills, stillness, takeovers, unconsumed
from support.demo.report import OPERATOR, SESSION_EXPIRY, Figures, Roll, ScaleDown
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.stage import Stage
from support.waiting import until
from support.workload.process import Program, ranges_of

RECORDS_PER_S = 20
"""For each partition."""
TAKEOVER_DEADLINE_S = 180.0
"""Above the session timeouts of both sides, so that a fall-back to them is seen and reported, not cut off."""
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Show:
    """What is going on, as the view reads it while the phases write it.

    Parameters
    ----------
    pair: the two groups that are compared now.
    told: what was narrated so far, with the time, milliseconds since 1970.
    """

    stage: Stage
    started_at_ms: int = field(default_factory=now_ms)
    scene: str = "opening"
    scene_at_ms: int = field(default_factory=now_ms)
    pair: tuple[str, str] = (DYNAMIC, MANAGED)
    told: list[tuple[int, str]] = field(default_factory=list)
    groups: dict[str, DemoGroup] = field(default_factory=dict)
    producer: Program | None = None
    figures: Figures | None = None

    def tell(self, text: str) -> None:
        """Narrate."""
        self.told.append((now_ms(), text))

    def enter(self, scene: str, pair: tuple[str, str]) -> None:
        """Begin a scene."""
        self.scene, self.scene_at_ms, self.pair = scene, now_ms(), pair

    def close(self) -> None:
        """End the load and stop listening; the pods end with their cluster or namespaces."""
        if self.producer is not None and self.producer.is_running:
            self.producer.terminate()
        for group in self.groups.values():
            group.voices.stop()


def both(function: Callable[[DemoGroup], T], *groups: DemoGroup) -> list[T]:
    """Run a function for several groups at the same time and return all results; raises what the first one raised.

    Notes
    -----
    Daemon threads instead of a pool: after Ctrl-C nobody waits for a condition that will not come true any more.
    """
    results: dict[str, T] = {}
    troubles: list[BaseException] = []

    def run(group: DemoGroup) -> None:
        try:
            results[group.name] = function(group)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=run, args=(group,), daemon=True, name=f"act-{group.name}") for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]
    return [results[group.name] for group in groups]


def perform(show: Show) -> None:
    """Run all scenes and leave the figures in the show.

    Raises
    ------
    AssertionError, RuntimeError
        When something did not happen in time; the text says what.
    """
    _open(show)
    dynamic, by_hand, managed = (show.groups[name] for name in NAMES)
    show.enter("1 of 2: rolling restart", (DYNAMIC, MANAGED))
    show.tell(f"kubectl rollout restart: {REPLICAS} pods of both StatefulSets, one by one.")
    rolls = both(_roll, dynamic, managed)
    show.tell(f"Rolled: {rolls[0].rebalances} rebalances without, {rolls[1].rebalances} with StaticGroup.")
    show.enter(f"2 of 2: scale-down {REPLICAS} to {REPLICAS - 1}", (BY_HAND, MANAGED))
    show.tell(f"kubectl scale --replicas={REPLICAS - 1}: who consumes the partitions of pod {REPLICAS - 1}?")
    downs = both(lambda group: _scale_down(show, group), by_hand, managed)
    show.enter("counting", (BY_HAND, MANAGED))
    lost = _count_lost(show)
    show.figures = Figures(
        roll_without=rolls[0],
        roll_with=rolls[1],
        scale_down_without=downs[0],
        scale_down_with=downs[1],
        unconsumed_records=lost,
    )


def _open(show: Show) -> None:
    stage = show.stage
    stage.admin.create_topic(TOPIC, partitions=PARTITIONS)
    show.producer = Program(
        "producer",
        {"BOOTSTRAP": stage.brokers.bootstrap, "TOPIC": TOPIC, "RATE_PER_S": str(RECORDS_PER_S * PARTITIONS)},
    )
    show.tell(f"{PARTITIONS} partitions, {RECORDS_PER_S} records/s each; three groups of {REPLICAS} pods read them.")
    show.groups = {name: DemoGroup.opened(stage, name) for name in NAMES}
    both(DemoGroup.start, *show.groups.values())
    show.tell("All groups are stable and consume everything.")


def _roll(group: DemoGroup) -> Roll:
    since_ms = now_ms()
    group.play.roll()
    done_ms = now_ms()
    until_ms = group.await_steady(REPLICAS, since_ms=since_ms - 10_000)
    stops = standstills(group.times(), range(PARTITIONS), since_ms=since_ms, until_ms=until_ms)
    interruptions = group.interruptions(since_ms)
    return Roll(
        rebalances=group.play.rebalances(since_ms),
        interruptions=len(interruptions),
        interrupted_s=round(sum(interruptions), 3),
        moves=moves(group.times_by_ordinal(), since_ms=since_ms, until_ms=until_ms),
        stillness=stillness(stops),
        duration_s=(done_ms - since_ms) / 1000,
    )


def _scale_down(show: Show, group: DemoGroup) -> ScaleDown:
    since_ms = now_ms()
    departed = f"{group.name}-{REPLICAS - 1}"
    timeout_ms = BY_HAND_SESSION_MS if group.name == BY_HAND else _injected_timeout_ms(group)
    group.play.scale(REPLICAS - 1)

    def look() -> dict[int, float | None]:
        rest = [line for n in range(REPLICAS - 1) for line in group.lines(f"{group.name}-{n}")]
        return takeovers(group.lines(departed), rest, since_ms - 3000)

    def closed() -> int | None:
        ends = (x["at_ms"] for x in group.lines(departed) if x["kind"] == "closed" and x["at_ms"] > since_ms)
        return next(ends, None)

    ended_at_ms = until(closed, deadline_s=60, what=f"{departed} ends")

    def taken() -> dict[int, float | None] | None:
        found = look()
        return found if found and None not in found.values() else None

    found = until(taken, deadline_s=TAKEOVER_DEADLINE_S, what=f"the partitions of {departed} are consumed", poll_s=0.2)
    event = until(lambda: group.departure(since_ms), deadline_s=10, what=f"the broker logs the end of {departed}")
    how = SESSION_EXPIRY if event.kind is GroupEventKind.SESSION_EXPIRED else OPERATOR
    slowest_s = max(value for value in found.values() if value is not None)
    show.tell(f"{departed}: nobody consumed its partitions for {slowest_s:.1f} s; ended by {how}.")
    return ScaleDown(
        partitions=tuple(found),
        takeover_s=slowest_s,
        member_left_after_s=(event.at_ms - ended_at_ms) / 1000,
        member_ended_by=how,
        session_timeout_s=timeout_ms / 1000,
    )


def _injected_timeout_ms(group: DemoGroup) -> int:
    """Return the session timeout that the departing pod's process was started with."""
    pod = f"{group.name}-{REPLICAS - 1}"
    (uid,) = [p["metadata"]["uid"] for p in group.play.pods() if p["metadata"]["name"] == pod]
    for pid in group.play.stage.cluster.pod_processes(uid):
        value = environment_of(pid).get("KAFKA_SESSION_TIMEOUT_MS")
        if value:
            return int(value)
    raise AssertionError(f"{pod} runs without a session timeout from the operator")


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; {} when it has ended."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def _count_lost(show: Show) -> dict[str, int]:
    """End the load, give the groups time to finish, and count what was acknowledged and not consumed."""
    assert show.producer is not None
    show.tell("Ending the load and counting records.")
    show.producer.terminate()
    acked = ranges_of(show.producer.lines, "acked")

    def counts() -> dict[str, int]:
        return {name: unconsumed(acked, group.consumed()) for name, group in show.groups.items()}

    ends_s = time.monotonic() + 15
    while any(counts().values()) and time.monotonic() < ends_s:
        time.sleep(0.2)
    return counts()
