"""One container of one pod that is restarted: the product's crash releases against every order of events.

What is asked in each state: is the process of the member that would be released now over? Processes join, are refused,
leave in good order, or are killed; the kubelet reports it late, or several ends at once; sessions expire; the operator
describes, receives versions and restarts at any moment. Time advances in steps of `STEP_S`, and the node's clock may be
off.

Source: KIP-848 (a join is refused while another member holds the id and has not left); kubelet
convertToAPIContainerStatuses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.evidence.chain import KnownPod, fold
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion
from staticgroup.core.group import GroupType, GroupView, MemberView
from staticgroup.core.members.carriers import attribute
from staticgroup.core.members.memory import Members, Sight
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Evidence, FreshRead, History, Injected, Snapshot
from staticgroup.core.workload import WorkloadView

from .found import Found
from .pods import ID, NAMESPACE, POD, SCOPE, node, node_of, uid_of

START_S: Final = 1_800_000_000.0
STEP_S: Final = 11.0
"""A little more than the margin between the describe of a member and the end of its run."""
RUNS_MAX: Final = 3
NOBODY: Final = -1
SPEC: Final = StaticGroupSpec.model_validate(
    {
        "workloadRef": {"name": "web"},
        "connectionRef": {"name": "kafka"},
        "groupId": "orders",
        "groupProtocol": "Consumer",
        "removal": "DepartedAndCrashed",
    }
)
WORKLOAD: Final = WorkloadView(
    namespace=NAMESPACE, name="web", uid="w1", metadata_generation=1, observed_generation=1, replicas=1,
    status_replicas=1,
    ready_replicas=1, updated_replicas=1, current_revision="r", update_revision="r",
)  # fmt: skip
_HISTORY: Final = History(
    injected=Injected(
        scope=SCOPE, method="Policy", id_template=f"{{podName}}.{SCOPE}", session_timeout_ms=None, container="app",
    ),
    issued_ordinals=Ordinals.of(range(1)),
)


class WrittenStatus(NamedTuple):
    """What the kubelet wrote in which step: a run, its end, and the end of the run before; node's clock, seconds."""

    run: int
    ended_s: float | None
    ended_before_s: float | None
    step: int


class World(NamedTuple):
    """Everything that is so at a moment; the second half is what the operator has in memory.

    Parameters
    ----------
    now: steps since the beginning.
    run: number of the present or last run. ended_s: by the node's clock; None: it lives. ended_before_s: of the run
        before.
    holder: number of the run whose member holds the seat; NOBODY. is_away: it has left for a while.
    written: the newest version that the kubelet has written. is_received: the operator has it. pod: number of the pod
        history that the operator has folded; NOBODY: none.
    first: the run whose member is remembered, and in which step it was described first; None: none is.
    """

    now: int = 0
    run: int = 0
    ended_s: float | None = None
    ended_before_s: float | None = None
    has_joined: bool = False
    holder: int = NOBODY
    is_away: bool = False
    written: WrittenStatus | None = None
    is_received: bool = True
    pod: int = NOBODY
    first: tuple[int, int] | None = None

    def lives(self, run: int) -> bool:
        """Whether the process of a run lives."""
        return run == self.run and self.ended_s is None


class Runs:
    """All moves.

    Parameters
    ----------
    steps: of time. clock_off_s: the node's clock is ahead by so much.
    """

    def __init__(self, *, steps: int, clock_off_s: float = 0.0) -> None:
        self._steps, self._clock_off_s = steps, clock_off_s
        self._pods: list[KnownPod] = []
        self._numbers: dict[object, int] = {}
        self._rounds: dict[object, tuple[tuple[int, int] | None, int]] = {}

    @property
    def questions(self) -> int:
        """How many different ones the product was asked."""
        return len(self._rounds)

    def moves(self, w: World) -> Iterator[tuple[str, World, int]]:
        """Yield whatever may happen next, with the run whose member is released by it."""
        for says, after in self._of_processes(w):
            yield says, after, NOBODY
        if w.now < self._steps:
            yield "time passes", w._replace(now=w.now + 1), NOBODY
        written = WrittenStatus(w.run, w.ended_s, w.ended_before_s, w.now)
        if w.written is None or written[:3] != w.written[:3]:
            yield "kubelet writes", w._replace(written=written, is_received=False), NOBODY
        if w.written is not None and not w.is_received:
            yield (
                "operator receives the version",
                w._replace(is_received=True, pod=self._folded(w.pod, w.written, w.now)),
                NOBODY,
            )
        if w.pod != NOBODY:
            first, released = self._round(w)
            after = w._replace(first=first)
            yield f"operator describes {_member_name(w.holder)}", after, NOBODY
            if released != NOBODY:
                yield (
                    f"operator describes and releases {_member_name(released)}",
                    after._replace(is_away=True),
                    released,
                )
            yield "operator restarts", w._replace(pod=NOBODY, first=None, is_received=w.written is None), NOBODY

    def _of_processes(self, w: World) -> Iterator[tuple[str, World]]:
        at_s = w.now * STEP_S + self._clock_off_s
        if w.ended_s is None:
            yield "process is killed", w._replace(ended_s=at_s)
            if w.holder == w.run:
                yield "process ends in good order", w._replace(ended_s=at_s, is_away=True)
            if not w.has_joined and (w.holder == NOBODY or w.is_away):
                yield (
                    f"process joins as {_member_name(w.run)}",
                    w._replace(has_joined=True, holder=w.run, is_away=False),
                )
        elif w.run + 1 < RUNS_MAX:
            yield (
                "kubelet starts the next",
                w._replace(run=w.run + 1, ended_s=None, ended_before_s=w.ended_s, has_joined=False),
            )
        if w.holder != NOBODY and not w.lives(w.holder):
            yield "session expires", w._replace(holder=NOBODY, is_away=False)

    def _folded(self, known: int, written: WrittenStatus, now: int) -> int:
        before = self._pods[known] if known != NOBODY else None
        pod = fold(before, _version(written), node(node_of(1)), from_birth=False, now_s=START_S + now * STEP_S)
        pod = replace(pod, since_s=START_S)
        key = (pod.ends, pod.restarts)
        if key not in self._numbers:
            self._numbers[key] = len(self._pods)
            self._pods.append(pod)
        return self._numbers[key]

    def _round(self, w: World) -> tuple[tuple[int, int] | None, int]:
        """Let the operator describe, read and decide; returns what it remembers then, and whom it releases."""
        key = (w.now, w.holder, w.is_away, w.pod, w.first)
        if key not in self._rounds:
            self._rounds[key] = self._decided(w)
        return self._rounds[key]

    def _decided(self, w: World) -> tuple[tuple[int, int] | None, int]:
        now_s, pod = START_S + w.now * STEP_S, self._pods[w.pod]
        members = (
            ()
            if w.holder == NOBODY
            else (MemberView(member_id=str(w.holder), instance_id=ID, member_epoch=-2 if w.is_away else 5),)
        )
        group = GroupView(
            group_id="orders", group_type=GroupType.CONSUMER, state="Stable", coordinator="1@b:1",
            protocol_type="consumer", members=members,
            group_epoch=5, assignment_epoch=5,
        )  # fmt: skip
        sight = Sight(
            watch="w1", described_at_s=now_s, dated_at_s=now_s, has_passed=True, carrying={ID: frozenset({pod.uid})}
        )
        fresh = FreshRead(is_expected=True, objects=((POD, pod.uid),), resource_version=1, barrier_passed=True)
        snapshot = Snapshot(
            namespace=NAMESPACE, name="orders", uid="sg", metadata_generation=1, workload=WORKLOAD, pods=(pod,),
            known=(pod,), group=group,
            evidence={ID: Evidence(chain=(pod,), fresh=fresh)}, described_at_s=now_s, watch="w1", sight=sight,
            cluster_uid="c",
        )  # fmt: skip
        decided = plan(SPEC, snapshot, replace(_HISTORY, members=_remembered(w.first, pod.uid)), now_s)
        known = decided.history.members.attributions.get(ID)
        released = next((int(r.entry.member_id) for r in decided.releases), NOBODY)
        if known is None:
            return None, released
        return (w.holder, round((known.first_seen_s - START_S) / STEP_S)), released


def _remembered(first: tuple[int, int] | None, uid: str) -> Members:
    members = Members(watch="w1", watch_described="w1")
    if first is None:
        return members
    run, step = first
    known = attribute(
        str(run), carrying=(uid,), is_watch_young=False, has_one_ended=False, now_s=START_S + step * STEP_S
    )
    return replace(members, attributions={ID: known})


def _version(written: WrittenStatus) -> PodVersion:
    has_ended = written.ended_s is not None
    view = ContainerView(
        name="app",
        phase=ContainerPhase.TERMINATED if has_ended else ContainerPhase.RUNNING,
        container_id=f"containerd://{written.run}",
        may_hold_id=True,
        restart_count=written.run,
        last_end=_end(written.run, written.ended_s) if has_ended else _end(written.run - 1, written.ended_before_s),
    )
    return PodVersion(
        namespace=NAMESPACE, name=POD, uid=uid_of(1), resource_version=1, node_name=node_of(1), phase="Running",
        phase_manager="kubelet",
        phase_has_statuses=True, phase_written_at_s=START_S + written.step * STEP_S, created_at_s=START_S - 60,
        required=(view,),
        started_containers=frozenset({"app"}), restart_count=written.run, instance_ids=frozenset({ID}),
        ids_are_fixed=True,
    )  # fmt: skip


def _end(run: int, at_s: float | None) -> EndView | None:
    return (
        None
        if at_s is None
        else EndView(container_id=f"containerd://{run}", finished_at_s=START_S + at_s, reason="Error")
    )


def _member_name(run: int) -> str:
    return "nobody" if run == NOBODY else f"m{run + 1}"


def search_runs(*, steps: int, clock_off_s: float = 0.0) -> Found:
    """Visit every reachable state, or stop at the release of a live member; parameters as for `Runs`."""
    began_s = time.process_time()
    model, first = Runs(steps=steps, clock_off_s=clock_off_s), World()
    order, came_from = [first], {first: (first, "")}
    releases = at = 0
    trace: tuple[str, ...] = ()
    while at < len(order) and not trace:
        w = order[at]
        for says, after, released in model.moves(w):
            if released != NOBODY and w.lives(released):
                trace = (*_way(w, came_from), f"{says}  <-- LIVE")
                break
            releases += released != NOBODY
            if after not in came_from:
                came_from[after] = (w, says)
                order.append(after)
        at += 1
    return Found(
        scenario="crash release", states=len(order), removals=releases, inside=0, seconds=time.process_time() - began_s,
        questions=model.questions, trace=trace, is_exhausted=not trace,
    )  # fmt: skip


def _way(w: World, came_from: dict[World, tuple[World, str]]) -> tuple[str, ...]:
    steps: list[str] = []
    while came_from[w][1]:
        w, says = came_from[w]
        steps.append(says)
    return tuple(reversed(steps))
