"""The edges: the pod watch and its book, and what the API server and the brokers say."""

from __future__ import annotations

from .mutant import mutant
from .suites import BOOK, GATEWAY, RECORDS, ROUNDS, WIRE

EDGES = (
    mutant(
        "older version overwrites newer",
        "kube/pods/book.py",
        BOOK,
        ("if before is not None and version.resource_version <= before.resource_version:", "if False:"),
    ),
    mutant(
        "skipped versions keep a pod known from birth",
        "kube/pods/book.py",
        BOOK,
        (
            "        if before is not None and not in_order:\n            before = replace(before, from_birth=False, runs_known=False)\n",
            "",
        ),
    ),
    mutant(
        "runs known from the last word alone",
        "core/evidence/certificate.py",
        BOOK,
        (" and not is_terminal(version)\n", "\n"),
    ),
    mutant(
        "runs known where a container has no entry",
        "core/evidence/certificate.py",
        BOOK,
        (" and all(c.phase is not ContainerPhase.ABSENT for c in entries)", ""),
    ),
    mutant(
        "older version whose ids can be edited overlooked",
        "kube/pods/book.py",
        BOOK,
        (", ids_are_fixed=folded.ids_are_fixed,", ","),
    ),
    mutant(
        "pod found only by the ids that it carried first",
        "kube/pods/book.py",
        RECORDS,
        ("        for instance_id in pod.instance_ids - (before.instance_ids if before is not None else frozenset()):", "        for instance_id in pod.instance_ids if before is None else ():"),
    ),
    mutant(
        "pod that is put again found twice",
        "kube/pods/book.py",
        RECORDS,
        ("        if before is None:\n            self._by_name.add(", "        if True:\n            self._by_name.add("),
        ("for u in dict.fromkeys(uids)),", "for u in uids),"),
    ),
    mutant(
        "run that an older version shows forgotten",
        "kube/pods/book.py",
        BOOK,
        ("started_containers=folded.started_containers, ", ""),
    ),
    mutant(
        "busy process has more rounds at once",
        "runtime/work_queue.py",
        ("tests/unit/runtime/test_busy_queue.py",),
        ("if not is_kept and self._turns.grow_late(key):", "if self._turns.grow_late(key):"),
    ),
    mutant(
        "busy process begins as many rounds as an idle one",
        "runtime/work_queue.py",
        ("tests/unit/runtime/test_busy_queue.py",),
        ("max(1, self.concurrency // BUSY_SHARE) if self._loop_s > BUSY_LAG_S else self.concurrency", "self.concurrency"),
    ),
    mutant(
        "round keeps its place for ever in a busy process",
        "runtime/work_queue.py",
        ("tests/unit/runtime/test_busy_queue.py",),
        (" and now - entry.began_at < KEPT_WHILE_BUSY_S\n", "\n"),
    ),
    mutant(
        "status that somebody waits for waits for its turn",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_status_pace.py", *ROUNDS),
        ("elif memory.must_write or not can_wait(memory.status, status):", "elif memory.must_write:"),
    ),
    mutant(
        "edits that follow each other reported one by one",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_edit_storm.py",),
        ("next_s = memory.sent_at_s + EDITS_PACE_S\n", 'next_s = float("-inf")\n'),
    ),
    mutant(
        "edit that is acted upon reported later",
        "runtime/memory/pace.py",
        ("tests/unit/runtime/test_edit_storm.py",),
        ('    return can_wait(before.model_copy(update={"observed_generation": after.observed_generation}), after)\n', "    return True\n"),
    ),
    mutant(
        "status that waits counts as written",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_status_pace.py",),
        ("        if self._is_held_up(key, memory, status):\n            return False\n", "        if self._is_held_up(key, memory, status):\n            return True\n"),
    ),
    mutant(
        "refused status asked for again at once",
        "runtime/memory/memory.py",
        ("tests/unit/runtime/test_refusals.py",),
        ("            memory.due_s = memory.refusal.retry_at_s\n", "            pass\n"),
    ),
    mutant(
        "instance-only leave encoded",
        "kafka/calls/leaving.py",
        WIRE,
        ("        if not (entry.member_id and entry.instance_id):\n", "        if not entry.instance_id:\n"),
    ),
    mutant("empty batch encoded", "kafka/calls/leaving.py", WIRE, ("    if not entries:\n", "    if False:\n")),
    mutant(
        "error 29 read as an empty group",
        "kafka/calls/reading.py",
        GATEWAY,
        ("int(g.error_code) or view_of(g) for g", "int(g.error_code) * (g.error_code != 29) or view_of(g) for g"),
    ),
    mutant(
        "group type not asked",
        "kafka/describe.py",
        GATEWAY,
        (
            "                by_type[found][group_id] = found\n",
            "                by_type[GroupType.CLASSIC][group_id] = found\n",
        ),
    ),
    mutant(
        "lost answer of a leave tried again blindly",
        "kafka/leaves.py",
        GATEWAY,
        ("            if refusal.sent:\n                return unknown\n            raise\n", "            raise\n"),
    ),
    mutant(
        "answers matched to other entries",
        "kafka/leaves.py",
        GATEWAY,
        (
            "        if [instance_id for instance_id, _ in answers] != [entry.instance_id for entry in entries]:\n            return unknown\n",
            "",
        ),
    ),
)
