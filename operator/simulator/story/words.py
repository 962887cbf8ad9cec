"""What the timeline and the picture of a scenario say in the same words."""

from __future__ import annotations

from .comparison import LOST_FOR_S, Cost
from .scenario import Happening, Scenario


def chapters(scenario: Scenario) -> list[tuple[Happening, float]]:
    """Return each happening with the time at which the next one begins, seconds, in their order."""
    happenings = sorted(scenario.happenings, key=lambda h: h.at_seconds)
    ends_s = [h.at_seconds for h in happenings[1:]] + [scenario.length_s]
    return list(zip(happenings, ends_s[: len(happenings)], strict=True))


def clock(at_s: float) -> str:
    """Return minutes and seconds."""
    return f"{int(at_s) // 60:2}:{int(at_s) % 60:02}"


def sentence(happening: Happening) -> str:
    """Say what happens."""
    texts = {
        "roll": "rolling restart: every pod is replaced, one after the other",
        "scale": f"scale to {happening.replicas}",
        "crash": f"the process of pod {happening.pod} crashes and is restarted in place",
        "delete": f"pod {happening.pod} is deleted and replaced",
        "lose_node": f"the node of pod {happening.pod} is cut off for {LOST_FOR_S:.0f} s and the pod force-deleted: "
        "its process lives on",
    }
    return texts[happening.what]


def words(cost: Cost) -> str:
    """Say what a time cost."""
    parts = [_count(cost.rebalances, "rebalance"), f"{_count(cost.moved, 'partition')} moved"]
    parts.append(f"{_count(round(cost.idle_s), 'partition-second')} idle")
    if round(cost.double_s):
        parts.append(f"{_count(round(cost.double_s), 'partition-second')} worked on twice")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
