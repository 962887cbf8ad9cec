"""The durable memory: what a restart reads back from the status is what was written, and losing some is only slower."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.memory import SETTLING_MAX, StatusMemory
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.group import LeaveOutcome
from staticgroup.core.outcomes import with_outcomes
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, RemovalRecord, SeatMemory
from staticgroup.core.status.memory import history_from, is_of, wire_injected, wire_issued, wire_members, wire_settling

from .builders import COORDINATOR, NOW_S, departure, history, id_of, injected, members, spec, suspect


def through_the_api_server(memory: History) -> StaticGroupStatus:
    status = StaticGroupStatus(
        injected=wire_injected(spec(), memory.injected),
        memory=StatusMemory(
            issued=wire_issued(memory), settling=wire_settling(memory), **wire_members("shop", memory.members)
        ),
    )
    return StaticGroupStatus.model_validate(status.to_wire())


records = st.builds(
    RemovalRecord,
    instance_id=st.integers(0, 40).map(id_of),
    member_id=st.text("abc-0123456789", min_size=1, max_size=80),
    coordinator=st.sampled_from([COORDINATOR, "2@10.0.0.2:9092"]),
    acknowledged_at_s=st.integers(1_700_000_000, 1_900_000_000).map(float),
    attempts=st.integers(1, 9),
    absent_since_s=st.one_of(st.none(), st.integers(1_700_000_000, 1_900_000_000).map(float)),
    settled_at_s=st.one_of(st.none(), st.integers(1_700_000_000, 1_900_000_000).map(float)),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(records, max_size=20, unique_by=lambda r: r.instance_id), st.lists(st.integers(0, 300)))
def test_history_comes_back_as_it_was_written(removals: list[RemovalRecord], ordinals: list[int]) -> None:
    memory = History(
        injected=injected(), seats={r.instance_id: SeatMemory(removal=r) for r in removals},
        issued_ordinals=Ordinals.of(*(range(n, n + 1) for n in ordinals)), templates=("{podName}.3fa9c1d2.old",),
        members=members({1: ["u1", "z"]}, suspects=(suspect(),), watch_described=""),
    )
    assert history_from(through_the_api_server(memory), "shop") == memory


def test_no_status_is_an_empty_memory() -> None:
    assert history_from(None, "shop") == History()


def test_removals_are_bounded_and_the_unsettled_ones_are_kept() -> None:
    old = tuple(
        RemovalRecord(
            instance_id=id_of(n + 10), member_id=f"m{n}", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - n,
            settled_at_s=None if n == 99 else NOW_S,
        )
        for n in range(SETTLING_MAX)
    )
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    after = with_outcomes(history(removals=old), action.removals, [LeaveOutcome.REMOVED], COORDINATOR, NOW_S)
    assert len(after.removals) == SETTLING_MAX
    kept = {r.instance_id for r in after.removals}
    assert {id_of(2), id_of(109)} <= kept
    assert id_of(108) not in kept


def test_fleets_value_of_a_group_is_what_was_wanted_and_not_what_others_made_of_it() -> None:
    """The group's setting is longer while others want more; kept as the fleet's it would never come down again."""
    written = {
        "protocol": "Consumer", "sessionTimeout": {"source": "Fleet", "nextSeconds": 300},
        "memory": {"timeout": {"nextMs": 300_000, "ownMs": 60_000}},
    }  # fmt: skip
    assert history_from(StaticGroupStatus.model_validate(written), "shop").fleet_timeout_ms == 60_000


def test_status_of_another_staticgroup_is_recognized_by_its_uid() -> None:
    """As one that was restored from a backup, or brought from another cluster; one without a uid may be
    anybody's."""
    assert is_of(StaticGroupStatus(memory=StatusMemory(static_group_uid="sg-1")), "sg-1")
    assert not is_of(StaticGroupStatus(memory=StatusMemory(static_group_uid="sg-there")), "sg-1")
    assert not is_of(StaticGroupStatus(), "sg-1")
