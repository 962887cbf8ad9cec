"""One container of one pod, whose process ends and is started again: the product's own decisions against every order of events.

What is asked in each state: is the process of the member that would be released now really over? Processes join, are refused,
leave in good order or are killed; the kubelet tells of it late, or of several things at once; sessions expire; the operator
describes, hears and forgets at any moment. Time goes in steps of `STEP_S`, and the node's clock may be off by less than the margin.

Where somebody outside of the cluster has copied the id, its member may have the seat before the pod first runs, and lives throughout. The
operator is told so where it has described the group before; where it has not, nothing links a member to a pod.

It is one container and one pod; what other pods may hold is the matter of the model beside this one. With three steps of time there
are about a million states, which takes minutes.

Source: KIP-848 (a join is refused while another member holds the id and has not left); kubelet convertToAPIContainerStatuses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from staticgroup.core.evidence.continuity import Checkpoint

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.evidence.chain import Incarnation, fold
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, NodeView, PodVersion
from staticgroup.core.group import GroupType, GroupView, MemberView
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import (
    NOTHING_REMEMBERED,
    Evidence,
    FreshRead,
    History,
    Injected,
    SeatMemory,
    Snapshot,
)
from staticgroup.core.workload import WorkloadView

START_S: Final = 1_800_000_000.0
STEP_S: Final = 11.0
"""A little more than the margin between the describe of a member and the end of its run."""
RUNS_MAX: Final = 3
STRANGER: Final = -1
"""In place of a run: the process of somebody else with the same id, which never ends."""
SCOPE, EPOCH, ID = "3fa9c1d2", "a1b2c3d4a1b2c3d4", "web-0.3fa9c1d2"
SPEC: Final = StaticGroupSpec.model_validate(
    {
        "workloadRef": {"name": "web"},
        "connectionRef": {"name": "kafka"},
        "groupId": "orders",
        "protocol": "Consumer",
        "crashRelease": "Release",
    }
)
NODE: Final = NodeView(name="n1", uid="node-1", kubelet_version="v1.36.3", kubelet_minor=36)
WORKLOAD: Final = WorkloadView(
    namespace="shop", name="web", uid="w1", metadata_generation=1, observed_generation=1, replicas=1, status_replicas=1,
    ready_replicas=1, updated_replicas=1, current_revision="r", update_revision="r",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that is so at a moment; the second half is what the operator has in memory.

    Parameters
    ----------
    now: steps since the beginning.
    run: number of the present or last run, from 0. ended_s: by the node's clock, of this run, in seconds since the beginning;
        None: it lives. ended_before_s: of the run before; None: there is none. started_s: of this run.
    joined: the run has asked to join, or will not.
    holder: number of the run whose member holds the seat; None: nobody. is_away: it has left for a while.
    told: the newest version that the kubelet has written. heard: the operator has it.
    """

    now: int = 0
    run: int = 0
    started_s: float = 0.0
    ended_s: float | None = None
    ended_before_s: float | None = None
    joined: bool = False
    holder: int | None = None
    is_away: bool = False
    told: PodVersion | None = None
    heard: bool = True
    pod: Incarnation | None = None
    memory: SeatMemory = NOTHING_REMEMBERED

    @property
    def now_s(self) -> float:
        """The time, seconds since the Unix epoch."""
        return START_S + self.now * STEP_S

    def lives(self, run: int) -> bool:
        """Whether the process of a run lives."""
        return run == STRANGER or (run == self.run and self.ended_s is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was found.

    Parameters
    ----------
    states: how many there are. releases: in how many of them somebody is released.
    harm: the shortest way to the release of a process that lives; () when there is none.
    """

    states: int
    releases: int
    harm: tuple[str, ...] = ()


def searched(*, steps: int, clock_off_s: float = 0.0, stranger: bool = False, forgets: bool = True) -> Search:
    """Look at every state that can be reached.

    Parameters
    ----------
    steps: of time. clock_off_s: the node's clock is ahead by so much.
    stranger: somebody else has the seat one step before the pod first runs, and the operator has described the group since.
    forgets: the operator may restart at any moment.
    """
    first = World(started_s=clock_off_s)
    if stranger:
        seen = SeatMemory(described=((str(STRANGER), START_S),))
        first = World(now=1, started_s=STEP_S + clock_off_s, holder=STRANGER, memory=seen)
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    todo, releases = deque([first]), 0
    while todo:
        world = todo.popleft()
        for what, after, released in _moves(world, steps, clock_off_s, forgets):
            releases += released is not None
            if released is not None and world.lives(released):
                return Search(states=len(came_from), releases=releases, harm=(*_way(world, came_from), what))
            if after not in came_from:
                came_from[after] = (world, what)
                todo.append(after)
    return Search(states=len(came_from), releases=releases)


def _way(world: World, came_from: dict[World, tuple[World, str] | None]) -> tuple[str, ...]:
    steps: list[str] = []
    known = came_from[world]
    while known is not None:
        steps.append(known[1])
        known = came_from[known[0]]
    return tuple(reversed(steps))


def _moves(w: World, steps: int, clock_off_s: float, forgets: bool) -> Iterator[tuple[str, World, int | None]]:
    """Yield whatever may happen next, with the run whose member is released by it."""
    yield from ((what, after, None) for what, after in _of_processes(w, clock_off_s))
    if w.now < steps:
        yield "time passes", replace(w, now=w.now + 1), None
    version = _version(w)
    if w.told is None or version.required != w.told.required:
        yield "kubelet writes", replace(w, told=version, heard=False), None
    if w.told is not None and not w.heard:
        pod = fold(w.pod, w.told, NODE, from_birth=False, now_s=w.now_s)
        yield "operator hears", replace(w, heard=True, pod=pod), None
    if w.pod is not None:
        yield from _round(w)
    if w.pod is not None and forgets:
        yield "operator restarts", replace(w, pod=None, memory=NOTHING_REMEMBERED, heard=w.told is None), None


def _of_processes(w: World, clock_off_s: float) -> Iterator[tuple[str, World]]:
    at_s = w.now * STEP_S + clock_off_s
    if w.ended_s is None:
        yield "process is killed", replace(w, ended_s=at_s)
        if w.holder == w.run:
            yield "process ends in good order", replace(w, ended_s=at_s, is_away=True)
        if not w.joined and (w.holder is None or w.is_away):
            yield "process joins", replace(w, joined=True, holder=w.run, is_away=False)
    elif w.run + 1 < RUNS_MAX:
        yield "kubelet starts the next", replace(
            w, run=w.run + 1, started_s=at_s, ended_s=None, ended_before_s=w.ended_s, joined=False
        )
    if w.holder is not None and not w.lives(w.holder):
        yield "session expires", replace(w, holder=None, is_away=False)


def _version(w: World) -> PodVersion:
    """What the kubelet would write now."""
    before = None if w.run == 0 else _end(w.run - 1, w.ended_before_s)
    view = ContainerView(
        name="app",
        phase=ContainerPhase.RUNNING if w.ended_s is None else ContainerPhase.TERMINATED,
        container_id=f"containerd://{w.run}",
        may_hold_id=True,
        restart_count=w.run,
        started_at_s=START_S + w.started_s if w.ended_s is None else None,
        last_end=before if w.ended_s is None else _end(w.run, w.ended_s),
    )
    return PodVersion(
        namespace="shop", name="web-0", uid="u0", resource_version=1, node_name="n1", phase="Running", phase_manager="kubelet",
        phase_has_statuses=True, phase_written_at_s=w.now_s, created_at_s=START_S - 60, required=(view,),
        started_containers=frozenset({"app"}), instance_ids=frozenset({ID}), ids_are_fixed=True,
    )  # fmt: skip


def _end(run: int, at_s: float | None) -> EndView | None:
    return None if at_s is None else EndView(container_id=f"containerd://{run}", finished_at_s=START_S + at_s, reason="Error")


def _round(w: World) -> Iterator[tuple[str, World, int | None]]:
    """Let the operator describe, read and decide; what it sends is carried out, or its answer and effect are lost."""
    assert w.pod is not None
    members = () if w.holder is None else (_member(w.holder, -2 if w.is_away else 5),)
    group = GroupView(
        group_id="orders", group_type=GroupType.CONSUMER, state="Stable", coordinator="1@b:1", protocol_type="consumer",
        members=members, group_epoch=5, assignment_epoch=5,
    )  # fmt: skip
    fresh = FreshRead(is_expected=True, objects=(("web-0", "u0"),), resource_version=1, barrier_passed=True)
    snapshot = Snapshot(
        namespace="shop", name="orders", uid="sg", metadata_generation=1, workload=WORKLOAD, pods=(w.pod,), group=group,
        evidence={ID: Evidence(chain=(w.pod,), fresh=fresh)}, described_at_s=w.now_s, watch_epoch=EPOCH,
        continuity=Checkpoint(epoch=EPOCH, timeline="t", at_s=w.now_s, workload_name="web"), cluster_uid="c",
    )  # fmt: skip
    injected = Injected(
        scope=SCOPE, watch_epoch=EPOCH, method="Policy", id_template=f"{{podName}}.{SCOPE}", session_timeout_ms=None
    )
    history = History(injected=injected, issued_ordinals=Ordinals.of(range(1)), seats={ID: w.memory})
    decided = plan(SPEC, snapshot, history, w.now_s)
    memory = SeatMemory(described=decided.history.seats.get(ID, NOTHING_REMEMBERED).described)
    after = replace(w, memory=memory)
    for release in decided.releases:
        run = int(release.entry.member_id)
        yield "operator releases", replace(after, is_away=after.is_away or after.holder == run), run
    yield "operator describes", after, None


def _member(run: int, member_epoch: int) -> MemberView:
    return MemberView(member_id=str(run), instance_id=ID, member_epoch=member_epoch)
