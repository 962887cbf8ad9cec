"""Members that joined under ids of the application's own: what is said, and that no restart is advised.

Of ten public manifests that set KAFKA_GROUP_INSTANCE_ID ten take metadata.name, the pod's name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.reasons import ConditionType, Reason
from staticgroup.api.resources.status import IssueKind
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
        (("web-0", "web-1"), "set spec.client.type to Own, and roll."),
        (("web-0-orders", "web-1-orders"), 'spec.client.type to Own and spec.idTemplate to "{podName}-orders", and roll.'),
        (("web-0-1", "web-0-2", "web-1-1"), "spec.client.type to Own and spec.client.suffixes to what it appends"),
    ],
    ids=["the pod's name", "with a word behind it", "with a number behind it, as Kafka Streams does"],
)
def test_the_pods_name_is_recognised(ids: tuple[str, ...], remedy: str) -> None:
    message = complete(world(*map(foreign, ids)))
    assert message.startswith(f"{len(ids)} members joined under ids of the application's own, such as {ids[0]} of pod web-0: ")
    assert "or, to keep these ids, set spec.client.type to Own" in message
    assert "let the client take group.instance.id from the variable KAFKA_GROUP_INSTANCE_ID" in message.replace("Let", "let")
    assert remedy in message
    assert "estart" not in message


def test_own_ids_are_kept_by_type_and_template_where_the_spec_has_another() -> None:
    message = complete(world(foreign("web-0"), foreign("web-1")), idTemplate="{podName}.orders")
    assert 'set spec.client.type to Own and spec.idTemplate to "{podName}"' in message


def test_an_id_of_another_variable_of_the_pod_is_recognised() -> None:
    message = complete(world(foreign("billing-a"), foreign("billing-b"), own={0: "billing-a", 1: "billing-b"}))
    assert "such as billing-a of pod web-0" in message
    assert "Name the variable that the client reads in spec.client.env (type Custom), or let it read KAFKA_GROUP" in message
    assert "spec.idTemplate to their form, such as billing-{ordinal}, and roll." in message


def test_one_id_for_all_pods_is_named() -> None:
    message = complete(world(foreign("orders-consumer")))
    assert "one id is used that belongs to none, orders-consumer" in message
    assert "without a constant to fall back to" in message


def test_a_reference_that_was_not_expanded_is_named() -> None:
    """A pod that was admitted without injection: the kubelet leaves `$(VARIABLE)` as it is, and brokers take it."""
    seen = world(member(0), foreign("$(KAFKA_GROUP_INSTANCE_ID)"))
    message = complete(seen)
    assert "joined as $(KAFKA_GROUP_INSTANCE_ID)" in message
    assert "Restart the pod that lacks the variable (Injected and the issues name it)" in message
    (row,) = [f for f in findings_of_seats(spec(**WISH), decided(seen), seen) if f.kind == IssueKind.FOREIGN]
    assert row.sentence.startswith("the text of a variable that its container lacks; never touched")


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
    rows = list(findings_of_seats(spec(**WISH), decided(seen), seen))
    assert {row.reason for row in rows} == {"JoinedUnderOwnId", "IdOfTheApplication"}
    assert not any("delete pod" in row.text for row in rows)
    assert {row.sentence for row in rows if row.kind == IssueKind.MISSING} == {"the pod is Ready, and nobody holds its id"}


@pytest.mark.parametrize("mode", ["Manage", "Observe"])
def test_pods_that_were_given_no_other_id_yet_may_keep_theirs(mode: str) -> None:
    """A roll renames them: the partitions of each stand still for the session of its old id."""
    wish = spec(**WISH, mode=mode)
    pods = tuple(known_pod(n, f"u{n}", instance_ids=frozenset({f"web-{n}"})) for n in range(2))
    seen = departure(group=group(foreign("web-0"), foreign("web-1")), workload=workload(2), pods=pods, known=pods)
    found = conditions_of(seen, history(), wish=wish)
    ways = "to keep these ids, set spec.client.type to Own; to replace them, let the client take group.instance.id "
    ways += "from the variable KAFKA_GROUP_INSTANCE_ID, and roll in mode Manage"
    assert found[ConditionType.MEMBERSHIP_COMPLETE].message == (
        "2 members joined under ids of the application's own, such as web-0 of pod web-0; these pods were given no other "
        f"yet. T{ways[1:]}."
    )
    if mode == "Manage":
        said = f"2 pods run without the id they should have, such as web-0: they set ids of their own; {ways}"
        assert found[ConditionType.INJECTED].message == said
    rows = findings_of_seats(wish, plan(wish, seen, history(), NOW_S), seen)
    assert {row.remedy for row in rows if row.kind == IssueKind.WITHOUT_ID} == {ways}
    rolling = replace(seen, workload=workload(2, updated_replicas=1, update_revision="r2"))
    assert "and roll" not in conditions_of(rolling, history(), wish=wish)[ConditionType.INJECTED].message
