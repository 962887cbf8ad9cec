"""Type KafkaStreams: what it implies, its ids while the number of threads changes, and groups of the streams protocol
(KIP-1071)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api.reasons import ConditionType, Reason
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus, TimeoutSource
from staticgroup.core.findings.members import membership_complete
from staticgroup.core.group import BrokerBounds, GroupType, GroupView, LeaveCall, MemberView, SessionBounds
from staticgroup.core.guards import Guard
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan
from staticgroup.core.seats import Standing
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.status.memory import history_from
from staticgroup.core.status.projection import project
from unit.core.plans import present

from .builders import (
    NOW_S,
    SCOPE,
    attributed,
    departure,
    evidence,
    group,
    history,
    id_of,
    injected,
    known_pod,
    member,
    members,
    sight,
    spec,
    workload,
)
from .plans import DEAD, LIVE, only_guard, read_keys, removed

NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
ENV = [{"instanceIdName": "ORDERS_INSTANCE_ID"}]


def streams(threads: int = 3, **changes: Any) -> StaticGroupSpec:
    values: dict[str, Any] = {"groupProtocol": "Auto", "client": {"type": "KafkaStreams", "concurrency": threads}}
    return spec(**(values | changes))


def thread(ordinal: int, number: int, **changes: Any) -> MemberView:
    return replace(
        MemberView(member_id=f"m{ordinal}-{number}", instance_id=f"{id_of(ordinal)}-{number}", member_epoch=5),
        **changes,
    )


def application(*members: MemberView, **changes: Any) -> GroupView:
    values: dict[str, Any] = {
        "group_type": GroupType.STREAMS, "protocol_type": "streams", "group_epoch": 5, "assignment_epoch": 5,
    }
    return group(*members, **(values | changes))


def threads(pods: int = 3, each: int = 3) -> list[MemberView]:
    return [thread(ordinal, number) for ordinal in range(pods) for number in range(1, each + 1)]


def scaled_down(*, each: int = 3, state: Any = DEAD, **changes: Any) -> Snapshot:
    """The application was scaled from 3 pods to 2; web-2 ended, and the members of its threads are still in the
    group."""
    pod = known_pod(state=state)
    chains = {f"{id_of(2)}-{number}": (pod,) for number in range(1, each + 1)}
    values: dict[str, Any] = {"group": application(*threads(each=each)), "evidence": evidence(chains)}
    return departure(**(values | changes))


def known(**changes: Any) -> History:
    """What is remembered of the threads of three pods, which each of them was there for."""
    joined = {f"{id_of(o)}-{n}": attributed(f"m{o}-{n}", f"u{o}") for o in range(3) for n in (1, 2, 3)}
    values = {
        "injected": injected(session_timeout_ms=None),
        "members": members(attributions=joined),
    }
    return history(**(values | changes))


def expanded(wish: StaticGroupSpec, snapshot: Snapshot, memory: History) -> Snapshot:
    """Let pods hold what their clients are expected to make of their ids, as a round has them."""
    naming = present(plan(wish, snapshot, memory, NOW_S).naming)
    chains = {key: replace(e, chain=tuple(map(naming.expand, e.chain))) for key, e in snapshot.evidence.items()}
    return replace(snapshot, pods=tuple(map(naming.expand, snapshot.pods)), evidence=chains)


def decide(wish: StaticGroupSpec, snapshot: Snapshot, memory: History | None = None) -> Plan:
    """Plan one round."""
    memory = memory or known()
    return plan(wish, expanded(wish, snapshot, memory), memory, NOW_S)


def status_after(wish: StaticGroupSpec, memory: History) -> StaticGroupStatus:
    snapshot = departure(group=group(), chains={}, fresh={})
    status = project(wish, snapshot, decide(wish, snapshot, memory), Executed(), None, NOW)
    return StaticGroupStatus.model_validate(status.to_wire())


def after(wish: StaticGroupSpec, memory: History) -> History:
    """What the next round remembers, by way of a status as the API server keeps it."""
    return history_from(status_after(wish, memory), "shop")


def ids(wish: StaticGroupSpec, memory: History) -> list[str]:
    snapshot = departure(group=group(), chains={}, fresh={}, workload=workload(1))
    table = present(decide(wish, snapshot, memory).table)
    return [seat.key for seat in table.wanted]


def variables(wish: StaticGroupSpec, memory: History) -> list[tuple[str, str | None]]:
    injected = present(status_after(wish, memory).injected)
    return [(env.name, env.value) for env in injected.env]


# what the type implies ------------------------------------------------------------------------------------------------


def test_type_alone_gives_each_pod_the_variable_of_kafka_streams_and_expects_its_threads() -> None:
    wish = streams(3)
    memory = after(wish, History())
    assert memory.injected is not None
    base = memory.injected.id_template.replace("{podName}", "web-0")
    assert ids(wish, memory) == [f"{base}-1", f"{base}-2", f"{base}-3"]
    assert [name for name, _ in variables(wish, memory)] == ["KAFKA_STREAMS_GROUP_INSTANCE_ID"]


def test_variables_of_its_own_take_the_place_of_the_types_and_the_threads_are_expected_all_the_same() -> None:
    wish = streams(client={"type": "KafkaStreams", "concurrency": 2, "env": ENV})
    assert ids(wish, known()) == [f"{id_of(0)}-1", f"{id_of(0)}-2"]
    assert variables(wish, known())[0] == ("ORDERS_INSTANCE_ID", f"$(STATICGROUP_POD_NAME).{SCOPE}")


def test_type_that_is_taken_by_ids_without_suffix_changes_what_is_expected_and_not_what_is_issued_and_back() -> None:
    """The client has appended nothing or is no Kafka Streams; the running members are reported as nearly matching."""
    old, new = spec(), streams(1)
    memory = after(old, history())
    assert ids(old, memory) == [id_of(0)]
    assert ids(new, memory) == [f"{id_of(0)}-1"]
    decided = decide(new, departure(chains={}, fresh={}, workload=workload(3)), memory)
    assert decided.suffix is not None
    assert {n.instance_id for n in decided.suffix.nearly} == {id_of(n) for n in range(3)}
    assert removed(decided) == set()
    issued = present(after(new, memory).injected)
    assert (issued.id_template, issued.scope) == (f"{{podName}}.{SCOPE}", SCOPE)
    assert ids(old, after(new, memory)) == [id_of(0)]


# threads that come and go ---------------------------------------------------------------------------------------------


def members_of(decided: Plan, *standings: Standing) -> list[str]:
    assert decided.table is not None
    return [seat.key for seat in decided.table.of(*standings)]


def test_more_threads_than_expected_are_foreign_and_stay_and_the_message_names_the_field() -> None:
    wish = streams(2)
    decided = decide(wish, departure(group=application(*threads()), workload=workload(3), chains={}, fresh={}))
    assert decided.table is not None
    assert members_of(decided, Standing.JOINED) == [f"{id_of(o)}-{n}" for o in range(3) for n in (1, 2)]
    assert [m.instance_id for m in decided.table.foreign] == [f"{id_of(o)}-3" for o in range(3)]
    assert (removed(decided), decided.held) == (set(), ())
    found = membership_complete(wish, departure(group=application(*threads())), decided)
    assert found.reason == "SuffixMismatch"
    assert "Set spec.client.concurrency to 3" in found.text
    assert "spec.client.type" not in found.text


def test_fewer_threads_asked_for_while_pods_run_more_removes_no_member_of_a_living_pod() -> None:
    """3 to 2 threads and a scale-down in one edit: the pods that stay run 3 threads until they restart."""
    decided = decide(streams(2), scaled_down())
    assert removed(decided) == {(f"m2-{n}", f"{id_of(2)}-{n}") for n in (1, 2)}
    assert decided.table is not None
    assert [m.instance_id for m in decided.table.foreign] == [f"{id_of(o)}-3" for o in range(3)]


def test_member_of_an_extra_thread_stays_while_its_pod_lives() -> None:
    """Whatever its client appends, the pod carries the base of the id."""
    pod = known_pod(2, "u2", LIVE)
    chains = {f"{id_of(2)}-{n}": (pod,) for n in (1, 2, 3)}
    snapshot = scaled_down(
        sight=sight(ended=frozenset()), evidence=evidence(chains), pods=(known_pod(0, "u0"), known_pod(1, "u1"), pod)
    )
    decided = decide(streams(3), snapshot)
    assert removed(decided) == set()
    assert {h.reason for h in decided.held} == {Guard.POD_ENDING.value}


def test_more_threads_asked_for_while_pods_run_fewer_leaves_the_new_ones_missing_and_none_departed() -> None:
    wish = streams(3)
    decided = decide(wish, departure(group=application(*threads(2, each=2)), chains={}, fresh={}))
    assert members_of(decided, Standing.MISSING) == [f"{id_of(o)}-3" for o in range(2)]
    assert members_of(decided, Standing.DEPARTED) == []
    assert decided.table is not None
    assert decided.table.foreign == ()


@pytest.mark.parametrize("each", [2, 3])
def test_threads_of_an_ended_pod_leave_in_one_batch_also_those_that_are_only_expected_since(each: int) -> None:
    """2 to 3 threads: the pod that ended had run two."""
    (action,) = decide(streams(3), scaled_down(each=each)).actions
    assert {r.entry.instance_id for r in action.removals} == {f"{id_of(2)}-{n}" for n in range(1, each + 1)}


@pytest.mark.parametrize(
    ("appended", "suffixes"),
    [(("",), '[""], or'), (("-0", "-1", "-2"), '["-0", "-1", "-2"] if'), (("-a", "-b"), '["-a", "-b"] if')],
)
def test_client_that_is_no_kafka_streams_is_reported_with_fields_that_go_together(
    appended: tuple[str, ...], suffixes: str
) -> None:
    """A pod whose variables were renamed would run without an id."""
    wish = streams(3)
    held = [MemberView(member_id=f"m{o}{a}", instance_id=id_of(o) + a) for o in range(2) for a in appended]
    decided = decide(wish, departure(group=group(*held), chains={}, fresh={}))
    text = membership_complete(wish, departure(group=group(*held)), decided).text
    assert (
        "Set spec.client.type to Custom, spec.client.env to [{instanceIdName: KAFKA_STREAMS_GROUP_INSTANCE_ID, "
        "sessionTimeoutName: KAFKA_STREAMS_SESSION_TIMEOUT_MS}], spec.client.concurrency to 1 and spec.client.suffixes "
        f"to {suffixes}"
    ) in text


def test_variables_that_the_spec_names_are_not_named_again_in_the_advice() -> None:
    wish = streams(client={"type": "KafkaStreams", "env": ENV})
    held = [MemberView(member_id=f"m{o}", instance_id=id_of(o)) for o in range(2)]
    decided = decide(wish, departure(group=group(*held), chains={}, fresh={}))
    text = membership_complete(wish, departure(group=group(*held)), decided).text
    assert 'Set spec.client.type to Custom and spec.client.suffixes to [""], or roll' in text


# the group ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "by"),
    [
        (application(*threads()), LeaveCall.STREAMS_HEARTBEAT),
        (group(*(replace(t, member_epoch=None) for t in threads())), LeaveCall.LEAVE_GROUP),
    ],
)
def test_departed_threads_leave_by_the_call_that_serves_their_group(described: GroupView, by: LeaveCall) -> None:
    decided = decide(streams(3), scaled_down(group=described))
    (action,) = decided.actions
    assert action.by is by
    assert removed(decided) == {(f"m2-{n}", f"{id_of(2)}-{n}") for n in (1, 2, 3)}


def test_pods_of_departed_threads_are_read_before_they_leave() -> None:
    wish = streams(3)
    snapshot = expanded(wish, scaled_down(), known())
    assert read_keys(wish, snapshot, known()) == [f"{id_of(2)}-{n}" for n in (1, 2, 3)]
    unread = replace(snapshot, evidence=evidence({k: e.chain for k, e in snapshot.evidence.items()}, {}))
    decided = decide(wish, unread)
    assert removed(decided) == set()
    assert {h.reason for h in decided.held} == {Guard.NOT_READ_AFRESH.value}


OWN = {"type": "Own", "suffixes": ["-1", "-2", "-3"]}
"""Kafka Streams with ids of its own; so that it may be in a group of type Streams, the spec names the protocol."""


@pytest.mark.parametrize(
    ("client", "snapshot", "remedy"),
    [
        ({"suffixes": OWN["suffixes"]}, scaled_down(), "spec.client.type to KafkaStreams"),
        (
            {"type": "Connect"}, departure(group=application(*(member(n, member_epoch=5) for n in range(3)))),
            "spec.client.type to KafkaStreams",
        ),
        (
            {"type": "KafkaStreams", "concurrency": 3},
            scaled_down(group=application(*threads(), group_type=GroupType.CONSUMER, protocol_type="consumer")),
            "spec.client.type to Generic",
        ),
        (
            {"type": "KafkaStreams", "concurrency": 3}, scaled_down(group=group(*threads(), protocol_type="connect")),
            "spec.client.type to Connect",
        ),
        (OWN, scaled_down(), "spec.groupProtocol to Streams"),
    ],
    ids=["Generic", "Connect", "KafkaStreams in KIP-848", "KafkaStreams among workers", "Own"],
)
def test_no_member_is_removed_from_a_group_in_which_pods_of_this_role_cannot_be(
    client: dict[str, Any], snapshot: Snapshot, remedy: str
) -> None:
    wish = spec(groupProtocol="Auto", idTemplate="{podName}.{scope}", client=client)
    decided = decide(wish, snapshot)
    assert removed(decided) == set()
    assert {h.reason for h in decided.held} == {Guard.UNSUPPORTED_GROUP.value}
    found = membership_complete(wish, snapshot, decided)
    assert (found.kind, found.reason) == (ConditionType.MEMBERSHIP_COMPLETE, "ProtocolMismatch")
    assert f"Set {remedy}, or create a StaticGroup with the right spec.groupId" in found.text


def test_single_member_of_a_share_group_stays() -> None:
    snapshot = departure(
        group=group(thread(2, 1), group_type=GroupType.SHARE),
        evidence=evidence({f"{id_of(2)}-1": (known_pod(state=DEAD),)}),
    )
    assert only_guard(decide(streams(1), snapshot)) is Guard.UNSUPPORTED_GROUP


def test_thread_that_is_away_on_purpose_is_away_and_a_departed_one_leaves() -> None:
    """Its client has said -2 at its end, as Kafka Streams does where it stays in the group (CloseOptions)."""
    members = [replace(t, member_epoch=-2) if t.member_id in ("m0-1", "m2-1") else t for t in threads()]
    decided = decide(streams(3), scaled_down(group=application(*members)))
    assert members_of(decided, Standing.AWAY) == [f"{id_of(0)}-1"]
    assert removed(decided) == {(f"m2-{n}", f"{id_of(2)}-{n}") for n in (1, 2, 3)}


# session timeouts -----------------------------------------------------------------------------------------------------


def streams_bounds(group_ms: int | None = 45_000, max_ms: int = 60_000) -> BrokerBounds:
    own = SessionBounds(min_ms=45_000, max_ms=max_ms, group_ms=group_ms)
    return BrokerBounds(
        sessions={GroupType.STREAMS: own, GroupType.CLASSIC: SessionBounds(min_ms=6_000, max_ms=1_800_000)}
    )


@pytest.mark.parametrize(
    ("protocol", "members"), [("Streams", ()), ("Streams", (thread(0, 1),)), ("Auto", (thread(0, 1),))]
)
def test_session_timeout_of_a_streams_group_is_its_setting_and_is_never_injected(
    protocol: str, members: tuple[MemberView, ...]
) -> None:
    """Its clients take no session.timeout.ms."""
    described = application(*members, state="Stable" if members else "Empty")
    snapshot = departure(group=described, bounds=streams_bounds(), chains={}, fresh={})
    decided = decide(streams(1, groupProtocol=protocol), snapshot, history(injected=injected()))
    assert decided.timeout is not None
    assert (decided.timeout.inject_ms, decided.timeout.brokers.group_ms) == (None, 45_000)
    assert decided.timeout.desired.source is TimeoutSource.BROKER
    assert decided.history.injected is not None
    assert decided.history.injected.session_timeout_ms is None


def test_setting_that_is_too_short_is_reported_with_the_settings_of_streams_groups() -> None:
    snapshot = departure(group=application(*threads(2)), bounds=streams_bounds(), chains={}, fresh={})
    timeout = present(decide(streams(3), snapshot).timeout)
    assert timeout.reason is Reason.BROKER_BOUND_TOO_LOW
    need_ms = timeout.desired.need_ms
    assert f"raise group.streams.max.session.timeout.ms on the brokers to at least {need_ms}" in timeout.message
    assert timeout.message.endswith(f"set streams.session.timeout.ms={need_ms} on the group")


def test_status_shows_the_protocol_of_a_streams_group() -> None:
    snapshot = departure(group=application(*threads(2)), chains={}, fresh={})
    status = project(streams(3), snapshot, decide(streams(3), snapshot), Executed(), None, NOW)
    assert status.to_wire()["protocol"] == "Streams"


def test_application_of_the_other_protocol_than_was_asked_for_is_reported() -> None:
    wish = streams(3, groupProtocol="Streams")
    members = group(*(replace(t, member_epoch=None) for t in threads(2)))
    snapshot = departure(group=members, chains={}, fresh={})
    found = membership_complete(wish, snapshot, decide(wish, snapshot))
    assert found.reason == "ProtocolMismatch"
    assert "Set spec.groupProtocol to Auto or to what the Kafka Streams instances use." in found.text
