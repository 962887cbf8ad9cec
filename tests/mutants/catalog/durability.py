"""What must survive a restart: statuses, and the holder of the Lease."""

from __future__ import annotations

from .mutant import mutant
from .suites import CUT, ROUNDS

DURABLE = (
    mutant(
        "word of a status about the Lease believed",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_premises.py",),
        ("        if await self.still_holds():\n", "        if False:\n"),
    ),
    mutant(
        "Lease not asked when a status names a later holding",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_premises.py",),
        ("        if await self.still_holds():\n", "        if True:\n"),
    ),
    mutant(
        "a Lease of any holder confirms the holding",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("        if self.holding is None or self._holding_in(raw) != self.holding:\n            self._lose()\n            return False\n        return True", "        return True"),
    ),
    mutant(
        "older Lease than the one that was gone on from overlooked",
        "kube/lease.py",
        ("tests/unit/kube/test_lease_position.py",),
        ("        if is_older(version, seen := self._version_seen):", "        if (seen := None):"),
    ),
    mutant(
        "Lease given up with one try",
        "kube/lease.py",
        ("tests/simulation/test_lease_given_up.py",),
        ("RELEASE_PAUSES_S: Final = (0.0, 0.1, 0.4, 0.8)", "RELEASE_PAUSES_S: Final = (0.0,)"),
    ),
    mutant(
        "holding that a round found lost taken again untold",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("if held and self.holding is None and", "if False and"),
    ),
    mutant(
        "holding that a round found lost during a renewal taken again untold",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        (" or self.holding != before:", ":"),
    ),
)

REMEMBERED = tuple(
    mutant(name, "runtime/memory/memory.py", ROUNDS + CUT, *changes)
    for name, *changes in (
        (
            "lease not checked before the status",
            (
                "            if not self.may_write():\n                return False\n            sent = with_memory",
                "            sent = with_memory",
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
            ("memory.sent_at_s, memory.expected = self.monotonic_s(), sent", "memory.sent_at_s = self.monotonic_s()"),
        ),
    )
)
