"""The first ids of a StaticGroup: who holds them already, and who would share one."""

from __future__ import annotations

from .mutant import mutant
from .suites import FIRST_ISSUE

FIRST_IDS = tuple(
    mutant(name, path, FIRST_ISSUE, change)
    for path, name, change in (
        ("core/ids/first_issue.py", "ids issued that members hold elsewhere", ("    if not held:\n", "    if True:\n")),
        ("core/ids/first_issue.py", "holder elsewhere explained by a suspect", ("if pod.state is not PodState.SUSPECT)", ")")),
        ("core/ids/first_issue.py", "holder whose client appends something overlooked", ("scheme.appended_to(instance_id) if is_scoped else None", "None")),
        ("core/ids/first_issue.py", "ids without a scope taken for those of a longer name", ("if is_scoped else None", "if True else None")),
        ("core/ids/first_issue.py", "ids that others may have issued while the group is not read", ("    if is_drawn:\n        return None\n", "    if True:\n        return None\n")),
        ("core/ids/first_issue.py", "consumers of one pod given one id", ("    if len(dynamic) <= pods * ids or", "    if True or")),
        ("core/ids/first_issue.py", "consumers of other workloads counted", (" or counted[0][1] <= ids:", ":")),
        ("core/injection.py", "ids issued after mode Observe without a look", ("is_first = before is None or before.method == InjectedMethod.NONE.value", "is_first = before is None")),
        ("core/status/memory.py", "status of another StaticGroup gone on from", ("return status.memory.static_group_uid == uid", "return True")),
        ("api/rendering.py", "status of another StaticGroup injected by", ("is_managed and is_its_own and", "is_managed and")),
        ("core/findings/members.py", "members that fence each other not reported", ("seat.memory.replaced[2] > 1", "seat.memory.replaced[2] > 9")),
        ("core/seats.py", "members that fence each other not counted", ("self.now_s, times + 1)", "self.now_s, 1)")),
    )
)
