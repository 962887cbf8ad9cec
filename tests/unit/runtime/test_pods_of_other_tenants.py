"""Advice about pods of namespaces that may belong to another tenant never says to delete them."""

from __future__ import annotations

from staticgroup.core.evidence.pod import PodVersion
from unit.core.builders import pod_version

from .operator_world import OperatorWorld, guards
from .stories import LIVING, by_hand, left, managed


def same_app(ordinal: int, instance_id: str) -> PodVersion:
    """Return a pod of a StatefulSet of the same name in the namespace of another tenant; no StaticGroup there names its
    group."""
    values = {
        "namespace": "tenant-1",
        "name": f"web-{ordinal}",
        "instance_ids": frozenset({instance_id}),
        "ids_are_fixed": True,
    }
    return pod_version(ordinal, f"tenant-1-{ordinal}", **values)


async def advice(world: OperatorWorld) -> str:
    """Return the message about web-2, which has ended while a pod of another tenant may be its member."""
    world._happens(same_app(2, world.id_of(2)))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    await world.departs(4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])
    (message,) = (e.message for e in world.status.exceptions if e.kind.value == "Held")
    assert "delete pod" not in message
    return message


async def test_way_out_where_ids_have_no_scope_is_a_scope_or_a_staticgroup_there() -> None:
    world = OperatorWorld(identity={"template": "{podName}", "exclusive": True})
    world.template = "web-{ordinal}"
    await world.started()
    world.pods.is_managed = managed
    assert (await advice(world)).endswith(
        "add {scope} to the id template, or a StaticGroup of that pod in namespace tenant-1"
    )


async def test_way_out_where_somebody_copied_a_scoped_id_is_to_ask_there() -> None:
    assert (await advice(await by_hand())).endswith(
        "ask in namespace tenant-1 why that pod has an id of this StaticGroup"
    )
