"""Nodes fail, and what vanished from one is never removed for it; only a machine that is surely gone proves an end.

The one idea: many groups go through one failure of a node side by side, each with pods that go in another way. Truth is
the process table of the pods' cgroups and the brokers' log; the operator's status is held to it: what is not removed
must be said, with why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from e2e.conftest import print_state
from staticgroup.core.members.node_gone import WATCHED_S
from support.devcluster.kafka_log import now_ms
from support.devcluster.progress import say
from support.drills.batches import carry_out
from support.drills.cases import Act, Case
from support.drills.drawing import DRILLS_MIN, Series
from support.drills.ground import Ground
from support.drills.lives import PodLives
from support.drills.troubles import Evidence, Trouble, await_not_ready, out_of_service, reboot, register_again
from support.scene.figures import record, spread
from support.scene.play import Play
from support.scene.stage import Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(600)]

NewCase = Callable[..., Case]
GONE_S = 30.0
"""From the deletion of a Node to the removal of its members, on a busy machine."""
ON_AWS = "aws:///eu-west-1a/i-0123456789abcdef0"
SUSPECT = "Suspect"


@pytest.fixture
def ground(stage: Stage) -> Iterator[Ground]:
    """The ground; node and operator are as ever afterwards."""
    with PodLives.of(stage.cluster) as lives:
        made = Ground(stage=stage, node=stage.cluster.node("worker"), lives=lives)
        yield made
        made.mend()


@pytest.fixture
def new_case(ground: Ground, has_failed: Callable[[], bool]) -> Iterator[NewCase]:
    """Make drills; afterwards no living member of any may have been removed, whatever else has failed."""
    made: list[Case] = []

    def make(suffix: str, act: Act, **options: Any) -> Case:
        play = Play(
            stage=ground.stage, name=f"{suffix.replace('_', '-')}-{os.urandom(3).hex()}", **options.pop("play", {})
        )
        made.append(Case(game=play, act=act, **options))
        return made[-1]

    yield make
    if has_failed():
        for case in made:
            print_state(case.game)
    accusations = [each for c in made for each in ground.lives.accusations(c.game.events())]
    for case in made:
        case.close()
    assert accusations == []


@pytest.fixture(scope="module", autouse=True)
def restored(stage: Stage) -> Iterator[None]:
    """The operator runs with its default values again after the last drill."""
    yield
    stage.install()


def after_s(cases: Sequence[Case], since_ms: int) -> dict[str, float]:
    """Return how long after a moment members were removed."""
    return spread([(at_ms - since_ms) / 1000 for c in cases for at_ms in c.removed_at_ms().values()])


def dead_s(ground: Ground, cases: Sequence[Case]) -> dict[str, float]:
    """Return for how long each process had been dead at its removal; negative: a living member was removed."""
    found = []
    for case in cases:
        for ordinal, at_ms in case.removed_at_ms().items():
            ended_at_ms = ground.lives.ended_at_ms(case.uids[ordinal])
            assert ended_at_ms is not None, f"{case.pod(ordinal)} was removed alive"
            found.append((at_ms - ended_at_ms) / 1000)
    return spread(found)


def held_for(cases: Sequence[Case]) -> set[str]:
    """Return the reasons for which departed members of drills are held back, by what the status says."""
    return {
        reason for c in cases for pod_name, reason in c.held().items() if pod_name in {c.pod(o) for o in c.ordinals}
    }


@pytest.mark.long
def test_what_vanished_under_a_frozen_kubelet_is_never_removed_whatever_the_node_does_later(
    new_case: NewCase, ground: Ground
) -> None:
    """Seven kinds of zombies outlive the operator, PodGC, their kubelet's return and a reboot; one ends ordinarily."""
    ground.prepare(Evidence())
    zombies = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.REPLACED, Act.ORPHANED)]
    zombies += [new_case(f"two-{a.name.lower()}", a, replicas=3, leaving=2) for a in (Act.SCALED, Act.REPLACED)]
    # PodGC deletes the second one by force, as that of a node which is out of service.
    zombies += [new_case("overdue", Act.OVERDUE, grace_s=1), new_case("collected", Act.ENDED)]
    released = new_case("released", Act.RELEASED)
    ground.start([*zombies, released])

    handed_over_s = freeze(ground, zombies, released)
    assert zombies[0].pod(1) in zombies[0].explained()
    thawed_at_ms = now_ms()
    Trouble.FROZEN.end(ground.node)
    ground.await_ended(zombies)
    ground.hold(zombies, alive=False)
    deleted_at_ms = now_ms()
    ground.api.delete("Pod", released.pod(1), released.name)
    ground.await_removed([released], 60)
    reboot(ground.node)
    ground.hold(zombies, alive=False)
    assert held_for(zombies) == {SUSPECT}
    ground.judge([*zombies, released])
    record("nodes: frozen kubelet", drills=len(zombies) + 1, live_removals=0, handed_over_s=handed_over_s,
           held_after_thaw_s=round((now_ms() - thawed_at_ms) / 1000, 1), removed_after_deletion_s=after_s([released],
           deleted_at_ms))  # fmt: skip


def freeze(ground: Ground, zombies: Sequence[Case], released: Case) -> float:
    """Delete objects under a frozen kubelet and kill the operator; returns for how long no operator acted."""
    Trouble.FROZEN.begin(ground.node)
    ground.perform([*zombies, released])
    collected = zombies[-1]
    ground.await_settled([*zombies[:-1], released], 120)
    handed_over_s = ground.kill_operator()
    await_not_ready(ground.node, ground.api)
    with out_of_service(ground.node, ground.api):  # without a statement of any user
        collected.await_shown(lambda shown: not shown.keys() & collected.gone_uids, "a pod collected")
        ground.hold([*zombies, released])
    return handed_over_s


@pytest.mark.parametrize(
    ("lifecycle", "provider_id"),
    [
        ("Auto", ON_AWS),
        pytest.param("Cloud", "", marks=pytest.mark.long),
        pytest.param("Fixed", "", marks=pytest.mark.long),
    ],
)
def test_deleted_node_of_a_machine_that_is_off(
    new_case: NewCase, ground: Ground, lifecycle: str, provider_id: str
) -> None:
    """Off alone is no proof; that the Node was deleted is one, where only those of dead machines are."""
    ground.prepare(Evidence(node_lifecycle=lifecycle, provider_id=provider_id))
    watched_since_s = time.monotonic()
    # Not of a StatefulSet that is deleted: the members of one wait for a minute whatever is proven, because it is often
    # made again.
    cases = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.REPLACED)]
    cases.append(new_case("two", Act.SCALED, replicas=3, leaving=2))
    ground.start(cases)
    until(lambda: time.monotonic() - watched_since_s > WATCHED_S + 5, deadline_s=WATCHED_S + 30, what="a Node watched long")
    Trouble.OFF.begin(ground.node)
    ground.perform(cases)
    ground.hold(cases, alive=False)
    said_at_ms = now_ms()
    ground.api.delete("Node", ground.node.name)
    ground.await_removed(cases, 90)
    removed_s = after_s(cases, said_at_ms)
    ground.judge(cases)
    record(f"nodes: deleted under {lifecycle}, machine off", drills=len(cases), live_removals=0,
           removed_after_deletion_s=removed_s,
           dead_before_removal_s=dead_s(ground, cases))  # fmt: skip
    assert removed_s["max"] <= GONE_S


@pytest.mark.parametrize("lifecycle", ["Auto", pytest.param("Untrusted", marks=pytest.mark.long)])
def test_node_of_no_cloud_that_is_deleted_while_its_pods_live(
    new_case: NewCase, ground: Ground, lifecycle: str
) -> None:
    """`kubectl delete node` of a machine whose kubelet is only away, a common recipe, proves nothing, now or later."""
    ground.prepare(Evidence(node_lifecycle=lifecycle))
    cases = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.REPLACED)]
    ground.start(cases)
    Trouble.KUBELET_STOPPED.begin(ground.node)
    ground.perform(cases)
    await_not_ready(ground.node, ground.api)
    deleted_at_ms = now_ms()
    ground.api.delete("Node", ground.node.name)
    ground.hold(cases)
    register_again(ground.node)
    ground.await_ended(cases)
    ground.hold(cases, alive=False)
    assert held_for(cases) == {SUSPECT}
    ground.judge(cases)
    record(f"nodes: deleted under {lifecycle}, kubelet stopped", drills=len(cases), live_removals=0, removed=0,
           watched_s=round((now_ms() - deleted_at_ms) / 1000, 1))  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(8 * 3600)
def test_drawn_drills(ground: Ground) -> None:
    """200 drills or more, a batch at each failure; DRILL_SEED continues a run that was cut off."""
    series = Series.of_environment()
    drills = series.run(lambda batch: carry_out(ground, batch), say)
    rows = series.done()
    record("nodes: drawn drills", seed=series.seed, drills=drills, batches=len(rows),
           live_removals=sum(r["live_removals"] for r in rows),
           removed=sum(r["removed"] for r in rows))  # fmt: skip
    assert drills >= DRILLS_MIN
