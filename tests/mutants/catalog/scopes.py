"""Scopes that users write: what outlives a StaticGroup, and what is unknown of the time before it."""

from __future__ import annotations

from .mutant import mutant
from .suites import FIRST_ISSUE, WRITTEN_SCOPE

SCOPES = tuple(
    mutant(name, path, WRITTEN_SCOPE, change)
    for path, name, change in (
        (
            "core/guards.py",
            "one scope of two StaticGroups overlooked",
            ("    if c.snapshot.same_scope:\n", "    if False:\n"),
        ),
        (
            "core/ids/schemes.py",
            "scope that is written but not issued yet overlooked",
            ("return injected.scope if injected is not None else group.spec.identity.scope", "return injected.scope if injected is not None else None"),
        ),
        (
            "core/injection.py",
            "id of a living pod from before given to another pod",
            ("            if any(ordinal != own for ordinal in naming.ordinals_of(instance_id)):\n", "            if False:\n"),
        ),
        (
            "core/injection.py",
            "written scope taken though ids have another one",
            ("    if before is not None and written not in (None, before.scope):\n", "    if False:\n"),
        ),
    )
) + tuple(
    mutant(name, path, FIRST_ISSUE, change)
    for path, name, change in (
        ("core/ids/first_issue.py", "ids issued that members hold elsewhere", ("    if not held:\n", "    if True:\n")),
        ("core/ids/first_issue.py", "holder elsewhere explained by a suspect", ("if pod.state is not PodState.SUSPECT)", ")")),
        ("core/ids/first_issue.py", "holder whose client appends something overlooked", ("scheme.appended_to(instance_id) if scope else None", "None")),
        ("core/ids/first_issue.py", "ids without a scope taken for those of a longer name", ("if scope else None", "if True else None")),
        ("core/ids/first_issue.py", "written ids issued while the group is not read", ("    if is_drawn:\n        return None\n", "    if True:\n        return None\n")),
        ("core/ids/first_issue.py", "consumers of one pod given one id", ("    if len(dynamic) <= pods * ids or", "    if True or")),
        ("core/ids/first_issue.py", "consumers of other workloads counted", (" or counted[0][1] <= ids:", ":")),
        ("core/injection.py", "ids issued after mode Observe without a look", ("(before is None or before.method == InjectedMethod.NONE.value):\n        obstacle", "before is None:\n        obstacle")),
        ("core/status/durable.py", "status of another StaticGroup gone on from", ("return status.static_group_uid in (None, uid)", "return True")),
        ("api/rendering.py", "status of another StaticGroup injected by", ("is_managed and is_its_own and", "is_managed and")),
        ("core/findings/members.py", "members that fence each other not reported", ("seat.memory.replaced[2] > 1", "seat.memory.replaced[2] > 9")),
        ("core/seats.py", "members that fence each other not counted", ("self.now_s, times + 1)", "self.now_s, 1)")),
    )
)
