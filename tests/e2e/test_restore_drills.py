"""etcd is restored from a backup: uids whose end was proven run again, and what was proven of them before says nothing.

The one idea: between backup and restore every pod that matters ends with a proof, so an operator that believed its own
memory would remove the members that run under the same uids afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import print_state
from support.devcluster.kafka_log import now_ms
from support.drills.cases import Act, Case
from support.drills.ground import Ground
from support.drills.lives import PodLives
from support.drills.restores import back_up, restore
from support.drills.troubles import Evidence, Trouble, repair
from support.scene.figures import record
from support.scene.play import Play
from support.scene.stage import Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def ground(stage: Stage) -> Iterator[Ground]:
    """The ground; the operator is as ever afterwards, on a cluster that has gone back in time."""
    with PodLives.of(stage.cluster) as lives:
        made = Ground(stage=stage, node=stage.cluster.node("worker"), lives=lives)
        yield made
        made.mend()
        stage.values = {}
        stage.install()


@pytest.mark.parametrize(
    ("operator_runs", "raised_by"),
    [(True, 0), (False, 0), (False, 1_000_000_000)],
    ids=["operator-runs", "operator-away", "operator-away-raised"],
)
def test_restored_uids_are_not_believed_to_be_dead(
    ground: Ground, operator_runs: bool, raised_by: int
) -> None:
    """Pods 1 of both groups ended after the backup; restored, they run again and become zombies on a frozen kubelet.

    Where the revision is raised, as etcd describes it for Kubernetes, no resourceVersion goes back.
    """
    ground.prepare(Evidence())
    cases = [
        Case(game=Play(stage=ground.stage, name=f"restore-{which}-{os.urandom(2).hex()}"), act=Act.SCALED)
        for which in "ab"
    ]
    replaced, removed = cases
    try:
        ground.start(cases)
        copy = back_up(ground.stage.cluster)
        ground.api.delete("Pod", replaced.pod(1), replaced.name)
        replaced.await_shown(lambda shown: replaced.uids[1] not in shown and len(shown) == 2, "pod 1 replaced")
        removed.scale(1)
        ground.await_removed([removed], 60)
        rejoin_after_restore(ground, cases, copy, operator_runs=operator_runs, raised_by=raised_by)

        Trouble.FROZEN.begin(ground.node)
        ground.perform(cases)
        ground.hold(cases)
        Trouble.FROZEN.end(ground.node)
        ground.await_ended(cases)
        ground.await_settled(cases)
        outcomes = {c.name: sorted(set(c.held().values())) or "removed" for c in cases}
        accusations = [each for c in cases for each in ground.lives.accusations(c.game.events())]
        record(
            "nodes: etcd restored", operator_runs=operator_runs, raised_by=raised_by, drills=2,
            live_removals=len(accusations), outcomes=list(outcomes.values()),
        )  # fmt: skip
        assert accusations == []
    except AssertionError:
        for case in cases:
            print_state(case.game)
        raise
    finally:
        for case in cases:
            case.close()


def rejoin_after_restore(ground: Ground, cases: list[Case], copy: Path, *, operator_runs: bool, raised_by: int) -> None:
    """Restore the backup, wait until its pods run again, and read their uids and members."""
    cluster = ground.stage.cluster
    if not operator_runs:
        ground.api.patch("Deployment", "staticgroup-operator", "staticgroup-system", {"spec": {"replicas": 0}})
        until(lambda: not ground.operators(), deadline_s=90, what="no operator", poll_s=0.5)
    before = {uid for c in cases for uid in c.gone_uids}
    # A kubelet that has seen a uid end says so again and starts it never again, but a new one does. The operator's pods
    # are on the other node.
    nodes = (ground.node, *(() if operator_runs else (cluster.node("control-plane"),)))
    for node in nodes:
        node.process("kubelet").stop(grace_s=0)
    restored_ms = now_ms()
    restore(cluster, copy, raised_by=raised_by)
    for node in nodes:
        repair(node)
    ground.active(since_ms=restored_ms)
    for case in cases:
        uid = case.uids[1]
        what = f"pod 1 of {case.name} to run again"
        until(lambda uid=uid: ground.lives.is_alive(uid), deadline_s=120, what=what)  # type: ignore[misc]
        case.await_joined()
    assert {uid for c in cases for uid in c.gone_uids} == before, (
        "the same uids as before, so that what was proven of them matters"
    )
