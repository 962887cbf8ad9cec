"""Every exploration of the continuity rules: those that must be safe, the large ones among them, and the assumptions."""

from __future__ import annotations

from typing import Any

from .scenario import Scenario


def _scenario(name: str, says: str, faults: dict[str, int], **bounds: Any) -> Scenario:
    return Scenario(name=name, says=says, faults=faults, **bounds)


_durable: dict[str, Any] = {"is_durable": True}
_stored: dict[str, Any] = {"is_durable": True, "has_positions": True}
_short: dict[str, Any] = {"pods": 2, "has_ended": True}
_two: dict[str, Any] = {"operators": 2, **_short, **_durable}

SCENARIOS = (
    _scenario("gap", "the API server loses its watches' history; scaled three times", {"toggle": 3, "force": 1, "gap": 1}),
    _scenario("two gaps", "the second one also while the first is not judged yet", {"toggle": 2, "force": 1, "gap": 2}),
    _scenario(
        "gap, replaced", "a pod is replaced in place in the gap", {"toggle": 2, "force": 1, "gap": 1, "roll": 1}
    ),
    _scenario(
        "gap, late controller",
        "the controller acts on an older generation until it reports the newest",
        {"toggle": 2, "force": 1, "gap": 1},
        is_lagging_controller=True,
    ),
    _scenario(
        "gap, set made again",
        "the StatefulSet is deleted and created again; generations count again",
        {"toggle": 2, "force": 1, "gap": 1, "recreation": 1},
    ),
    _scenario(
        "gap, late watch",
        "the watch lags, so facts and reads wait for their barriers",
        {"toggle": 1, "force": 1, "gap": 1, "roll": 1},
        lags=True,
    ),
    _scenario(
        "gap, rejection", "a pod without container statuses", {"toggle": 2, "gap": 1, "rejection": 1}, is_slow=True
    ),
    _scenario("gap, claim", "somebody else writes phase Failed", {"toggle": 2, "force": 1, "gap": 1, "claim": 1}),
    _scenario("gap, fail-over", "a coordinator loses its last write", {"toggle": 2, "force": 1, "gap": 1, "fail-over": 1}),
    _scenario("by hand", "pods without labels, or made by hand; no gap", {"toggle": 3, "force": 1, "hand": 1, "strip": 1}),
    _scenario(
        "words",
        "a person ends a suspect and a span",
        {"toggle": 1, "force": 1, "gap": 1, "roll": 1, "word": 1, "pod word": 1},
    ),
    _scenario("words, two gaps", "one word, two spans", {"toggle": 1, "force": 1, "gap": 2, "roll": 1, "word": 1}),
    _scenario(
        "death",
        "operators die, and begin without a position",
        {"toggle": 1, "force": 1, "death": 2},
        has_ended=True,
        **_durable,
    ),
    _scenario(
        "emptied",
        "the status is lost while no operator runs; words",
        {"toggle": 1, "force": 1, "death": 1, "emptied": 1, "word": 1, "pod word": 1},
        **_durable,
    ),
    _scenario(
        "position, gap",
        "a new process resumes the watch; the epoch of the checkpoint is another one",
        {"toggle": 1, "force": 1, "death": 1, "gap": 1},
        **_short,
        **_stored,
    ),
    _scenario(
        "late write",
        "a status write of a paused process arrives late",
        {"toggle": 1, "force": 1, "death": 1, "late write": 1},
        **_short,
        **_stored,
    ),
    _scenario(
        "older status",
        "an older copy of the status is put back while no operator runs",
        {"toggle": 1, "force": 1, "death": 1, "put back": 1},
        **_short,
        **_stored,
    ),
    _scenario(
        "standby",
        "a standby starts at any time and takes over; the one before has not noticed",
        {"toggle": 1, "force": 1, "take-over": 1},
        **_two,
    ),
    _scenario("restore", "noticed; a word follows", {"toggle": 2, "force": 1, "restore": 1, "word": 1}),
    _scenario(
        "restore, raised",
        "nothing but single objects looks older; a gap before or after",
        {"toggle": 1, "force": 1, "restore": 1, "gap": 1},
        is_bumped=True,
    ),
    _scenario(
        "restore, gap",
        "generations of the other timeline count again",
        {"toggle": 2, "force": 1, "restore": 1, "gap": 1, "word": 1},
        pods=2,
        has_ended=True,
        is_backed_up=True,
    ),
    _scenario(
        "restore, said",
        "no operator runs meanwhile, and a person says so",
        {"toggle": 1, "force": 1, "restore": 1, "death": 1},
        is_restored_said=True,
        **_durable,
    ),
    _scenario(
        "restore, resumed",
        "the same, and the Lease with its position is restored too",
        {"toggle": 1, "force": 1, "restore": 1, "death": 1},
        pods=2,
        is_restored_said=True,
        is_backed_up=True,
        **_stored,
    ),
    _scenario(
        "second group", "another StaticGroup issues the same ids, and inherits", {"toggle": 2, "force": 1, "twin": 1, "word": 1}
    ),
)
"""Everything that must be safe, and is searched by default."""

DEEP = (
    _scenario("deep gaps", "two gaps, two force deletes, replaced", {"toggle": 3, "force": 2, "gap": 2, "roll": 1}),
    _scenario(
        "deep set",
        "late controller, set made again, two gaps",
        {"toggle": 2, "force": 1, "gap": 2, "recreation": 1},
        is_lagging_controller=True,
    ),
    _scenario("deep watch", "late watch, two gaps", {"toggle": 2, "force": 1, "gap": 2, "roll": 1}, lags=True),
    _scenario("deep words", "two suspects, a span", {"toggle": 1, "force": 2, "gap": 1, "roll": 1, "word": 1, "pod word": 1}),
    _scenario("deep death", "three incarnations, two deaths, a gap", {"toggle": 2, "force": 1, "death": 2, "gap": 1}, **_durable),
    _scenario(
        "deep position",
        "three incarnations, positions, gap, replaced",
        {"toggle": 1, "force": 1, "death": 1, "gap": 1, "roll": 1},
        **_stored,
    ),
    _scenario(
        "deep write",
        "two operators, late writes",
        {"toggle": 1, "force": 1, "death": 1, "take-over": 1, "late write": 1},
        **_two,
    ),
    _scenario(
        "deep operators",
        "a standby and a gap",
        {"toggle": 1, "force": 1, "take-over": 1, "gap": 1},
        **_two,
    ),
    _scenario(
        "deep older status",
        "an older copy is put back, replaced",
        {"toggle": 1, "force": 1, "death": 1, "roll": 1, "put back": 1},
        **_stored,
    ),
    _scenario(
        "deep late write",
        "a status write arrives late, replaced",
        {"toggle": 1, "force": 1, "death": 1, "roll": 1, "late write": 1},
        pods=2,
        **_stored,
    ),
    _scenario(
        "deep restore, gap",
        "generations of the other timeline, replaced",
        {"toggle": 2, "force": 1, "restore": 1, "gap": 1, "roll": 1, "word": 1},
        pods=2,
    ),
    _scenario(
        "deep restore, said",
        "a person says so, and then that all has ended",
        {"toggle": 1, "force": 1, "restore": 1, "death": 1, "word": 1},
        is_restored_said=True,
        **_durable,
    ),
    _scenario(
        "deep restore", "status, restore, word", {"toggle": 2, "force": 1, "restore": 1, "word": 1}, **_durable
    ),
    _scenario(
        "deep restore, raised",
        "three incarnations, a gap, a word",
        {"toggle": 2, "force": 1, "restore": 1, "gap": 1, "word": 1},
        is_bumped=True,
    ),
)
"""Larger ones, searched with --deep."""

ASSUMPTIONS = (
    _scenario(
        "hand-made in a gap",
        "somebody creates a pod of the name by hand while nothing watches",
        {"toggle": 1, "force": 1, "gap": 1, "hand": 1},
        pods=2,
    ),
    _scenario(
        "hand-made before a death",
        "somebody creates a pod of the name by hand, and the operator dies before it has written so, without a position",
        {"toggle": 1, "force": 1, "death": 1, "hand": 1},
        pods=2,
        **_durable,
    ),
    _scenario(
        "controller back in time",
        "a StatefulSet controller acts on a generation older than it reported, or its create arrives that late",
        {"toggle": 1, "force": 1, "gap": 1, "stale controller": 1},
        pods=2,
    ),
    _scenario(
        "restore nobody says",
        "etcd is restored while no operator runs, and nobody says so",
        {"toggle": 1, "force": 1, "death": 1, "restore": 1},
        pods=2,
        is_backed_up=True,
        **_durable,
    ),
    _scenario(
        "restore not written down",
        "etcd is restored while an operator runs, which ends before it has written so, and nobody says so",
        {"toggle": 1, "force": 1, "death": 1, "restore": 1},
        pods=2,
        is_restored_running=True,
        is_backed_up=True,
        **_durable,
    ),
)
"""What the rules rest on: without each of these a living member is removed."""
