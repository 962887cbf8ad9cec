"""The chain of an id: when every carrier is known to be dead."""

from __future__ import annotations

from .mutant import mutant
from .suites import CHAIN, PLAN, SUFFIXES

CHAINS = (
    *(
        mutant(name, "core/evidence/chain.py", CHAIN, *changes)
        for name, *changes in (
            (
                "evidence of the newest incarnation only",
                (
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))\n",
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))[-1:]\n",
                ),
            ),
            (
                "incarnations of the pod name ignored",
                (
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))\n",
                    "    chain = tuple(i for i in incarnations if instance_id in i.instance_ids)\n",
                ),
            ),
            (
                "living incarnation accepted",
                ("        if i.state is not IncarnationState.DEAD and i not in namesakes:\n", "        if False:\n"),
            ),
            (
                "living pod with another id taken for one that cannot hold this one",
                ("    if namesakes:\n", "    if False:\n"),
            ),
            (
                "empty chain accepted",
                ("    if not namesakes and not is_carried:\n", "    if False:\n"),
            ),
            (
                "pod whose beginning was not seen taken for one that can never hold the id",
                ("instance_id) and i.from_birth and i.ids_are_fixed", "instance_id) and i.ids_are_fixed"),
            ),
            (
                "pod whose ids can be edited taken for one that can never hold the id",
                ("instance_id) and i.from_birth and i.ids_are_fixed", "instance_id) and i.from_birth"),
            ),
            (
                "carrier with fixed ids ruled out",
                (
                    "return _is_namesake(i, instance_id) and i.from_birth",
                    "return i.state is IncarnationState.LIVE and i.from_birth",
                ),
            ),
            (
                "chain without a carrier proven by a pod that is ruled out",
                ("if is_carried and _is_ruled_out(", "if _is_ruled_out("),
                ("    if not namesakes and not is_carried:\n", "    if not chain and not ruled_out:\n"),
            ),
            (
                "one pod that is ruled out excuses every pod of the name",
                (
                    "    chain = tuple(i for i in chain if i not in ruled_out)\n",
                    "    chain = tuple(i for i in chain if not ruled_out or i.state is not IncarnationState.LIVE)\n",
                ),
            ),
            (
                "newest version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "version.ids_are_fixed"),
            ),
            (
                "first version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "base.ids_are_fixed"),
            ),
            ("gap ignored", ("    if not continuous:\n", "    if False:\n")),
            (
                "DELETED with running containers counts as dead",
                (
                    "gone = replace(known, state=IncarnationState.SUSPECT, object_present=False,",
                    "gone = replace(known, state=IncarnationState.DEAD, object_present=False,",
                ),
            ),
            (
                "edited annotation hides an incarnation",
                ("instance_ids=base.instance_ids | version.instance_ids,", "instance_ids=version.instance_ids,"),
            ),
            (
                "another container's run forgotten",
                ("base.started_containers | version.started_containers", "version.started_containers"),
            ),
            (
                "certificate taken back by a later version",
                ("    if seen.certificate is not None and not seen.certificate.is_of_gone:\n        return seen\n", ""),
            ),
        )
    ),
    mutant(
        "blind seat taken for an unbroken one",
        "core/seats.py",
        PLAN,
        ("    return known.is_unbroken(ordinal)\n", "    return True\n"),
    ),
    mutant(
        "checkpoint of another epoch believed",
        "core/seats.py",
        PLAN,
        ("known is None or known.epoch != snapshot.watch_epoch:", "known is None:"),
    ),
    mutant(
        "new epoch written after a gap",
        "core/next_pods/injection.py",
        PLAN,
        (
            "watch_epoch=before.watch_epoch if before is not None else _first_epoch(",
            "watch_epoch=snapshot.watch_epoch if before is not None else _first_epoch(",
        ),
    ),
    mutant(
        "lost memory beside carriers taken for a beginning",
        "core/next_pods/injection.py",
        PLAN,
        ("return EPOCH_UNKNOWN if _is_carried(spec, snapshot, scope, template) else", "return"),
    ),
    mutant(
        "lost memory beside carriers of ids that their client appends to taken for a beginning",
        "core/next_pods/injection.py",
        SUFFIXES,
        ('added = {"", *scheme.suffixes}', 'added = {""}'),
    ),
    mutant(
        "suffix corrected for a member whose whole id another pod carries",
        "core/ids/suffixes.py",
        ("tests/unit/runtime/test_suffixes.py",),
        ("        if member.instance_id in told_elsewhere:\n            continue\n", ""),
    ),
    mutant(
        "default of today in force where ids were issued with that of before",
        "api/injection.py",
        SUFFIXES,
        ("return before is None or identity.preset not in IMPLIED_SUFFIXES", "return True"),
    ),
    mutant(
        "ids issued before the watch is anchored",
        "core/next_pods/injection.py",
        PLAN,
        (
            "if before is None and not (snapshot.watch_epoch and snapshot.cluster_uid):",
            "if before is None and not snapshot.cluster_uid:",
        ),
    ),
)
