"""A crash release: which runs of containers are over, which members have no process, and what prevents a release."""

from __future__ import annotations

from .mutant import mutant
from .suites import CRASHES, LEAVES_FOR_A_WHILE, RELEASES, RUNS, TOLD_RUNS

RUN_ENDS = tuple(
    mutant(name, "core/evidence/chain.py", RUNS, *changes)
    for name, *changes in (
        ("lost run taken for one that ended", (" or last.reason in LOST_RUN_REASONS", "")),
        ("end of no run believed", (" or not last.container_id:", ":")),
        ("end without a time believed", ("last is None or last.finished_at_s is None or", "last is None or")),
        ("earlier end takes the place of a later one", ("last.finished_at_s <= known.end.finished_at_s", "last.finished_at_s == known.end.finished_at_s")),
        ("end received again", ("    if known.end is not None and last", "    if False and last")),
        ("containers of other ids asked for an id", ("not each.only_ids or any(may_become(i, instance_id) for i in each.only_ids)", "True")),
        ("what a client makes of its container's id forgotten", ("any(may_become(i, instance_id) for i in each.only_ids)", "instance_id in each.only_ids")),
        ("container that holds an id no more forgotten", ("for name in dict.fromkeys((*before, *holders))", "for name in holders")),
        ("every container followed, whether or not it holds an id", ("if container.may_hold_id)", ")")),
        ("node of a crash not judged", ("    if refusal is not None:\n        return refusal.clause\n", "")),
        ("shared process namespace overlooked", ("    if version.shares_processes:\n", "    if False:\n")),
        ("status of a third party believed about a crash", ("    if not version.phase_has_statuses or", "    if")),
        ("status of the garbage collector believed about a crash", (" or version.phase_manager in PHASE_MANAGERS_REFUSED:\n", ":\n")),
        ("clock of a node held against the operator's only", ("min(now_s, version.phase_written_at_s)", "now_s")),
        ("clock of a node held against the API server's only", ("min(now_s, version.phase_written_at_s)", "version.phase_written_at_s")),
        (
            "status without a time of writing believed",
            ('        return "the object does not say when its status was written, so the node\'s clock cannot be judged"\n', '        return ""\n'),
        ),
        ("id that a container held forgotten", ("known.only_ids | shown.only_ids if are_few", "shown.only_ids if are_few")),
        ("container that may hold any id narrowed", ("are_few = bool(known.only_ids and shown.only_ids)", "are_few = True")),
    )
)

GHOSTS = tuple(
    mutant(name, "core/releases.py", RELEASES, *changes)
    for name, *changes in (
        ("member described just before an end taken for a ghost", ("since_s + MARGIN_S < run.end.finished_at_s", "since_s < run.end.finished_at_s")),
        ("end of one container taken for that of all", ("bool(runs) and all(run.end is not None", "any(run.end is not None")),
        ("member that is younger than every end reported", ("return any(run.end is not None and since_s < run.end.finished_at_s for run in runs)", "return True")),
        ("member that was never described taken for a ghost", ("        if since_s is None or not _may_be_over(runs, members[0], since_s):\n", "        since_s = since_s or 0.0\n        if not _may_be_over(runs, members[0], since_s):\n")),
        ("member that has left taken for a ghost", ("if member.member_epoch is None or member.is_away:", "if member.member_epoch is None:")),
        ("ids of the pod not asked for a ghost", (" or key not in pod.instance_ids:\n", ":\n")),
        ("doubt about a crash reported for ever", ("        if crash.is_over or now_s <=", "        if crash.is_over or 0.0 <=")),
        ("crash dated by each start that was refused", ("    if known is not None and known.member_id", "    if False and known.member_id")),
        ("crash of another member remembered as this one's", (" and known.member_id == self.member.member_id and", " and")),
        ("doubted end dates the proven crash", (" and known.is_over >= self.is_over:", ":")),
        ("doubt of an end overlooked when another is not doubted", ("next((end.doubt for end in c.ends if end.doubt), \"\")", "c.ends[0].doubt")),
        ("member released again and again", ("if record is None or record.member_id != c.member.member_id:", "if True:")),
        ("read that shows no pod accepted", ("    if objects == ((c.pod.pod_name, c.pod.uid),):\n", "    if not objects or objects == ((c.pod.pod_name, c.pod.uid),):\n")),
        ("read that shows two pods accepted", ("    if objects == ((c.pod.pod_name, c.pod.uid),):\n", "    if (c.pod.pod_name, c.pod.uid) in objects:\n")),
        ("release in mode Observe", (" and c.spec.mode is Mode.MANAGE:", ":")),
        ("release without being asked to", ("if c.spec.removal is RemovalPolicy.DEPARTED_AND_CRASHED and", "if")),
        ("pod that is no more taken for one that crashed", ("    live = (pod for pod in snapshot.pods if pod.state is PodState.LIVE)\n", "    live = snapshot.pods\n")),
        ("pod that ended since taken for one that crashed", (" or now.state is not PodState.LIVE:\n", ":\n")),
        ("crash judged by the pod as it was before the read", ("            pod = now\n", "            pass\n")),
        *(
            (f"release guard {guard} dropped", (f"    {guard},\n", ""))
            for guard in (
                "process_may_live", "end_doubted", "other_process", "released_before", "pod_replaced", "not_wanted", "report_only",
            )
        ),
    )
)

SHARED_GUARDS = tuple(
    mutant(f"release guard {guard} dropped", "core/releases.py", RELEASES, (f"    {guard},\n{after}", after))
    for guard, after in (
        ("suspended", "    conflict,\n"),
        ("conflict", "    unscoped,\n"),
        ("unscoped", "    duplicate,\n"),
        ("duplicate", "    pods_unseen,\n"),
        ("pods_unseen", "    process_may_live,\n"),
        ("not_read_afresh", "    pod_replaced,\n"),
        ("no_barrier", ")\n\"\"\"In this order"),
    )
)

ON_ITS_WAY = (
    mutant(
        "pod that was refused before its release not named",
        "core/seats.py",
        RELEASES,
        ("            if holders[0].is_away and is_refused and is_late:", "            if False:"),
    ),
    mutant("release taken for verified while the member is there", "core/seats.py", RELEASES, ("return record if is_there else replace(", "return replace(")),
    mutant("crashed seats not read afresh", "core/plan.py", RELEASES, ("        reads += [crash.seat for crash in crashes if may_be_read(crash)]\n", "")),
    mutant("crash not reported where nobody is removed", "core/releases.py", RELEASES, ("    if not pods or by is None", "    if spec.removal is RemovalPolicy.NEVER or not pods or by is None")),
    mutant(
        "release whose answer was lost forgotten",
        "core/outcomes.py",
        CRASHES,
        ("if outcome not in (ReleaseOutcome.RELEASED, ReleaseOutcome.RETRY):", "if outcome is not ReleaseOutcome.RELEASED:"),
    ),
    mutant(
        "release that was cut forgotten",
        "runtime/executor.py",
        CRASHES,
        ('            remember(ReleaseOutcome.RETRY)\n', ""),
    ),
    mutant(
        "release without the Lease",
        "runtime/executor.py",
        CRASHES,
        (
            "        if not self.may_write() or not self.is_current(group):\n            return executed, decided\n\n        def remember",
            "        if not self.is_current(group):\n            return executed, decided\n\n        def remember",
        ),
    ),
    mutant(
        "release for a StaticGroup that was edited",
        "runtime/executor.py",
        CRASHES,
        (
            "        if not self.may_write() or not self.is_current(group):\n            return executed, decided\n\n        def remember",
            "        if not self.may_write():\n            return executed, decided\n\n        def remember",
        ),
    ),
    mutant(
        "chain of a crashed seat not taken",
        "core/plan.py",
        CRASHES,
        ("        return (*(self.table.departed if self.table is not None else ()), *(crash.seat for crash in self.crashes))", "        return self.table.departed if self.table is not None else ()"),
    ),
    mutant(
        "temporary leave without member id allowed",
        "kafka/calls/leaving.py",
        LEAVES_FOR_A_WHILE,
        ("        if not (entry.member_id and entry.instance_id):\n", "        if not entry.instance_id:\n"),
    ),
    mutant(
        "temporary leave without instance id allowed",
        "kafka/calls/leaving.py",
        LEAVES_FOR_A_WHILE,
        ("        if not (entry.member_id and entry.instance_id):\n", "        if not entry.member_id:\n"),
    ),
    mutant(
        "temporary leave for good",
        "kafka/calls/leaving.py",
        LEAVES_FOR_A_WHILE,
        ("group_id, entry, STATIC_MEMBER_AWAY_EPOCH)", "group_id, entry, LEAVE_EPOCH)"),
    ),
    mutant(
        "release that may have happened sent again",
        "kafka/leaves.py",
        LEAVES_FOR_A_WHILE,
        ("            return retry if refusal.sent else refusal\n", "            return refusal\n"),
    ),
    mutant(
        "variables of a whole object hold no id",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ('                holders.allow(own_name)\n                yield "", False\n', '                yield "", False\n'),
    ),
    mutant(
        "file of an annotation holds no id",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ("                holders.allow(own_name)\n            if carries and", "                pass\n            if carries and"),
    ),
    mutant(
        "id that can be edited taken for the only one of a container",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ("if is_fixed and value and _is_legal_id(value) else []", "if value and _is_legal_id(value) else []"),
    ),
    mutant(
        "container that may hold any id holds only one",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ("if known and instance_ids else", "if instance_ids else"),
    ),
    mutant(
        "id within a longer text overlooked",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ("    return found or None\n", "    return None\n"),
    ),
    mutant(
        "containers of a pod with many ids hold none",
        "kube/translate/carried_ids.py",
        TOLD_RUNS,
        ("((n, ()) for n in _names(spec)):", "():"),
    ),
    *(
        mutant(name, "kube/translate/carried_ids.py", TOLD_RUNS, change)
        for name, change in (
            ("text that is too long to be followed holds no id", ("if expanded is None or (", "if (expanded := expanded or '') and (")),
            ("text that only the kubelet knows holds no id", ('if expanded is None or ("$(" in expanded and pod_name in expanded):', "if expanded is None:")),
            ("separator that a shell writes parts a container from the id", ("    return wanted <= {piece for text in texts for piece in _SEPARATOR.split(text)}", "    return False")),
            ("hooks and probes of a container hold no id", ("    for place, key in (*places,", "    for place, key in () and (*places,")),
            ("nobody types an id in a debug container", ('() if kind == "ephemeralContainers" else _made(', "_made(")),
            ("id that is the pod's name is in no container's host name", ("tuple(part for part in (instance_id.split(known) if known else [instance_id]) if part)", "(instance_id,)")),
        )
    ),
    mutant(
        "sidecars and ephemeral containers hold no id",
        "kube/translate/pods.py",
        TOLD_RUNS,
        (
            'statuses["ephemeralContainerStatuses"], holders),\n',
            'statuses["ephemeralContainerStatuses"], {}),\n',
        ),
    ),
)
