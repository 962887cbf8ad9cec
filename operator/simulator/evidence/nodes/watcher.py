"""The operator, by the product's own rules: it remembers the node, watches over it once the object is gone, and judges.

Times stand for what they mean: a record was made before the pod (0), while it was there (2,000) or after it had gone (4,000 s), and
of a vigil only the time since its last look is kept. Time passes in steps of grace and margin; looks in between take none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TypeVar

from staticgroup.core.evidence.machines import Fleet, NodeRecord
from staticgroup.core.evidence.nodes import Look, Owed, Vigil
from staticgroup.core.evidence.spans import CLOCKS_APART_S, BlindSpan, SpanReason

from staticgroup.api.ordinals import Ordinals
from staticgroup.core.evidence import machines, nodes
from staticgroup.core.evidence.certificate import Certificate
from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.core.evidence.pod import NodeView

from .scenario import NodeScenario
from .state import GONE, LATER, NO_VIGIL, RESTART, Machine, Node, State, Watcher
from .world import Step, grown_old, posted, spend, tellers

LIVING = "a living member is removed"
NAME = "n1"
BEFORE_S, CREATED_S, THERE_S, GONE_S, AFTER_S = 0.0, 1_500.0, 2_000.0, 3_000.0, 4_000.0
GRACE_S = 30
LOOK_EVERY_S = 10.0
LONG_S = 200.0
"""A vigil that has been steady for longer is as good as one of just this time."""
SPAN = BlindSpan(ordinals=Ordinals.of(range(10)), since_s=CREATED_S, until_s=GONE_S, reason=SpanReason.WATCH_GAP.value)


@cache
def view_of(node: Node) -> NodeView:
    """Return the Node object as it is read."""
    return NodeView(
        name=NAME, uid=f"uid-{node.uid}", kubelet_version="v1.36.3", kubelet_minor=36, machine_id=f"m{node.machine}",
        system_uuid=f"s{node.machine}", boot_id=f"b{node.machine}{node.boot}", runtime=f"r{node.runtime}", created_at_s=BEFORE_S if node.uid == 1 else AFTER_S, is_ready=node.is_ready,
        is_out_of_service=node.is_tainted,
    )  # fmt: skip


def first_record() -> NodeRecord:
    """Return what is remembered of a node that was there long before the pod."""
    return machines.seen(None, view_of(Node()), now_s=BEFORE_S)


class Watching:
    """Steps of the operator."""

    def __init__(self, scenario: NodeScenario) -> None:
        self.scenario = scenario
        self.rules = scenario.rules
        self._records: list[NodeRecord] = [first_record()]
        self._vigils: list[Vigil] = []
        self._numbers: dict[object, int] = {self._records[0]: 0}
        self._looks: dict[tuple[int, Look], int] = {}
        self._proofs: dict[tuple[object, ...], str] = {}

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step."""
        watcher = state.watcher
        if watcher.has_certified:
            return
        if watcher.is_down:
            yield Step("another operator begins", self._begun(state))
            yield Step("grace and margin pass", self._passed(state), is_fair=True)
            return
        yield Step("grace and margin pass", self._passed(state), is_fair=True)
        is_kept_up = self.scenario.is_elsewhere and self.scenario.is_kept and state.machines[1].is_on
        if GONE in state.log and not watcher.has_seen_end and not is_kept_up:
            yield Step(self._says_end(), self._heard_end(state))
        if watcher.has_seen_end:
            yield Step("operator looks at the node", self._looked(state))
            yield from self._judges(state)
        if state.left[RESTART]:
            yield Step("operator dies", self._died(state))

    def _says_end(self) -> str:
        return "the watch is complete again" if self.scenario.is_hidden else "operator hears that the object is gone"

    # the record -----------------------------------------------------------------------------------------------------

    def followed(self, before: State, after: State) -> State:
        """Return the state after the watch of nodes has shown the operator what changed; it misses nothing while it runs."""
        if before.node == after.node or after.watcher.is_down:
            return after
        watcher = after.watcher
        record = self._recorded(
            watcher.record, after, lambda known, view, now_s: machines.seen(
                known, view, is_next=True, shown_until_s=watcher.shown_until_s, now_s=now_s
            ),
        )
        return after._replace(watcher=watcher._replace(record=record, shown_until_s=BEFORE_S))

    def _recorded(self, number: int, state: State, seen: Callable[[NodeRecord, NodeView, float], NodeRecord]) -> int:
        """Return the number of what is remembered after the node was read."""
        now_s, known = _now_s(state), self._records[number]
        view = None if state.node is None else replace(view_of(state.node), written_at_s=now_s)
        record = machines.gone(known, now_s=now_s) if view is None else seen(known, view, now_s)
        return _number(self._records, self._numbers, record)

    def _died(self, state: State) -> State:
        """Return the state while no operator runs; what happens to the node meanwhile is read at its return."""
        return state._replace(watcher=state.watcher._replace(vigil=NO_VIGIL, is_down=True), left=spend(state, RESTART))

    def _begun(self, state: State) -> State:
        """Return the state after a process has listed the node and merged what was written down of it."""
        record = self._recorded(
            state.watcher.record, state, lambda written, view, now_s: machines.merged(
                machines.seen(None, view, now_s=now_s), written, now_s=now_s
            ),
        )
        return state._replace(watcher=state.watcher._replace(record=record, is_down=False, shown_until_s=_now_s(state)))

    # looks ------------------------------------------------------------------------------------------------------------

    def _heard_end(self, state: State) -> State:
        doubt = "StuckTerminating" if state.is_overdue else ""
        return state._replace(watcher=state.watcher._replace(has_seen_end=True, doubt=doubt))

    def _look(self, state: State, vigil: Vigil | None, at_s: float) -> Look:
        node = state.node
        if node is None:
            return Look(at_s=at_s, view=None)
        alive = any(m.is_connected for m in state.machines)
        before = vigil.lease if vigil is not None else ""
        lease = ("1" if before == "0" else "0") if alive and at_s else before
        m: Machine = state.machines[node.machine]
        bound = frozenset({"later"} if LATER in state.log else ()) | frozenset(() if GONE in state.log else ("p",))
        listed = frozenset({("shop", "web-2", "p")}) if m.runs and not m.is_lost else frozenset()
        is_asked = self.rules.asks_runtime and m.is_connected
        return Look(
            at_s=at_s, view=view_of(node), lease=lease, bound=bound,
            running=frozenset({"later"} if state.later_shown else ()), listed=listed if is_asked else None,
        )  # fmt: skip

    def _looked(self, state: State, at_s: float = 0.0) -> State:
        number = state.watcher.vigil
        vigil = None if number == NO_VIGIL else self._vigils[number]
        look = self._look(state, vigil, at_s)
        found = self._looks.get((number, look))
        if found is None:
            after = nodes.watched_over(vigil, look)
            found = NO_VIGIL if after is None else _number(self._vigils, self._numbers, _rebased(after))
            self._looks[number, look] = found
        return state._replace(watcher=state.watcher._replace(vigil=found))

    def _passed(self, state: State) -> State:
        """Return the state after grace and margin have passed, during which the operator has gone on looking."""
        after = self.followed(state, grown_old(state))
        for n in tellers(after):
            after = self.followed(after, posted(after, n))
        if state.watcher.is_down or not state.watcher.has_seen_end or state.watcher.vigil == NO_VIGIL:
            return after
        for _ in range(int((GRACE_S + self.rules.reap_margin_s) / LOOK_EVERY_S) + 3):
            after = self._looked(after, LOOK_EVERY_S)
        return after

    # judgement --------------------------------------------------------------------------------------------------------

    def _judges(self, state: State) -> Iterator[Step]:
        w = state.watcher
        look = self._look(state, None if w.vigil == NO_VIGIL else self._vigils[w.vigil], 0.0)
        asked = (w.record, w.vigil, w.doubt, look)
        if asked not in self._proofs:
            self._proofs[asked] = self._proof(w, look)
        proof = self._proofs[asked]
        if not proof:
            return
        after = state._replace(watcher=state.watcher._replace(has_certified=True))
        says = f"operator judges by a look: {proof}"
        yield Step(says, after, violation=LIVING if state.is_alive else "", removes=not state.is_alive)

    def _proof(self, watcher: Watcher, look: Look) -> str:
        vigil = None if watcher.vigil == NO_VIGIL else self._vigils[watcher.vigil]
        unbroken_s = AFTER_S if self.scenario.is_elsewhere else BEFORE_S - 1_000
        fleet = Fleet(
            records={NAME: self._records[watcher.record]}, unbroken_since_s=unbroken_s, is_listed=True, timeline_since_s=BEFORE_S,
            trusted_since_s=BEFORE_S,
        )
        if self.scenario.is_hidden:
            return self._swept(fleet, look, vigil)
        found = nodes.judged(_suspect(watcher), fleet, look, vigil, self.rules)
        return found.kind.value if isinstance(found, Certificate) else ""

    def _swept(self, fleet: Fleet, look: Look, vigil: Vigil | None) -> str:
        found = nodes.nodes_to_sweep(SPAN, fleet, self.rules)
        if isinstance(found, Owed):
            return ""
        for record in found:
            if nodes.swept(
                SPAN, record, fleet, look, vigil, self.rules, namespace="shop", workload_name="web", known=frozenset()
            ):
                return ""
        return "swept"


def _now_s(state: State) -> float:
    return AFTER_S if GONE in state.log else THERE_S


def _suspect(watcher: Watcher) -> Incarnation:
    return Incarnation(
        namespace="shop", pod_name="web-2", uid="p", instance_ids=frozenset({"web-2"}), node_name=NAME, state=IncarnationState.SUSPECT,
        since_s=GONE_S, resource_version=1, object_present=False, created_at_s=CREATED_S, grace_s=GRACE_S, reap_doubt=watcher.doubt,
        node_uid=view_of(Node()).uid,
    )  # fmt: skip


_Kept = TypeVar("_Kept")


def _number(kept: list[_Kept], numbers: dict[object, int], value: _Kept) -> int:
    """Return the number of a value in a list, which it is added to where it is new."""
    number = numbers.setdefault(value, len(kept))
    if number == len(kept):
        kept.append(value)
    return number


def _rebased(vigil: Vigil) -> Vigil:
    """Return a vigil with its times counted from its last look, so that equal ones are one state."""
    at_s = vigil.looked_s
    steady_s = None if vigil.steady_since_s is None else max(-LONG_S, vigil.steady_since_s - at_s)
    began_s = max(-CLOCKS_APART_S, vigil.began_s - at_s)
    return replace(vigil, looked_s=0.0, began_s=began_s, moved_s=max(-LONG_S, vigil.moved_s - at_s), steady_since_s=steady_s)
