"""A Connect cluster's group: what is decided of it, what is rebalanced, and what its workers hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.findings import issues_of
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import GroupType, GroupView, LeaveEntry, MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Snapshot
from staticgroup.core.status.projection import project

from .builders import NOW_S, departure, group, history, id_of, known_pod, member, sight, spec, workload
from .plans import NOW, conditions_of
from .workers import WELL, cluster, completeness, decide, found, projected, stock, wish, worker, world


def test_a_worker_fits_into_its_row() -> None:
    """`issues_of` cuts what is so, to keep what to do."""
    long_id = "connect-1-a0a0a0a0-b1b1-c2c2-d3d3-e4e4e4e4e4e4"
    snapshot = world(worker(0, host="192.168.100.100"), replace(stock(1), member_id=long_id))
    texts = {f.text for f in found(snapshot)}
    assert {row.message for row in projected(snapshot).issues} == texts
    assert max(map(len, texts)) <= 300


# the protocol ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [(), (stock(0),)], ids=["nobody has joined", "stock workers"])
def test_the_first_workers_get_their_session_timeout_with_their_id(members: tuple[MemberView, ...]) -> None:
    """Connect is in classic groups only, so no round waits for the group to say so."""
    seen = cluster(*members) if members else cluster(group_type=GroupType.ABSENT, state="Dead", protocol_type="")
    decided = decide(departure(group=seen), history(injected=None))
    assert decided.history.injected is not None
    assert decided.history.injected.session_timeout_ms == 110_000
    unsure = plan(spec(groupProtocol="Auto"), departure(group=replace(seen, members=())), history(injected=None), NOW_S)
    assert unsure.history.injected is not None
    assert unsure.history.injected.session_timeout_ms is None


def test_a_departed_worker_is_removed_by_the_pair_of_its_ids() -> None:
    (action,) = decide(departure(group=cluster(worker(0), worker(1), worker(2)))).actions
    assert [r.entry for r in action.removals] == [LeaveEntry(member_id="m2", instance_id=id_of(2))]
    assert action.group_id == "connect-cluster"


@pytest.mark.parametrize(
    "carrier",
    [known_pod(), known_pod(state=PodState.SUSPECT, refusal="its end was not seen")],
    ids=["lives", "suspect"],
)
def test_a_worker_whose_process_may_live_is_never_removed(carrier: Any) -> None:
    world = departure(
        group=cluster(worker(0), worker(1), worker(2)), chains={id_of(2): (carrier,)}, sight=sight(ended=frozenset())
    )
    decided = decide(world)
    assert decided.actions == ()
    assert len(decided.held) == 1


def test_stock_workers_are_observed_and_never_removed() -> None:
    decided = decide(departure(workload=workload(0), pods=(), group=cluster(stock(0), stock(1))))
    assert (decided.actions, decided.releases) == ((), ())
    assert decided.table is not None
    assert [m.member_id for m in decided.table.dynamic] == ["connect-0", "connect-1"]


def test_a_stock_worker_is_reported_as_never_touched_however_long_its_address_is() -> None:
    """Connect makes the member id of the advertised address, which is long where it is a pod's name in its Service."""
    address = "orders-connect-0.orders-connect.orders-production.svc.cluster.local:8083"
    long = replace(stock(0), member_id=f"connect-{address}-{'0bdc760a-3431-4db6-a889-0ec3c8e3b106'}")
    snapshot = world(long)
    (row,) = [e for e in issues_of(findings_of_seats(wish(), decide(snapshot), snapshot), (), NOW) if e.kind == "Dynamic"]
    assert "member connect-orders-connect-0.orders-connect." in row.message
    assert (
        "StaticGroup's Connect agent is not active in it; never touched; start the workers with the agent"
        in row.message
    )
    assert row.message.endswith("docs/guide/kafka-connect.md")


# another group --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (group(member(0)), "a group of protocol type consumer, not of Connect workers"),
        (group(member(0, member_epoch=1), group_type=GroupType.CONSUMER), "of type Consumer, not of Connect workers"),
        (group(member(0), group_type=GroupType.STREAMS, protocol_type=""), "of type Streams, not of Connect workers"),
    ],
    ids=["classic consumers", "KIP-848", "KIP-1071"],
)
@pytest.mark.parametrize("protocol", ["Auto", "Classic"])
def test_a_sinks_consumers_are_not_the_workers(seen: GroupView, words: str, protocol: str) -> None:
    condition = conditions_of(departure(group=seen), wish=wish(groupProtocol=protocol))["MembershipComplete"]
    assert condition.reason == "ProtocolMismatch"
    assert words in condition.message
    assert "connect-<connector>" in condition.message
    assert "spec.groupProtocol" not in condition.message


def test_a_group_of_workers_under_a_client_of_consumers_names_type_connect() -> None:
    condition = conditions_of(WELL, wish=spec())["MembershipComplete"]
    assert condition.reason == "ProtocolMismatch"
    assert condition.message.endswith("Set spec.client.type to Connect, or create a StaticGroup with the right spec.groupId.")


# wording --------------------------------------------------------------------------------------------------------------

MISFITS: list[tuple[str, Snapshot, StaticGroupSpec]] = [
    ("well", WELL, wish()),
    ("nobody joined", departure(group=cluster(group_type=GroupType.ABSENT, state="Dead", protocol_type="")), wish()),
    ("too large", world(worker(0), workload=workload(1_500_000)), wish()),
    ("missing", world(worker(0)), wish()),
    ("stock", world(stock(0), stock(1)), wish()),
    ("mixed", world(worker(0), stock(1)), wish()),
    (
        "short",
        world(worker(0), worker(1), pods=(known_pod(0, "u0", session_timeouts_ms=(10_000,)), known_pod(1, "u1"))),
        wish(),
    ),
    (
        "short while only observed",
        world(worker(0), worker(1), pods=(known_pod(0, "u0", session_timeouts_ms=(10_000,)), known_pod(1, "u1"))),
        wish(mode="Observe"),
    ),
    (
        "unknown timeout",
        world(worker(0), worker(1), pods=(known_pod(0, "u0", session_timeouts_ms=()), known_pod(1, "u1"))), wish(),
    ),
    (
        "unknown timeout by name",
        WELL,
        wish(
            client={"type": "Connect", "env": [{"instanceIdName": "WORKER_INSTANCE_ID", "sessionTimeoutName": ""}]}
        ),
    ),
    ("departed", departure(group=cluster(worker(0), worker(1), worker(2))), wish()),
    ("foreign", world(worker(0), worker(1), replace(worker(7), instance_id="other-7")), wish()),
    ("without id", world(stock(0), pods=(known_pod(0, "u0", instance_ids=frozenset()),)), wish()),
    ("not served", replace(WELL, policy_served=False), wish()),
]


@pytest.mark.parametrize(("snapshot", "wished"), [m[1:] for m in MISFITS], ids=[m[0] for m in MISFITS])
def test_no_message_about_workers_mentions_consumers(snapshot: Snapshot, wished: StaticGroupSpec) -> None:
    decided = plan(wished, snapshot, history(), NOW_S)
    messages = [c.message for c in project(wished, snapshot, decided, Executed(), None, NOW).conditions]
    messages += [f.text for f in findings_of_seats(wished, decided, snapshot)]
    messages.append(explained(wished, snapshot, decided, NOW_S))
    assert [
        text for text in messages for word in ("onsumer", "librdkafka", "partition", "fenced client") if word in text
    ] == []


def test_a_group_that_is_not_there_waits_for_its_first_worker() -> None:
    seen = cluster(group_type=GroupType.ABSENT, state="Dead", protocol_type="")
    condition = completeness(departure(group=seen))
    assert condition.reason == "GroupNotFound"
    assert "It appears when the first Connect worker joins; if Connect workers run, compare" in condition.message


# the agent ------------------------------------------------------------------------------------------------------------


def test_workers_without_an_id_beside_pods_that_carry_one_lack_the_agent() -> None:
    condition = completeness(world(worker(0), stock(1)))
    assert (condition.reason, condition.status.value) == ("WorkersWithoutAgent", "False")
    assert "1 Connect workers are in the group without group.instance.id" in condition.message
    assert "such as web-1" in condition.message
    assert "Connect agent, which keeps it, is not active there" in condition.message
    assert condition.message.endswith("see docs/guide/kafka-connect.md")


def test_each_worker_without_an_id_has_a_row_with_what_it_lacks() -> None:
    rows = found(world(stock(0), stock(1)))
    assert [(f.kind, f.subject.member_id, f.subject.pod_name) for f in rows] == [
        ("Missing", "", "web-0"),
        ("Missing", "", "web-1"),
        ("Dynamic", "connect-0", None),
        ("Dynamic", "connect-1", None),
    ]
    assert all("docs/guide/kafka-connect.md" in f.remedy for f in rows)
    assert all("never touched" in f.sentence for f in rows[2:])


@pytest.mark.parametrize(
    "pods",
    [
        (known_pod(0, "u0"), known_pod(1, "u1", ready_since_s=NOW_S - 5)),
        (known_pod(0, "u0"), known_pod(1, "u1", instance_ids=frozenset())),
    ],
    ids=["still starting", "not yet rolled"],
)
def test_a_pod_that_cannot_have_joined_by_its_id_lacks_nothing_yet(pods: tuple[Any, ...]) -> None:
    assert completeness(world(worker(0), stock(1), pods=pods)).reason != "WorkersWithoutAgent"


def test_a_worker_that_does_not_come_back_is_looked_for_in_its_log() -> None:
    condition = completeness(world(worker(0)))
    assert condition.reason == "MembersMissing"
    assert condition.message.endswith(
        "read the log of its worker, and restart its pod: kubectl -n shop delete pod web-1"
    )


# the address ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "is_reported"),
    [
        ("web-0.web.shop.svc.cluster.local", False),
        ("web-0", False),
        ("WEB-0.web", False),
        ("connect.example.com", False),
        ("", False),
        ("10.0.0.7", True),
        ("fd00::7", True),
        ("fe80::1%eth0", True),
        ("localhost", True),
    ],
)
def test_an_address_that_changes_with_each_restart_is_reported_with_the_field_to_set(
    host: str, is_reported: bool
) -> None:
    rows = found(world(worker(0, host=host), worker(1)))
    assert [(f.kind, f.reason, f.subject.instance_id, f.subject.pod_name) for f in rows] == (
        [("Misaddressed", "AddressNotThePods", id_of(0), "web-0")] if is_reported else []
    )
    assert not is_reported or (host in rows[0].sentence and "rest.advertised.host.name" in rows[0].remedy)


def test_an_address_that_all_workers_share_names_no_pod() -> None:
    rows = found(world(worker(0, host="connect.shop.svc"), worker(1, host="connect.shop.svc")))
    assert [(f.kind, f.reason, f.subject.pod_name) for f in rows] == [
        ("Misaddressed", "AddressShared", "web-0"), ("Misaddressed", "AddressShared", "web-1"),
    ]
    assert "connect.shop.svc, as 1 other does" in rows[0].sentence
    assert "rest.advertised.host.name" in rows[0].remedy
