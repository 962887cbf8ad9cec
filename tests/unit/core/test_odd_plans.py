"""Plans of specs and groups that are legal and odd."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.group import MemberView
from staticgroup.core.guards import Guard
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import READS_MAX, plan, reads_needed
from staticgroup.core.snapshot import RemovalRecord
from staticgroup.core.status.projection import project

from .builders import (
    COORDINATOR,
    NOW_S,
    SCOPE,
    departure,
    group,
    history,
    id_of,
    incarnation,
    injected,
    member,
    spec,
    workload,
)

NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
ONE_ID_TWICE = {
    "preset": "Custom",
    "suffix": "Custom",
    "membersPerPod": 2,
    "customSuffixes": ["-a-b", "-b"],
    "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
}
"""Every rule of the CRD lets it pass, and base-a-b is made by both consumers: base + -a-b and base-a + -b."""


@pytest.mark.parametrize("known", [None, injected()])
def test_suffixes_that_make_one_id_twice_are_an_identity_error_and_not_a_crash(known: object) -> None:
    """`plan` raises AmbiguousIdentityError, so each round ends without a status and nobody is told what to correct.

    `plan` promises never to raise and catches only InvalidInstanceIdError and TooManyIdsError; `intent_of` catches it. When it
    is caught, nothing may be injected (method Policy), or the two members of each new pod fence each other.
    """
    decided = plan(spec(identity=ONE_ID_TWICE), departure(), history(injected=known), NOW_S)
    assert "the same id" in decided.identity_error
    assert decided.actions == ()
    assert decided.history.injected is None or decided.history.injected.method == "None"


def test_id_with_an_ordinal_longer_than_any_pod_name_is_told_in_a_status_that_can_be_stored() -> None:
    """Any consumer that joins with such an id made each round end in an error, for ever: the row's podName was too long."""
    instance_id = f"{'9' * 240}.{SCOPE}"
    wish = spec(identity={"template": "{ordinal}.{scope}"}, workloadRef={"name": "consumer-of-orders"})
    world = departure(workload=workload(2, name="consumer-of-orders"), group=group(MemberView(member_id="m", instance_id=instance_id)))
    memory = history(injected=injected(id_template=f"{{ordinal}}.{SCOPE}"))
    status = project(wish, world, plan(wish, world, memory, NOW_S), Executed(), (), None, NOW)
    assert instance_id in {e.instance_id for e in status.exceptions}


def test_seats_that_a_lasting_guard_holds_do_not_keep_others_from_being_read() -> None:
    """Fifty zombies with smaller ids are read in every round, so later seats are NotReadAfresh for ever and stay.

    `reads_needed` takes the first READS_MAX by key of all whose chain is proven, also of those that the zombie guard (or
    MemberSeenUnderTwoPods) holds whatever is read. The status says of the others that they leave soon, and nothing to do.
    """
    keys = sorted(id_of(n) for n in range(10, 11 + READS_MAX))
    dead = {
        key: (incarnation(int(key[4:6]), f"u-{key}", IncarnationState.DEAD, instance_ids=frozenset({key})),) for key in keys
    }
    zombies = [
        RemovalRecord(
            instance_id=key, member_id="removed", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - 900,
            settled_at_s=NOW_S - 800, pod_uids=frozenset({f"u-{key}"}),
        )
        for key in keys[:READS_MAX]
    ]
    world = departure(chains=dead, fresh={}, group=group(*(MemberView(member_id=f"m-{k}", instance_id=k) for k in keys)))
    read = reads_needed(spec(), world, history(removals=zombies), NOW_S)
    assert keys[-1] in {seat.key for seat in read}


@pytest.mark.parametrize(
    ("changes", "sightings", "guard"),
    [
        ({"chains": {}}, {}, Guard.CHAIN),
        ({}, {id_of(2): (("m2", "u1", NOW_S - 900), ("m2", "u2", NOW_S - 100))}, Guard.TWO_INCARNATIONS),
        ({"group": group(member(2), member(2, "m2b"))}, {}, Guard.DUPLICATE),
    ],
    ids=["never seen", "two pods", "two holders"],
)
def test_what_stops_a_removal_for_good_says_what_to_do(changes: dict, sightings: dict, guard: Guard) -> None:
    """The finding has no remedy: the status says what is so and leaves its reader there, while Ready is Degraded."""
    decided = plan(spec(), departure(**changes), history(sightings=sightings), NOW_S)
    (found, *_) = decided.held
    assert found.reason == guard
    assert found.remedy
