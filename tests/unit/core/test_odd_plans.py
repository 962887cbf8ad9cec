"""Plans of specs and groups that are legal and odd."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticgroup.core.group import GroupType, MemberView
from staticgroup.core.guards import Guard
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.members.memory import Members
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import READS_MAX, plan
from staticgroup.core.status.projection import project

from .builders import NOW_S, SCOPE, departure, group, history, id_of, injected, member, members, spec, workload
from .plans import acknowledged, read_keys

NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
ONE_ID_TWICE = {
    "type": "Custom",
    "suffixes": ["-a-b", "-b"],
    "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
}
"""Every rule of the CRD lets it pass, and base-a-b is made by both consumers: base + -a-b and base-a + -b."""


@pytest.mark.parametrize("known", [None, injected()])
def test_suffixes_that_make_one_id_twice_are_an_identity_error_and_not_a_crash(known: object) -> None:
    """`plan` raises AmbiguousIdentityError, so each round ends without a status that says what to correct.

    `plan` promises never to raise. When it is caught, nothing may be injected (method Policy), or the two members of
    each new pod fence each other.
    """
    decided = plan(spec(client=ONE_ID_TWICE), departure(), history(injected=known), NOW_S)
    assert "the same id" in decided.identity_error
    assert decided.actions == ()
    assert decided.history.injected is None or decided.history.injected.method == "None"


def test_id_with_an_ordinal_longer_than_any_pod_name_gives_a_status_that_can_be_stored() -> None:
    """Any consumer that joins with such an id made each round end in an error, for ever: the row's podName was too
    long."""
    instance_id = f"{'9' * 240}.{SCOPE}"
    wish = spec(idTemplate="{ordinal}.{scope}", workloadRef={"name": "consumer-of-orders"})
    world = departure(
        workload=workload(2, name="consumer-of-orders"), group=group(MemberView(member_id="m", instance_id=instance_id))
    )
    memory = history(injected=injected(id_template=f"{{ordinal}}.{SCOPE}"))
    status = project(wish, world, plan(wish, world, memory, NOW_S), Executed(), None, NOW)
    assert instance_id in {e.instance_id for e in status.issues}


def test_seats_that_a_lasting_guard_holds_do_not_keep_others_from_being_read() -> None:
    """Fifty that were removed and came back have smaller ids, and are held whatever their reads show.

    Of all whose carriers have ended `survey` has READS_MAX read at a time; of the others the status says that they
    leave soon.
    """
    ordinals = sorted(range(10, 11 + READS_MAX), key=id_of)
    keys = [id_of(n) for n in ordinals]
    back = [acknowledged(instance_id=id_of(n), member_id=f"m{n}") for n in ordinals[:READS_MAX]]
    consumers = group(
        *(member(n, member_epoch=3) for n in ordinals), group_type=GroupType.CONSUMER, group_epoch=3, assignment_epoch=3
    )
    world = departure(fresh={}, group=consumers)
    memory = history(removals=back, members=members({n: [] for n in ordinals}))
    assert keys[-1] in read_keys(spec(groupProtocol="Consumer"), world, memory)


@pytest.mark.parametrize(
    ("changes", "remembered", "guard"),
    [
        ({}, members({2: [UNATTRIBUTED]}), Guard.UNATTRIBUTED),
        ({}, members({2: [UNSEEN]}), Guard.JOINED_BEFORE_WATCH),
        ({}, members({2: ["z"]}), Guard.SUSPECT),
        ({"group": group(member(2), member(2, "m2b"))}, members(), Guard.DUPLICATE),
    ],
    ids=["unattributed", "unseen", "suspect", "two holders"],
)
def test_what_stops_a_removal_for_good_says_what_to_do(changes: dict, remembered: Members, guard: Guard) -> None:
    """A finding without a remedy leaves its reader there, while Ready is Degraded."""
    decided = plan(spec(), departure(**changes), history(members=remembered), NOW_S)
    (found, *_) = decided.held
    assert found.reason == guard
    assert found.remedy
