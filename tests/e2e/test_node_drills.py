"""Nodes fail, and what they show afterwards removes the dead and nobody else.

The one idea: many groups go through one failure of a node side by side, each with pods that go in another way. Truth is the process
table of the pods' cgroups and the brokers' log; the operator's status is held to it: what is not removed must be said, with what is owed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from e2e.conftest import tell_what_was_there
from support.devcluster.kafka_log import now_ms
from support.devcluster.progress import say
from support.drills.batches import carry_out
from support.drills.cases import UNHURRIED_S, Act, Case
from support.drills.drawing import DRILLS_MIN, Series
from support.drills.ground import Ground
from support.drills.lives import PodLives
from support.drills.troubles import (
    MARGIN_S,
    Evidence,
    Trouble,
    await_not_ready,
    out_of_service,
    reboot,
    register_again,
)
from support.scene.figures import record, spread
from support.scene.play import Play
from support.scene.stage import Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NewCase = Callable[..., Case]
LOOKS_S = 20.0
"""What comes on top of grace and margin: a tick of 5 s before and after, and a renewal of the node's Lease, due every 10 s."""
HERALD_S = 20.0
"""Until a pod that waited for the kubelet runs, on a busy machine."""
WORD_S = 30.0


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
        play = Play(stage=ground.stage, name=f"{suffix.replace('_', '-')}-{os.urandom(3).hex()}", **options.pop("play", {}))
        made.append(Case(game=play, act=act, **options))
        return made[-1]

    yield make
    if has_failed():
        for case in made:
            tell_what_was_there(case.game)
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
    """Return for how long each process had been dead when its member was removed; a negative one is a living member removed."""
    found = []
    for case in cases:
        for ordinal, at_ms in case.removed_at_ms().items():
            ended_at_ms = ground.lives.ended_at_ms(case.uids[ordinal])
            assert ended_at_ms is not None, f"{case.pod(ordinal)} was removed alive"
            found.append((at_ms - ended_at_ms) / 1000)
    return spread(found)


def test_frozen_kubelet(new_case: NewCase, ground: Ground) -> None:
    """Zombies of nine kinds outlive the acting operator too; the kubelet's later work frees five of them, a reboot two more."""
    ground.prepare(Evidence())
    reaped = [new_case(a.name.lower(), a, grace_s=UNHURRIED_S) for a in (Act.SCALED, Act.REPLACED, Act.ORPHANED)]
    reaped += [
        new_case(f"two-{a.name.lower()}", a, replicas=3, leaving=2, grace_s=UNHURRIED_S) for a in (Act.SCALED, Act.REPLACED)
    ]
    # PodGC deletes the second one by force, as that of a node which is out of service.
    overdue = [new_case("overdue", Act.OVERDUE, grace_s=1), new_case("collected", Act.ENDED)]
    stripped, released = new_case("stripped", Act.STRIPPED), new_case("released", Act.RELEASED)
    runtime = new_case("runtime", Act.SCALED)
    zombies = [*reaped, *overdue, stripped, released]
    ground.start([*zombies, runtime])

    gone_at_ms, handed_over_s = freeze(ground, zombies, overdue[1])
    explained = reaped[0].explained()
    assert ground.node.name in explained
    assert reaped[0].pod(1) in explained
    ground.await_told(reaped, "has to start a container")
    thaw(ground, reaped, overdue, handed_over_s)
    end_the_stripped(ground, stripped, released)
    boot(ground, overdue, runtime, gone_at_ms)
    ground.judge([*zombies, runtime])


def freeze(ground: Ground, zombies: Sequence[Case], collected: Case) -> tuple[int, float]:
    """Let objects go under a frozen kubelet, kill the operator, and see that everybody stays.

    Returns
    -------
    When the last object was gone, that which PodGC collects included, and how long no operator acted.
    """
    Trouble.FROZEN.begin(ground.node)
    ground.perform(zombies)
    ground.await_settled(zombies, 120)
    handed_over_s = ground.kill_operator()
    await_not_ready(ground.node, ground.api)
    with out_of_service(ground.node, ground.api):  # nobody's word, because it is not trusted
        ground.hold(zombies)
        collected.await_shown(lambda shown: not shown.keys() & collected.gone_uids, "a pod collected")
        gone_at_ms = now_ms()
    return gone_at_ms, handed_over_s


def thaw(ground: Ground, reaped: Sequence[Case], overdue: Sequence[Case], handed_over_s: float) -> None:
    """Let the kubelet go on: what it surely ends is removed, what was overdue waits for a reboot."""
    thawed_at_ms = now_ms()
    Trouble.FROZEN.end(ground.node)
    bound_s = reaped[0].grace_s + MARGIN_S + LOOKS_S + HERALD_S
    ground.await_removed(reaped, bound_s + 30)
    removed_s = after_s(reaped, thawed_at_ms)
    started_s = (ground.first_start_ms(reaped, thawed_at_ms) - thawed_at_ms) / 1000
    ground.await_told(overdue, "only a reboot")
    record("nodes: frozen kubelet", drills=len(reaped), live_removals=0, handed_over_s=handed_over_s, removed_after_thaw_s=removed_s,
           container_started_after_thaw_s=started_s, dead_before_removal_s=dead_s(ground, reaped),
           grace_and_margin_s=reaped[0].grace_s + MARGIN_S)  # fmt: skip
    assert removed_s["max"] <= bound_s


def end_the_stripped(ground: Ground, stripped: Case, released: Case) -> None:
    """The one that nobody told to end lives on until somebody does; the end of the one that is not watched is not known."""
    ground.hold([released])
    ground.await_settled([stripped])
    assert stripped.removed_at_ms() or stripped.owed()
    ended_at_ms = now_ms()
    ground.api.delete("Pod", released.pod(1), released.name)
    ground.await_removed([released], 60)
    record("nodes: label stripped", drills=2, live_removals=0, removed_after_deletion_s=after_s([released], ended_at_ms),
           stripped="removed" if stripped.removed_at_ms() else sorted(stripped.owed()))  # fmt: skip


def boot(ground: Ground, overdue: list[Case], runtime: Case, gone_at_ms: int) -> None:
    """The runtime goes, so that nothing can be ended, and then the machine is booted: what was overdue has ended for sure."""
    Trouble.RUNTIME_STOPPED.begin(ground.node)
    ground.perform([runtime])
    ground.hold([runtime])
    until(lambda: now_ms() > gone_at_ms + 66_000, deadline_s=90, what="a boot that is surely later than what went", poll_s=0.5)
    booted_at_ms = now_ms()
    reboot(ground.node)
    bound_s = runtime.grace_s + MARGIN_S + LOOKS_S + HERALD_S
    ground.await_removed([*overdue, runtime], bound_s + 60)
    record("nodes: rebooted", drills=len(overdue) + 1, live_removals=0, removed_after_boot_s=after_s([*overdue, runtime], booted_at_ms),
           dead_before_removal_s=dead_s(ground, [*overdue, runtime]))  # fmt: skip


@pytest.mark.parametrize("lifecycle", ["Cloud", pytest.param("Fixed", marks=pytest.mark.long)])
def test_deleted_node_of_a_machine_that_is_off(new_case: NewCase, ground: Ground, lifecycle: str) -> None:
    """Off alone is no proof; that the Node was deleted is one, where only those of dead machines are."""
    ground.prepare(Evidence(node_lifecycle=lifecycle))
    cases = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.REPLACED)]
    cases.append(new_case("two", Act.SCALED, replicas=3, leaving=2))
    ground.start(cases)
    Trouble.OFF.begin(ground.node)
    ground.perform(cases)
    ground.hold(cases, alive=False)
    said_at_ms = now_ms()
    ground.api.delete("Node", ground.node.name)
    ground.await_removed(cases, 90)
    removed_s = after_s(cases, said_at_ms)
    ground.judge(cases)
    record(f"nodes: deleted under {lifecycle}, machine off", drills=len(cases), live_removals=0, removed_after_deletion_s=removed_s,
           dead_before_removal_s=dead_s(ground, cases))  # fmt: skip
    assert removed_s["max"] <= WORD_S


@pytest.mark.long
def test_trusted_taint_of_a_machine_that_is_off(new_case: NewCase, ground: Ground) -> None:
    """The taint counts, if it came after the pods and a minute later at that, whatever became of their StatefulSet."""
    ground.prepare(Evidence(trusts_taint=True))
    cases = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.ORPHANED)]
    ground.start(cases)
    started_at_ms = now_ms()
    Trouble.OFF.begin(ground.node)
    ground.perform(cases)
    ground.hold(cases, alive=False)
    until(lambda: now_ms() > started_at_ms + 62_000, deadline_s=90, what="a taint that is surely later than the pods", poll_s=0.5)
    said_at_ms = now_ms()
    with out_of_service(ground.node, ground.api):
        ground.await_removed(cases, 90)
    removed_s = after_s(cases, said_at_ms)
    ground.judge(cases)
    record("nodes: trusted taint, machine off", drills=len(cases), live_removals=0, removed_after_taint_s=removed_s,
           dead_before_removal_s=dead_s(ground, cases))  # fmt: skip
    assert removed_s["max"] <= WORD_S


def test_untrusted_node_that_is_deleted_while_its_pods_live(new_case: NewCase, ground: Ground) -> None:
    """`kubectl delete node` of a machine whose kubelet is only away, a common recipe: nothing of it is a proof, then or later."""
    ground.prepare(Evidence(), is_remembered=False)
    cases = [new_case(a.name.lower(), a) for a in (Act.SCALED, Act.REPLACED)]
    ground.start(cases)
    Trouble.KUBELET_STOPPED.begin(ground.node)
    ground.perform(cases)
    await_not_ready(ground.node, ground.api)
    deleted_at_ms = now_ms()
    ground.api.delete("Node", ground.node.name)
    ground.await_told(cases, "is deleted, which says nothing of its machine")
    ground.hold(cases)
    assert "is deleted, which says nothing of its machine" in cases[0].explained()

    register_again(ground.node)
    ground.send_heralds(cases[0].name)
    until(lambda: not any(ground.lives.is_alive(u) for c in cases for u in c.gone_uids), deadline_s=90, what="zombies to end")
    ground.await_told(cases, "may have been another machine")
    ground.hold(cases, alive=False)
    ground.judge(cases)
    record("nodes: deleted under Untrusted, kubelet stopped", drills=len(cases), live_removals=0, removed=0,
           watched_s=round((now_ms() - deleted_at_ms) / 1000, 1))  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(8 * 3600)
def test_drawn_drills(ground: Ground) -> None:
    """200 drills and more, a batch of them at each failure; DRILL_SEED goes on with what a run that was cut off has left."""
    series = Series.of_environment()
    drills = series.run(lambda batch: carry_out(ground, batch), say)
    rows = series.done()
    record("nodes: drawn drills", seed=series.seed, drills=drills, batches=len(rows), live_removals=sum(r["live_removals"] for r in rows),
           removed=sum(r["removed"] for r in rows))  # fmt: skip
    assert drills >= DRILLS_MIN
