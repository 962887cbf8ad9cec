"""A removal: the guards that hold it, the order of a round, and the describe afterwards."""

from __future__ import annotations

from .mutant import Mutant, mutant
from .suites import PLAN, ROUNDS, SENTENCES


def _without_guard(guard: str) -> Mutant:
    return mutant(f"guard {guard} dropped", "core/guards.py", PLAN, (f"    {guard},\n", ""))


GUARDS = (
    *(
        _without_guard(guard)
        for guard in (
            "policy_never",
            "conflict",
            "unscoped",
            "duplicate",
            "pods_unseen",
            "not_read_afresh",
            "expected_again",
            "pod_present",
            "no_barrier",
            "suspended",
            "hold_window",
            "unsupported_group",
        )
    ),
    mutant(
        "copy of a pod stands for one that is not visible",
        "runtime/gather.py",
        SENTENCES,
        ("p.slots or ordinal_of_pod(workload_name, p.pod_name) is not None", "True"),
    ),
    mutant(
        "copy of a pod that has just gone stands for one that is not visible",
        "core/guards.py",
        SENTENCES,
        ("        and ordinal_of_pod(c.spec.workload_ref.name, seat_name(i, c.snapshot.scope)) is not None\n", ""),
    ),
    mutant(
        "workload that is being deleted waits no longer than a scale-down",
        "core/guards.py",
        PLAN,
        ("c.snapshot.workload is not None and not c.snapshot.workload.is_ending", "c.snapshot.workload is not None"),
    ),
    mutant(
        "scale-down waits as long as for a workload that is gone",
        "core/guards.py",
        PLAN,
        ("    if c.snapshot.workload is not None and not c.snapshot.workload.is_ending:\n", "    if False:\n"),
    ),
    mutant(
        "leave entry without member id allowed",
        "core/group.py",
        PLAN,
        ("if not self.member_id or not self.instance_id:", "if not self.instance_id:"),
    ),
)


VERIFICATION = (
    mutant(
        "verification skipped",
        "core/seats.py",
        PLAN,
        ("        if not group.is_settled and not is_expired:\n            return record\n", ""),
    ),
    mutant(
        "one reading of an absent group believed",
        "core/seats.py",
        PLAN,
        (
            "        if is_expired and record.absent_since_s is None:\n            return replace(record, absent_since_s=now_s)\n",
            "",
        ),
    ),
    mutant(
        "settled at the acknowledgement",
        "core/outcomes.py",
        ROUNDS,
        (
            "            attempts=removal.attempt,\n",
            "            attempts=removal.attempt,\n            settled_at_s=now_s,\n",
        ),
    ),
    mutant(
        "resurrected member stays settled",
        "core/seats.py",
        PLAN,
        ("            return replace(record, absent_since_s=None, settled_at_s=None)\n", "            return record\n"),
    ),
    mutant(
        "coordinator change ignored",
        "core/seats.py",
        PLAN,
        ("        if record.coordinator != group.coordinator:\n", "        if False:\n"),
    ),
    mutant(
        "one reading after a fail-over believed",
        "core/seats.py",
        PLAN,
        ("COORDINATOR_CHANGE_SETTLE_S = 2.0\n", "COORDINATOR_CHANGE_SETTLE_S = 0.0\n"),
    ),
    mutant(
        "unsure outcome counts as removed",
        "core/outcomes.py",
        PLAN,
        ("        if outcome is LeaveOutcome.REMOVED:\n", "        if True:\n"),
    ),
)


ORDER = tuple(
    mutant(name, path, ROUNDS, *changes)
    for path, name, *changes in (
        (
            "runtime/gather.py",
            "no barrier",
            (
                "passed = bool(versions) and await self._barrier(namespace, versions, position)",
                "passed = bool(versions)",
            ),
        ),
        (
            "runtime/gather.py",
            "barrier before describe",
            (
                "        settings = await self.connections.settings_for(group)\n        at_s",
                "        settings = await self.connections.settings_for(group)\n        await self.pods.barrier(namespace, self.pods.position(namespace))\n        at_s",
            ),
            (
                "passed = bool(versions) and await self._barrier(namespace, versions, position)",
                "passed = bool(versions)",
            ),
        ),
        (
            "runtime/gather.py",
            "describe last",
            (
                "        # Step 4: only now",
                "        again = await self.kafka.describe(described.settings, spec.group_id)\n"
                "        seen = replace(seen, group=again)\n"
                "        found = survey(spec, seen, issuance, self.now_s())\n"
                "        # Step 4: only now",
            ),
        ),
        (
            "runtime/gather.py",
            "intent read dropped",
            (
                "        workload = await self.kube.read_workload(namespace, spec.workload_ref)\n        if",
                "        workload = seen.workload\n        if",
            ),
        ),
        (
            "runtime/executor.py",
            "observe ignored",
            ("        if spec.mode is Mode.OBSERVE:\n            return Executed(observe_only=True), decided\n", ""),
        ),
        (
            "runtime/reconciler.py",
            "forced observe ignored",
            ('return spec.model_copy(update={"mode": Mode.OBSERVE}) if self.force_observe else spec', "return spec"),
        ),
        ("runtime/reconciler.py", "mode Suspended ignored", ("        if group.spec.mode is Mode.SUSPENDED:\n", "        if False:\n")),
        (
            "runtime/executor.py",
            "lease not checked before the leave",
            (
                "        if not self.may_write():\n            return Executed(\n",
                "        if False:\n            return Executed(\n",
            ),
        ),
        (
            "runtime/executor.py",
            "deleted StaticGroup not noticed before the leave",
            ("        if not self.is_current(group):\n            return Executed(), decided\n", ""),
        ),
    )
)


DEPARTED = tuple(
    mutant(name, path, ("tests/unit/runtime/test_departed.py", "tests/unit/runtime/test_reconciler.py"), *changes)
    for path, name, *changes in (
        (
            "runtime/gather.py",
            "wanted as before the consistent read",
            ("wanted = wanted_by(naming, workload)", "wanted = wanted_by(naming, seen.workload)"),
        ),
        (
            "core/issuance.py",
            "departed by the ids of the round before",
            ("naming = naming_of(spec, history)\n        expected", "naming = naming_of(spec, before)\n        expected"),
            ("    injection = plan_injection(spec, snapshot, history)\n", "    before, injection = history, plan_injection(spec, snapshot, history)\n"),
        ),
    )
)
