"""The same work by a straightforward kopf operator: what one writes first, well, and no more.

It indexes pods and StatefulSets as kopf's documentation shows, computes the status of a StaticGroup when anything of it
changes, asks the group every 30 s, and removes a member when its ordinal is not wanted and its pod is gone. It takes a
pod that is gone for a process that is dead, remembers nothing over a restart and has no Lease; it asks Kafka by the
operator's own client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, ApiException, Configuration, CustomObjectsApi

from staticgroup.core.group import GroupView, LeaveEntry
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings

GROUP, VERSION, PLURAL = "staticgroup.io", "v1alpha1", "staticgroups"
POD_INDEX, INSTANCE_ID = "apps.kubernetes.io/pod-index", "staticgroup.io/instance-id"
POLL_S = 30.0
Key = tuple[str, str]


@kopf.on.startup()
async def begin(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Make the clients."""
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    configuration = Configuration()
    await config.load_kube_config(client_configuration=configuration)
    memo.objects = CustomObjectsApi(ApiClient(configuration))
    memo.kafka = KioGateway(rng=random.SystemRandom())
    memo.locks = {}


@kopf.index("pods", labels={POD_INDEX: kopf.PRESENT})
async def pods(namespace: str, name: str, meta: Mapping[str, Any], status: Mapping[str, Any], **_: Any) -> Any:
    """Index the pods of each StatefulSet: name to instance id and phase."""
    owner = next((o["name"] for o in meta.get("ownerReferences", ()) if o.get("controller")), "")
    return {(namespace, owner): (name, meta.get("annotations", {}).get(INSTANCE_ID, ""), status.get("phase", ""))}


@kopf.index("statefulsets")
async def replicas(namespace: str, name: str, spec: Mapping[str, Any], **_: Any) -> Any:
    """Index how many pods each StatefulSet wants."""
    return {(namespace, name): spec.get("replicas", 1)}


@kopf.index(PLURAL)
async def groups(
    namespace: str, name: str, spec: Mapping[str, Any], meta: Mapping[str, Any], status: Mapping[str, Any], **_: Any
) -> Any:
    """Index the StaticGroups of each StatefulSet."""
    return {(namespace, spec["workloadRef"]["name"]): (name, dict(spec), meta["generation"], dict(status))}


@kopf.index("kafkaconnections")
async def connections(namespace: str, name: str, spec: Mapping[str, Any], **_: Any) -> Any:
    """Index where Kafka is."""
    return {(namespace, name): tuple(spec["bootstrapServers"])}


@kopf.on.event("pods", labels={POD_INDEX: kopf.PRESENT})
async def pod_changed(namespace: str, meta: Mapping[str, Any], memo: kopf.Memo, **indices: Any) -> None:
    """Look at the StaticGroup of a pod."""
    owner = next((o["name"] for o in meta.get("ownerReferences", ()) if o.get("controller")), "")
    await reconcile((namespace, owner), memo, indices)


@kopf.on.event("statefulsets")
async def workload_changed(namespace: str, name: str, memo: kopf.Memo, **indices: Any) -> None:
    """Look at the StaticGroup of a StatefulSet."""
    await reconcile((namespace, name), memo, indices)


@kopf.on.event(PLURAL)
async def group_changed(namespace: str, spec: Mapping[str, Any], memo: kopf.Memo, **indices: Any) -> None:
    """Look at a StaticGroup."""
    await reconcile((namespace, spec["workloadRef"]["name"]), memo, indices)


@kopf.timer(PLURAL, interval=POLL_S, initial_delay=POLL_S)
async def poll(namespace: str, spec: Mapping[str, Any], memo: kopf.Memo, **indices: Any) -> None:
    """Check a StaticGroup now and then, because Kafka sends no events."""
    await reconcile((namespace, spec["workloadRef"]["name"]), memo, indices)


async def reconcile(key: Key, memo: kopf.Memo, indices: Mapping[str, Any]) -> None:
    """Remove departed members and write the status when it changes; one StatefulSet at a time."""
    async with memo.locks.setdefault(key, asyncio.Lock()):
        for name, spec, generation, status in list(indices["groups"].get(key, ())):
            servers = next(iter(indices["connections"].get((key[0], spec["connectionRef"]["name"]), ())), None)
            wanted = next(iter(indices["replicas"].get(key, ())), None)
            if servers is None or wanted is None:
                continue
            settings = ConnectionSettings(bootstrap_servers=servers, name=key[0], allow_loopback=True)
            described = await memo.kafka.describe(settings, spec["groupId"])
            if not isinstance(described, GroupView):
                continue
            living = {i for _, i, phase in indices["pods"].get(key, ()) if phase not in ("Succeeded", "Failed")}
            departed = [m for m in described.members if m.instance_id and _ordinal(m.instance_id) >= wanted]
            dead = [
                LeaveEntry(member_id=m.member_id, instance_id=m.instance_id)
                for m in departed
                if m.instance_id not in living
            ]
            if dead:
                await memo.kafka.leave(settings, spec["groupId"], dead)
            fields = {
                "observedGeneration": generation,
                "members": {
                    "expected": wanted, "joined": len(described.members) - len(departed),
                    "departed": len(departed) - len(dead),
                },
            }  # fmt: skip
            if any(status.get(field) != value for field, value in fields.items()):
                await _write(memo.objects, key[0], name, fields)


def _ordinal(instance_id: str) -> int:
    return int(instance_id.rpartition(".")[0].rpartition("-")[2])


async def _write(objects: CustomObjectsApi, namespace: str, name: str, status: dict[str, Any]) -> None:
    try:
        await objects.patch_namespaced_custom_object_status(
            GROUP, VERSION, namespace, PLURAL, name, {"status": status}, _content_type="application/merge-patch+json"
        )
    except ApiException as error:
        if error.status != 404:
            raise


if __name__ == "__main__":
    kopf.run(clusterwide=True)
