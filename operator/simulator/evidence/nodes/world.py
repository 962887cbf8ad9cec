"""What machines, kubelets, controllers and users do to one pod and its node.

Sources: a kubelet hears of its pods in the order of their versions, and after a boot lists them from an API server that may be a
little behind (kubernetes/kubernetes#59848); it starts no pod that is being deleted; a removed pod is ended within its grace period
(pod_workers.go); kills hang (containerd#13416).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .scenario import NodeScenario
from .state import (
    DELETING,
    FREEZE,
    GONE,
    HANG,
    HUNG,
    IDLE,
    KILLING,
    LATE_HANG,
    LATER,
    NODE_DELETION,
    PARTITION,
    POWER_OFF,
    REBOOT,
    REPLACEMENT,
    RUNTIME,
    TAINT,
    Machine,
    Node,
    State,
)


class Step(NamedTuple):
    """A step that somebody may take; see `continuity.actor.Step`."""

    says: str
    after: State
    violation: str = ""
    removes: bool = False
    is_fair: bool = False


def spend(state: State, fault: int) -> tuple[int, ...]:
    """Return `left` after one more of this fault."""
    return (*state.left[:fault], state.left[fault] - 1, *state.left[fault + 1 :])


def with_machine(state: State, n: int, **changes: Any) -> State:
    """Return the state after one machine changed."""
    changed = state.machines[n]._replace(**changes)
    return state._replace(machines=(changed, state.machines[1]) if n == 0 else (state.machines[0], changed))


class World:
    """Steps of everything but the operator."""

    def __init__(self, scenario: NodeScenario) -> None:
        self.scenario = scenario

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step."""
        yield from self._users(state)
        for n, machine in enumerate(state.machines):
            if machine.is_member or machine.runs:
                yield from self._faults(state, n, machine)
                yield from self._kubelet(state, n, machine)
        yield from self._replacement(state)

    def _users(self, state: State) -> Iterator[Step]:
        log = state.log
        if GONE not in log and DELETING not in log and self.scenario.is_deleted:
            yield Step("user deletes the pod", state._replace(log=(*log, DELETING)))
        # A kill that hangs and is given no time to show that it does is `NODE_ASSUMPTIONS`.
        is_hidden_hang = any(m.kill == HUNG for m in state.machines) and not state.is_overdue
        if GONE not in log and not is_hidden_hang:
            yield Step("user force-deletes the pod", state._replace(log=(*log, GONE)))
        if LATER not in log and state.node is not None:
            yield Step("scheduler binds a later pod to the node", state._replace(log=(*log, LATER)))
        node = state.node
        if node is None:
            return
        is_off = not any(m.is_on and m.runs for m in state.machines) and not state.machines[0].is_on
        may_say = is_off or not self.scenario.is_kept
        if state.left[NODE_DELETION] and may_say:
            yield Step("user deletes the Node", state._replace(node=None, left=spend(state, NODE_DELETION)))
        if state.left[TAINT] and may_say and not node.is_ready:
            tainted = state._replace(node=node._replace(is_tainted=True), left=spend(state, TAINT))
            yield Step("user taints the node out-of-service", tainted)

    # machines -------------------------------------------------------------------------------------------------------

    def _faults(self, state: State, n: int, m: Machine) -> Iterator[Step]:
        left = state.left
        if m.is_on and not m.is_cut and left[PARTITION]:
            yield Step(f"machine {n} is cut off", with_machine(state, n, is_cut=True)._replace(left=spend(state, PARTITION)))
        if m.is_cut and self.scenario.heals:
            yield Step(f"machine {n} reaches the API server again", with_machine(state, n, is_cut=False))
        if m.is_on and m.is_up and left[FREEZE]:
            yield Step(f"kubelet {n} is frozen", with_machine(state, n, is_up=False)._replace(left=spend(state, FREEZE)))
        if m.is_on and not m.is_up:
            yield Step(f"kubelet {n} goes on", with_machine(state, n, is_up=True))
        if m.is_on and m.is_up and m.has_told and left[RUNTIME]:
            other = with_machine(state, n, runtime=m.runtime + 1, is_lost=m.runs, kill=IDLE, later=False, has_told=False)
            yield Step(f"kubelet {n} goes on with another container runtime", other._replace(left=spend(state, RUNTIME)))
        if m.is_on and left[POWER_OFF]:
            off = with_machine(state, n, is_on=False, runs=False, kill=IDLE, later=False)
            yield Step(f"machine {n} is switched off for good", off._replace(left=spend(state, POWER_OFF)))
        if m.is_on and not m.is_cut and m.is_member and left[REBOOT]:
            for heard in range(state.settled, len(state.log) + 1):
                booted = with_machine(
                    state, n, boot=m.boot + 1, is_up=True, heard=heard, runs=False, is_lost=False, kill=IDLE, later=False,
                    has_told=False,
                )
                behind = f", told by an API server that is {len(state.log) - heard} behind" if heard < len(state.log) else ""
                yield Step(f"machine {n} is booted again{behind}", booted._replace(left=spend(state, REBOOT)))

    def _replacement(self, state: State) -> Iterator[Step]:
        first, second = state.machines
        is_free = first.is_cut or not first.is_on
        if state.left[REPLACEMENT] and is_free and not second.is_member and state.node is not None:
            for heard in range(state.settled, len(state.log) + 1):
                after = with_machine(state, 1, is_on=True, is_up=True, is_member=True, heard=heard, has_told=False)
                yield Step("machine 1 takes the node's name over", after._replace(left=spend(state, REPLACEMENT)))

    # kubelets -------------------------------------------------------------------------------------------------------

    def _kubelet(self, state: State, n: int, m: Machine) -> Iterator[Step]:
        if m.kill == KILLING and m.runs and m.is_on and m.is_up:
            yield Step(f"kubelet {n} ends the pod", with_machine(state, n, runs=False, kill=IDLE), is_fair=True)
        if not m.is_connected:
            return
        if m.heard < len(state.log):
            yield from self._hears(state, n, m)
        known = state.log[: m.heard]
        if not m.runs and DELETING not in known and GONE not in known and not self.scenario.is_elsewhere:
            yield Step(f"kubelet {n} starts the pod", with_machine(state, n, runs=True))
        if LATER in known and not m.later and m.has_told:
            yield Step(f"kubelet {n} starts the later pod", with_machine(state, n, later=True))
        if m.later and not state.later_shown:
            yield Step(f"kubelet {n} posts the later pod as running", state._replace(later_shown=True))
        if state.node is None:
            again = state._replace(node=Node(uid=2, machine=n, boot=m.boot, runtime=m.runtime))
            yield Step(f"kubelet {n} registers its Node again", with_machine(again, n, has_told=True))
        elif not m.has_told or (state.node.machine, state.node.boot, state.node.runtime) != (n, m.boot, m.runtime):
            yield Step(f"kubelet {n} posts its Node", posted(state, n))

    def _hears(self, state: State, n: int, m: Machine) -> Iterator[Step]:
        event = state.log[m.heard]
        heard = with_machine(state, n, heard=m.heard + 1)
        if event not in (DELETING, GONE) or not m.runs or m.is_lost or m.kill != IDLE:
            yield Step(f"kubelet {n} hears: {event}", heard, is_fair=True)
            return
        yield Step(f"kubelet {n} hears: {event}, and begins to end it", with_machine(heard, n, kill=KILLING), is_fair=True)
        fault = HANG if GONE not in state.log else LATE_HANG
        if state.left[fault]:
            hung = with_machine(heard, n, kill=HUNG)._replace(left=spend(state, fault))
            yield Step(f"kubelet {n} hears: {event}, and its kill hangs", hung)


def posted(state: State, n: int) -> State:
    """Return the state after a kubelet has written who and in which boot it is, and that it is Ready."""
    node = state.node
    if node is None:
        return state
    state = with_machine(state, n, has_told=True)
    return state._replace(node=node._replace(machine=n, boot=state.machines[n].boot, runtime=state.machines[n].runtime, is_ready=True))


def grown_old(state: State) -> State:
    """Return the state after grace and margin have passed, in which nothing else happens.

    Notes
    -----
    Every kubelet that works ends what it has begun to end; `tellers` have told the Node who they are. Of a node that nobody tells
    anything of the controllers say that it is not Ready. A watch may still lag, but no API server is that far behind.
    """
    for n, m in enumerate(state.machines):
        if m.is_on and m.is_up and m.kill == KILLING:
            state = with_machine(state, n, runs=False, kill=IDLE)
    if state.node is not None and not tellers(state):
        state = state._replace(node=state.node._replace(is_ready=False))
    is_deleting = DELETING in state.log and GONE not in state.log
    return state._replace(settled=len(state.log), is_overdue=state.is_overdue or is_deleting)


def tellers(state: State) -> tuple[int, ...]:
    """Return the machines whose kubelets write the Node every ten seconds; whom it shows now is the last of them."""
    connected = [n for n, m in enumerate(state.machines) if m.is_connected]
    shown = state.node.machine if state.node is not None else -1
    return tuple(sorted(connected, key=lambda n: n == shown))
