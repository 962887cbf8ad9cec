"""Under which names an id can be, and which of two StaticGroups gives it."""

from __future__ import annotations

from .mutant import mutant
from .suites import CARRIED_IDS, OTHER_BROKERS, SAME_IDS, TENANTS

RIVALS, STORES = "runtime/rivals.py", "runtime/stores.py"

NAMES = tuple(
    mutant(name, path, suite, change)
    for path, suite, name, change in (
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
            ("if (place := _rank(claims[k], wanted)) < rank", "if (place := _rank(claims[k], wanted)) < rank and False"),
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
            ("is ClientType.OWN or spec.mode is Mode.OBSERVE else 2", "is ClientType.OWN or spec.mode is Mode.OBSERVE else 0"),
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
            ("wanted, rank = schemes_of(mine), wanted_scheme(mine),", "wanted, rank = schemes_of(mine), schemes_of(mine),"),
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
            ("if answered is None or not may_use(stores, other):", "if not may_use(stores, other):"),
        ),
        (
            RIVALS,
            TENANTS,
            "tenant holds others up by a connection that he may not use",
            ("if answered is None or not may_use(stores, other):", "if answered is None:"),
        ),
        (
            RIVALS,
            TENANTS,
            "brokers of another cluster hold up as those of ours",
            ("return own == key or (bool(answered) and", "return own == key or bool(answered) or (bool(answered) and"),
        ),
        (
            RIVALS,
            TENANTS,
            "two that use one connection not compared",
            ("return own == key or (bool(answered)", "return (bool(answered)"),
        ),
        (
            RIVALS,
            TENANTS,
            "ids given that pods of another namespace carry",
            ("rivals | _carriers(stores, pods, mine, others, wanted)", "rivals"),
        ),
        (
            STORES,
            TENANTS,
            "cluster that a tenant writes taken for the answer of brokers",
            ("return answered if is_answered else answered or", "return answered or"),
        ),
        (
            "core/injection.py",
            SAME_IDS,
            "template that was never issued remembered",
            ("        injected=before and replace(before, method=InjectedMethod.NONE.value),", "        injected=before and replace(before, method=InjectedMethod.NONE.value, id_template=\"x\"),"),
        ),
    )
)
