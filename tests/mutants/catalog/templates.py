"""Earlier templates: the ids that they made, and when they are forgotten; and what two StaticGroups write into one pod."""

from __future__ import annotations

from .mutant import mutant
from .suites import COLLISIONS, EARLIER_TEMPLATES, PLAN

TEMPLATES = (
    *(
        mutant(name, "core/seats.py", EARLIER_TEMPLATES, change)
        for name, change in (
            (
                "only the pod of the newest template looked at",
                ("            pod_names=pod_names,\n", "            pod_names=pod_names[:1],\n"),
            ),
        )
    ),
    mutant(
        "pod of the newest template read afresh only",
        "runtime/gather.py",
        EARLIER_TEMPLATES,
        ("for name in seat.pod_names))", "for name in seat.pod_names[:1]))"),
        ("for n in seat.pod_names if not", "for n in seat.pod_names[:1] if not"),
        ("if len(reads) < len(seat.pod_names):", "if not reads:"),
    ),
    mutant(
        "only the first object that was read looked at",
        "core/guards.py",
        PLAN,
        ("in c.seat.fresh.objects if c.seat", "in c.seat.fresh.objects[:1] if c.seat"),
    ),
    mutant(
        "read of one name that failed taken for absence",
        "runtime/gather.py",
        EARLIER_TEMPLATES,
        ("if len(reads) < len(seat.pod_names):", "if not reads:"),
    ),
    *(
        mutant(name, "core/injection.py", EARLIER_TEMPLATES, change)
        for name, change in (
            ("template that gives a pod the id of another injected", ("_ambiguous(spec, history, template) or _one", "_one")),
            (
                "ambiguous template that is in force injected further",
                (" or bool(_ambiguous(spec, history, kept.id_template))", ""),
            ),
            (
                "refused template keeps the injection on",
                (
                    "kept = replace(kept, method=InjectedMethod.NONE.value if is_off else method)",
                    "kept = replace(kept, method=InjectedMethod.NONE.value) if is_off else kept",
                ),
            ),
        )
    ),
    mutant(
        "earlier template forgotten because there is no room",
        "core/injection.py",
        EARLIER_TEMPLATES,
        (" or _one_too_many(template, templates)", ""),
        ("        templates=templates,\n        verdict=verdict,", "        templates=templates[:TEMPLATES_MAX],\n        verdict=verdict,"),
    ),
    mutant(
        "what clients append beyond the spec left out where templates are compared",
        "core/ids/overlap.py",
        EARLIER_TEMPLATES,
        ("        suffixes |= {_ANY}\n", "        pass\n"),
    ),
    mutant(
        "numbers that begin together taken for one ordinal",
        "core/ids/overlap.py",
        EARLIER_TEMPLATES,
        ("together = both_begin or (began_together and not leave_a and not leave_b)", "together = both_begin or began_together"),
    ),
    mutant(
        "scope of one template taken for the scope of an id",
        "core/ids/naming.py",
        EARLIER_TEMPLATES,
        ("all(self.scope in s.template for s in made_by)", "any(self.scope in s.template for s in self.schemes)"),
    ),
    *(
        mutant(name, "core/ids/naming.py", EARLIER_TEMPLATES, change)
        for name, change in (
            ("template forgotten while a member holds its id", ("for i in held | carried)", "for i in carried)")),
            ("template forgotten while a pod of another name has its id", ("(*snapshot.known, *snapshot.others)", "snapshot.known")),
            ("template forgotten while a pod lacks the ids of the present one", ("all(naming.gives(p) for p in", "all(True for p in")),
            (
                "template forgotten while copies of pods may keep its ids",
                ("all(s.appended_to(i) is None for i in copied)", "True"),
            ),
            ("template forgotten at once", ("RETIRED_AFTER_S: Final = 60.0", "RETIRED_AFTER_S: Final = 0.0")),
            (
                "template forgotten although it gave the id to another pod",
                ("explained is None or explained[0] != begun[0] or", "explained is None or"),
            ),
        )
    ),
    mutant(
        "container that is not named taken for another than the first",
        "core/ids/collisions.py",
        COLLISIONS,
        ("(e.container or chosen, e.instance_id_name)", "(e.container, e.instance_id_name)"),
    ),
    mutant(
        "removals of two StaticGroups that write one annotation go on",
        "core/guards.py",
        COLLISIONS,
        ("    if c.snapshot.collisions:\n", "    if False:\n"),
    ),
)
