"""The chain of an id: when every carrier is known to be dead."""

from __future__ import annotations

from .mutant import mutant
from .suites import CHAIN, SUFFIXES

CHAINS = (
    *(
        mutant(name, "core/evidence/chain.py", CHAIN, *changes)
        for name, *changes in (
            (
                "newest version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "version.ids_are_fixed"),
            ),
            (
                "first version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "base.ids_are_fixed"),
            ),
            (
                "DELETED with running containers counts as dead",
                (
                    "known, state=PodState.SUSPECT, object_present=False,",
                    "known, state=PodState.DEAD, object_present=False,",
                ),
            ),
            (
                "edited annotation hides a pod",
                ("instance_ids=base.instance_ids | version.instance_ids,", "instance_ids=version.instance_ids,"),
            ),
            (
                "another container's run forgotten",
                ("base.started_containers | version.started_containers", "version.started_containers"),
            ),
        )
    ),
    mutant(
        "suffix corrected for a member whose whole id another pod carries",
        "core/ids/suffixes.py",
        ("tests/unit/runtime/test_suffixes.py",),
        ("        if member.instance_id in carried_elsewhere:\n            continue\n", ""),
    ),
    mutant(
        "client that lists what it appends expected to append what others of its type do",
        "api/injection.py",
        SUFFIXES,
        ("    if client.suffixes:\n        return tuple(client.suffixes)\n", ""),
    ),
)
