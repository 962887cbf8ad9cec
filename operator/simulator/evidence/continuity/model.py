"""All steps of all actors of one scenario, as the search wants them."""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Step
from .checkpoints import Checkpoints
from .environment import Environment
from .etcd import Etcd
from .processes import Processes
from .rounds import Rounds
from .scenario import FAULTS, Scenario
from .state import DOWN, RUNS, STARTING, Backup, Facts, Lease, Pod, Replica, State, StatefulSet, Status, canonical
from .watch import Watch


class ContinuityModel:
    """The model of one pod name under the continuity rules."""

    def __init__(self, scenario: Scenario) -> None:
        self.name = scenario.name
        self.progress = scenario.progress
        self.start = initial(scenario)
        self._actors = (Environment(scenario), Watch(scenario), Checkpoints(scenario), Processes(scenario), Etcd(scenario), Rounds(scenario))

    def moves(self, state: State) -> Iterator[Step]:
        """Yield every step of every actor."""
        for actor in self._actors:
            yield from actor.steps(state)

    def canonical(self, state: State) -> State:
        """Return the state that stands for all that differ by names only."""
        return canonical(state)

    def must_end(self, state: State) -> bool:
        """Nothing is promised here about departures that end; the model beside this one does."""
        return False


def initial(scenario: Scenario) -> State:
    """Return the beginning: pod 1 carries the id and holds it; one operator watches, the checkpoint is written."""
    pod = None if scenario.has_ended else Pod(1, STARTING if scenario.is_slow else RUNS)
    dead = 0 if pod else 2
    facts = Facts(1, 1, True)
    leader = Replica(pod=pod, known=2, dead=dead, is_born=scenario.is_slow, facts=facts)
    standby = Replica(mode=DOWN, has_led=False, is_current=False)
    status = Status(0, pod.uid if pod else 0, facts, 2, dead) if scenario.is_durable else None
    lease = Lease(0, dead) if scenario.has_positions and scenario.is_backed_up else None
    now = StatefulSet()
    return State(
        stateful_set=now,
        pod=pod,
        born=1,
        alive=2 & ~dead,
        holder=1,
        replicas=(leader, standby)[: scenario.operators],
        left=tuple(scenario.faults.get(fault, 0) for fault in FAULTS),
        status=status,
        lease=lease,
        backup=Backup(now, pod, status, (), 0, lease) if scenario.is_backed_up else None,
    )
