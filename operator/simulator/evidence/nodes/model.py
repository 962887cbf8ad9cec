"""All steps of all actors of one scenario, as the search wants them."""

from __future__ import annotations

from collections.abc import Iterator

from .scenario import NodeScenario
from .state import FAULTS, Machine, Node, State, Watcher
from .watcher import LIVING, Watching
from .world import Step, World


class NodeModel:
    """The model of one pod and its node."""

    def __init__(self, scenario: NodeScenario) -> None:
        self.name = scenario.name
        self.progress = scenario.progress
        self.start = initial(scenario)
        self._world = World(scenario)
        self._watching = Watching(scenario)

    def moves(self, state: State) -> Iterator[Step]:
        """Yield every step of every actor; after a certificate only those by which the process may run again."""
        for step in self._world.steps(state):
            after = self._watching.followed(state, step.after)
            lives_again = state.watcher.has_certified and after.is_alive
            yield step._replace(after=after, violation=LIVING if lives_again else "")
        yield from self._watching.steps(state)

    def canonical(self, state: State) -> State:
        """Return the state that stands for all that differ by names only: none do."""
        return state

    def must_end(self, state: State) -> bool:
        """Nothing is promised here about departures that end."""
        return False


def initial(scenario: NodeScenario) -> State:
    """Return the beginning: the pod runs, on the node or on one that came and will have gone unseen; the node is long known."""
    first = Machine(runs=not scenario.is_elsewhere)
    second = Machine(is_on=scenario.is_elsewhere, is_member=False, runs=scenario.is_elsewhere)
    return State(
        machines=(first, second),
        node=Node(),
        log=(),
        settled=0,
        is_overdue=False,
        later_shown=False,
        watcher=Watcher(),
        left=tuple(scenario.faults.get(fault, 0) for fault in FAULTS),
    )
