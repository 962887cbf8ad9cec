"""One group with an operator of its own, which sees the world through proxies."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.devcluster.apiserver_client import write_private_json
from support.devcluster.kafka_log import GroupLog
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.fault_proxy.kafka_relay import KafkaFault, KafkaRelay
from support.fault_proxy.kube_front import FrontFault, KubeFront
from support.fault_proxy.loop_thread import LoopThread
from support.fault_proxy.tripwire import Tripwire
from support.faults.process import OperatorProcess
from support.scene.play import GROUP, Play, play
from support.scene.stage import Stage
from support.scene.witnesses import is_operators
from support.waiting import until

Fault = FrontFault | KafkaFault
REQUEST_TIMEOUT_S = 3
SESSION_S = 60
"""Longer than any fault here, so that a session that runs out says that the operator did not do it."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """Everything of one fault."""

    play: Play
    operator: OperatorProcess
    front: KubeFront
    relay: KafkaRelay
    wire: Tripwire
    loop: LoopThread
    log: GroupLog

    def begin(self, fault: Fault) -> None:
        """Switch a fault on; in the loop of the proxies only."""
        if isinstance(fault, KafkaFault):
            self.relay.begin(fault)
        else:
            self.front.begin(fault)

    def begin_now(self, fault: Fault) -> None:
        """Switch a fault on."""

        async def switch() -> None:
            self.begin(fault)

        self.loop.run(switch())

    def end(self) -> None:
        """Switch all faults off."""
        self.wire.disarm()
        self.loop.run(self.front.end())
        self.loop.run(self.relay.end())

    def renew(self, replicas: int) -> None:
        """Start the operator again, with connections of its own, and wait until it knows of so many members."""
        self.operator.stop()
        self.operator.start()
        until(
            self.operator.is_ready, deadline_s=90, what=f"the operator of {self.play.name} is ready again", poll_s=0.5
        )
        until(lambda: self.is_settled(replicas), deadline_s=90, what=f"{self.play.name} is settled again", poll_s=0.5)

    def status(self) -> dict[str, Any]:
        """Return the StaticGroup's status, past the proxies."""
        name = self.play.name
        found = self.play.stage.cluster.client.request("GET", f"/apis/{GROUP}/namespaces/{name}/staticgroups/{name}")
        return (found or {}).get("status", {})

    def end_of(self, member_id: str) -> GroupEvent | None:
        """Return the broker's line about the end of a member, by the operator or by its session."""
        kinds = (GroupEventKind.REMOVED, GroupEventKind.SESSION_EXPIRED)
        events = self.log.events(self.play.name, since_ms=self.play.since_ms)
        return next((e for e in events if e.member_id == member_id and e.kind in kinds), None)

    def is_settled(self, replicas: int) -> bool:
        """Return whether the status shows so many replicas, all members, none departed, all conditions good."""
        status = self.status()
        members = status.get("members", {})
        ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
        counts = (members.get("expected"), members.get("joined"), members.get("departed", 0))
        return counts == (replicas, replicas, 0) and ready.get("status") == "True"

    def troubles(self) -> list[str]:
        """Return the reasons of all conditions that are not True now."""
        conditions = self.status().get("conditions", [])
        return [f"{c['type']}: {c['reason']}" for c in conditions if c["status"] != "True"]


def removed_by(event: GroupEvent | None) -> str:
    """Return what ended a member."""
    if event is None:
        return "nobody"
    return "operator" if is_operators(event) else "session"


@contextmanager
def lane(stage: Stage, name: str, folder: Path, *, replicas: int) -> Iterator[Lane]:
    """Open a lane with so many members, and take everything away afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    with play(stage, name, partitions=replicas) as opened:
        opened_lane = _proxies(opened, folder)
        try:
            stage.apply(
                opened.connection(
                    bootstrapServers=[opened_lane.relay.address], requestTimeoutSeconds=REQUEST_TIMEOUT_S
                )
            )
            opened_lane.operator.start()
            until(opened_lane.operator.is_ready, deadline_s=90, what=f"the operator of {name} is ready", poll_s=0.5)
            opened.start(
                replicas, static={"sessionTimeout": {"seconds": SESSION_S}}, grace_s=3,
                podManagementPolicy="Parallel",
            )  # fmt: skip
            until(lambda: opened_lane.is_settled(replicas), deadline_s=90, what=f"{name} is settled", poll_s=0.5)
            yield opened_lane
        finally:
            opened_lane.operator.stop()
            opened_lane.loop.run(opened_lane.front.close())
            opened_lane.loop.run(opened_lane.relay.close())
            opened_lane.loop.stop()


def _proxies(play: Play, folder: Path) -> Lane:
    """Open the proxies of a play and make an operator that knows only them."""
    client, brokers = play.stage.cluster.client, play.brokers
    loop, wire = LoopThread().start(), Tripwire()
    trust = ssl.create_default_context(cafile=str(client.ca_file))
    front = KubeFront(client.url, folder / "tls", trust=trust, tripwire=wire)
    relay = KafkaRelay(brokers.state.settings.bind, brokers.address(brokers.nodes[0]), wire)
    loop.run(front.open())
    loop.run(relay.open())
    kubeconfig = folder / "kubeconfig"
    write_private_json(kubeconfig, replace(client, url=front.url, ca_file=front.ca_file).kubeconfig("faults"))
    operator = OperatorProcess(namespace=play.name, kubeconfig=kubeconfig, folder=folder)
    return Lane(
        play=play, operator=operator, front=front, relay=relay, wire=wire, loop=loop, log=brokers.group_log
    )  # fmt: skip
