"""Slots of Deployments: an id passes on only from a pod whose end was watched, and no pod that waits is left alone."""

from __future__ import annotations

from .mutant import mutant

_HAND_OUT = ("tests/unit/simulator/test_slot_handout.py",)
_NOTES = ("tests/unit/core/slots/test_notes.py", "tests/unit/core/slots/test_wanted_slots.py")
_ROUNDS = (
    "tests/unit/runtime/test_slots.py",
    "tests/unit/runtime/test_slots_attacked.py",
    "tests/unit/runtime/test_slots_told.py",
)
_BOOK = ("tests/unit/kube/pods/test_slots_in_the_book.py",)

SLOTS = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/slots/hand_out.py",
            _HAND_OUT,
            "slot passes on from a pod whose end was not watched",
            ("return any(pod.is_end_watched for pod in had) and all(", "return bool(had) and all("),
        ),
        (
            "core/slots/hand_out.py",
            _HAND_OUT,
            "slot passes on though another pod has it",
            ("and all(pod.has_ended for pod in had)", "and True"),
        ),
        (
            "core/slots/hand_out.py",
            _HAND_OUT,
            "slot given that two pods claim",
            ("return claiming == {uid} and", "return uid in claiming and"),
        ),
        (
            "core/slots/hand_out.py",
            _HAND_OUT,
            "slot of a pod that is deleted while it waits given to the next one",
            ("len(hopeful) + len(soon) +", "len(hopeful) +"),
        ),
        (
            "core/slots/deployment.py",
            _NOTES,
            "end counts that another watch has seen",
            ("has_ended and pod.ended_under == watch_no", "has_ended"),
        ),
        (
            "core/slots/deployment.py",
            _NOTES,
            "watch that is not whole trusted",
            ("slot_pods(known, scope, watch_no if watch else -1, now_s)", "slot_pods(known, scope, watch_no, now_s)"),
        ),
        (
            "core/slots/deployment.py",
            _NOTES,
            "members of another watch count",
            ("_worth(members, naming, pods) if is_seen else ()", "_worth(members, naming, pods)"),
        ),
        (
            "core/slots/deployment.py",
            _NOTES,
            "slot passes on whose member may be of another pod",
            (" and carriers <= going}", "}"),
        ),
        (
            "core/slots/deployment.py",
            _NOTES,
            "own slot that a known pod has",
            ("for slot in _drawn(workload_name, uid) if slot not in taken)", "for slot in _drawn(workload_name, uid))"),
        ),
        (
            "core/slots/deployment.py",
            _ROUNDS,
            "pod that waits left alone after the clock went back",
            ("shown.count and 0 <= now_s - shown.noted_s", "shown.count and now_s - shown.noted_s"),
        ),
        (
            "core/evidence/chain.py",
            _BOOK,
            "what a note once gave forgotten",
            ("given=known.given or shown.given", "given=shown.given"),
        ),
        (
            "runtime/hand_outs.py",
            _ROUNDS,
            "notes written by a replica without the Lease",
            ("if not self.executor.may_write() or not self.executor.is_current(group):", "if False:"),
        ),
        (
            "runtime/hand_outs.py",
            _ROUNDS,
            "notes written in mode Observe",
            ("is_off = spec.mode is not Mode.MANAGE or self.force_observe", "is_off = False"),
            (" or injected.method == InjectedMethod.NONE.value", ""),
        ),
        (
            "runtime/hand_outs.py",
            _ROUNDS,
            "note written twice over one version",
            ("[n for n in plan.notes if n.pod.uid not in memory.noted]", "plan.notes"),
        ),
        (
            "runtime/hand_outs.py",
            _ROUNDS,
            "note for an older version not tried again",
            ("RACE_REQUEUE_S if retry else plan.requeue_after_s", "plan.requeue_after_s"),
        ),
        (
            "runtime/listener.py",
            _ROUNDS,
            "pod that heard nothing yet looked at with the others",
            ("slot.claimed or not slot.count for slot in waits", "slot.claimed for slot in waits"),
        ),
    )
)
