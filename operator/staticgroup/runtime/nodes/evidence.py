"""Watch over the nodes to which suspects and blind spans owe a proof, and close what they have proven.

One idea: nothing is asked of a node that owes nothing, or of which no answer could help. What a node has shown lives in memory only:
a process that begins, or that holds the Lease again, begins every vigil again, so what it did not see never counts. Which machine a
node was is remembered for longer (`kube/nodes/records.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from ...core.evidence.certificate import Certificate
from ...core.evidence.chain import Incarnation
from ...core.evidence.nodes import (
    Look,
    NodeRules,
    Owed,
    Vigil,
    can_be_judged,
    judged,
    may_be_swept,
    nodes_to_sweep,
    swept,
    watched_over,
)
from ...core.evidence.reaping import LASTING_DOUBTS
from ...core.evidence.spans import BlindSpan
from ...kube.nodes.ledger import NodeLedger
from ...kube.nodes.looks import NodeLooks
from ...kube.nodes.records import NodeRecords
from ...kube.pods.store import PodStore
from ..memory.memories import Memories
from ..stores import Stores
from ..work_queue import Key
from .queue import LOOKS_AT_ONCE, TICK_S, LookQueue

log = logging.getLogger(__name__)

WAITS: Final = "waits for its turn to be looked at"
PAUSE_MIN_S: Final = 1.0
"""Between two rounds of looks, after one that took long."""
RETRY_S: Final = 60.0
"""A right to ConfigMaps that is missing was hardly taken by mistake."""
BEGIN_RETRY_S: Final = 1.0
REFUSALS_MAX: Final = 5
"""At a start the records are asked for so often, and a right that is missing then is missing."""

Debt = tuple[str, str]
"""(uid of a suspect, "") or (namespace/name of a StaticGroup, the span in words)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedSpan:
    """A blind span of a StaticGroup that nodes may be swept of."""

    key: Key
    workload_name: str
    span: BlindSpan

    @property
    def debt(self) -> Debt:
        """What its vigils are kept under."""
        return "/".join(self.key), f"{self.span.ordinals.text} {self.span.since_s} {self.span.until_s}"


@dataclass(slots=True)
class NodeEvidence:
    """Look, judge, close.

    Parameters
    ----------
    is_needed: a StaticGroup has to remember this suspect.
    look_again: has a StaticGroup looked at again.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    pods: PodStore
    stores: Stores
    memories: Memories
    ledger: NodeLedger
    records: NodeRecords
    looks: NodeLooks
    rules: NodeRules
    is_needed: Callable[[Incarnation], bool]
    look_again: Callable[[Key], None]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    _vigils: dict[tuple[str, Debt], Vigil] = field(default_factory=dict)
    _queue: LookQueue = field(default_factory=LookQueue)
    _owed: dict[str, tuple[str, str]] = field(default_factory=dict)
    _clean: dict[tuple[Key, BlindSpan], set[str]] = field(default_factory=dict)
    _swept: dict[Key, frozenset[BlindSpan]] = field(default_factory=dict)
    _timeline: str = ""
    _beginnings: int = 0
    _retry_s: float = float("-inf")

    def swept(self, key: Key) -> frozenset[BlindSpan]:
        """Return the blind spans of a StaticGroup that every node which can have run a pod has been swept of."""
        return self._swept.get(key, frozenset())

    def forget_all(self) -> None:
        """Begin everything again: another replica may have worked meanwhile."""
        for known in (self._vigils, self._queue, self._owed, self._clean, self._swept):
            known.clear()
        self._beginnings += 1
        self.records.forget()

    def hurry(self, name: str) -> None:
        """Take the news that a node has changed: what it owes may come soon."""
        self._queue.hurry(name, self.monotonic_s())

    async def begin(self) -> None:
        """Have what is remembered of nodes read before the first end is believed, waiting for the API server if need be.

        Notes
        -----
        It tells what a kubelet's word is worth. An API server that begins may refuse what it allows a moment later; where it goes on
        doing so nothing was ever kept, and nothing is waited for.
        """
        refusals = 0
        while not await self.records.read() and refusals < REFUSALS_MAX:
            refusals += self.records.is_forbidden
            await asyncio.sleep(BEGIN_RETRY_S)

    async def follow(self) -> None:
        """Go round until cancelled."""
        while True:
            began_s = self.monotonic_s()
            try:
                await self.tick()
            except Exception:  # evidence that fails to come holds nothing else up
                log.exception("the nodes could not be looked at")
            late_s = max(0.0, self.monotonic_s() - began_s - PAUSE_MIN_S)
            await asyncio.sleep(max(PAUSE_MIN_S, TICK_S - late_s))

    async def tick(self) -> None:
        """Go round once: keep what is remembered of nodes, look where something is owed, close what is proven."""
        if self._timeline != self.pods.timeline:  # uids and times of before say nothing on this one
            self._timeline = self.pods.timeline
            self._vigils.clear()
            self._clean.clear()
            self._swept.clear()
        suspects = [s for s in self.pods.suspects() if self.is_needed(s)]
        spans = tuple(self._spans())
        if suspects or spans or self.records.has_news:
            await self._keep_records()
        self._forget_settled(suspects, spans)
        asked = self._asked(suspects, spans)
        needed_s = {name: self._needed_s(name, *owing) for name, owing in asked.items()}
        places = asyncio.Semaphore(LOOKS_AT_ONCE)
        visits = [self._visit_in_turn(places, name, *asked[name]) for name in self._queue.next(needed_s, self.monotonic_s())]
        await asyncio.gather(*visits)
        for name, before in self._queue.before(needed_s):
            for suspect in asked[name][0]:
                self._owe(suspect, f"node {name} {WAITS}, {_at_most(before)} before it")
        visited = {s.uid for owing, _ in asked.values() for s in owing}
        for suspect in suspects:
            if suspect.uid not in visited:  # its node may be looked at for others all the same
                self._judge(suspect, None)

    def _needed_s(self, name: str, suspects: list[Incarnation], spans: list[OwedSpan]) -> float | None:
        """Return for how long a node has to work on for what it owes; None while it has not caught up."""
        graces = [s.grace_s or 0 for s in suspects if self._has_caught_up(name, (s.uid, ""))]
        graces += [0 for o in spans if self._has_caught_up(name, o.debt)]
        return max(graces) + self.rules.reap_margin_s if graces else None

    def _has_caught_up(self, name: str, debt: Debt) -> bool:
        vigil = self._vigils.get((name, debt))
        return vigil is not None and vigil.has_caught_up

    async def _keep_records(self) -> None:
        """Read and write what is remembered of nodes; what cannot be read is done without, for it would only prove more."""
        if self.monotonic_s() < self._retry_s:
            return
        is_kept = await self.records.read() and await self.records.write()
        self._retry_s = self.monotonic_s() + (0.0 if is_kept else RETRY_S)

    def _asked(
        self, suspects: list[Incarnation], spans: tuple[OwedSpan, ...]
    ) -> dict[str, tuple[list[Incarnation], list[OwedSpan]]]:
        """Return the nodes to look at, each with what it owes."""
        asked: dict[str, tuple[list[Incarnation], list[OwedSpan]]] = {}
        fleet = self.ledger.fleet()
        for suspect in suspects:
            if can_be_judged(suspect, fleet, self.rules):
                asked.setdefault(suspect.node_name, ([], []))[0].append(suspect)
        for owed in spans:
            nodes = nodes_to_sweep(owed.span, fleet, self.rules)
            if isinstance(nodes, Owed):
                continue
            clean = self._clean.setdefault((owed.key, owed.span), set())
            self._note_swept(owed, {r.uid for r in nodes} <= clean)
            for record in nodes:
                if record.uid not in clean and record.gone_since_s is None:
                    asked.setdefault(record.name, ([], []))[1].append(owed)
        return asked

    def _spans(self) -> Iterator[OwedSpan]:
        for key, group in self.stores.groups.items():
            memory = self.memories.known(key)
            known = memory.history.continuity if memory is not None else None
            if known is None or known.timeline != self.pods.timeline or known.ids_by_hand:
                continue
            name = group.spec.workload_ref.name
            spans = [span for span in known.blind if may_be_swept(span)]
            # Processes that outlive their containers are on no runtime's list, and what nobody saw may have been such a pod too.
            if spans and not any(pod.reap_doubt in LASTING_DOUBTS for pod in self.pods.of_workload(key[0], name)):
                yield from (OwedSpan(key=key, workload_name=name, span=span) for span in spans)

    async def _visit_in_turn(
        self, places: asyncio.Semaphore, name: str, suspects: list[Incarnation], spans: list[OwedSpan]
    ) -> None:
        async with places:
            try:
                await self._visit(name, suspects, spans)
            except Exception:  # one node that is odd holds no other up
                log.exception("a node could not be looked at", extra={"node": name})

    async def _visit(self, name: str, suspects: list[Incarnation], spans: list[OwedSpan]) -> None:
        """Look at one node, and judge what it owes."""
        debts: list[Debt] = [*((s.uid, "") for s in suspects), *(o.debt for o in spans)]
        before = [self._vigils.get((name, debt)) for debt in debts]
        is_near = any(v is not None and v.has_caught_up for v in before)
        beginning, timeline = self._beginnings, self._timeline
        look = await self.looks.look(name, asks_runtime=self.rules.asks_runtime and is_near)
        if (self._beginnings, self.pods.timeline) != (beginning, timeline):
            return  # everything has begun again meanwhile
        if look is None:
            self._queue.looked(name, self.monotonic_s(), is_steady=False)
            for suspect in suspects:
                told, _ = self._owed.get(suspect.uid, ("", ""))
                if not told or WAITS in told:  # what an earlier look has shown is more worth telling
                    self._judge(suspect, None)
            return
        after = [watched_over(known, look) for known in before]
        self._queue.looked(name, look.at_s, is_steady=any(v is not None and v.steady_since_s is not None for v in after))
        for debt, vigil in zip(debts, after, strict=True):
            if vigil is None:
                self._vigils.pop((name, debt), None)
            else:
                self._vigils[name, debt] = vigil
        for suspect in suspects:
            self._judge(suspect, look)
        for owed in spans:
            self._sweep(owed, name, look)

    def _judge(self, suspect: Incarnation, look: Look | None) -> None:
        vigil = self._vigils.get((suspect.node_name, (suspect.uid, "")))
        found = judged(suspect, self.ledger.fleet(), look, vigil, self.rules)
        if isinstance(found, Certificate):
            self.pods.close(suspect.uid, found)
        else:
            self._owe(suspect, found.sentence)

    def _owe(self, suspect: Incarnation, owed: str) -> None:
        """Tell what is owed, and since when that is so."""
        sentence, since = self._owed.get(suspect.uid, ("", ""))
        if sentence != owed:
            since = datetime.fromtimestamp(int(self.now_s()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._owed[suspect.uid] = (owed, since)
        self.pods.owe(suspect.uid, f"{owed} (since {since})")

    def _sweep(self, owed: OwedSpan, name: str, look: Look) -> None:
        fleet = self.ledger.fleet()
        record = fleet.records.get(name)
        if record is None:
            return
        namespace = owed.key[0]
        known = {pod.uid for pod in self.pods.of_workload(namespace, owed.workload_name)}
        left = swept(
            owed.span, record, fleet, look, self._vigils.get((name, owed.debt)), self.rules,
            namespace=namespace, workload_name=owed.workload_name, known=known,
        )
        if not left:
            self._clean[owed.key, owed.span].add(record.uid)

    def _note_swept(self, owed: OwedSpan, is_swept: bool) -> None:
        before = self.swept(owed.key)
        after = before | {owed.span} if is_swept else before - {owed.span}
        if after != before:
            self._swept[owed.key] = after
            self.look_again(owed.key)

    def _forget_settled(self, suspects: list[Incarnation], spans: tuple[OwedSpan, ...]) -> None:
        """Drop what was shown for suspects and spans that are there no more."""
        debts = {(s.uid, "") for s in suspects} | {o.debt for o in spans}
        self._vigils = {at: v for at, v in self._vigils.items() if at[1] in debts}
        uids = {s.uid for s in suspects}
        self._owed = {uid: owed for uid, owed in self._owed.items() if uid in uids}
        present = {(o.key, o.span) for o in spans}
        self._clean = {at: nodes for at, nodes in self._clean.items() if at in present}
        open_spans = {key: frozenset(s for k, s in present if k == key) for key in self._swept}
        self._swept = {key: kept for key, known in self._swept.items() if (kept := known & open_spans[key])}


def _at_most(count: int) -> str:
    """Say how many there are in steps of 1, 2, 5, 10, 20…: whatever changes is a status that is written."""
    if count == 0:
        return "none"
    step = next(d * 10**n for n in range(len(str(count)) + 1) for d in (1, 2, 5) if d * 10**n >= count)
    return f"at most {step}"
