"""The ground of a drill: two kubelets, one of which fails, and the operator beside it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from support.devcluster.kafka_log import now_ms
from support.devcluster.node import Node
from support.drills.api import Api
from support.drills.cases import Case, start
from support.drills.lives import PodLives
from support.drills.troubles import OUT_OF_SERVICE, Evidence, register_again, repair, set_taint
from support.scene.operators import kill
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.waiting import holds, until

AT_ONCE = 4
LOOKED_S = 6.0
"""How long a member is observed to stay; a removal comes within 3 s of the proof that permits it."""


@dataclass(slots=True, kw_only=True)
class Ground:
    """What all drills of one cluster share."""

    stage: Stage
    node: Node
    lives: PodLives

    @property
    def api(self) -> Api:
        """The API server."""
        return Api(cluster=self.stage.cluster)

    # the operator -------------------------------------------------------------------------------------------------

    def prepare(self, evidence: Evidence, *, replicas: int = 2) -> None:
        """Have the operator conclude what a drill says, from a node that is what it says."""
        self.mend()
        if self.provider_id() != evidence.provider_id:
            self.identify(evidence.provider_id)
        self.stage.install(**evidence.values(self.node, replicas))
        until(lambda: len(self.operators()) == replicas, deadline_s=180, what=f"{replicas} replicas", poll_s=0.5)
        self.active(since_ms=now_ms())

    def provider_id(self) -> str:
        """Return what the Node says of the machine that it stands for."""
        found: str = self.api.get("Node", self.node.name)["spec"].get("providerID", "")
        return found

    def identify(self, provider_id: str) -> None:
        """Set the Node's providerID, as a cloud does once; another value needs another Node."""
        if self.provider_id():
            self.api.delete("Node", self.node.name)
            register_again(self.node)
        if provider_id:
            self.api.patch("Node", self.node.name, "", {"spec": {"providerID": provider_id}})

    def operators(self) -> dict[str, list[int]]:
        """Return the processes of each replica that has not ended and is not ending, by the name of its pod."""
        # Over a restore of etcd objects of replicas that have ended stay.
        pods = [
            p["metadata"]
            for p in self.api.items("Pod", SYSTEM)
            if p.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        named = {m["name"]: m["uid"] for m in pods if m.get("labels", {}).get("app.kubernetes.io/name") == "staticgroup"
                 and "deletionTimestamp" not in m}  # fmt: skip
        return {name: self.stage.cluster.pod_processes(uid) for name, uid in named.items()}

    def active(self, *, since_ms: int) -> list[int]:
        """Return the processes of the replica that has renewed the Lease since then, when one has."""

        def found() -> list[int] | None:
            spec = self.api.get("Lease", f"{RELEASE}-operator", SYSTEM).get("spec", {})
            renewed = datetime.fromisoformat(spec.get("renewTime", "1970-01-01T00:00:00.000000Z"))
            is_recent = renewed.timestamp() * 1000 > since_ms
            return self.operators().get(spec.get("holderIdentity", "")) if is_recent else None

        return until(found, deadline_s=120, what="an active replica", poll_s=0.3)

    def kill_operator(self, *, all_replicas: bool = False) -> float:
        """Kill the replica that acts, or all; returns the seconds until a replica acts again."""
        active = self.active(since_ms=0)
        killed_ms = kill([pid for each in self.operators().values() for pid in each] if all_replicas else active)
        self.active(since_ms=killed_ms)
        return round((now_ms() - killed_ms) / 1000, 1)

    # drills -------------------------------------------------------------------------------------------------------

    def start(self, cases: Sequence[Case]) -> None:
        """Start the consumers of drills, and follow their processes."""
        start(self.node, cases, self.lives)

    def perform(self, cases: Sequence[Case]) -> None:
        """Let the objects of all drills go, some drills at a time."""
        with ThreadPoolExecutor(AT_ONCE) as workers:
            for done in [workers.submit(c.perform) for c in cases]:
                done.result()

    def hold(self, cases: Sequence[Case], *, alive: bool = True) -> None:
        """Look for a while whether every member stays, and every process with it; the status must say why."""
        until(
            lambda: all(c.is_reported() for c in cases), deadline_s=120,
            what=f"{[c.act.name for c in cases]} reported as held", poll_s=0.5,
        )  # fmt: skip

        def untouched() -> bool:
            lives = [self.lives.is_alive(u) for c in cases for u in c.gone_uids]
            return all(lives) is alive and not any(c.removed_at_ms() for c in cases)

        holds(untouched, for_s=LOOKED_S, what="departed members stay")

    def await_removed(self, cases: Sequence[Case], deadline_s: float) -> None:
        """Wait until every departed member is removed, by the brokers' log."""
        for case in cases:
            try:
                until(
                    lambda case=case: case.removed_at_ms().keys() == set(case.ordinals),  # type: ignore[misc]
                    deadline_s=deadline_s, what=f"{case.name} removed, which was {case.act.value}", poll_s=0.3,
                )  # fmt: skip
            except AssertionError as error:
                raise AssertionError(
                    f"{error}; the status says {[r['message'] for r in case.status().get('exceptions', [])]}"
                ) from error

    def await_settled(self, cases: Sequence[Case], deadline_s: float = 60) -> None:
        """Wait until every departed member is removed, or the status says that it waits."""
        until(
            lambda: all(c.is_reported() for c in cases), deadline_s=deadline_s,
            what="members removed or reported as held", poll_s=0.5,
        )  # fmt: skip

    def await_ended(self, cases: Sequence[Case]) -> None:
        """Wait until no process of the pods that went lives, by the process table."""
        until(
            lambda: not any(self.lives.is_alive(u) for c in cases for u in c.gone_uids), deadline_s=90,
            what="zombies ended", poll_s=0.5,
        )  # fmt: skip

    def judge(self, cases: Sequence[Case]) -> None:
        """Assert what holds of every drill: no live member was removed, and no session ran out meanwhile."""
        for case in cases:
            assert self.lives.accusations(case.game.events()) == []
            assert case.expired() == [], f"{case.name}: members may leave only by a removal, or the drill shows nothing"
            others = case.removals().keys() - set(case.ordinals)
            assert others == set(), f"{case.name}: only departed members may be removed"

    def mend(self) -> None:
        """Have the node there and at work again, whatever a drill has left."""
        found = self.api.get("Node", self.node.name)
        if not found:
            register_again(self.node)
            return
        repair(self.node)
        if any(t["key"] == OUT_OF_SERVICE["key"] for t in found["spec"].get("taints", [])):
            set_taint(self.node, self.api, is_set=False)
