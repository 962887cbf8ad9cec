"""Whether members stay when their pods are stopped: who is gone before its session could end has left.

Restates KIP-345 (a static member that closes sends no LeaveGroup) and KIP-1092 (CloseOptions that make it leave).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason
from staticgroup.api.resources.memory import LeftOnCloseMemory
from staticgroup.core.consuming import MARGIN_S
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import GroupType, MemberView
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, Snapshot
from support.bounds import broker_bounds

from .builders import (
    NOW_S,
    SESSION_TIMEOUT_MS,
    departure,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
    workload,
)
from .plans import acknowledged, conditions_of

AT = datetime.fromtimestamp(NOW_S, tz=UTC)
LEFT = LeftOnCloseMemory(instance_id=id_of(1), pod_name="web-1", at=AT - timedelta(minutes=1), count=1)


def world(*described: MemberView, **pod: Any) -> Snapshot:
    """Web-1 is restarted; web-0 is as ever."""
    known = (known_pod(0, "u0"), known_pod(1, "u1", **pod))
    has_ended = known[1].state is PodState.DEAD
    return departure(
        group=group(*described), workload=workload(2), pods=tuple(p for p in known if p.object_present), known=known,
        sight=sight(ended=frozenset({"u1"}) if has_ended else frozenset()),
    )  # fmt: skip


def remembered(**changes: Any) -> History:
    return history(**({"members": members()} | changes))


def after(seen: Snapshot, memory: History | None = None) -> LeftOnCloseMemory | None:
    return plan(spec(), seen, memory or remembered(), NOW_S).history.left_on_close


@pytest.mark.parametrize(
    "pod",
    [{"is_deleting": True}, {"state": PodState.DEAD, "since_s": NOW_S - 5}],
    ids=["still ending", "ended five seconds ago"],
)
def test_a_member_that_is_gone_too_early_has_left(pod: dict[str, Any]) -> None:
    found = after(world(member(0), **pod))
    assert found == LeftOnCloseMemory(instance_id=id_of(1), pod_name="web-1", at=AT, count=1)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"is_deleting": True, "runs": False},
        {"state": PodState.DEAD, "since_s": NOW_S - SESSION_TIMEOUT_MS / 1000},
        {"state": PodState.DEAD, "since_s": NOW_S - SESSION_TIMEOUT_MS / 1000 + MARGIN_S},
        {"state": PodState.DEAD, "since_s": NOW_S - 20, "session_timeouts_ms": (15_000, SESSION_TIMEOUT_MS)},
    ],
    ids=[
        "its pod runs: its session may have ended", "its pod ends, and has not run for a while",
        "its session may have ended since", "its last heartbeat was somewhat earlier", "one of its clients has a short one",
    ],
)
def test_a_session_that_may_have_ended_proves_nothing(pod: dict[str, Any]) -> None:
    assert after(world(member(0), **pod)) is None


def test_a_member_that_several_pods_may_carry_proves_nothing() -> None:
    """The end of one pod says nothing of a member that the other one, which is being stopped, may hold."""
    seen = world(member(0), state=PodState.DEAD, since_s=NOW_S - 5)
    seen = replace(seen, known=(*seen.known, known_pod(1, "u9", is_deleting=True)))
    assert after(seen, remembered(members=members(carriers={1: ("u1", "u9")}))) is None


def test_the_session_of_a_kip_848_member_is_the_group_s() -> None:
    """Its client has none of its own: `consumer.session.timeout.ms` of the group counts."""
    seen = world(member(0, member_epoch=3), state=PodState.DEAD, since_s=NOW_S - 30, session_timeouts_ms=())
    described = group(member(0, member_epoch=3), group_type=GroupType.CONSUMER, group_epoch=3, assignment_epoch=3)
    for group_ms, left in ((45_000, 1), (35_000, 0)):
        found = plan(
            spec(groupProtocol="Consumer"),
            replace(seen, group=described, bounds=broker_bounds(consumer_session_ms=group_ms)), remembered(), NOW_S,
        ).history.left_on_close  # fmt: skip
        assert (found.count if found is not None else 0) == left


def test_each_that_leaves_is_counted() -> None:
    found = after(world(member(0), is_deleting=True), remembered(left_on_close=LEFT))
    assert found == LEFT.model_copy(update={"at": AT, "count": 2})


def test_a_member_whose_successor_holds_its_seat_has_not_left() -> None:
    """A restart between two rounds: the coordinator gives the seat to the next member under an id of its own."""
    ended = {"state": PodState.DEAD, "since_s": NOW_S - 5}
    assert after(world(member(0), member(1, "m1-next"), **ended)) is None
    assert after(world(member(0), member(1, "m1-next"), **ended), remembered(left_on_close=LEFT)) == LEFT


def test_what_the_operator_removed_has_not_left() -> None:
    seen = world(member(0), state=PodState.DEAD, since_s=NOW_S - 5)
    assert after(seen, remembered(removals=[acknowledged(instance_id=id_of(1), member_id="m1")])) is None


def test_a_member_that_stays_although_its_pod_has_ended_is_quiet() -> None:
    stays = world(member(0), member(1), state=PodState.DEAD, since_s=NOW_S - 5)
    assert after(stays, remembered(left_on_close=LEFT)) is None


def test_it_is_remembered_until_one_stays() -> None:
    assert after(world(member(0), member(1)), remembered(left_on_close=LEFT)) == LEFT


def test_the_condition_says_which_settings_do_it() -> None:
    condition = conditions_of(world(member(0), member(1)), remembered(left_on_close=LEFT))[ConditionType.ROLLS_QUIETLY]
    assert (condition.status, condition.reason) == (ConditionStatus.FALSE, Reason.MEMBERS_LEAVE_ON_CLOSE)
    assert "leave-group-on-close" in condition.message
    assert condition.message.endswith("@platformatic/kafka always leaves, so use another client.")
    assert "kafkajs" not in condition.message  # it has no group.instance.id
    ready = conditions_of(world(member(0), member(1)), remembered(left_on_close=LEFT))["Ready"]
    assert ready.status is ConditionStatus.TRUE
