"""Under which names an id can be, and which of two StaticGroups gives it."""

from __future__ import annotations

from .mutant import mutant
from .suites import BLIND_SINCE, BY_HAND, CARRIED_IDS, OTHER_BROKERS, SAME_IDS, TENANTS

HISTORIES, NAMING, RIVALS, STORES = "runtime/memory/histories.py", "core/ids/naming.py", "runtime/rivals.py", "runtime/stores.py"

NAMES = tuple(
    mutant(name, path, suite, change)
    for path, suite, name, change in (
        (
            HISTORIES,
            BY_HAND,
            "ids that follow an annotation stay under their names",
            ("method == InjectedMethod.NONE or follows_annotation(identity_of(spec), t) for", "method == InjectedMethod.NONE for"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "template that was decided taken for the one in force",
            ("for i in (history.injected, injected) if", "for i in (history.injected,) if"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "ids stay under their names while nothing is injected",
            ("if not is_acting or chosen is", "if chosen is"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "pods of an earlier template forgotten",
            ("return bool(keep_ids_in_copies(", "return False and bool(keep_ids_in_copies("),
        ),
        (
            NAMING,
            BY_HAND,
            "earlier template that follows an annotation counts for ever",
            ("return tuple(p for p in pods if not p.ids_are_fixed and not is_of_the_present(p))", "return tuple(pods)"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "spec that changed and changed back while nobody looked",
            (" if is_untold or self._are_by_hand(", " if self._are_by_hand("),
        ),
        (
            HISTORIES,
            BY_HAND,
            "edit of the spec in a gap that no watch has told",
            ("isinstance(read, KubeProblem) or not is_as_looked_at or", "isinstance(read, KubeProblem) or"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "one edit of the spec counts as many",
            ("generation > (premise.generation or generation) + 1 and", "generation > (premise.generation or generation) and"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "user's word that ids are exclusive not asked after edits",
            (" + 1 and not spec.identity.exclusive", " + 1"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "ids by hand forgotten before the watch is heard",
            ("elif premise.holds_since_s <= self.monotonic_s() - max(0.0, self.pods.age_s()):", "elif premise.holds_since_s <= self.monotonic_s():"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "ids by hand forgotten where no checkpoint can be made",
            ("        return replace(history, continuity=replace(before, ids_by_hand=True))", "        return history"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "ids by hand never forgotten",
            ("            premise.holds_since_s = self.monotonic_s()\n", "            pass\n"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "ids that could be by hand when the watch was heard last trusted beside a blind workload",
            ("may_be_anywhere = premise.is_doubted or (before is not None and before.ids_by_hand)", "may_be_anywhere = premise.is_doubted"),
        ),
        (
            HISTORIES,
            BY_HAND,
            "clock that may be set asked since when ids are under their names",
            ("elif premise.holds_since_s <= self.monotonic_s() -", "elif premise.holds_since_s <= self.now_s() -"),
        ),
        (
            "core/evidence/continuity.py",
            BLIND_SINCE,
            "time that is still to come taken for the beginning of a gap",
            ("since_s = ended_at_s if before.at_s > now_s else max(", "since_s = max("),
        ),
        (
            "core/evidence/continuity.py",
            BY_HAND,
            "blindness of a time in which ids were by hand forgotten beside a blind workload",
            ("or s.after_epoch not in view.of_every_workload)", "or s.after_epoch not in view.everywhere)"),
        ),
        (
            STORES,
            OTHER_BROKERS,
            "cluster of other brokers taken for that of the present spec",
            ("not connection.is_about_these_brokers(status)", "False"),
        ),
        (
            STORES,
            OTHER_BROKERS,
            "cluster that a spec asks for believed against its brokers",
            ("if status is not None and any(c.reason == Reason.CLUSTER_ID_MISMATCH for c in status.conditions):", "if False:"),
        ),
        (
            "runtime/connections/reporter.py",
            OTHER_BROKERS,
            "cluster of other brokers reported as that of the present spec",
            ("is_kept = connection.is_about_these_brokers(before)", "is_kept = True"),
        ),
        (
            "kube/translate/carried_ids.py",
            CARRIED_IDS,
            "variable with dots in its name carries no id",
            ('return "INSTANCEID" in _SEPARATORS.sub("", variable.upper())', 'return "INSTANCE_ID" in variable.upper()'),
        ),
        (
            RIVALS,
            SAME_IDS,
            "ids given that another StaticGroup issued first",
            ("if _rank(self.stores.groups[k], schemes) < rank and", "if False and"),
        ),
        (
            RIVALS,
            SAME_IDS,
            "who begins keeps the ids of who injects",
            ("        place = 2\n", "        place = 0\n"),
        ),
        (
            RIVALS,
            SAME_IDS,
            "who yielded takes his ids back as the older one",
            ("is InjectionMethod.NONE or spec.mode is Mode.OBSERVE else 2", "is InjectionMethod.NONE or spec.mode is Mode.OBSERVE else 0"),
        ),
        (
            RIVALS,
            SAME_IDS,
            "who does not inject keeps the ids of who does",
            ("place = 1 if", "place = 0 if"),
        ),
        (
            RIVALS,
            SAME_IDS,
            "ids silenced for those of an earlier template",
            ("schemes, rank = wanted_scheme(mine), _rank(mine, ())", "schemes, rank = schemes_of(mine), _rank(mine, ())"),
        ),
        (
            RIVALS,
            SAME_IDS,
            "ids that are injected given up by an edit that is not in force",
            ("(is_as_asked or share_an_id(wanted, schemes_from(group, (in_force,))))", "is_as_asked"),
        ),
        (
            RIVALS,
            TENANTS,
            "tenant whose brokers never answered holds others up",
            ("if told is None or not may_use(self.stores, other):", "if not may_use(self.stores, other):"),
        ),
        (
            RIVALS,
            TENANTS,
            "tenant holds others up by a connection that he may not use",
            ("if told is None or not may_use(self.stores, other):", "if told is None:"),
        ),
        (
            RIVALS,
            TENANTS,
            "brokers of another cluster hold up as those of ours",
            ("return own == key or (bool(told) and", "return own == key or bool(told) or (bool(told) and"),
        ),
        (
            RIVALS,
            TENANTS,
            "two that use one connection not compared",
            ("return own == key or (bool(told)", "return (bool(told)"),
        ),
        (
            RIVALS,
            TENANTS,
            "ids given that pods of another namespace carry",
            (" | self._carriers(key, mine, schemes)", ""),
        ),
        (
            STORES,
            TENANTS,
            "cluster that a tenant writes taken for what his brokers told",
            ("return answered if is_answered else answered or", "return answered or"),
        ),
        (
            "core/next_pods/injection.py",
            SAME_IDS,
            "template that was never issued remembered",
            ("        injected=before and replace(before, method=InjectedMethod.NONE.value),", "        injected=before and replace(before, method=InjectedMethod.NONE.value, id_template=\"x\"),"),
        ),
    )
)
