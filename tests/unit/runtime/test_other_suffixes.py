"""What is remembered of carriers while spec.client.suffixes is not what the client appends, and is corrected later."""

from __future__ import annotations

import pytest

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, force_delete, managed, start_as

BY_HAND = {"idTemplate": "{podName}.{scope}", "client": {"type": "Own"}}
CORRECTED = {"idTemplate": "{podName}.{scope}", "client": {"type": "Own", "suffixes": ["-0"]}}


async def _whose_client_appends_minus_0() -> OperatorWorld:
    """Return three pods, each of whose clients appends -0, which the spec does not expect."""
    world = OperatorWorld(**BY_HAND)
    world.pods.is_managed = managed
    return await world.started(3, "-0")


@pytest.mark.parametrize("restarts", [False, True])
async def test_suspect_of_another_name_is_remembered_while_its_member_nearly_matches(restarts: bool) -> None:
    """A live member is removed: its carrier was forgotten while the suffix was wrong, and the status said to correct
    the suffix.

    Clients append -0, spec.client.suffixes is empty, so every member is foreign and the status says: list it there. A
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
    world.declare(static_group(generation=2, **CORRECTED))
    await world.settled(6)
    assert world.left == []


async def test_edit_by_which_two_members_of_a_pod_would_share_an_id_is_reported_and_injects_nothing() -> None:
    """Each round ended in AmbiguousIdentityError: no condition said so, and the status stayed as before the edit."""
    twice = {
        "type": "Custom", "suffixes": ["-a-b", "-b"],
        "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
    }  # fmt: skip
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, client=twice))
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
    world.declare(static_group(generation=2, mode="Suspended", **BY_HAND))
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
    world.declare(static_group(generation=3, mode="Manage", **CORRECTED))
    await world.settled(6)
    assert world.left == []


# a template that was tried and taken back, beside a client that appends something


async def test_live_pod_whose_client_makes_an_earlier_templates_id_of_its_own_is_not_ruled_out() -> None:
    """A live member is removed: its pod counts as unable to hold the id, because its client is not expected to append
    -0.

    The spec expects that nothing is appended. Its user tried the template {podName}.{scope}-0, with which web-2 carried
    web-2.<scope>-0 and ended; then he took it back. The next web-2 carries web-2.<scope>, its client appends -0, and so
    its living member holds an id of the earlier template. The chain rules the live pod out, as its ids are fixed.
    """
    world = OperatorWorld(idTemplate="{podName}.{scope}-0")
    await world.round()
    world.template = "web-{ordinal}." + world.scope + "-0"
    await world.started(joins=False)
    world.declare(static_group(generation=2, idTemplate="{podName}.{scope}"))
    await world.settled(2)
    for ordinal in range(3):
        world.end(ordinal)
        carried = f"web-{ordinal}.{world.scope}"
        unbound = {
            "node_name": "", "phase": "Pending", "started_containers": frozenset(), "required": (),
            "ready_since_s": None,
        }  # fmt: skip
        for changes in (unbound, {}):
            world.start(ordinal, f"u{ordinal}b", joins=False, **({"instance_ids": frozenset({carried})} | changes))
        world.kafka.join(f"{carried}-0")
    world.now_s += 300
    await world.settled(6)
    assert world.left == []


async def test_live_pod_of_another_name_whose_client_makes_an_earlier_templates_id_is_in_the_chain() -> None:
    """A live member is removed: the chain looks for carriers of the very id, and this carrier's client appends -0 to
    its own.

    As above, but it is canary-0 that carries web-2.<scope> and lives; web-2 itself has ended under both templates.
    """
    world = OperatorWorld(idTemplate="{podName}.{scope}-0", client={"type": "Own"})
    world.pods.is_managed = managed
    await world.round()
    world.template = "web-{ordinal}." + world.scope + "-0"
    await world.started(joins=False)
    world.declare(static_group(generation=2, idTemplate="{podName}.{scope}", client={"type": "Own"}))
    await world.settled(2)
    world.end(2)
    start_as(world, "canary-0", "stray", {f"web-2.{world.scope}"})
    world.kafka.join(f"web-2.{world.scope}-0", LIVING)
    world.scale(2)
    await world.settled(6)
    assert world.left == []
