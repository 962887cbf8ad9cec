"""What a restart must find again: ledgers, statuses, and the position of the watch."""

from __future__ import annotations

from .mutant import mutant
from .suites import CUT, ELSEWHERE, FULL, MEMORY, ODD, OTHER_NAMES, ROUNDS

DURABLE = (
    mutant(
        "suspects forgotten at a restart",
        "core/status/memory.py",
        MEMORY,
        ("        kept.extend(i for i in versions if i.state is IncarnationState.SUSPECT)\n", ""),
    ),
    mutant(
        "who has read nothing counts on nothing",
        "runtime/memory/ledgers.py",
        OTHER_NAMES,
        ("is_counted = is_issued and (naming is None or bool(naming.strange_ids(pod, key[0])))", "is_counted = False"),
    ),
    mutant(
        "who cannot be read counts on nothing",
        "runtime/memory/ledgers.py",
        OTHER_NAMES,
        (
            "        if group is None or memory is None or memory.uid",
            "        if group is None:\n            return None\n        if memory is None or memory.uid",
        ),
    ),
    mutant(
        "suspect that nobody counted on is nobody's for ever",
        "runtime/memory/ledgers.py",
        OTHER_NAMES,
        ("-math.inf) < OF_NOBODY_S:", "-math.inf) < math.inf:"),
    ),
    mutant(
        "word of a status about the Lease believed",
        "runtime/memory/memories.py",
        ODD,
        ("        if await self.still_holds():\n", "        if False:\n"),
    ),
    mutant(
        "Lease not asked when a status names a later holding",
        "runtime/memory/memories.py",
        ("tests/unit/runtime/test_premises.py",),
        ("        if await self.still_holds():\n", "        if True:\n"),
    ),
    mutant(
        "holding confirmed whoever has the Lease",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("        if self._holding is None or self._holding_in(raw) != self._holding:\n            self._lose()\n            return False\n        return True", "        return True"),
    ),
    mutant(
        "suspects of before the ids take room",
        "runtime/memory/ledgers.py",
        FULL,
        ("to_remember((i for i in known if i.uid not in memory.predating), naming", "to_remember(known, naming"),
    ),
    mutant(
        "suspects of before the ids are waited for",
        "runtime/memory/ledgers.py",
        FULL,
        ("left = (i for i in known if memory is None or i.uid not in memory.predating)", "left = known"),
    ),
    mutant(
        "suspects durable when no session can be left",
        "core/status/memory.py",
        ODD,
        ("        if i.state is not IncarnationState.DEAD or now_s", "        if now_s"),
    ),
    mutant(
        "death of another timeline believed",
        "core/status/memory.py",
        ODD,
        ("    if (uid and not is_sealed(status, uid)) or is_other_timeline:\n", "    if uid and not is_sealed(status, uid):\n"),
    ),
    mutant(
        "suspects of a status that was put over ours forgotten",
        "runtime/memory/ledgers.py",
        ODD,
        ("for s in (memory.status, memory.shown) if", "for s in (memory.status,) if"),
    ),
    mutant(
        "carrier of another name forgotten over a gap",
        "runtime/memory/histories.py",
        ELSEWHERE,
        ("        if elsewhere or (elsewhere is None and", "        if (elsewhere is None and"),
    ),
    mutant(
        "replay from below taken for a sight after the gap",
        "runtime/memory/histories.py",
        ODD,
        ("(pod.object_present or not is_behind) and ", ""),
    ),
    mutant(
        "older Lease than the one that was gone on from overlooked",
        "kube/lease.py",
        ("tests/unit/kube/test_lease_position.py",),
        ("        if is_older(version, self._version_seen):", "        if False:"),
    ),
    mutant(
        "seats not blind for suspects without room",
        "core/evidence/continuity.py",
        FULL,
        ("    if known is None or not ended:\n", "    if True:\n"),
    ),
    mutant(
        "dead without a certificate believed",
        "core/status/memory.py",
        MEMORY,
        (
            "    is_dead = certificate is not None\n",
            "    is_dead = certificate is not None or entry.state is durable.IncarnationState.DEAD\n",
        ),
    ),
    mutant(
        "the dead displace suspects in a full ledger",
        "core/status/memory.py",
        MEMORY,
        (
            "key=lambda i: (_RANKS[i.state], i.uid not in needed, i.since_s, i.uid)",
            "key=lambda i: (-_RANKS[i.state], i.uid not in needed, i.since_s, i.uid)",
        ),
    ),
    mutant(
        "what the ledger does not hold counts as durable",
        "runtime/memory/ledgers.py",
        ROUNDS,
        ("if incarnation.uid not in waiting and", "if"),
    ),
)

REMEMBERED = tuple(
    mutant(name, "runtime/memory/memories.py", ROUNDS + CUT, *changes)
    for name, *changes in (
        (
            "lease not checked before the status",
            (
                "            if not self.may_write():\n                return False\n            was_unsure",
                "            was_unsure",
            ),
        ),
        (
            "unreadable StaticGroup starts with an empty memory",
            (
                "        if isinstance(body, KubeProblem) or body[",
                "        if isinstance(body, KubeProblem):\n            body = group.to_wire()\n        if body[",
            ),
        ),
        (
            "memory of a deleted StaticGroup kept for the next of its name",
            (
                "is_known = memory is not None and memory.uid == group.metadata.uid\n",
                "is_known = memory is not None\n",
            ),
        ),
        (
            "status write whose answer was lost believed not to have happened",
            ("memory.is_unsure, memory.sent = True, status", "memory.sent = status"),
        ),
    )
)
