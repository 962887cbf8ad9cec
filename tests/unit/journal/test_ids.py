"""The ids of the journal's records depend on the facts, not on the operator or the time."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.records import fact_of, group_record
from staticgroup.core.snapshot import History, RemovalRecord, Snapshot
from unit.core.builders import NOW_S, group, history, id_of, member, workload
from unit.journal.observer import NOW_MS, Observer, kip848, running

LOOK_DEPENDENT = {
    "state_before", "members", "partitions_total", "partitions_moved", "absorbed", "previous_member_id",
    "group_epoch", "replicas_before", "session_timeout_ms_before", "rebalances", "certificates", "reason", "replicas",
    "message",
}  # fmt: skip
"""Fields that depend on the time of observation and are not part of the fact."""


def test_long_names_stay_apart_within_the_bounds(observer: Observer) -> None:
    long = [member(n, f"{'x' * 3_000}{n}") for n in range(3)]
    ids = [f.id for f in observer.look(running(group=group(*long)))]
    assert len(set(ids)) == 3
    assert max(map(len, ids)) <= 2_000


class Life:
    """A random life of a group and its workload, one step after the other."""

    def __init__(self, steps: list[str], *, is_classic: bool) -> None:
        self.snapshots: list[Snapshot] = []
        self.members = {n: 0 for n in range(3)}
        self.epoch, self.generation, self.replicas, self.revision, self.joined = 5, 3, 3, 1, 0
        self.removals: dict[int, int] = {}
        self.is_classic = is_classic
        self.histories: list[History] = []
        for step in steps:
            getattr(self, step)()
            self.snapshots.append(self.snapshot())
            records = tuple(
                RemovalRecord(
                    instance_id=id_of(2), member_id=f"m2-{n}", coordinator="b", acknowledged_at_s=NOW_S, attempts=a
                )
                for n, a in self.removals.items()
            )
            self.histories.append(history(removals=records))

    def nothing(self) -> None:
        pass

    def restart(self) -> None:
        self.joined += 1
        self.members[1] = self.joined

    def join(self) -> None:
        self.joined += 1
        self.members[2] = self.joined
        self.epoch += 1

    def leave(self) -> None:
        gone = self.members.pop(2, None)
        if gone is not None:
            self.removals[gone] = self.removals.get(gone, 0) + 1
            self.epoch += 1

    def rebalance(self) -> None:
        self.epoch += 1

    def scale(self) -> None:
        self.generation += 1
        self.replicas = 3 if self.replicas == 4 else 4

    def roll(self) -> None:
        self.generation += 1
        self.revision += 1

    def snapshot(self) -> Snapshot:
        members = [
            member(
                n, f"m{n}-{m}", member_epoch=None if self.is_classic else self.epoch, assigned_partitions=self.epoch + n
            )
            for n, m in sorted(self.members.items())
        ]
        revision = f"r{self.revision}"
        view = workload(
            self.replicas, metadata_generation=self.generation, update_revision=revision, current_revision=revision
        )
        return running(group=group(*members) if self.is_classic else kip848(self.epoch, *members), workload=view)


STEPS = ["nothing", "restart", "join", "leave", "rebalance", "scale", "roll"]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=14), st.booleans(), st.data())
def test_ids_are_made_by_facts(steps: list[str], is_classic: bool, draw: st.DataObject) -> None:
    """Two observers read at different moments, one of them restarted in between: an id means one fact.

    No observer records an id twice in one life, and no id stands for two facts of any observers.
    """
    life = Life(steps, is_classic=is_classic)
    facts: dict[str, dict[str, Any]] = {}
    for name in ("one", "two"):
        observer = Observer(name)
        seen: set[str] = set()
        for n, snapshot in enumerate(life.snapshots):
            observer.now_ms = NOW_MS + n * 1_000_000
            if draw.draw(st.booleans(), label=f"{name} reads {n}"):
                if draw.draw(st.integers(0, 5), label="restarts") == 0:
                    observer.picture, seen = None, set()
                for fact in observer.look(snapshot, history=life.histories[n]):
                    said = fact_of(group_record("k8s", fact.id, fact.data))
                    said = {k: v for k, v in said.items() if k not in LOOK_DEPENDENT} | {"noun": fact.data.noun}
                    assert fact.id not in seen
                    seen.add(fact.id)
                    assert facts.setdefault(fact.id, said) == said
