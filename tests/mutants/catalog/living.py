"""What live pods have carried: remembered where their names do not tell it, and followed until they go."""

from __future__ import annotations

from .mutant import mutant
from .suites import CARRIED, ELSEWHERE, FULL

LIVING = (
    mutant(
        "what live pods carried forgotten at a restart",
        "core/status/memory.py",
        CARRIED,
        ("            kept.extend(i for i in versions if i.state is IncarnationState.LIVE and naming", "            all(i for i in versions if naming"),
    ),
    mutant(
        "name of a seat explains every id",
        "core/ids/naming.py",
        CARRIED,
        ("return frozenset(i for i in own if ordinal not in self.ordinals_of(i))", "return frozenset()"),
    ),
    mutant(
        "name of a seat explains no id of its own",
        "core/ids/naming.py",
        CARRIED,
        ("return frozenset(i for i in own if ordinal not in self.ordinals_of(i))", "return own"),
    ),
    mutant(
        "id of a template to come is nobody's",
        "core/ids/naming.py",
        CARRIED,
        ("        if self.scope and self.scope in instance_id:\n            return True\n", ""),
        ("return not self.is_told_by_scope and bool(", "return bool("),
    ),
    mutant(
        "entry with other ids counts for a live pod",
        "core/status/memory.py",
        CARRIED,
        ("        or (i.state is not IncarnationState.DEAD and not i.instance_ids.issubset(written[i.uid]))\n", ""),
    ),
    mutant(
        "carriers of other namespaces not remembered",
        "runtime/memory/ledgers.py",
        CARRIED,
        (" if self.may_be_of(group, i, counted))", " if i.namespace == namespace)"),
    ),
    mutant(
        "carriers of other namespaces hold no position",
        "runtime/memory/ledgers.py",
        CARRIED,
        ("(*self.stores.workloads_in(pod.namespace), *self._elsewhere(pod))", "self.stores.workloads_in(pod.namespace)"),
    ),
    mutant(
        "ids of an entry cut by the alphabet",
        "core/status/memory.py",
        CARRIED,
        ("    return replace(i, instance_ids=naming.own_ids(i)) if", "    return i if"),
    ),
    mutant(
        "ids without room forgotten in silence",
        "core/status/memory.py",
        CARRIED,
        ("return (*(i for i in written if len(i.instance_ids) > durable.INSTANCE_IDS_MAX), *unproven[len(written) :])", "return tuple(unproven[len(written) :])"),
    ),
    mutant(
        "the living without room forgotten in silence",
        "core/status/memory.py",
        CARRIED,
        ("for i in ledger if i.state is not IncarnationState.DEAD), key=_rank)", "for i in ledger if i.state is IncarnationState.SUSPECT), key=_rank)"),
    ),
    mutant(
        "word about a time before closes what a living pod without room may do",
        "runtime/memory/ledgers.py",
        FULL,
        ("        if any(i.state is IncarnationState.LIVE for i in left_out):\n", "        if False:\n"),
    ),
    mutant(
        "pod that once carried an id dropped on arrival",
        "kube/pods/watch/stream.py",
        CARRIED,
        ("return may_hold_a_seat(raw) or self._sink.knows(uid_in(raw))", "return may_hold_a_seat(raw)"),
    ),
    mutant(
        "LIST ahead of the watch hides who carried an id meanwhile",
        "kube/pods/watch/stream.py",
        CARRIED,
        ("        listing.versions.update(", "        dict().update("),
    ),
    mutant(
        "identity of the cluster as it was before it was read",
        "runtime/reconciler.py",
        ("tests/unit/runtime/test_operator.py",),
        ("cluster_uid=lambda: self.cluster_uid,", "cluster_uid=lambda uid=self.cluster_uid: uid,"),
    ),
    mutant(
        "seat with the id of another one says nothing of a gap",
        "runtime/memory/ledgers.py",
        ELSEWHERE,
        ("if naming is not None and any(pod.object_present and naming.strange_ids(pod, namespace) for pod in seats):", "if False:"),
    ),
    mutant(
        "carrier of an id that nobody wants says nothing of a gap",
        "runtime/memory/ledgers.py",
        ELSEWHERE,
        ("carried = self._ids_of(naming, memory) | {(namespace, i) for i in counted}", "carried = {(namespace, i) for i in counted}"),
    ),
    mutant(
        "ids before the gap taken for those after it",
        "runtime/memory/ledgers.py",
        ELSEWHERE,
        ("(last.naming, last.epoch) == (naming, self.pods.epoch)", "last.naming == naming"),
    ),
    mutant(
        "pod of another group's workload is never a carrier",
        "runtime/memory/ledgers.py",
        ELSEWHERE,
        ("        if not self._is_told(pod):\n            return True\n", ""),
    ),
    mutant(
        "ordinal beyond int32 is never blind",
        "core/evidence/continuity.py",
        (*ELSEWHERE, "tests/unit/runtime/test_large_ordinals.py"),
        ("if min(ordinal, INT32_MAX) in s.ordinals)", "if ordinal in s.ordinals)"),
    ),
    mutant(
        "ledger of any size",
        "core/status/memory.py",
        ("tests/unit/runtime/test_status_size.py",),
        ("        if room < 0:\n", "        if False:\n"),
    ),
)
