"""Hold the drills' own witness against a real process in a cgroup, and what is drawn against what may be drawn."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.devcluster import cgroups
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.drills import drawing
from support.drills.drawing import DRILLS_MIN, Ending, Fate, Series, draw
from support.drills.lives import PodLives
from support.drills.troubles import Trouble
from support.waiting import until

INSTANCE_ID = f"drilled-0.{uuid.uuid4().hex[:8]}"
MEMBER_ID = f"{INSTANCE_ID}-{uuid.uuid4()}"


@pytest.fixture
def pod_group() -> Iterator[str]:
    """A cgroup as a kubelet makes it for a pod."""
    top = f"staticgroup-test-{uuid.uuid4().hex[:8]}"
    group = f"{top}/pod{uuid.uuid4()}"
    cgroups.create(group)
    yield group
    cgroups.kill(top)
    cgroups.remove(top)


def removal(at_ms: int) -> GroupEvent:
    return GroupEvent(
        kind=GroupEventKind.REMOVED, at_ms=at_ms, node_id=1, group_id="g", member_id=MEMBER_ID, reason="staticgroup a/b"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes cgroups")
def test_a_removal_is_judged_by_the_very_moment_at_which_the_process_ended(pod_group: str) -> None:
    uid = pod_group.rpartition("pod")[2]
    with PodLives([pod_group.partition("/")[0]]) as lives:
        assert lives.ended_at_ms(uid) is None
        process = subprocess.Popen(["sleep", "60"], env={**os.environ, "KAFKA_GROUP_INSTANCE_ID": INSTANCE_ID})
        (cgroups.hierarchies()[0] / pod_group / "cgroup.procs").write_text(str(process.pid))
        until(lambda: lives.is_alive(uid), deadline_s=20, what="the process followed")
        alive_ms = now_ms()
        assert lives.accusations([removal(alive_ms)])
        until(lambda: now_ms() > alive_ms, deadline_s=5, what="the next millisecond", poll_s=0.002)
        process.kill()
        process.wait()
        killed_ms = now_ms()
        ended_ms = until(lambda: lives.ended_at_ms(uid), deadline_s=20, what="its end reported")
        assert alive_ms <= ended_ms <= killed_ms + 1000
        assert lives.accusations([removal(alive_ms)])
        assert lives.accusations([removal(ended_ms)]) == []
        assert lives.accusations([GroupEvent(**{**_fields(removal(alive_ms)), "reason": "another cause"})]) == []


def _fields(event: GroupEvent) -> dict[str, object]:
    return {name: getattr(event, name) for name in GroupEvent.__dataclass_fields__}


def test_a_seed_makes_the_same_drills_and_a_deletion_that_is_believed_is_true() -> None:
    batches = [draw(7, n) for n in range(400)]
    assert batches == [draw(7, n) for n in range(400)]
    assert batches != [draw(8, n) for n in range(400)]
    for batch in batches:
        is_believed = batch.ending is Ending.NODE_DELETED and batch.evidence.trusts_deletion
        assert batch.trouble is Trouble.OFF or not is_believed, batch.words
    assert {batch.fate(d) for batch in batches for d in batch.drills} == set(Fate)
    assert {(b.trouble, b.ending) for b in batches} == {(t, e) for t in Trouble for e in Ending}


def test_a_series_that_was_cut_off_goes_on_with_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "FIGURES", tmp_path / "figures.jsonl")
    series, done = Series(seed=3), []

    def one(batch: drawing.Batch) -> dict[str, object]:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(batch.number)
        return {}

    with pytest.raises(KeyboardInterrupt):
        series.run(one, lambda text: None)
    assert done == [0, 1, 2, 3, 4]
    rest: list[int] = []
    drills = series.run(lambda batch: rest.append(batch.number) or {}, lambda text: None)
    assert rest[0] == 5
    assert drills >= DRILLS_MIN
    assert len(series.done()) == len(done) + len(rest)
