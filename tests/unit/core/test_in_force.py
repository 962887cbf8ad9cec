"""The session timeout that holds is the pods' own, or the group's at the broker; what the next pods get is another
thing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.evidence.chain import PodState, fold
from staticgroup.core.group import BrokerBounds, GroupType, GroupView, KafkaProblem, KafkaProblemKind
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Snapshot
from staticgroup.core.status.projection import project
from staticgroup.core.timeouts.group_config import GroupConfigRecord, GroupConfigWrite
from staticgroup.core.workload import ContainerBudget
from support.bounds import broker_bounds

from .builders import NODE, NOW_S, departure, group, history, injected, known_pod, member, pod_version, spec, workload

WIDE = broker_bounds(
    classic_min_ms=6_000, classic_max_ms=1_800_000, consumer_min_ms=45_000, consumer_max_ms=120_000,
    consumer_session_ms=45_000, streams_min_ms=45_000, streams_max_ms=60_000, streams_session_ms=50_000,
)  # fmt: skip
NEXT_MS = 125_000
BY_HAND = {"idTemplate": "{podName}.{scope}", "client": {"type": "Own"}}
NOTHING_SET = GroupConfigRecord()
START = ContainerBudget(name="app", startup_budget_s=30)


def world(*timeouts_ms: int | tuple[int, ...] | None, **changes: Any) -> Snapshot:
    """Return as many pods that run, each with the session timeout that it shows; None: it shows none."""
    shown = [() if t is None else t if isinstance(t, tuple) else (t,) for t in timeouts_ms]
    values: dict[str, Any] = {
        "workload": workload(len(shown), containers=(START,)),
        "pods": tuple(known_pod(n, f"u{n}", session_timeouts_ms=t) for n, t in enumerate(shown)),
        "group": group(*(member(n) for n in range(len(shown)))),
        "bounds": WIDE,
        "chains": {},
        "fresh": {},
    }
    return departure(**(values | changes))


def status_of(snapshot: Snapshot, record: GroupConfigRecord = NOTHING_SET, **wish: Any) -> StaticGroupStatus:
    spec_ = spec(**wish)
    before = history(injected=injected(session_timeout_ms=NEXT_MS), group_config=record)
    decided = plan(spec_, snapshot, before, NOW_S)
    return project(spec_, snapshot, decided, Executed(), None, datetime.fromtimestamp(NOW_S, tz=UTC))


def shown(snapshot: Snapshot, **wish: Any) -> tuple[int | None, int | None, int | None, int, str | None]:
    """Return shortest, longest, next, how many pods are not known, and the column."""
    status = status_of(snapshot, **wish)
    t, exact = status.session_timeout, status.memory.timeout
    assert t is not None
    assert exact is not None
    assert t.next_seconds == (None if exact.next_ms is None else exact.next_ms // 1000)
    return in_ms(t.seconds), in_ms(t.longest_seconds), exact.next_ms, t.unknown_pods, t.summary


def in_ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000


def judged(snapshot: Snapshot, **wish: Any) -> tuple[str, str, str]:
    (found,) = (c for c in status_of(snapshot, **wish).conditions if c.type == "TimeoutSufficient")
    return found.status.value, found.reason, found.message


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((NEXT_MS, NEXT_MS), (NEXT_MS, NEXT_MS, NEXT_MS, 0, "125s")),
        ((300_000, 300_000), (300_000, 300_000, NEXT_MS, 0, "300s→125s")),
        ((60_000, 60_000), (60_000, 60_000, NEXT_MS, 0, "60s→125s")),
        ((60_000, NEXT_MS), (60_000, NEXT_MS, NEXT_MS, 0, "60s→125s")),
        ((NEXT_MS, 300_000), (NEXT_MS, 300_000, NEXT_MS, 0, "300s→125s")),
        ((60_000, 300_000), (60_000, 300_000, NEXT_MS, 0, "60s-300s→125s")),
        ((90_500,), (90_000, 91_000, NEXT_MS, 0, "90.5s→125s")),
        ((), (None, None, NEXT_MS, 0, "→125s")),
        ((None, None), (None, None, NEXT_MS, 2, "?→125s")),
        ((60_000, None), (60_000, 60_000, NEXT_MS, 1, "?→125s")),
        (((60_000, 90_000), NEXT_MS), (60_000, NEXT_MS, NEXT_MS, 0, "60s→125s")),
    ],
)
def test_status_names_what_holds_and_what_the_next_pods_get(pods, expected) -> None:
    assert shown(world(*pods)) == expected


def test_pod_that_has_ended_holds_nothing_and_one_that_ends_holds_its_own() -> None:
    dead = known_pod(0, "u0", state=PodState.DEAD, object_present=True, session_timeouts_ms=(60_000,))
    ending = known_pod(1, "u1", is_deleting=True, session_timeouts_ms=(90_000,))
    assert shown(world(pods=(dead, ending)))[:2] == (90_000, 90_000)


@pytest.mark.parametrize(
    ("kind", "pods", "expected"),
    [
        (GroupType.CONSUMER, (None, None), (45_000, 45_000, 45_000, 0, "45s")),
        (GroupType.STREAMS, (None, None), (50_000, 50_000, 50_000, 0, "50s")),
        (GroupType.CONSUMER, (NEXT_MS, None), (45_000, NEXT_MS, 45_000, 0, "125s→45s")),
    ],
)
def test_kip_848_and_streams_groups_hold_what_the_broker_has_beside_pods_that_still_have_their_own(
    kind, pods, expected
) -> None:
    described = group(
        *(member(n, member_epoch=3) for n in range(2)), group_type=kind, group_epoch=3, assignment_epoch=3
    )
    assert shown(world(*pods, group=described), groupProtocol="Auto") == expected


def test_variable_that_the_template_sets_for_a_kip_848_client_is_in_force_nowhere() -> None:
    template = ContainerBudget(
        name="app", env_names=("KAFKA_SESSION_TIMEOUT_MS",), env_values=(("KAFKA_SESSION_TIMEOUT_MS", "30000"),)
    )
    described = group(member(0), group_type=GroupType.CONSUMER)
    found = world(30_000, group=described, workload=workload(1, containers=(template,)))
    assert shown(found, groupProtocol="Auto") == (45_000, 45_000, 45_000, 0, "45s")


def test_group_setting_that_cannot_be_read_is_not_replaced_by_what_pods_show() -> None:
    described = group(member(0), group_type=GroupType.CONSUMER)
    assert shown(world(60_000, group=described, bounds=BrokerBounds()), groupProtocol="Auto") == (None, None, None, 1, None)


@pytest.mark.parametrize(
    ("wish", "template", "expected"),
    [
        ({"mode": "Observe"}, (), (60_000, 60_000, None, 0, "60s")),
        (BY_HAND, (), (60_000, 60_000, None, 0, "60s")),
        (
            BY_HAND, (("KAFKA_SESSION_TIMEOUT_MS", "90000"),),
            (60_000, 60_000, 90_000, 0, "60s→90s"),
        ),
        ({"mode": "Observe"}, (("KAFKA_SESSION_TIMEOUT_MS", "60000"),), (60_000, 60_000, 60_000, 0, "60s")),
        ({"mode": "Observe"}, (("KAFKA_SESSION_TIMEOUT_MS", "a minute"),), (60_000, 60_000, None, 0, "60s")),
        (
            {"client": {"type": "Custom", "env": [{"instanceIdName": "ID", "sessionTimeoutName": ""}]}}, (),
            (60_000, 60_000, None, 1, "?"),
        ),
    ],
)
def test_where_nothing_is_injected_the_next_pods_get_what_the_template_says(wish, template, expected) -> None:
    container = ContainerBudget(
        name="app", env_names=tuple(n for n, _ in template), env_values=template, startup_budget_s=30
    )
    assert shown(world(60_000, workload=workload(1, containers=(container,))), **wish) == expected


def test_session_timeout_of_before_stays_while_later_ids_are_refused() -> None:
    status = status_of(world(NEXT_MS), idTemplate="{podName}1.{scope}", sessionTimeout={"seconds": 90})
    assert status.memory.timeout is not None
    assert status.injected is not None
    assert (status.memory.timeout.next_ms, status.injected.session_timeout_ms) == (NEXT_MS, NEXT_MS)


def test_members_of_a_group_hold_a_raised_setting_from_their_next_heartbeat_on() -> None:
    setting = "consumer.session.timeout.ms"
    bounds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=900_000, consumer_session_ms=130_000, stored={setting: 130_000}
    )
    described = group(member(0, member_epoch=3), group_type=GroupType.CONSUMER, group_epoch=3, assignment_epoch=3)
    write = GroupConfigWrite(setting=setting, values={setting: 130_000}, before_ms=45_000)
    record = GroupConfigRecord(written_ms=130_000, write=write, asked_at_s=NOW_S - 2, held_at_s=NOW_S - 1)
    wish = {"groupProtocol": "Consumer", "sessionTimeout": {"writeGroupConfig": True}}
    status = status_of(world(None, group=described, bounds=bounds), record, **wish)
    assert status.session_timeout is not None
    assert (status.session_timeout.seconds, status.session_timeout.next_seconds) == (45, 130)
    (found,) = (c for c in status.conditions if c.type == "TimeoutSufficient")
    assert found.reason == "TimeoutBelowNeed"
    assert "they take over the 130000 ms of the group with their next heartbeat" in found.message


def test_protocol_that_is_not_known_yet_leaves_what_pods_show_and_what_is_injected_still() -> None:
    found = world(60_000, group=group(group_type=GroupType.ABSENT))
    assert shown(found, groupProtocol="Auto") == (60_000, 60_000, NEXT_MS, 0, "60s→125s")
    assert judged(found, groupProtocol="Auto")[:2] == ("Unknown", "TimeoutUnknown")


@pytest.mark.parametrize("changes", [{"watch": ""}, {"pods": ()}])  # before the first LIST; malformed or out of sight
def test_pods_that_cannot_be_seen_are_not_taken_for_none(changes) -> None:
    found = world(60_000, 60_000, **changes)
    assert shown(found)[0] is None
    assert shown(found)[3] == 2
    assert judged(found)[:2] == ("Unknown", "TimeoutUnknown")


@pytest.mark.parametrize(
    ("pods", "wish", "status", "reason", "words"),
    [
        ((NEXT_MS,), {}, "True", "TimeoutFits", ["125 s outlasts the 83 s"]),
        ((300_000,), {}, "True", "TimeoutFits", ["300 s outlasts the 83 s", "get 125 s"]),
        ((90_000, 300_000), {}, "True", "TimeoutFits", ["90 s", "get 125 s"]),
        ((), {}, "True", "TimeoutFits", ["no pod now", "125 s"]),
        ((60_000, NEXT_MS), {}, "False", "TimeoutBelowNeed", ["60000 ms", "83000 ms", "125000 ms", "restart"]),
        (
            (NEXT_MS,), {"sessionTimeout": {"maxSeconds": 40}}, "False", "TimeoutBelowNeed",
            ["maxSeconds to at least 83"],
        ),
        ((60_000,), {"sessionTimeout": {"maxSeconds": 40}}, "False", "TimeoutBelowNeed", ["maxSeconds to at least 83"]),
        ((NEXT_MS, None), {}, "Unknown", "TimeoutUnknown", ["1 of 2 pods", "web-1", "125000 ms"]),
        ((60_000, None), {}, "False", "TimeoutBelowNeed", ["60000 ms"]),
        ((None,), {"mode": "Observe"}, "Unknown", "TimeoutUnknown", ["Observe"]),
        ((60_000,), {"mode": "Observe"}, "False", "TimeoutBelowNeed", ["60000 ms", "at least 83000"]),
        ((NEXT_MS,), {"mode": "Observe"}, "True", "TimeoutFits", ["125 s"]),
        ((), {"mode": "Observe"}, "Unknown", "TimeoutUnknown", ["no pod now"]),
        (
            (NEXT_MS,), BY_HAND | {"sessionTimeout": {"maxSeconds": 40}}, "True", "TimeoutFits",
            ["125 s"],
        ),
        ((60_000,), BY_HAND, "False", "TimeoutBelowNeed", ["60000 ms", "at least 83000"]),
    ],
)
def test_what_holds_is_judged(pods, wish, status, reason, words) -> None:
    found = judged(world(*pods), **wish)
    assert found[:2] == (status, reason)
    assert [w for w in words if w not in found[2]] == [], found[2]


def test_template_that_sets_too_little_is_named_before_it_is_rolled_out() -> None:
    container = ContainerBudget(
        name="app", env_names=("KAFKA_SESSION_TIMEOUT_MS",), env_values=(("KAFKA_SESSION_TIMEOUT_MS", "30000"),),
        startup_budget_s=30,
    )
    found = judged(world(NEXT_MS, workload=workload(1, containers=(container,))), **BY_HAND)
    assert found[:2] == ("False", "TimeoutBelowNeed")
    assert "30000 ms" in found[2]


def test_classic_pod_left_in_a_consumer_group_is_judged_too() -> None:
    bounds = broker_bounds(consumer_min_ms=45_000, consumer_max_ms=900_000, consumer_session_ms=600_000)
    described = group(member(0), member(1), group_type=GroupType.CONSUMER)
    found = judged(world(60_000, None, group=described, bounds=bounds), groupProtocol="Auto")
    assert found[:2] == ("False", "TimeoutBelowNeed")
    assert "60000 ms" in found[2]


def test_pod_that_went_a_moment_before_the_statefulset_says_so_is_no_pod_out_of_sight() -> None:
    gone = known_pod(1, "u1", state=PodState.DEAD)
    found = world(NEXT_MS, NEXT_MS, pods=(known_pod(0, "u0", session_timeouts_ms=(NEXT_MS,)),), known=(gone,))
    assert shown(found) == (NEXT_MS, NEXT_MS, NEXT_MS, 0, "125s")


def test_message_holds_no_count_of_time() -> None:
    first = status_of(world(60_000, None))
    assert status_of(world(60_000, None)) == first


@given(
    st.lists(st.none() | st.integers(1, 1_800_000), max_size=4),
    st.sampled_from(list(GroupType)) | st.none(),
    st.sampled_from(["Auto", "Classic", "Consumer"]),
    st.sampled_from(
        [
            {},
            {"mode": "Observe"},
            BY_HAND,
            {"sessionTimeout": {"seconds": 600}},
        ]
    ),
    st.just(BrokerBounds()) | st.just(WIDE) | st.just(broker_bounds()),
)
def test_every_world_has_a_status_that_the_resource_accepts(pods, kind, protocol, wish, bounds) -> None:
    described: GroupView | KafkaProblem = (
        KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
        if kind is None
        else group(*(member(n) for n in range(len(pods))), group_type=kind)
    )
    status = status_of(world(*pods, group=described, bounds=bounds), groupProtocol=protocol, **wish)
    t = status.session_timeout
    assert StaticGroupStatus.model_validate(status.to_wire()) == status
    assert t is not None
    assert (t.seconds is None) == (t.longest_seconds is None)
    assert t.seconds is None or t.longest_seconds is None or t.seconds <= t.longest_seconds
    is_even = (
        t.unknown_pods == 0
        and t.seconds is not None
        and {t.seconds, t.longest_seconds} <= {t.next_seconds, t.seconds}
    )
    if t.next_seconds is not None and is_even and t.seconds == t.next_seconds:
        assert "→" not in (t.summary or "")
    (found,) = (c for c in status.conditions if c.type == "TimeoutSufficient")
    if found.status.value == "True":
        assert t.seconds is not None or t.next_seconds is not None
        assert t.unknown_pods == 0


# what a pod was started with ------------------------------------------------------------------------------------------


def test_edited_annotation_counts_only_once_a_container_has_started_again() -> None:
    started = pod_version(session_timeouts_ms=(60_000,))
    life = fold(None, started, NODE, from_birth=True, now_s=NOW_S)
    edited = pod_version(resource_version=105, session_timeouts_ms=(90_000,))
    life = fold(life, edited, NODE, from_birth=True, now_s=NOW_S)
    assert life.session_timeouts_ms == (60_000,)
    again = pod_version(resource_version=106, session_timeouts_ms=(90_000,), restart_count=1)
    assert fold(life, again, NODE, from_birth=True, now_s=NOW_S).session_timeouts_ms == (90_000,)


def test_annotation_that_is_edited_before_anything_ran_counts() -> None:
    created = pod_version(session_timeouts_ms=(60_000,), required=(), started_containers=frozenset())
    life = fold(None, created, NODE, from_birth=True, now_s=NOW_S)
    started = pod_version(resource_version=105, session_timeouts_ms=(90_000,))
    assert fold(life, started, NODE, from_birth=True, now_s=NOW_S).session_timeouts_ms == (90_000,)


# an upgrade -----------------------------------------------------------------------------------------------------------


def taken_over(
    *, ready_for_s: float | None, age_s: float = 20, gone_ms: tuple[int, ...] = (60_000,), is_gone: bool = True
) -> Snapshot:
    """One pod that was started with 125 s in the place of one with 60 s."""
    before = known_pod(
        0, "u-old", state=PodState.DEAD, object_present=not is_gone, session_timeouts_ms=gone_ms,
        created_at_s=NOW_S - 9_000,
    )
    now = known_pod(
        0, "u0", session_timeouts_ms=(NEXT_MS,), created_at_s=NOW_S - age_s,
        ready_since_s=None if ready_for_s is None else NOW_S - ready_for_s,
    )  # fmt: skip
    found = world(NEXT_MS, pods=(now,), known=(before, now))
    return replace(found, described_at_s=NOW_S)


@pytest.mark.parametrize("ready_for_s", [None, 0, 2.9])
def test_seat_that_was_taken_over_runs_with_the_timeout_of_before_until_the_first_heartbeat(ready_for_s) -> None:
    """GroupMetadataManager, replacement of a static member: the timer is started before its session timeout is
    overwritten."""
    found = taken_over(ready_for_s=ready_for_s)
    assert shown(found) == (60_000, NEXT_MS, NEXT_MS, 0, "60s→125s")
    status, reason, message = judged(found)
    assert (status, reason) == ("False", "TimeoutBelowNeed")
    assert message.endswith(
        "pods that run hold 60000 ms; those that have just restarted hold the longer one within seconds."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"ready_for_s": 3},
        {"ready_for_s": None, "age_s": 60},
        {"ready_for_s": None, "gone_ms": ()},
        {"ready_for_s": 0, "is_gone": False},
    ],
)  # fmt: skip
def test_after_the_first_heartbeat_or_the_end_of_the_session_a_pod_holds_its_own(changes) -> None:
    assert shown(taken_over(**changes))[:2] == (NEXT_MS, NEXT_MS)


def test_shorter_one_that_a_pod_was_started_with_wants_a_restart_whichever_member_took_a_seat_over() -> None:
    found = taken_over(ready_for_s=0)
    other = known_pod(1, "u1", session_timeouts_ms=(60_000,))
    assert "restart them, and they get" in judged(replace(found, pods=(*found.pods, other)))[2]
