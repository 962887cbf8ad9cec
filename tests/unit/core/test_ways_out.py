"""What a person is told to do follows from why it is so: the same state has another way out for another cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.reasons import ConditionStatus, ConditionType
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import IssueKind
from staticgroup.api.workloads import STRIMZI_POD_SET
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import GroupType, MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, SeatMemory, Snapshot

from .builders import (
    NOW_S,
    attributed,
    departure,
    group,
    history,
    id_of,
    injected,
    known_pod,
    member,
    members,
    spec,
    workload,
)
from .plans import conditions_of

WELL = departure(group=group(member(0), member(1)))
ROLLING = workload(2, updated_replicas=1, update_revision="r2")
DYNAMIC = departure(group=group(MemberView(member_id="d", instance_id=None)))


def remedies_of(seen: Snapshot, kind: IssueKind, wish: StaticGroupSpec, memory: History | None = None) -> set[str]:
    rows = findings_of_seats(wish, plan(wish, seen, memory or history(), NOW_S), seen)
    return {row.remedy for row in rows if row.kind == kind}


def lacking(**changes: Any) -> Snapshot:
    """Return a world whose second pod runs without its id."""
    pods = (known_pod(0, "u0"), known_pod(1, "u1", instance_ids=frozenset()))
    return departure(**({"group": group(member(0)), "pods": pods} | changes))


@pytest.mark.parametrize(
    ("seen", "wish", "way"),
    [
        (lacking(), {}, "new pods get theirs: kubectl -n shop rollout restart statefulset/web"),
        (
            lacking(), {"mode": "Observe"},
            "in mode Observe no id is injected: set spec.mode to Manage, and the chart's operator.forceObserve to false, "
            "then roll the workload",
        ),
        (lacking(policy_served=False), {}, "the condition Injected says why new pods get none"),
        (lacking(workload=ROLLING), {}, "new pods get theirs; a roll is under way, so wait for its end"),
        (
            lacking(workload=replace(ROLLING, update_strategy="OnDelete")), {},
            "new pods get theirs, and no rollout replaces this one: kubectl -n shop delete pod web-1",
        ),
    ],
    ids=["older than the injection", "Observe", "nothing injects", "a roll under way", "OnDelete"],
)
def test_pod_without_its_id_is_told_by_what_it_gets_one(seen: Snapshot, wish: dict[str, str], way: str) -> None:
    assert remedies_of(seen, IssueKind.WITHOUT_ID, spec(**wish)) == {way}
    message = conditions_of(seen, wish=spec(**wish))[ConditionType.INJECTED].message
    assert way in message or wish or not seen.policy_served


def test_pods_that_show_what_was_injected_before_own_are_rolled_first() -> None:
    found = conditions_of(WELL, wish=spec(client={"type": "Own"}, idTemplate="{podName}"))[ConditionType.INJECTED]
    assert found.message.endswith(
        "client.type is Own, and they show another id; roll the StatefulSet, and if they show it again, compose it in "
        "the pod template as {podName}"
    )


@pytest.mark.parametrize(
    ("client", "way"),
    [
        (
            {}, "the client must take it from the variable KAFKA_GROUP_INSTANCE_ID, which container app has; if it runs "
            "in another one, name that in spec.client",
        ),
        ({"type": "Own"}, "the application must set it, as client.type is Own"),
    ],
    ids=["injected", "Own"],
)  # fmt: skip
def test_dynamic_members_are_told_where_the_id_is(client: dict[str, str], way: str) -> None:
    wish = spec(client=client, idTemplate="{podName}.{scope}")
    said = f"members without group.instance.id are in the group: {way}"
    assert remedies_of(DYNAMIC, IssueKind.MISSING, wish) == {said}
    assert conditions_of(DYNAMIC, wish=wish)[ConditionType.MEMBERSHIP_COMPLETE].message.endswith(said)


@pytest.mark.parametrize("mode", ["Manage", "Observe"])
def test_standby_is_not_told_to_observe(mode: str) -> None:
    """Observe would stop the injection: a standby pod that restarts meanwhile would join without an id."""
    message = conditions_of(departure(group=group()), wish=spec(mode=mode))[ConditionType.MEMBERSHIP_COMPLETE].message
    assert message.endswith(
        "such as web-0; a standby that does not consume yet needs nothing; else read the log of web-0; a fenced client "
        "does not come back by itself, restart its pod: kubectl -n shop delete pod web-0"
    )


def test_ids_of_the_application_get_no_scope_by_a_template() -> None:
    """With type Own the template only says what the application does; another one makes every member foreign."""
    memory = history(
        injected=injected(id_template="{podName}", method="None"),
        members=members(attributions={"web-2": attributed("m2", "u2")}),
    )
    seen = departure(
        group=group(replace(member(2), instance_id="web-2")),
        chains={"web-2": (known_pod(state=PodState.DEAD, instance_ids=frozenset({"web-2"})),)},
    )
    found = conditions_of(seen, memory, wish=spec(client={"type": "Own"}))[ConditionType.REMOVAL_SETTLED]
    assert found.reason == "UnscopedIds"
    assert found.message.endswith("session expires, or set spec.assumeExclusive to true if nobody else does.")


def test_nothing_is_claimed_of_a_group_without_members() -> None:
    found = conditions_of(departure(group=group(state="Empty")))
    consuming = found[ConditionType.CONSUMING]
    assert (consuming.status, consuming.reason) == (ConditionStatus.UNKNOWN, "NotObservedYet")
    assert consuming.message == "No member is in the group: see MembershipComplete."
    assert found[ConditionType.READY].reason == "MembersMissing"
    none = departure(group=group(state="Empty"), workload=workload(0), pods=())
    assert {c.status for c in conditions_of(none).values()} == {ConditionStatus.TRUE}


def test_nothing_is_claimed_of_members_while_no_id_is_issued() -> None:
    elsewhere = replace(member(0), instance_id="web-0", client_host="/10.9.9.9")
    seen = departure(group=group(elsewhere), pods=(), known=())
    memory = History(issued_ordinals=Ordinals())
    found = conditions_of(seen, memory, wish=spec(idTemplate="{podName}"))
    assert found[ConditionType.INJECTED].reason == "IdsHeldElsewhere"
    complete = found[ConditionType.MEMBERSHIP_COMPLETE]
    assert (complete.status, complete.reason) == (ConditionStatus.UNKNOWN, "MembershipUnknown")
    assert complete.message == "No id is issued yet: see Injected."


def test_pods_of_a_pod_set_that_are_not_made_are_looked_for_there() -> None:
    ref = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "name": "web"}
    of_set = workload(2, kind=STRIMZI_POD_SET, listed=(0, 1))
    seen = departure(workload=of_set, pods=(known_pod(0, "u0"),), group=group(member(0)))
    memory = history(seats={id_of(1): SeatMemory(absent_since_s=NOW_S - 3600)})
    found = conditions_of(seen, memory, wish=spec(workloadRef=ref))[ConditionType.MEMBERSHIP_COMPLETE]
    assert found.message.endswith("See why with kubectl -n shop describe strimzipodset web")


def test_fields_that_cannot_be_changed_are_not_asked_to_be() -> None:
    found = conditions_of(departure(workload=None))[ConditionType.WORKLOAD_FOUND]
    assert found.message.endswith("Create it, or a StaticGroup with the right spec.workloadRef.name.")
    share = departure(group=group(member(0), group_type=GroupType.SHARE))
    found = conditions_of(share, wish=spec(groupProtocol="Auto"))[ConditionType.MEMBERSHIP_COMPLETE]
    assert found.message.endswith("Create a StaticGroup with the right spec.groupId.")


def test_what_is_under_way_is_not_said_to_be_well() -> None:
    away = departure(pods=(known_pod(0, "u0"), known_pod(1, "u1", ready_since_s=None)), group=group(member(0)))
    ready = conditions_of(away)[ConditionType.READY]
    assert ready.status is ConditionStatus.TRUE
    assert ready.message.startswith("In progress, nothing to do yet. MembershipComplete: 1 of 2 members are away")


def test_what_only_observing_leaves_undone_names_both_settings() -> None:
    found = conditions_of(departure(), executed=Executed(observe_only=True), wish=spec(mode="Observe"))
    said = found[ConditionType.REMOVAL_SETTLED].message
    assert said.endswith("Set spec.mode to Manage, and the chart's operator.forceObserve to false.")
