"""Histories that were put back, the writes of statuses beside them, and how the Lease tells of both."""

from __future__ import annotations

from .mutant import mutant
from .suites import DOUBTS, FALSE_DOUBTS, IN_FLIGHT, LEASE_GONE, PUT_BACK

PUT_BACK_HISTORIES = (
    mutant(
        "cleared owners of a status left as they are",
        "runtime/memory/memories.py",
        ("tests/unit/runtime/test_put_back.py",),
        (" and not self.is_disowned(key)", ""),
    ),
    mutant(
        "owners that are cleared again and again noted each time",
        "runtime/memory/memories.py",
        ("tests/unit/runtime/test_put_back.py",),
        (" and self.monotonic_s() >= memory.tried_at_s + OWNED_AGAIN_S", ""),
    ),
    mutant(
        "API server that notes nobody written to for ever",
        "runtime/memory/memories.py",
        ("tests/unit/runtime/test_put_back.py",),
        ("memory.is_owner = has_history(answer) and not is_put_back(answer)", "memory.is_owner = True"),
    ),
    mutant(
        "older object that was put back while no operator ran believed",
        "runtime/operator.py",
        PUT_BACK,
        ("        await self.look_back.begin(self._looked_since(stored))\n", ""),
    ),
    mutant(
        "history of which no event is left believed",
        "runtime/memory/put_back.py",
        PUT_BACK,
        (" | self._newer(scope, replay.position)", ""),
    ),
    mutant(
        "doubt about a history ends with the process that had it",
        "runtime/operator.py",
        PUT_BACK,
        ("self.look_back.stored().told_in(found)", "self.look_back.stored()._replace(doubted=frozenset()).told_in(found)"),
    ),
    mutant(
        "history that was put back before the first round believed",
        "runtime/memory/memories.py",
        PUT_BACK,
        ("            if told != before:\n", "            if False:\n"),
    ),
    mutant(
        "history that the watch has not shown yet believed",
        "runtime/stores.py",
        PUT_BACK,
        (' or self.histories.get(key, (0, ""))[1] != digest', ""),
    ),
    mutant(
        "doubt ended by the answer to a write of before",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        ("memory.resource_version) and told != digest_in(sent)", "memory.resource_version) and False"),
    ),
    mutant(
        "what was there before taken for an edit of the spec, though the watch has shown what came after it",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        (" or before in sent:", ":"),
    ),
    mutant(
        "history put back over one that nobody has seen believed",
        "runtime/memory/put_back.py",
        IN_FLIGHT,
        ("        await self._reach_unsettled(stored.unsettled if stored is not None else {}, ends_s)\n", ""),
    ),
    mutant(
        "status that is never answered waited for until its events are forgotten",
        "runtime/memory/put_back.py",
        IN_FLIGHT,
        ("- since_s >= SETTLED_WITHIN_S:", "- since_s >= 1e9:"),
    ),
    mutant(
        "memory with a status that is not answered dropped without a doubt",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        (" is not None and key in self.stores.group_uids:", " is not None and False:"),
    ),
    mutant(
        "status that is not answered left when nothing is new",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        ("memory.is_theirs or bool(memory.unanswered)", "memory.is_theirs"),
    ),
    mutant(
        "Lease given up with one try",
        "kube/lease.py",
        ("tests/simulation/test_lease_given_up.py",),
        ("RELEASE_PAUSES_S: Final = (0.0, 0.1, 0.4, 0.8)", "RELEASE_PAUSES_S: Final = (0.0,)"),
    ),
    mutant(
        "doubt of a first read kept from who comes next",
        "runtime/memory/memories.py",
        DOUBTS,
        ("            self.stores.doubted.add(key)  # for whoever comes before ours is written\n        if history", "        if history"),
    ),
    mutant(
        "Lease given up before the last writes came back",
        "runtime/operator.py",
        FALSE_DOUBTS,
        ("                    await self._wind_down()\n", "                    pass\n"),
    ),
    mutant(
        "history that was put back after the last round believed",
        "runtime/listener.py",
        PUT_BACK,
        ("            if self._parts.has_taken_over:", "            if self._parts.is_active:"),
    ),
    mutant(
        "write that was cut off not waited for",
        "runtime/memory/memories.py",
        FALSE_DOUBTS,
        ("            memory.has_sent(status)\n            raise\n", "            raise\n"),
    ),
    mutant(
        "those who were doubted first left out of the Lease for others",
        "runtime/memory/put_back.py",
        ("tests/unit/runtime/test_look_back.py",),
        ("listed = sorted(doubted, key=first.__getitem__)", "listed = sorted(doubted)"),
    ),
    mutant(
        "status that was put over ours left when the first write fails",
        "runtime/memory/memories.py",
        ("tests/unit/runtime/test_put_back.py",),
        ("memory.is_unsure = memory.is_theirs or bool(memory.unanswered)\n", "memory.is_unsure = False\n"),
    ),
    mutant(
        "cleared owners of a status not worth a look",
        "runtime/listener.py",
        ("tests/simulation/test_faults.py",),
        (" and not memories.is_disowned(key)", ""),
    ),
    mutant(
        "Lease that tells nothing any more taken for one that never did",
        "runtime/operator.py",
        LEASE_GONE,
        ("stored if stored is not None else self.lease.told", "stored"),
    ),
    mutant(
        "holding that a round found lost taken again untold",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("if held and self._holding is None and", "if False and"),
    ),
    mutant(
        "holding that a round found lost during a renewal taken again untold",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        (" or self._holding != before:", ":"),
    ),
    mutant(
        "doubt of what was forgotten for a later holder forgotten with it",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        ("            self.stores.doubted.add(key)\n            return False\n        # No round", "            return False\n        # No round"),
    ),
    mutant(
        "emptied status that is doubted taken for innocence",
        "runtime/memory/histories.py",
        DOUBTS,
        ("history.injected is None and not is_doubted else", "history.injected is None else"),
    ),
    mutant(
        "doubt forgotten while no ids are issued",
        "runtime/observer.py",
        ("tests/unit/runtime/test_put_back.py",),
        ("        if is_doubted and memory.history.continuity is None:", "        if False:"),
    ),
    mutant(
        "doubt forgotten while a StaticGroup is suspended",
        "runtime/reconciler.py",
        DOUBTS,
        (" is not None or is_doubted:", " is not None:"),
    ),
    mutant(
        "version known before it is known whose status it has",
        "runtime/memory/memories.py",
        IN_FLIGHT,
        (
            "        if read.status != memory.shown and await",
            "        memory.resource_version = read.metadata.resource_version\n        if read.status != memory.shown and await",
        ),
    ),
    mutant(
        "write before the last one forgotten, though it may be taken late",
        "runtime/memory/memory.py",
        FALSE_DOUBTS,
        ('        if self.unanswered not in ("", digest):\n', "        if False:\n"),
    ),
    mutant(
        "doubt that nothing is written over",
        "runtime/memory/memories.py",
        FALSE_DOUBTS,
        (" and key not in self.stores.doubted and not", " and not"),
    ),
    mutant(
        "status that is not answered left out of the Lease for others",
        "runtime/memory/put_back.py",
        IN_FLIGHT,
        ("sent = sorted(unsettled, key=first.__getitem__)", "sent = sorted(unsettled)"),
    ),
)
