"""A Deployment of hundreds of pods whose slots pass on: how long each waits, and what that costs the API server.

One idea: there are no kubelets and no controllers, so what they would write is written here, a quarter of the pods at
once: replacements wait, pods end, and a note counts from the moment in which a watch shows it. The operator, the API
server and Kafka's protocol are real. Sources: the Deployment controller (25 % above and below), the kubelet's status.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from staticgroup.api import names
from staticgroup.api.rendering import AgentImage, rendered
from staticgroup.api.slot_policy import fence, slot_policy
from support.devcluster.progress import say

from .api import MERGE, ApiServer, Json, StatusWatch
from .budgets import percentile
from .exposition import requests_of, without_leases, writes_between
from .ground import STATICGROUP, Coordinator, OperatorProcess, ground
from .members import MemberConnection, form, join
from .population import (
    AT,
    ENDED,
    GRACE_S,
    PODS_PER_NODE,
    RUNNING,
    Fleet,
    Group,
    at_once,
    connection,
    node,
    static_group,
)

HASH = "5d8f7c9b6"
WAITER = AgentImage(name="registry.example/staticgroup/slot-waiter:1")
QUIET_S = 40.0
"""A quiet group is asked for every 30 s, and says only then that its rebalance is over."""
IDLE_S = 60.0
PATIENCE_S = 120.0
LANES = 50
BUDGETS = {
    "certificate_to_note_p99_s": 1.0, "idle_writes": 0.0, "notes_per_waiting_pod_per_s": 0.1,
    "slots_given_too_early": 0.0, "slots_not_passed_on": 0.0, "leaves": 0.0,
}  # fmt: skip
"""The most that each figure may be."""


@dataclass(slots=True)
class NoteWatch:
    """Follow the notes of all pods.

    Attributes
    ----------
    given: slot of each pod by uid, and the monotonic second at which the watch showed it first. count: of all notes.
    """

    api: ApiServer
    path: str
    annotation: str
    given: dict[str, tuple[str, float]] = field(default_factory=dict)
    count: int = 0
    _last: dict[str, str] = field(default_factory=dict)

    async def run(self, resource_version: str) -> None:
        """Follow until cancelled; the API server ends a watch whose events are not read as fast as they come."""
        while True:
            async for event in self.api.watch(self.path, resource_version):
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of notes broke: {event['object']}")
                resource_version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._take(event["object"]["metadata"])

    def _take(self, metadata: Json) -> None:
        note = metadata.get("annotations", {}).get(self.annotation, "")
        if not note or self._last.get(metadata["uid"]) == note:
            return
        self._last[metadata["uid"]] = note
        self.count += 1
        _, verb, slot, *_ = note.split()
        if verb == "has":
            self.given.setdefault(metadata["uid"], (slot, time.monotonic()))


@dataclass(slots=True)
class Deployment:
    """One Deployment, whose pods begin and end as they are bidden.

    Attributes
    ----------
    pods: uid of each pod that is there, by name. made: how many there were.
    """

    fleet: Fleet
    group: Group
    port: int
    watch: NoteWatch
    pods: dict[str, str] = field(default_factory=dict)
    made: int = 0

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.group.namespace}/pods"

    async def report(self, replicas: int, updated: int) -> None:
        """Write the status of the Deployment, as its controller does."""
        count = len(self.pods)
        status = {"replicas": count, "readyReplicas": replicas, "updatedReplicas": updated, "observedGeneration": 1}
        path = f"/apis/apps/v1/namespaces/{self.group.namespace}/deployments/{self.group.name}/status"
        await self.fleet.api.call("PATCH", path, {"status": status}, content=MERGE, manager="kube-controller-manager")

    async def begin(self, count: int) -> list[str]:
        """Make pods whose waiters run; returns their names."""
        new = [f"{self.group.name}-{HASH}-{number:05d}" for number in range(self.made, self.made + count)]
        self.made += count
        await at_once(new, self._begin, lanes=LANES)
        return new

    async def _begin(self, name: str) -> None:
        made = await self.fleet.api.call("POST", self.pods_path, self._pod(name), manager="kube-controller-manager")
        self.pods[name] = made["metadata"]["uid"]
        waiter = {"name": made["spec"]["initContainers"][-1]["name"], "state": {"running": {"startedAt": AT}}}
        entry = {"image": WAITER.name, "imageID": "sha256:2", "ready": False, "restartCount": 0, **waiter}
        entry |= {"containerID": f"containerd://{name}-waiter"}
        app = {**RUNNING["status"]["containerStatuses"][0], "ready": False, "started": False, "containerID": ""}
        app |= {"state": {"waiting": {"reason": "PodInitializing"}}}
        await self._kubelet_says(
            name, {"phase": "Pending", "initContainerStatuses": [entry], "containerStatuses": [app], "startTime": AT}
        )

    async def run(self, pods: Sequence[str], *, is_first: bool = False) -> None:
        """Let the processes of pods start that have a slot, and join under its id.

        Parameters
        ----------
        is_first: nobody has its id yet, so all join in one rebalance.
        """
        await at_once(pods, self._run, lanes=LANES)
        ids = [self.instance_id(name) for name in pods]
        if is_first:
            await form(self.port, [(self.group.name, ids)], lanes=1)
            return
        connection = MemberConnection(self.port)
        for instance_id in ids:
            await join(connection, self.group.name, instance_id)
        connection.close()

    async def _run(self, name: str) -> None:
        done = {"exitCode": 0, "reason": "Completed", "startedAt": AT, "finishedAt": AT}
        ended = {"running": None, "terminated": done | {"containerID": f"containerd://{name}-waiter"}}
        waiter = {"name": f"{names.SLOT_NAME}-{self._injected['scope']}", "state": ended, "ready": True}
        entry = {"image": WAITER.name, "imageID": "sha256:2", "restartCount": 0, **waiter}
        entry |= {"containerID": f"containerd://{name}-waiter"}
        app = {**RUNNING["status"]["containerStatuses"][0], "containerID": f"containerd://{name}"}
        await self._kubelet_says(
            name, RUNNING["status"] | {"initContainerStatuses": [entry], "containerStatuses": [app]}
        )

    def instance_id(self, name: str) -> str:
        """Return the id that the slot of a pod gives."""
        made: str = self._injected["idTemplate"].replace("{podName}", self.watch.given[self.pods[name]][0])
        return made

    async def delete(self, name: str) -> None:
        """Ask for the end of a pod, as a ReplicaSet does."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": GRACE_S}
        await self.fleet.api.call("DELETE", f"{self.pods_path}/{name}", body)

    async def end(self, name: str) -> float:
        """Let the kubelet say that a pod has ended; returns when that was accepted, monotonic seconds."""
        entry = ENDED["status"]["containerStatuses"][0]
        state = {"running": None, "terminated": entry["state"]["terminated"] | {"containerID": f"containerd://{name}"}}
        entry = entry | {"containerID": f"containerd://{name}", "state": state}
        await self._kubelet_says(name, ENDED["status"] | {"containerStatuses": [entry]})
        return time.monotonic()

    async def remove(self, name: str) -> None:
        """Let the kubelet remove the object of a pod that has ended."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        body |= {"preconditions": {"uid": self.pods.pop(name)}}
        await self.fleet.api.call("DELETE", f"{self.pods_path}/{name}", body)

    @property
    def _injected(self) -> Json:
        assert self.group.injected is not None
        return self.group.injected

    def _pod(self, name: str) -> Json:
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{self.group.name}-{HASH}", "controller": True,
            "uid": "00000000-0000-4000-8000-000000000001",
        }  # fmt: skip
        labels = {"app": self.group.name, "pod-template-hash": HASH}
        spec = {
            "nodeName": f"node-{self.made % self.fleet.node_count:04d}", "terminationGracePeriodSeconds": GRACE_S,
            "containers": [{"name": "app", "image": "registry.example/shop/orders:1.4.2"}],
        }  # fmt: skip
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        return rendered(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
            self._injected, AgentImage(), WAITER,
        )  # fmt: skip

    async def _kubelet_says(self, name: str, status: Json) -> None:
        path = f"{self.pods_path}/{name}/status"
        await self.fleet.api.call("PATCH", path, {"status": status}, content=MERGE, manager="kubelet")


async def played(pod_count: int, operator: OperatorProcess, coordinator: Coordinator) -> dict[str, float]:
    """Let a Deployment grow and roll once; returns the figures.

    Parameters
    ----------
    pod_count: of which a quarter ends at once, while a quarter and as many again wait.
    """
    async with ApiServer.connected(operator.ground.client) as api, asyncio.TaskGroup() as tasks:
        group = Group(number=0, namespaces=1, replicas=pod_count)
        fleet = Fleet(api=api, groups=[group], node_count=-(-pod_count // PODS_PER_NODE))
        statuses = StatusWatch(api)
        await _make(fleet, coordinator.port)
        following = [tasks.create_task(statuses.run())]
        operator.start()
        await _until(operator, lambda: bool((s := statuses.seen.get(group.key)) and s.injected), "ids are issued")
        group.injected = statuses.seen[group.key].injected
        annotation = f"{names.SLOT_ANNOTATION}-{(group.injected or {})['scope']}"
        watch = NoteWatch(api, f"/api/v1/namespaces/{group.namespace}/pods", annotation)
        listed = await api.call("GET", watch.path)
        following.append(tasks.create_task(watch.run(listed["metadata"]["resourceVersion"])))
        game = Deployment(fleet, group, coordinator.port, watch)
        figures = await _rolled(game, operator, coordinator, statuses)
        for task in following:
            task.cancel()
        return figures


async def _make(fleet: Fleet, port: int) -> None:
    """Write everything but the pods; the policies stay unbound, as pods are made as they would make them."""
    (group,) = fleet.groups
    await fleet.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": group.namespace}})
    await at_once(range(fleet.node_count), lambda n: fleet.api.call("POST", "/api/v1/nodes", node(n)))
    policies = "/apis/admissionregistration.k8s.io/v1"
    await fleet.api.call("POST", f"{policies}/mutatingadmissionpolicies", slot_policy(image=WAITER.name))
    await fleet.api.call("POST", f"{policies}/validatingadmissionpolicies", fence())
    labels = {"app": group.name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    spec = {"replicas": group.replicas, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": group.name}, "spec": spec}
    await fleet.api.call("POST", f"/apis/apps/v1/namespaces/{group.namespace}/deployments", body)
    static = static_group(group)
    static["spec"]["workloadRef"] |= {"kind": "Deployment"}
    own = f"/apis/{names.API_VERSION}/namespaces/{group.namespace}"
    await fleet.api.call("POST", f"{own}/kafkaconnections", connection(port))
    await fleet.api.call("POST", f"{own}/staticgroups", static)


async def _rolled(
    game: Deployment, operator: OperatorProcess, coordinator: Coordinator, statuses: StatusWatch
) -> dict[str, float]:
    api, watch, total = game.fleet.api, game.watch, game.group.replicas
    figures: dict[str, float] = {}

    # Step 1: all pods come at once, and nobody had a slot before.
    began_s = time.monotonic()
    first = await game.begin(total)
    await game.report(0, total)
    made_s = time.monotonic()
    await _until(operator, lambda: len(watch.given) == total, f"{total} pods have a slot")
    figures["first_slots_s"] = max(at_s for _, at_s in watch.given.values()) - began_s
    say(f"   … {total} pods made in {made_s - began_s:.1f} s, all have a slot after {figures['first_slots_s']:.1f} s")
    await game.run(first, is_first=True)
    await game.report(total, total)
    joined = lambda: statuses.seen[game.group.key].joined == total  # noqa: E731
    await _until(operator, joined, f"{total} members seen")

    # Step 2: nothing happens.
    await statuses.quiet(QUIET_S, deadline_s=240)
    before, notes = requests_of(await api.text("/metrics")), watch.count
    await asyncio.sleep(IDLE_S)
    writes = writes_between(before, requests_of(await api.text("/metrics")))
    say(f"   … left alone for {IDLE_S:.0f} s: {dict(writes)}, {watch.count - notes} notes")
    figures["idle_writes"] = without_leases(writes)

    # Step 3: as many as may be there beside those that are wanted wait while nobody ends.
    quarter = total // 4
    new = await game.begin(quarter)
    await game.report(total, quarter)
    await asyncio.sleep(5)
    notes, given = watch.count, len(watch.given)
    await asyncio.sleep(IDLE_S)
    figures["notes_per_waiting_pod_per_s"] = (watch.count - notes) / quarter / IDLE_S
    figures["slots_given_too_early"] = len(watch.given) - given

    # Step 4: a quarter ends at once, and as many more come, until all are replaced.
    waits: list[float] = []
    while first:
        leaving, first = first[:quarter], first[quarter:]
        waits += await _passed_on(game, operator, leaving, new)
        say(f"   … {len(waits)} slots passed on, the last within {max(waits[-len(leaving) :]):.2f} s")
        new = [name for name in new if game.pods[name] not in watch.given]
    figures |= {f"certificate_to_note_p{s}_s": percentile(waits, s / 100) or math.inf for s in (50, 99)}
    figures["slots_not_passed_on"] = total - len(waits)
    figures["leaves"] = coordinator.figures()["leave_requests"]
    return figures


async def _passed_on(game: Deployment, operator: OperatorProcess, leaving: list[str], new: list[str]) -> list[float]:
    """Replace pods; returns how long after its end was accepted each slot was seen with another pod, seconds.

    Parameters
    ----------
    new: pods that wait; more are added.
    """
    watch, total = game.watch, game.group.replicas
    before, ended_s = set(watch.given), dict[str, float]()
    await at_once(leaving, game.delete, lanes=LANES)
    new += await game.begin(min(len(leaving), 2 * total - game.made))
    await game.report(total, game.made - total)

    async def end(name: str) -> None:
        ended_s[watch.given[game.pods[name]][0]] = await game.end(name)

    await at_once(leaving, end, lanes=LANES)
    await _until(operator, lambda: len(watch.given) >= len(before) + len(leaving), "slots passed on")
    await at_once(leaving, game.remove, lanes=LANES)
    await game.run([name for name in new if game.pods[name] in watch.given])
    passed = {slot: at_s for uid, (slot, at_s) in watch.given.items() if uid not in before}
    return [max(0.0, passed[slot] - at_s) for slot, at_s in ended_s.items() if slot in passed]


async def _until(operator: OperatorProcess, holds: Callable[[], bool], what: str) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not holds():
        operator.must_live()
        if time.monotonic() > ends_s:
            raise TimeoutError(f"not after {PATIENCE_S:.0f} s: {what}")
        await asyncio.sleep(0.05)


def main() -> int:
    """Measure once; returns 1 where a budget was not kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale.slots", description=__doc__)
    parser.add_argument("--pods", type=int, default=200, metavar="N", help="of the Deployment (default %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sg-slots-") as folder, ground(Path(folder)) as stage:
        coordinator = Coordinator()
        environment = {"STATICGROUP_DEPLOYMENTS": "true"}
        operator = OperatorProcess(subject=STATICGROUP, ground=stage, environment=environment)
        try:
            figures = asyncio.run(played(options.pods, operator, coordinator))
        finally:
            operator.stop()
            coordinator.stop()
    for name, value in figures.items():
        most = BUDGETS.get(name)
        bound = "" if most is None else f"  (budget {most:g}{'' if value <= most else ', NOT KEPT'})"
        print(f"{name:30} {value:.4g}{bound}")
    return int(any(figures[name] > most for name, most in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
