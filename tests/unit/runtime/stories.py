"""What happens in many stories: pods of other names that carry an id, gaps of the watch, statuses that come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.api import names
from unit.core.builders import pod_version

from .operator_world import KEY, OperatorWorld

LIVING = "the-living-process"
Json = dict[str, Any]

# departures ----------------------------------------------------------------------------------------------------------


def left(world: OperatorWorld) -> list[str]:
    """Return the instance ids that were removed, sorted."""
    return sorted(i for _, i in world.left)


# gaps ----------------------------------------------------------------------------------------------------------------


def gap(world: OperatorWorld, watch_name: str = "2-00000002") -> None:
    """Let the API server lose the history of its watch: what was not delivered is lost, a LIST shows what is there."""
    world.kube.resource_version += 1
    world.pods.lose(world.kube.pods.values(), world.kube.resource_version, watch_name)
    world.pods.is_lagging = False


def away(world: OperatorWorld) -> None:
    """Cut the watch off."""
    world.pods.is_lagging = True


# odd users -----------------------------------------------------------------------------------------------------------


def managed(namespace: str, pod_name: str) -> bool:
    """Say what the listener says where one StaticGroup points at `web`."""
    return pod_name.rpartition("-")[0] == "web"


def start_as(world: OperatorWorld, pod_name: str, uid: str, ids: set[str], **changes: Any) -> None:
    """Start a pod of any name with any ids; its process does not join."""
    values = {"instance_ids": frozenset(ids), "ids_are_fixed": True} | changes
    world._happens(replace(pod_version(0, uid, **values), name=pod_name))


def force_delete(world: OperatorWorld, pod_name: str) -> None:
    """Delete an object; its process lives on."""
    world._happens(world.kube.pods["shop", pod_name], is_deleted=True)


def stray(world: OperatorWorld, **changes: Any) -> None:
    """Start `canary-0` with the id of web-2, whose member its process becomes."""
    start_as(world, "canary-0", "stray", {world.id_of(2)}, **changes)
    world.kafka.join(world.id_of(2), LIVING)


async def by_hand() -> OperatorWorld:
    """Return a world whose ids are written by hand, so that a pod of any name may carry one."""
    world = await OperatorWorld(idTemplate="{podName}.{scope}", client={"type": "Own"}).started()
    world.pods.is_managed = managed
    return world


# objects that tools write --------------------------------------------------------------------------------------------


def group_body(world: OperatorWorld) -> Json:
    """Return the StaticGroup as the API server has it."""
    return world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]


def put(world: OperatorWorld, **changes: Any) -> None:
    """Write the StaticGroup with other parts, as a user with the rights may; the store sees it."""
    world.stores.put_group(KEY, world.kube.put_object(names.STATIC_GROUP_PLURAL, group_body(world) | changes))
