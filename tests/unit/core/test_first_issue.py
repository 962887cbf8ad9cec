"""What the group shows against the first ids: present holders, and consumers of one pod that would share an id."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.identifiers import IdScheme
from staticgroup.api.ordinals import Ordinals
from staticgroup.api.reasons import Reason
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.findings import Obstacle
from staticgroup.core.group import KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.ids.first_issue import obstacle_to_first_ids
from staticgroup.core.snapshot import Snapshot
from unit.core.plans import present

from .builders import SCOPE, departure, group, known_pod, member

SCHEME = IdScheme(template=f"{{podName}}.{SCOPE}", workload_name="web")
UNREAD = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")


def found(
    snapshot: Snapshot, scheme: IdScheme = SCHEME, *, issued: range = range(0), **changes: Any
) -> Obstacle | None:
    return obstacle_to_first_ids(
        scheme, snapshot, Ordinals.of(issued),
        is_scoped=True, is_drawn=changes.get("is_drawn", False),
    )


def reason(snapshot: Snapshot, scheme: IdScheme = SCHEME, **changes: Any) -> str | None:
    obstacle = found(snapshot, scheme, **changes)
    return obstacle.reason if obstacle is not None else None


HELD = departure(pods=(), group=group(member(1)))
CONSUMERS = tuple(MemberView(member_id=f"d{n}", instance_id=None, client_host=f"/10.0.0.{n // 2}") for n in range(4))


@pytest.mark.parametrize("state", [PodState.LIVE, PodState.DEAD])
def test_pod_that_carries_the_id_explains_its_holder_whatever_became_of_it(state: PodState) -> None:
    assert reason(HELD) is Reason.IDS_HELD_ELSEWHERE
    assert reason(replace(HELD, known=(known_pod(1, state=state),))) is None
    assert (
        reason(replace(HELD, others=(known_pod(7, state=state, instance_ids=frozenset({member(1).instance_id})),)))
        is None
    )


def test_two_members_with_one_id_are_named_as_any_others() -> None:
    twice = departure(pods=(), group=group(member(1), replace(member(1), member_id="another")))
    assert reason(twice) is Reason.IDS_HELD_ELSEWHERE


def test_suspect_and_pod_with_another_id_explain_no_member() -> None:
    assert reason(replace(HELD, known=(known_pod(1, state=PodState.SUSPECT),))) is Reason.IDS_HELD_ELSEWHERE
    assert reason(replace(HELD, known=(known_pod(2),))) is Reason.IDS_HELD_ELSEWHERE


def test_ordinal_that_was_issued_before_explains_its_holder() -> None:
    assert reason(HELD, issued=range(1, 2)) is None
    assert reason(HELD, issued=range(2, 3)) is Reason.IDS_HELD_ELSEWHERE


def test_ids_that_no_pod_is_wanted_for_yet_count_as_well() -> None:
    """The workload may be scaled up later, and this is checked only once."""
    assert reason(replace(HELD, workload=None)) is Reason.IDS_HELD_ELSEWHERE


def test_at_most_three_holders_are_named() -> None:
    obstacle = present(found(replace(HELD, group=group(*(member(n, client_host=f"/10.9.0.{n}") for n in range(4))))))
    assert "4 members hold ids" in obstacle.sentence
    assert obstacle.sentence.endswith(
        f"web-0.{SCOPE} from 10.9.0.0, web-1.{SCOPE} from 10.9.0.1, web-2.{SCOPE} from 10.9.0.2 …"
    )


def test_drawn_ids_belong_to_this_staticgroup_alone() -> None:
    assert reason(HELD, is_drawn=True) is None
    assert reason(replace(HELD, group=UNREAD), is_drawn=True) is None
    assert reason(replace(HELD, group=UNREAD)) is Reason.MEMBERSHIP_UNKNOWN


@pytest.mark.parametrize(
    ("pods", "suffixes", "expected"),
    [
        (2, ("",), Reason.TOO_MANY_MEMBERS),
        (2, ("-0", "-1"), None),
        (4, ("",), None),
        (0, ("",), Reason.TOO_MANY_MEMBERS),
    ],
    ids=["two in each of two pods", "each has two ids", "no more than pods", "their pods are not known"],
)
def test_consumers_are_counted_against_the_ids_of_pods(
    pods: int, suffixes: tuple[str, ...], expected: Reason | None
) -> None:
    snapshot = departure(pods=tuple(known_pod(n, f"u{n}") for n in range(pods)), group=group(*CONSUMERS))
    assert reason(snapshot, replace(SCHEME, suffixes=suffixes), is_drawn=True) is expected


def test_consumers_with_an_address_each_share_no_id_and_pods_that_have_ended_have_none() -> None:
    apart = tuple(replace(m, client_host=f"/10.0.0.{n}") for n, m in enumerate(CONSUMERS))
    pods = tuple(known_pod(n, f"u{n}") for n in range(2))
    assert reason(departure(pods=pods, group=group(*apart))) is None
    ended = tuple(known_pod(n, f"u{n}", PodState.DEAD) for n in range(4))
    assert reason(departure(pods=ended, group=group(*CONSUMERS))) is Reason.TOO_MANY_MEMBERS
