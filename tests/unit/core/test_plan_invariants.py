"""What no plan may do in any snapshot, and workloads whose size can only be a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.identifiers import EXPECTED_IDS_MAX
from staticgroup.api.reasons import Reason
from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.core.group import LeaveEntry
from staticgroup.core.guards import Guard
from staticgroup.core.plan import Plan, plan
from staticgroup.core.seats import Standing
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.timeouts.desired import Advice
from support.recommendations import advices, durations_ms

from .builders import (
    NOW_S,
    WATCH,
    departure,
    fresh,
    going,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
    suspect,
    workload,
)
from .plans import DEAD, LIVE, SUSPECT, only_guard, planned, removed


def standing(decided: Plan, ordinal: int) -> Standing:
    assert decided.table is not None
    (seat,) = (seat for seat in decided.table.seats if seat.ordinal == ordinal)
    return seat.standing


def scaled(states: Mapping[int, PodState], replicas: int, **changes: Any) -> tuple[Snapshot, History]:
    """Six members of six pods, of which each is live, ended or suspect; so many are wanted."""
    pods = {n: known_pod(n, f"u{n}", state) for n, state in states.items()}
    world = departure(
        workload=workload(replicas, status_replicas=0),
        group=group(*(member(n) for n in range(6))),
        chains={id_of(n): (pod,) for n, pod in pods.items()},
        fresh={id_of(n): fresh() for n in range(6)},
        pods=(),
        sight=sight(ended=frozenset(f"u{n}" for n in range(6) if states[n] is DEAD)),
        **changes,
    )
    suspects = tuple(suspect(f"u{n}", n) for n in range(6) if states[n] is SUSPECT)
    return world, history(members=members({n: [f"u{n}"] for n in range(6)}, suspects=suspects))


@given(st.permutations(range(6)), st.integers(0, 6), st.data())
def test_plan_does_not_depend_on_the_order_of_members_and_never_touches_others(order, replicas, data) -> None:
    states = {n: data.draw(st.sampled_from([DEAD, LIVE, SUSPECT])) for n in range(6)}
    world, memory = scaled(states, replicas)
    decided = planned(replace(world, group=group(*(member(n) for n in order))), memory)
    assert removed(decided) == {(f"m{n}", id_of(n)) for n in range(replicas, 6) if states[n] is DEAD}
    assert decided == planned(world, memory)


@settings(deadline=None)
@given(
    advice=st.one_of(advices, st.sampled_from(Reason).map(lambda reason: Advice(reason=reason, cause="c"))),
    kept=durations_ms,
    protocol=st.sampled_from(["Auto", "Classic", "Consumer"]),
    policy=st.sampled_from(["Departed", "Never"]),
    states=st.lists(st.sampled_from([DEAD, LIVE, SUSPECT]), min_size=6, max_size=6),
    replicas=st.integers(0, 6),
    overlaps=st.sampled_from([(), ("shop/twin",)]),
)
def test_recommendation_changes_no_removal(advice, kept, protocol, policy, states, replicas, overlaps) -> None:
    """A recommendation is a number: the same actions, holds and memory of removals with and without it."""
    world, memory = scaled(dict(enumerate(states)), replicas, overlaps=overlaps)
    wishes = spec(groupProtocol=protocol, removal=policy)
    without = plan(wishes, world, memory, NOW_S)
    with_advice = plan(wishes, replace(world, advice=advice), replace(memory, fleet_timeout_ms=kept), NOW_S)
    ignored = {"timeout": None, "injection": None, "history": History()}
    assert replace(with_advice, **ignored) == replace(without, **ignored)
    assert with_advice.history.seats == without.history.seats
    assert with_advice.history.members == without.history.members
    assert with_advice.history.issued_ordinals == without.history.issued_ordinals


def test_leave_entry_without_both_ids_cannot_be_made() -> None:
    for pair in (("", "web-2"), ("m2", "")):
        with pytest.raises(ValueError, match="both"):
            LeaveEntry(member_id=pair[0], instance_id=pair[1])


@pytest.mark.parametrize("replicas", [EXPECTED_IDS_MAX + 1, 2**31 - 1])
def test_workload_that_wants_too_many_pods_is_refused_with_a_sentence_and_no_removal(replicas: int) -> None:
    beyond = replicas + 7
    world = departure(
        workload=workload(replicas, start=2**31 - 1), group=group(member(0), member(beyond)),
        chains={id_of(beyond): (known_pod(beyond, state=DEAD),)}, fresh={id_of(beyond): fresh()},
    )
    decided = planned(world)
    assert (decided.actions, decided.held, decided.table) == ((), (), None)
    assert f"wants {replicas} pods" in decided.too_large
    assert str(EXPECTED_IDS_MAX) in decided.too_large


def test_ids_of_a_workload_that_is_too_large_still_count_as_issued() -> None:
    """Ids are injected whatever the replicas are, and a member that joins later may be of a pod that an earlier watch
    saw."""
    huge = departure(workload=workload(2**31 - 1), group=group())
    first = planned(huge, History()).history
    assert first.issued_ordinals.runs == (range(2**31 - 1),)
    later = planned(
        replace(huge, watch="after-a-gap", sight=sight(watch="after-a-gap"), workload=workload(2)), first
    ).history
    assert (first.members.watch, later.members.watch) == (WATCH, WATCH)


def test_hold_window_begins_again_after_a_workload_was_too_large_because_its_ordinals_were_wanted() -> None:
    held = planned(going(), history(departed_since_s={}))
    assert only_guard(held) is Guard.HOLD_WINDOW
    huge = planned(departure(workload=workload(2**31 - 1)), held.history, NOW_S + 30)
    assert only_guard(planned(going(), huge.history, NOW_S + 70)) is Guard.HOLD_WINDOW


def test_workload_at_the_limit_is_served() -> None:
    served = planned(departure(workload=workload(EXPECTED_IDS_MAX)))
    assert served.table is not None
    assert len(served.table.wanted) == EXPECTED_IDS_MAX


def after(absent_s: float, *pods: KnownPod, **changes: Any) -> Standing:
    """Return how seat 1 stands whose member has been away for so long, beside these pods and web-0."""
    world = departure(pods=(known_pod(0, "u0"), *pods), group=group(member(0)), **changes)
    first = planned(world, now_s=NOW_S - absent_s)
    return standing(planned(world, first.history), 1)


def test_member_that_is_away_for_minutes_is_no_longer_away_for_a_restart() -> None:
    unready = known_pod(1, "u1", ready_since_s=None, created_at_s=NOW_S - 86_400)
    assert after(299, unready) is Standing.AWAY
    assert after(300, unready) is Standing.OVERDUE
    assert after(300, replace(unready, ready_since_s=NOW_S - 29)) is Standing.OVERDUE
    assert after(300, replace(unready, ready_since_s=NOW_S - 31)) is Standing.MISSING


def test_old_pod_that_has_only_just_become_ready_or_unready_is_restarting() -> None:
    old = known_pod(1, "u1", created_at_s=NOW_S - 86_400)
    assert after(5, replace(old, ready_since_s=NOW_S - 5)) is Standing.AWAY
    assert after(1, replace(old, ready_since_s=None)) is Standing.AWAY


def test_seat_whose_pod_is_not_made_is_without_pod_after_minutes_in_which_no_other_pod_made_progress() -> None:
    assert after(299) is Standing.AWAY
    assert after(300) is Standing.WITHOUT_POD
    begun = departure(pods=(known_pod(0, "u0", ready_since_s=NOW_S - 299),), group=group(member(0)))
    assert standing(planned(begun, planned(begun, now_s=NOW_S - 3600).history), 1) is Standing.AWAY


def test_seat_is_unissued_where_its_pod_lacks_its_id_whatever_else_it_carries() -> None:
    other = known_pod(1, "u1", instance_ids=frozenset({id_of(0)}))
    assert after(0, other) is Standing.UNISSUED
    decided = planned(departure(pods=(known_pod(0, "u0"), other), group=group(member(0))))
    assert [p.pod_name for p in decided.pods_without_id] == ["web-1"]
    assert after(0, replace(other, is_deleting=True)) is Standing.AWAY
