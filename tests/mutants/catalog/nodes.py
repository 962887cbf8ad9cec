"""What stands against the evidence of nodes: which machine it was, what was asked of its kubelet, and what people swore of it."""

from __future__ import annotations

from .mutant import mutant
from .suites import GRACE, NODE_DOUBTS

NODES = (
    *(
        mutant(name, "core/evidence/reaping.py", NODE_DOUBTS, change)
        for name, change in (
            ("grace of the spec alone", ("version.grace_s, version.deletion_grace_s or None,", "version.grace_s,")),
            ("grace of a probe ignored", (", version.probe_grace_s or None)", ")")),
            ("newest grace in place of the longest", ("return max((s for s in told_s", "return min((s for s in told_s")),
            ("static pod reaped", ("    if version.is_mirror:\n", "    if False:\n")),
            ("neither runtime asked nor kubelet trusted", ("    if not is_kubelet_heard:\n", "    if False:\n")),
        )
    ),
    mutant("end of a static pod certified", "core/evidence/certificate.py", NODE_DOUBTS, ("    if version.is_mirror:\n", "    if False:\n")),
    *(
        mutant(name, "core/evidence/machines.py", NODE_DOUBTS, change)
        for name, change in (
            ("longer knowledge kept over an earlier machine", ("max(record.known_since_s, since_s)", "record.known_since_s")),
            ("replacement that was written dated by our own boot", ("written.gone_since_s is not None else now_s", "written.gone_since_s is not None else mine.boot_since_s")),
            ("boot counts since it was heard of", ("old_boot_until_s=shown_until_s,", "old_boot_until_s=at_s,")),
            ("replaced runtime forgotten", ("else at_s + CLOCKS_APART_S\n    return replace(known, machine", "else 0.0\n    return replace(known, machine")),
            ("dated by a slow clock", ("machine_of(view), max(now_s, view.written_at_s)", "machine_of(view), now_s")),
            ("clocks not compared", ("abs(self.clock_apart_s) > CLOCK_APART_MAX_S", "False")),
            ("taint counts since it was first seen", ("view.written_at_s) if is_next else 0.0", "view.written_at_s)")),
            ("taint counts since the news of it came", ("min(now_s, view.written_at_s)", "now_s")),
            ("virtual node forgotten with its object", ("until_s), is_virtual=is_virtual)", "until_s))")),
        )
    ),
    *(
        mutant(name, "core/evidence/node_words.py", NODE_DOUBTS, change)
        for name, change in (
            ("Node of any uid", ("\"\" if suspect.node_uid else", "\"\" if True else")),
            ("Node of another timeline", ("    if suspect.created_at_s <= fleet.timeline_since_s + CLOCKS_APART_S:\n", "    if False:\n")),
            ("Node that told no machine", ("record.is_virtual or not record.machine.is_told", "record.is_virtual")),
            ("deletion before it meant anything", ("is not None and record.gone_since_s >= fleet.trusted_since_s", "is not None")),
            ("deletion of another Node of the name", ("is_of_newest = record.created_at_s <= suspect.placed_at_s\n", "is_of_newest = True\n")),
            ("Node made again although the first may have gone before", (" and is_later and _came_since(suspect, fleet)", " and is_later")),
            ("deletion of a Node that another machine took over", ("    if record.earlier_until_s > max(suspect.placed_at_s, record.created_at_s + CLOCKS_APART_S):\n", "    if False:\n")),
            ("deletion that the watch has not shown", ("return record.gone_since_s is not None and", "return record.gone_since_s is None or")),
            ("Node that is there taken for deleted", ("view.uid == record.uid != suspect.node_uid and is_later", "is_later")),
            ("Node made before the pod was bound", ("suspect.bound_at_s or suspect.since_s", "0.0")),
        )
    ),
    *(
        mutant(name, "core/evidence/nodes.py", NODE_DOUBTS, change)
        for name, change in (
            ("another runtime asked", ("    if record.runtime_since_s > since_s:\n", "    if False:\n")),
            ("boot before told of for a moment", (" and vigil.looked_s - vigil.began_s >= CLOCKS_APART_S", "")),
            ("sweep trusts earlier deletions", ("and record.gone_since_s >= fleet.trusted_since_s", "")),
            ("sweep trusts nodes that went earlier", ("rules.trusts_deletion and fleet.trusted_since_s <= span.since_s", "rules.trusts_deletion")),
        )
    ),
    mutant(
        "joined span swept for its older part", "core/evidence/continuity.py", NODE_DOUBTS,
        ("second.reason if first.reason == SpanReason.WATCH_GAP else first.reason", "first.reason"),
    ),
    mutant("Node out of service that a pod is seen on", "core/evidence/chain.py", NODE_DOUBTS, (" and not node.is_out_of_service else", " else")),
    mutant("binding that was not seen", "core/evidence/chain.py", NODE_DOUBTS, ("known.node_name or not known.from_birth", "known.node_name")),
    *(
        mutant(name, "kube/pods/book.py", GRACE, change)
        for name, change in (
            ("grace of an older version dropped", ("runs_known=folded.runs_known, grace_s=folded.grace_s,", "runs_known=folded.runs_known,")),
        )
    ),
)
