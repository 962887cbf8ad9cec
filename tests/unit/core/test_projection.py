"""The status is a pure projection: equal worlds, equal status; bounded lists; old `since` where nothing changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.resources.status import ISSUES_MAX, StaticGroupStatus
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, LeaveOutcome, MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.status.projection import project

from .builders import (
    NOW_S,
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
)

SUSPECT = PodState.SUSPECT


def projected(
    snapshot: Snapshot,
    before: StaticGroupStatus | None = None,
    *,
    at_s: float = NOW_S,
    executed: Executed | None = None,
    memory: History | None = None,
    **changes: Any,
) -> StaticGroupStatus:
    wish = spec(**changes)
    decided = plan(wish, snapshot, memory or history(), at_s)
    now = datetime.fromtimestamp(at_s, tz=UTC)
    return project(wish, snapshot, decided, executed or Executed(), before, now)


HELD = departure(
    chains={id_of(2): (known_pod(state=SUSPECT),)}, sight=sight(ended=frozenset(), suspects=(suspect("u2"),))
)


def test_equal_world_makes_an_equal_status_however_much_time_has_passed() -> None:
    for world in (departure(group=group(member(0), member(1))), HELD, departure(workload=None, group=group())):
        first = projected(world)
        assert projected(world, first, at_s=NOW_S + 3_600.7) == first


def test_waiting_in_the_hold_window_writes_no_new_status_each_second() -> None:
    memory = history(departed_since_s={id_of(2): NOW_S})
    first = projected(going(), memory=memory)
    assert [e.reason for e in first.issues] == ["HoldWindow"]
    assert projected(going(), first, at_s=NOW_S + 30, memory=memory) == first


def test_status_survives_the_way_through_the_api_server() -> None:
    """What is read back must compare equal, or every restart would write every status."""
    status = projected(HELD)
    assert [s.uid for s in status.memory.suspects] == ["u2"]
    assert StaticGroupStatus.model_validate(status.to_wire()) == status


def test_transition_time_moves_only_when_the_status_of_the_condition_flips() -> None:
    well, bad = departure(group=group(member(0), member(1))), departure(group=group(member(0)))
    first = projected(well)
    flipped = projected(bad, first, at_s=NOW_S + 10)
    again = projected(bad, flipped, at_s=NOW_S + 20)
    times = [next(c for c in s.conditions if c.type == "Ready").last_transition_time for s in (first, flipped, again)]
    assert times[0] < times[1] == times[2]


def test_since_of_an_exception_survives_while_it_lasts_and_starts_again_after_it_was_over() -> None:
    first = projected(HELD)
    later = projected(HELD, first, at_s=NOW_S + 500)
    assert later.issues[0].since == first.issues[0].since
    over = projected(departure(group=group(member(0), member(1))), later, at_s=NOW_S + 600)
    assert over.issues == []
    assert projected(HELD, over, at_s=NOW_S + 700).issues[0].since > first.issues[0].since


@settings(deadline=None, max_examples=15)
@given(foreign=st.integers(0, 120), dynamic=st.integers(0, 120), held=st.integers(0, 120), suspects=st.integers(0, 250))
def test_lists_are_bounded_whatever_the_world_holds(foreign: int, dynamic: int, held: int, suspects: int) -> None:
    others = [MemberView(member_id=f"f{n}", instance_id=f"other-{n}") for n in range(foreign)]
    others += [MemberView(member_id=f"d{n}" * 200, instance_id=None) for n in range(dynamic)]
    mine = [member(n + 2) for n in range(held)]
    lost = tuple(suspect(f"s{n}", n) for n in range(suspects))
    seen = sight(suspects=lost, carrying={m.instance_id: frozenset({"z"}) for m in mine})
    status = projected(
        departure(group=group(member(0), member(1), *mine, *others), chains={}, sight=seen),
        memory=history(members=members()),
    )
    assert len(status.issues) == min(ISSUES_MAX, foreign + dynamic + held + suspects)
    assert status.members is not None
    assert (status.members.foreign, status.members.dynamic, status.members.departed) == (foreign, dynamic, held)
    assert StaticGroupStatus.model_validate(status.to_wire()) == status


def test_most_urgent_exceptions_come_first_so_that_the_bound_cuts_the_harmless_ones() -> None:
    others = [MemberView(member_id=f"f{n}", instance_id=f"other-{n}") for n in range(100)]
    world = departure(group=group(member(0), member(2), *others), evidence=HELD.evidence, sight=HELD.sight)
    kinds = [e.kind.value for e in projected(world).issues]
    assert kinds[:3] == ["Missing", "Held", "Suspect"]
    assert set(kinds[3:]) == {"Foreign"}


def test_unreadable_group_keeps_the_last_counts_and_protocol() -> None:
    first = projected(departure(group=group(member(0), member(1))))
    problem = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    later = projected(departure(group=problem), first, at_s=NOW_S + 5)
    assert (later.members, later.protocol, later.group_state) == (first.members, first.protocol, first.group_state)


def test_emptied_group_keeps_the_protocol_it_had() -> None:
    first = projected(departure(group=group(member(0))))
    absent = projected(departure(group=group(group_type=GroupType.ABSENT, state="Dead")), first)
    assert absent.protocol == first.protocol


def test_last_removal_shows_acknowledged_members_with_their_evidence() -> None:
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    done = projected(departure(), executed=Executed(removals=action.removals, outcomes=(LeaveOutcome.REMOVED,)))
    assert done.last_removal is not None
    assert (done.last_removal.member_id, done.last_removal.instance_id) == ("m2", id_of(2))
    assert done.last_removal.evidence == "pod web-2 uid u2 has ended: phase Succeeded"
    fenced = projected(departure(), executed=Executed(removals=action.removals, outcomes=(LeaveOutcome.FENCED,)))
    assert fenced.last_removal is None


def test_last_removal_stays_until_the_next_one() -> None:
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    done = projected(departure(), executed=Executed(removals=action.removals, outcomes=(LeaveOutcome.REMOVED,)))
    assert projected(departure(group=group(member(0))), done, at_s=NOW_S + 99).last_removal == done.last_removal


def test_column_shows_the_timeout() -> None:
    status = projected(departure(group=group(member(0)), fresh={id_of(2): fresh()}))
    assert status.session_timeout is not None
    assert (status.session_timeout.summary or "").endswith("s")
