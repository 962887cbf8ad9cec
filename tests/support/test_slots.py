"""The witnesses of Deployments see what they are for: an id in two living processes, and a moment with too few."""

from __future__ import annotations

from typing import Any

import pytest

from support.drills.lives import PodLife
from support.scene.pod_lines import PodVoice
from support.slots import SlotWatch, members_min, shared_ids


class Lives:
    """Processes of pods as they were seen."""

    def __init__(self, *lives: PodLife) -> None:
        self._lives = lives

    def of_pod(self, uid: str) -> list[PodLife]:
        return [life for life in self._lives if life.pod_uid == uid]


def life(uid: str, instance_id: str, began_ms: int, ended_ms: int | None) -> PodLife:
    return PodLife(pid=1, pod_uid=uid, instance_id=instance_id, born_at_ms=began_ms, seen_at_ms=began_ms, ended_at_ms=ended_ms)


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (life("b", "x", 200, None), 0),
        (life("b", "x", 199, None), 1),
        (life("b", "x", 0, 100), 0),
        (life("b", "x", 0, 101), 1),
        (life("b", "y", 150, None), 0),
        (life("a", "x", 150, None), 0),
    ],
    ids=["after", "too early", "before", "too late", "another id", "the same pod"],
)
def test_an_id_in_two_living_processes_is_seen(other: PodLife, count: int) -> None:
    lives: Any = Lives(life("a", "x", 100, 200), other)
    assert len(shared_ids(lives, ["a", "b"])) == count


def voice(name: str, assigned_ms: int, closed_ms: int | None = None) -> PodVoice:
    lines = [
        {"kind": "assigned", "at_ms": assigned_ms},
        *([{"kind": "closed", "at_ms": closed_ms}] if closed_ms else []),
    ]
    return PodVoice(pod_name=name, uid=name, lines=lines)


@pytest.mark.parametrize(
    ("voices", "least"),
    [
        ([voice("a", 0), voice("b", 0)], 2),
        ([voice("a", 0, 50), voice("b", 0), voice("c", 60)], 1),
        ([voice("a", 0, 70), voice("b", 0), voice("c", 60)], 2),
        ([voice("a", 0, 30), voice("b", 0), voice("c", 0)], 2),
    ],
    ids=["nothing happened", "a gap", "one more first", "one less"],
)
def test_the_moment_with_the_fewest_members_is_found(voices: list[PodVoice], least: int) -> None:
    assert members_min(voices, 20) == least


def test_the_wait_of_a_pod_is_noted_from_its_waiter_to_its_slot() -> None:
    watch = SlotWatch(None, "shop")

    def show(state: str, note: str = "") -> None:
        metadata: dict[str, Any] = {"name": "orders-1", "uid": "u1"}
        if note:
            metadata["annotations"] = {"staticgroup.io/slot-51742858": note, "other": "u1 has nothing"}
        status = {"initContainerStatuses": [{"name": "staticgroup-slot-51742858", "state": {state: {}}}]}
        watch._note({"type": "MODIFIED", "object": {"kind": "Pod", "metadata": metadata, "status": status}})

    show("waiting")
    assert watch.waits["u1"].waits_at_ms is None
    show("running")
    assert [each.uid for each in watch.waiting()] == ["u1"]
    show("running", "u1 waits 1 orders-17")
    show("running", "u1 has orders-17")
    assert watch.waiting() == []
    show("terminated", "u1 has orders-17 2")
    seen = watch.waits["u1"]
    assert [note for _, note in seen.notes] == ["waits 1 orders-17", "has orders-17", "has orders-17 2"]
    assert (seen.slot, seen.given_at_ms, seen.ended_wait_at_ms is not None) == ("orders-17", seen.notes[1][0], True)
