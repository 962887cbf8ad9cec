"""Carry a batch of drawn drills out, and judge it."""

from __future__ import annotations

import os
import time
from typing import Any

from support.devcluster.kafka_log import now_ms
from support.drills.cases import Act, Case
from support.drills.drawing import Batch, Blow, Drawn, Ending, Fate
from support.drills.ground import Ground
from support.drills.troubles import await_not_ready, reboot, register_again, repair, set_taint
from support.scene.figures import spread
from support.scene.play import Play
from support.waiting import holds, until

SETTLED_S = 110.0
"""Until a member is removed or reported as held, on a busy machine."""
LOOKED_S = 4.0


def carry_out(ground: Ground, batch: Batch) -> dict[str, Any]:
    """Let a batch of drills go through a failure of the node; returns figures."""
    ground.prepare(batch.evidence, replicas=batch.operators)
    cases = {_case(ground, batch, n): drill for n, drill in enumerate(batch.drills)}
    try:
        ground.start(list(cases))
        return _fail_and_judge(ground, batch, cases)
    finally:
        ground.mend()
        for case in cases:
            case.close()


def _case(ground: Ground, batch: Batch, number: int) -> Case:
    drill = batch.drills[number]
    name = f"b{batch.number}-{number}-{drill.act.name.lower()}-{os.urandom(2).hex()}"
    play = Play(stage=ground.stage, name=name)
    return Case(game=play, act=drill.act, replicas=drill.replicas, leaving=drill.leaving, grace_s=drill.grace_s)


def _fail_and_judge(ground: Ground, batch: Batch, cases: dict[Case, Drawn]) -> dict[str, Any]:
    batch.trouble.begin(ground.node)
    due_s = time.monotonic() + batch.delay_s
    until(lambda: time.monotonic() >= due_s, deadline_s=batch.delay_s + 30, what="the moment that was drawn")
    ground.perform(list(cases))
    handed_over_s = ground.kill_operator(all_replicas=batch.blow is Blow.ALL_KILLED) if batch.blow else None
    holds(lambda: not _removed_alive(ground, cases), for_s=LOOKED_S, what="no live member is removed")
    ended_at_ms = _end(ground, batch)
    for case, drill in cases.items():
        _await_fate(ground, case, batch.fate(drill))
    if batch.ending is Ending.TAINTED:
        set_taint(ground.node, ground.api, is_set=False)
    _end_the_living(ground, cases)
    ground.judge(list(cases))
    after_s = [(at - ended_at_ms) / 1000 for c in cases for at in c.removed_at_ms().values()]
    shown = {"removed": len(after_s), "live_removals": 0, "handed_over_s": handed_over_s}
    return shown | ({"removed_after_end_s": spread(after_s)} if after_s else {})


def _end(ground: Ground, batch: Batch) -> int:
    """End the failure as it was drawn; returns when."""
    at_ms = now_ms()
    match batch.ending:
        case Ending.REPAIRED:
            repair(ground.node)
        case Ending.REBOOTED:
            reboot(ground.node)
        case Ending.NODE_DELETED:
            ground.api.delete("Node", ground.node.name)
        case Ending.TAINTED:
            await_not_ready(ground.node, ground.api)
            set_taint(ground.node, ground.api, is_set=True)
    return at_ms


def _await_fate(ground: Ground, case: Case, fate: Fate) -> None:
    """Wait until what must come of a drill has come."""

    def is_removed() -> bool:
        return case.removed_at_ms().keys() == set(case.ordinals)

    def is_settled() -> bool:
        return is_removed() or (fate is not Fate.REMOVED and case.is_reported())

    until(is_settled, deadline_s=SETTLED_S, what=f"{case.name}, {case.act.value}: {fate.value}", poll_s=0.5)
    if fate is Fate.HELD:
        holds(lambda: not case.removed_at_ms(), for_s=LOOKED_S, what=f"{case.name}, {case.act.value}, stays")


def _end_the_living(ground: Ground, cases: dict[Case, Drawn]) -> None:
    """Have the node work again, and delete the pods that are not terminating yet."""
    if not ground.api.get("Node", ground.node.name):
        register_again(ground.node)
    ground.mend()
    for case in (c for c in cases if c.act is Act.RELEASED):
        for ordinal in case.ordinals:
            ground.api.delete("Pod", case.pod(ordinal), case.name)
    ground.await_ended(list(cases))


def _removed_alive(ground: Ground, cases: dict[Case, Drawn]) -> list[str]:
    return [each for c in cases for each in ground.lives.accusations(c.game.events())]
