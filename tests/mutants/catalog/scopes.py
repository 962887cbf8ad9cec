"""Scopes that users write: what outlives a StaticGroup, and what nobody knows of the time before it."""

from __future__ import annotations

from .mutant import mutant
from .suites import WRITTEN_SCOPE

SCOPES = tuple(
    mutant(name, path, WRITTEN_SCOPE, change)
    for path, name, change in (
        (
            "core/plan.py",
            "ids with a written scope taken for new",
            ("if history.injected is None and spec.identity.scope is not None:", "if False:"),
        ),
        (
            "core/plan.py",
            "word of exclusive ids taken for one about processes from before",
            ("spec.identity.scope is not None:", "spec.identity.scope is not None and not spec.identity.exclusive:"),
        ),
        (
            "core/plan.py",
            "ids with a written scope blind only since their StaticGroup was made",
            ("SpanReason.SCOPE_WRITTEN, since_s=SINCE_EVER_S,", "SpanReason.SCOPE_WRITTEN, since_s=snapshot.created_at_s,"),
        ),
        (
            "runtime/memory/histories.py",
            "lost status of a written scope blind only since its StaticGroup was made",
            ("        if spec.identity.scope is not None:  # as old as they like\n", "        if False:\n"),
        ),
        (
            "runtime/memory/estates.py",
            "history inherited over a gap of the watch",
            ("(known.epoch, known.timeline) == (self.pods.epoch, self.pods.timeline)", "True"),
        ),
        (
            "runtime/memory/estates.py",
            "history inherited though suspects were forgotten",
            ("return is_seen and left.forgotten == self.pods.forgotten_suspects", "return is_seen"),
        ),
        (
            "runtime/memory/estates.py",
            "history inherited twice",
            ("left = self._left.pop(_whose(group.metadata.namespace, group.spec, scope), None)", "left = self._left.get(_whose(group.metadata.namespace, group.spec, scope))"),
        ),
        (
            "runtime/memory/estates.py",
            "history of another StatefulSet inherited",
            ("    return namespace, spec.workload_ref.name,", '    return namespace, "",'),
        ),
        (
            "runtime/memory/estates.py",
            "history of another Kafka group inherited",
            ("(namespace)), spec.group_id, scope", '(namespace)), "", scope'),
        ),
        (
            "runtime/memory/estates.py",
            "ids of the time without a StaticGroup taken for injected",
            ("group_uid=group.metadata.uid, ids_by_hand=True)", "group_uid=group.metadata.uid)"),
        ),
        (
            "runtime/memory/memories.py",
            "standby goes on with what it remembered of deleted StaticGroups",
            ("        self.estates.forget_all()\n", ""),
        ),
        (
            "runtime/memory/memories.py",
            "history inherited that another replica has gone on from",
            (
                "            del self._by_key[key]  # nobody inherits what somebody else has gone on from\n            self.pace.forget(key)\n",
                "            self.forget(key)\n",
            ),
        ),
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
            "core/next_pods/injection.py",
            "id of a living pod from before given to another pod",
            ("            if any(ordinal != own for ordinal in naming.ordinals_of(instance_id)):\n", "            if False:\n"),
        ),
        (
            "core/next_pods/injection.py",
            "written scope taken though ids have another one",
            ("    if before is not None and written not in (None, before.scope):\n", "    if False:\n"),
        ),
    )
)
