"""Who is departed is decided once: before the reads as in the plan."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind
from staticgroup.core.plan import departed, plan

from .builders import NOW_S, SCOPE, departure, group, history, id_of, injected, member, sight, spec, workload

TEMPLATES = ("{podName}.{scope}", "{workloadName}-{ordinal}.x.{scope}", "{podName}", "{namespace}-{podName}.{scope}", "é{podName}")
WORKLOADS = st.one_of(
    st.none(),
    st.builds(
        workload,
        st.integers(0, 4) | st.just(10**6),
        start=st.integers(0, 3),
        is_deleting=st.booleans(),
        is_orphaning=st.booleans(),
    ),
)
MEMBERS = st.lists(
    st.sampled_from(
        [
            *(member(n) for n in range(5)),
            *(replace(member(n), member_id=f"other-{n}") for n in range(2)),
            replace(member(1), instance_id=f"web-1.x.{SCOPE}"),
            replace(member(2), instance_id="web-2"),
            replace(member(3), instance_id="stranger"),
            replace(member(4), instance_id=None),
        ]
    ),
    unique=True,
)
GROUPS = st.one_of(
    st.builds(lambda members, kind: group(*members, group_type=kind), MEMBERS, st.sampled_from(GroupType)),
    st.just(KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")),
)


@given(
    WORKLOADS,
    GROUPS,
    st.sampled_from(TEMPLATES),
    st.sampled_from([None, injected(), injected(id_template="{podName}")]),
    st.lists(st.sampled_from([f"{{podName}}.{SCOPE}", "{podName}"]), max_size=2).map(tuple),
    st.sampled_from(["", "a1b2c3d4a1b2c3d4"]),
)
def test_what_is_read_is_what_the_plan_finds_departed(view, described, template, known, earlier, watch) -> None:
    wish = spec(identity={"template": template, "exclusive": True})
    snapshot = departure(workload=view, group=described, watch=watch, sight=sight(watch=watch))
    memory = history(injected=known, templates=earlier)
    found, table = departed(wish, snapshot, memory, NOW_S), plan(wish, snapshot, memory, NOW_S).table
    assert [seat.key for seat in found] == [seat.key for seat in table.departed] if table is not None else not found


def test_statefulset_that_is_deleted_with_its_pods_wants_none_of_them_and_an_orphanage_wants_them_all() -> None:
    described = group(member(0), member(1), member(2))
    for changes, wanted in (({}, 2), ({"is_deleting": True}, 0), ({"is_deleting": True, "is_orphaning": True}, 2)):
        world = departure(workload=workload(2, **changes), group=described)
        assert [seat.key for seat in departed(spec(), world, history(), NOW_S)] == [id_of(n) for n in range(wanted, 3)]
