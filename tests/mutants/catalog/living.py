"""What live pods have carried: remembered where their names do not show it, and followed until they go."""

from __future__ import annotations

from .mutant import mutant
from .suites import CARRIED

LIVING = (
    mutant(
        "id of a template to come is nobody's",
        "core/ids/naming.py",
        ("tests/unit/core/test_naming.py",),
        ("        if self.scope and self.scope in instance_id:\n            return True\n", ""),
        ("return not self.is_recognized_by_scope and bool(", "return bool("),
    ),
    mutant(
        "pod that once carried an id dropped on arrival",
        "kube/pods/watch/stream.py",
        CARRIED,
        ("return may_hold_a_seat(raw) or self._store.knows(uid_of(raw))", "return may_hold_a_seat(raw)"),
    ),
    mutant(
        "LIST ahead of the watch hides who carried an id meanwhile",
        "kube/pods/watch/stream.py",
        CARRIED,
        ("        listing.versions.update(", "        dict().update("),
    ),
)
