"""Members that joined under ids of the application's own: what is said, and that no restart is advised.

Of ten public manifests that set KAFKA_GROUP_INSTANCE_ID ten take metadata.name, the pod's name.
"""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.reasons import ConditionType, Reason
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import MemberView
from staticgroup.core.plan import Plan, plan
from staticgroup.core.snapshot import Snapshot

from .builders import NOW_S, departure, group, history, id_of, known_pod, member, spec, workload
from .plans import conditions_of

WISH = {"groupProtocol": "Classic"}


def foreign(instance_id: str) -> MemberView:
    return MemberView(member_id=f"{instance_id}-1", instance_id=instance_id)


def world(*members: MemberView, own: dict[int, str] | None = None) -> Snapshot:
    """Two Ready pods that carry their injected ids, and perhaps others in further variables."""
    known = tuple(
        known_pod(n, f"u{n}", instance_ids=frozenset({id_of(n), *([own[n]] if own and n in own else [])}))
        for n in range(2)
    )
    return departure(group=group(*members), workload=workload(2), pods=known, known=known)


def decided(seen: Snapshot, **wish: Any) -> Plan:
    return plan(spec(**(WISH | wish)), seen, history(), NOW_S)


def complete(seen: Snapshot, **wish: Any) -> str:
    condition = conditions_of(seen, history(), wish=spec(**(WISH | wish)))[ConditionType.MEMBERSHIP_COMPLETE]
    assert condition.reason == Reason.OWN_IDS
    return condition.message


@pytest.mark.parametrize(
    ("ids", "remedy"),
    [
        (("web-0", "web-1"), "set spec.client.type to Own."),
        (("web-0-orders", "web-1-orders"), 'spec.client.type to Own and spec.idTemplate to "{podName}-orders".'),
        (("web-0-1", "web-0-2", "web-1-1"), "spec.client.type to Own and spec.client.suffixes to what it appends"),
    ],
    ids=["the pod's name", "with a word behind it", "with a number behind it, as Kafka Streams does"],
)
def test_the_pods_name_is_recognised(ids: tuple[str, ...], remedy: str) -> None:
    message = complete(world(*map(foreign, ids)))
    assert f"such as {ids[0]} of pod web-0" in message
    assert "let the client take group.instance.id from the variable KAFKA_GROUP_INSTANCE_ID" in message.replace("Let", "let")
    assert remedy in message
    assert "estart" not in message


def test_an_id_of_another_variable_of_the_pod_is_recognised() -> None:
    message = complete(world(foreign("billing-a"), foreign("billing-b"), own={0: "billing-a", 1: "billing-b"}))
    assert "such as billing-a of pod web-0" in message
    assert "spec.idTemplate to how the application makes them" in message


def test_one_id_for_all_pods_is_named() -> None:
    message = complete(world(foreign("orders-consumer")))
    assert "one id is used that belongs to none, orders-consumer" in message
    assert "without a constant to fall back to" in message


def test_a_reference_that_was_not_expanded_is_named() -> None:
    """A pod that was admitted without injection: the kubelet leaves `$(VARIABLE)` as it is, and brokers take it."""
    message = complete(world(member(0), foreign("$(KAFKA_GROUP_INSTANCE_ID)")))
    assert "joined as $(KAFKA_GROUP_INSTANCE_ID)" in message
    assert "estart that pod" in message


@pytest.mark.parametrize(
    "seen",
    [
        world(member(0), member(1)),
        world(member(0), member(1), foreign("somebody")),
        world(foreign("somebody"), foreign("else")),
        world(foreign("webhook-0"), foreign("web-10")),
        world(member(0), member(1), foreign("web-0")),
        world(foreign(f"{id_of(0)}-0"), foreign(f"{id_of(1)}-0")),
    ],
    ids=[
        "as they should be", "another workload beside us", "two that are nobody's", "names that only look alike",
        "a pod of that name elsewhere", "ids of ours that a client appends to",
    ],
)
def test_nothing_is_said_without_evidence(seen: Snapshot) -> None:
    assert decided(seen).own_ids is None


def test_an_application_with_its_own_ids_is_taken_at_its_word() -> None:
    seen = world(foreign("web-0"), foreign("web-1"))
    assert decided(seen, client={"type": "Own"}, idTemplate="{podName}.{scope}").own_ids is None


def test_single_rows_say_the_same() -> None:
    seen = world(foreign("web-0"), foreign("web-1"))
    rows = list(findings_of_seats(decided(seen), seen))
    assert {row.reason for row in rows} == {"JoinedUnderOwnId", "IdOfTheApplication"}
    assert not any("delete pod" in row.text for row in rows)
