"""The play itself: start the groups of a role, roll two of them, scale two of them down, and measure what
their work felt.

The one idea: the two sides of a comparison act at the same moment on the same machine under the same load; the groups
are independent, so neither waits for the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from support.demo.groups import DemoGroup
from support.demo.measure import course, delay_below_s, moves, read_twice, standstills, stillness, takeovers
from support.demo.report import ITSELF, OPERATOR, SESSION_EXPIRY, Figures, Roll, ScaleDown
from support.demo.role import PARTITIONS, Role, environment_of
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.scene.stage import Stage
from support.scene.witnesses import is_operators
from support.waiting import until

TAKEOVER_DEADLINE_S = 180.0
"""Above the session timeouts of both sides, so that a fall-back to them is seen and reported, not cut off."""
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Show:
    """What is going on, as the view reads it while the phases write it.

    Parameters
    ----------
    pair: the two groups that are compared now.
    lines: the narration so far, with times in milliseconds since 1970.
    """

    stage: Stage
    role: Role
    started_at_ms: int = field(default_factory=now_ms)
    scene: str = "opening"
    scene_at_ms: int = field(default_factory=now_ms)
    pair: tuple[str, str] = field(init=False)
    lines: list[tuple[int, str]] = field(default_factory=list)
    groups: dict[str, DemoGroup] = field(default_factory=dict)
    figures: Figures | None = None

    def __post_init__(self) -> None:
        self.pair = self.role.roll_pair

    def tell(self, text: str) -> None:
        """Narrate."""
        self.lines.append((now_ms(), text))

    def enter(self, scene: str, pair: tuple[str, str]) -> None:
        """Begin a scene."""
        self.scene, self.scene_at_ms, self.pair = scene, now_ms(), pair

    def close(self) -> None:
        """End the load and stop listening; the pods end with their cluster or namespaces."""
        self.role.close()
        for group in self.groups.values():
            group.close()


def both(function: Callable[[DemoGroup], T], *groups: DemoGroup) -> list[T]:
    """Run a function for several groups at the same time and return all results; raises what the first one raised.

    Notes
    -----
    Daemon threads instead of a pool: after Ctrl-C no thread waits for a condition that will not come true any more.
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
    """Run all scenes and leave the figures in the show."""
    _open(show)
    role = show.role
    scenes = 2 if role.state_pair is None else 3
    rolls = _rolls(show, f"1 of {scenes}: rolling restart", role.roll_pair)
    with_state = (None, None)
    if role.state_pair is not None:
        with_state = _rolls(show, f"2 of {scenes}: the same with state and slow polls", role.state_pair)
    show.enter(f"{scenes} of {scenes}: scale-down {role.replicas} to {role.replicas - 1}", role.scale_pair)
    show.tell(f"kubectl scale --replicas={role.replicas - 1}: {role.wording.scale_question}?")
    downs = both(lambda group: _scale_down(show, group), *(show.groups[name] for name in role.scale_pair))
    show.enter("counting", role.scale_pair)
    faults = role.count(show.groups, show.tell)
    show.figures = Figures(
        roll_without=rolls[0], roll_with=rolls[1], scale_down_without=downs[0], scale_down_with=downs[1],
        unconsumed_records=faults.unconsumed_records, twice=faults.twice, state_without=with_state[0],
        state_with=with_state[1],
    )  # fmt: skip


def _open(show: Show) -> None:
    stage, role = show.stage, show.role
    role.open(stage, show.tell)
    show.groups = {name: DemoGroup.opened(stage, role, name) for name in role.names}
    both(DemoGroup.start, *show.groups.values())
    show.tell(role.wording.opened)


def _rolls(show: Show, scene: str, pair: tuple[str, str]) -> tuple[Roll, Roll]:
    show.enter(scene, pair)
    show.tell(f"kubectl rollout restart: all {show.role.replicas} pods of both {show.role.workload_kind}s.")
    without, with_it = both(_roll, *(show.groups[name] for name in pair))
    show.tell(f"Rolled: {without.rebalances} rebalances without, {with_it.rebalances} with StaticGroup.")
    return without, with_it


def _roll(group: DemoGroup) -> Roll:
    role, since_ms = group.role, now_ms()
    group.play.roll(role.roll_deadline_s)
    done_ms = now_ms()
    until_ms = group.await_steady(role.replicas, since_ms=since_ms - 10_000)
    stops = standstills(group.times(), range(PARTITIONS), since_ms=since_ms, until_ms=until_ms)
    interruptions, interrupted_s = role.interruptions(group, since_ms)
    has_state = group.name in (role.state_pair or ())
    return Roll(
        rebalances=group.play.rebalances(since_ms),
        interruptions=interruptions,
        interrupted_s=interrupted_s,
        moves=moves(group.times_by_ordinal(), since_ms=since_ms, until_ms=until_ms),
        stillness=stillness(stops),
        duration_s=(done_ms - since_ms) / 1000,
        restored_records=role.restored(group, since_ms),
        rebuilds=group.rebuilds(since_ms) if has_state else None,
        twice=read_twice(group.lines()) if has_state else None,
        p99_delay_s=delay_below_s(group.lines(), since_ms=since_ms, until_ms=until_ms, share=0.99)
        if has_state
        else None,
        course=course(stops, since_ms=since_ms, until_ms=until_ms),
    )


def _scale_down(show: Show, group: DemoGroup) -> ScaleDown:
    role, departed = group.role, group.role.departing(group)
    role.before_departure(group, departed, show.tell)
    since_ms = now_ms()
    timeout_ms = _injected_timeout_ms(group, departed) if group.is_managed else role.own_session_ms
    ended = role.ending(group, departed)
    group.play.scale(role.replicas - 1)

    def taken_over() -> dict[int, float | None]:
        rest = [line for voice in group.processes() if voice.pod_name != departed for line in list(voice.lines)]
        return takeovers(group.lines(departed), rest, since_ms - 3000)

    ended_at_ms = until(ended, deadline_s=60, what=f"{departed} ends")

    def taken() -> dict[int, float | None] | None:
        found = taken_over()
        return found if found and None not in found.values() else None

    pieces = f"the {role.wording.pieces} of {departed}"
    found = until(taken, deadline_s=TAKEOVER_DEADLINE_S, what=f"{pieces} are {role.wording.done}", poll_s=0.2)
    event = until(lambda: group.departure(since_ms), deadline_s=10, what=f"the broker logs the end of {departed}")
    slowest_s = max(value for value in found.values() if value is not None)
    known_ms = min(times[-1][1] for times in group.times().values() if times)  # what comes later is not reported yet
    how = how_ended(event)
    show.tell(f"{departed}: {role.wording.nobody} for {slowest_s:.1f} s; ended by {how}.")
    return ScaleDown(
        partitions=tuple(found), takeover_s=slowest_s, member_left_after_s=(event.at_ms - ended_at_ms) / 1000,
        member_ended_by=how, session_timeout_s=timeout_ms / 1000, interruptions=role.interruptions(group, since_ms)[0],
        restored_records=role.restored(group, since_ms),
        course=course(
            standstills(group.times(), range(PARTITIONS), since_ms=since_ms, until_ms=known_ms),
            since_ms=since_ms, until_ms=known_ms,
        ),
    )  # fmt: skip


def how_ended(event: GroupEvent) -> str:
    """Return as text what ended a member."""
    if event.kind is GroupEventKind.SESSION_EXPIRED:
        return SESSION_EXPIRY
    return OPERATOR if is_operators(event) else ITSELF


def _injected_timeout_ms(group: DemoGroup, pod: str) -> int:
    """Return the session timeout that the process of a pod was started with."""
    (uid,) = [p["metadata"]["uid"] for p in group.play.pods() if p["metadata"]["name"] == pod]
    for pid in group.play.stage.cluster.pod_processes(uid):
        value = environment_of(pid).get(group.role.timeout_variable)
        if value:
            return int(value)
    raise AssertionError(f"{pod} runs without a session timeout from the operator")
