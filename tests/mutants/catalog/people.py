"""The words that people give about lost pods, gaps and restored backups."""

from __future__ import annotations

from .mutant import mutant
from .suites import BY_PLUGIN, FULL, MEMORY, OTHER_TENANTS, RESTORED, THE_LIVING, WORD

WORDS_OF_PEOPLE = (
    *(
        mutant(name, "core/evidence/words.py", WORD, change)
        for name, change in (
            (
                "a live incarnation confirmed dead",
                (
                    "        known.state is IncarnationState.SUSPECT\n        and not known.object_present\n        and (word",
                    "        known.certificate is None\n        and (word",
                ),
            ),
            ("word about an object that exists", ("        and not known.object_present\n", "")),
            (
                "word of another uid counts",
                (
                    "(word.namespace, word.pod_name, word.pod_uid) == (known.namespace, known.pod_name, known.uid)",
                    "(word.namespace, word.pod_name) == (known.namespace, known.pod_name)",
                ),
            ),
            (
                "word about another namespace counts",
                (
                    "(word.namespace, word.pod_name, word.pod_uid) == (known.namespace, known.pod_name, known.uid)",
                    "(word.pod_name, word.pod_uid) == (known.pod_name, known.uid)",
                ),
            ),
            ("word counts for a later suspicion", ("        and word.said_at_s >= int(known.since_s)\n", "")),
            (
                "outdated ledger brings a void word back",
                (" and entry.since_s >= int(known.since_s)\n", "\n"),
            ),
            (
                "ledger's word closes a life",
                (
                    "    return known.state is IncarnationState.SUSPECT and entry.since_s >=",
                    "    return entry.since_s >=",
                ),
            ),
        )
    ),
    mutant(
        "word about a gap counts although nobody knows when it was said",
        "core/evidence/words.py",
        WORD,
        (
            'until_s=spec.until.timestamp(),\n        said_at_s=created.timestamp() if created is not None else float("-inf")',
            'until_s=spec.until.timestamp(),\n        said_at_s=created.timestamp() if created is not None else float("inf")',
        ),
    ),
    *(
        mutant(name, f"core/evidence/{file}.py", THE_LIVING, change)
        for file, name, change in (
            (
                "continuity",
                "word about a gap counts while a pod lives that may have taken another id in it",
                (" and not any(p.may_have_taken_ids(span) for p in self.editable)", ""),
            ),
            (
                "spans",
                "pod that restarted in a gap took no other id",
                ("        return not (is_younger or runs_on)", "        return not (is_younger or runs_on or self.ready_since_s is None)"),
            ),
            ("spans", "word about a gap waits for pods that ran on", (" or runs_on)", ")")),
        )
    ),
    mutant(
        "copies of other names took no other id in a gap",
        "runtime/observer.py",
        THE_LIVING,
        ("spec.workload_ref.name, self.ledgers.living_elsewhere(memory))", "spec.workload_ref.name, ())"),
    ),
    mutant(
        "full ledger stays open for words long after there is room",
        "core/evidence/continuity.py",
        FULL,
        ("known = _over_by(known, math.floor(now_s) + 1) if known is not None else None\n", "pass\n"),
    ),
    mutant(
        "another tenant's pod is to be deleted",
        "core/guards.py",
        OTHER_TENANTS,
        ("    if stays.namespace != c.snapshot.namespace:  # perhaps", "    if not stays.namespace:  # perhaps"),
    ),
    mutant(
        "plugin takes a word about a pod that is there",
        "runtime/commands/suspects.py",
        BY_PLUGIN,
        ("    await _refuse_while_present(person, namespace, pod_name, uid)\n", ""),
    ),
    mutant(
        "plugin takes a pod that may not be read for one that is gone",
        "plugin/kubectl.py",
        BY_PLUGIN,
        ("return None if answer.kind is KubeProblemKind.NOT_FOUND else answer\n        return str", "return None\n        return str"),
    ),
    mutant(
        "the same word about a restore twice",
        "runtime/commands/restored.py",
        RESTORED,
        ("-{secrets.token_hex(4)}", "-00000000"),
    ),
    mutant(
        "word about a restore written over a version that nobody read",
        "runtime/commands/restored.py",
        RESTORED,
        ('"metadata": metadata |', '"metadata": metadata | {"resourceVersion": None} |'),
    ),
    mutant(
        "word survives the object's return",
        "core/evidence/chain.py",
        WORD,
        (" and not seen.certificate.is_of_gone:\n", ":\n"),
    ),
    mutant(
        "word lets a removal pass an object that is there",
        "core/guards.py",
        WORD,
        (" if i.certificate is not None and not i.certificate.is_of_gone}", " if i.certificate is not None}"),
    ),
    mutant(
        "confirmed end written as a certificate that an older operator refuses",
        "core/status/memory.py",
        MEMORY,
        (
            "state=durable.IncarnationState.SUSPECT if is_of_gone else durable.IncarnationState(i.state.value),",
            "state=durable.IncarnationState(i.state.value),",
        ),
    ),
)
