"""Pods that a watch by label does not show."""

from __future__ import annotations

import asyncio
from random import Random

from staticgroup.api.names import POD_INDEX_LABEL

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import PODS, Json
from ..world.world import NAMESPACE, WORKLOAD, World
from .registry import Heal, attempt, draw_pod, each, fault, setting


@fault(weight=0.6, lasts_s=(5, 90))
def index_label_is_taken_off(world: World, rng: Random) -> Heal | None:
    """A user removes the ordinal's label from a running pod, and restores it later."""
    pod = draw_pod(world, rng)
    if pod is None or not pod.rpartition("-")[2].isdigit():
        return None
    attempt(lambda: world.users.label_pod(NAMESPACE, pod, {POD_INDEX_LABEL: None}))
    index = pod.rpartition("-")[2]
    return lambda: attempt(lambda: world.users.label_pod(NAMESPACE, pod, {POD_INDEX_LABEL: index}))


@fault(weight=0.6, lasts_s=(20, 120))
def pods_come_without_the_index_label(world: World, rng: Random) -> Heal | None:
    """Pods are made without the ordinal's label for a while, as by a webhook that strips what it does not know."""
    sets = world.kubernetes.stateful_sets
    if not sets.has_index_label:
        return None
    sets.has_index_label = False
    return setting(sets, has_index_label=True)


@fault(weight=1.0, lasts_s=(120, 220))
def pod_is_made_by_hand(world: World, rng: Random) -> Heal:
    """A user applies the copy of a departed pod, without labels; later its node is lost and it is force-deleted."""
    lost: list[Kubelet] = []

    async def act() -> None:
        ordinals = world.truth.desired(WORKLOAD)
        name = f"{WORKLOAD}-{ordinals[-1]}" if len(ordinals) > 1 else ""
        original = world.server.get(PODS, NAMESPACE, name)
        if original is None:
            return
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))
        await asyncio.sleep(rng.uniform(20, 35))
        attempt(lambda: world.users.create(PODS, copy_without_labels(original)))
        await asyncio.sleep(rng.uniform(15, 40))
        node = world.kubernetes.node_of(NAMESPACE, name)
        if node is not None and rng.random() < 0.7:
            node.cut()
            lost.append(node)
        attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0 if lost else None))

    world.loop.spawn(act(), name="pod by hand")

    return each(Kubelet.heal, lost)


def copy_without_labels(pod: Json) -> Json:
    """Write a pod as a user copies it: its annotations and spec stay, labels and owner do not."""
    kept = {key: pod["metadata"][key] for key in ("namespace", "name", "annotations") if key in pod["metadata"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec, "status": {"phase": "Pending"}}
