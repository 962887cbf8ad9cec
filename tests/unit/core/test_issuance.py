"""Which ids a workload calls for, and so which members are departed."""

from __future__ import annotations

from staticgroup.core.plan import plan
from unit.core.plans import present

from .builders import NOW_S, departure, group, history, id_of, member, spec, workload


def test_statefulset_that_is_deleted_with_its_pods_wants_none_of_them_and_an_orphanage_wants_them_all() -> None:
    described = group(member(0), member(1), member(2))
    for changes, wanted in (({}, 2), ({"is_deleting": True}, 0), ({"is_deleting": True, "is_orphaning": True}, 2)):
        world = departure(workload=workload(2, **changes), group=described)
        table = present(plan(spec(), world, history(), NOW_S).table)
        assert [seat.key for seat in table.departed] == [id_of(n) for n in range(wanted, 3)]
