"""What is remembered of carriers while spec.identity.suffix is not what the client appends, and is corrected later."""

from __future__ import annotations

import pytest

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, force_delete, managed, start_as

BY_HAND = {"method": "None", "suffix": "None"}
CORRECTED = {"method": "None", "suffix": "Spring"}


async def _whose_client_appends_minus_0() -> OperatorWorld:
    """Return three pods, each of whose clients appends -0, which the spec does not expect."""
    world = OperatorWorld(identity=BY_HAND)
    world.pods.is_managed = managed
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, joins=False)
        world.kafka.join(f"{world.id_of(ordinal)}-0")
    world.now_s += 300
    await world.settled(2)
    return world


@pytest.mark.parametrize("restarts", [False, True])
async def test_suspect_of_another_name_is_remembered_while_its_member_nearly_matches(restarts: bool) -> None:
    """A live member is removed: its carrier was forgotten while the suffix was wrong, and the status said to correct
    the suffix.

    Clients append -0, spec.identity.suffix is None, so every member is foreign and the status says: set it to Spring. A
    pod of another name carries the id of web-2, and its process is the member web-2.<scope>-0. web-2 is scaled away and
    ends; the other pod's object is deleted by force, its process lives. web-2.<scope> is not wanted and no member holds
    it. The operator restarts, and the user does what the status says.
    """
    world = await _whose_client_appends_minus_0()
    instance_id = f"{world.id_of(2)}-0"
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.kafka.join(instance_id, LIVING)
    await world.departs(3)
    force_delete(world, "canary-0")
    await world.settled(3)
    assert world.condition("MembershipComplete")[1] == "SuffixMismatch"
    if restarts:
        world.start(1, "u1b", joins=False)  # something later that moves the position on
        await world.settled(2)
        world.restart()
        world.pods.is_managed = managed
        await world.settled(2)
    world.declare(static_group(generation=2, identity=CORRECTED))
    await world.settled(6)
    assert world.left == []


async def test_edit_by_which_two_members_of_a_pod_would_share_an_id_is_reported_and_injects_nothing() -> None:
    """Each round ended in AmbiguousIdentityError: no condition said so, and the status stayed as before the edit."""
    twice = {
        "preset": "Custom",
        "suffix": "Custom",
        "membersPerPod": 2,
        "customSuffixes": ["-a-b", "-b"],
        "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
    }
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, identity=twice))
    await world.settled(2)
    assert world.condition("Injected")[:2] == ("False", "IdentityInvalid")
    assert world.injected.method.value == "None"
    world.declare(static_group(generation=3))
    await world.settled(2)
    assert world.condition("Injected")[:2] == ("True", "IdsInjected")
    assert world.condition("RemovalSettled")[1] == "NothingToRemove"


async def test_suspended_staticgroup_counts_on_what_a_client_may_make_of_its_ids_under_another_suffix() -> None:
    """A live member is removed: a suspended StaticGroup asked only for ids of the suffix that was wrong, see above."""
    world = await _whose_client_appends_minus_0()
    await world.departs(2)
    start_as(world, "canary-0", "stray", {world.id_of(2)+"-0"})
    world.kafka.join(world.id_of(2)+"-0", LIVING)
    world.declare(static_group(generation=2, suspend=True, identity=BY_HAND))
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    force_delete(world, "canary-0")
    await world.settled(2)
    world.start(1, "u1b", joins=False)
    await world.settled(2)
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    world.declare(static_group(generation=3, suspend=False, identity=CORRECTED))
    await world.settled(6)
    assert world.left == []
