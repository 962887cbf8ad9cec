"""What an operator of commit 12a30ef left in the middle of a scale-down is read, gone on from, and written in today's form.

The Lease and the StaticGroup were recorded from a running operator. With both images at hand `tests/e2e/test_upgrade.py` shows
the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.status.checkpoints import digest_of
from staticgroup.core.status.memory import history_from, ledger_from
from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.transport import connect
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import OWNED_BY_US
from unit.core.builders import NODE, workload

from .operator_world import OperatorWorld, guards
from .stories import left

RECORDED = Path(__file__).with_name("recorded_12a30ef.yaml")
LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")
STAYING, TOLD_TO_END = (0, 1), (2, 3, 4, 5)
ENDED, REMOVED = 6, 7
SESSION_MS = 240_000


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the Lease and the StaticGroup."""
    lease, group = yaml.safe_load_all(RECORDED.read_text())
    return lease, group


@pytest.fixture
async def continuity() -> AsyncIterator[Continuity | None]:
    """What today's operator reads from the recorded Lease."""
    async with FakeApiServer().serving() as server:
        transport = connect(server.configuration())
        lease = ActiveLease(
            transport, LeaseSettings(namespace="ops"), identity="a", continuity=lambda: None, clock_s=lambda: 1000.0,
            now_s=lambda: 1_800_000_000.0,
        )  # fmt: skip
        await lease.attempt()
        server.objects[LEASE]["metadata"]["annotations"] = recorded()[0]["metadata"]["annotations"]
        yield await lease.read_continuity()
        await transport.close()


async def test_position_and_history_of_before_are_believed(continuity: Continuity | None) -> None:
    """So the watch goes on in their epoch, and no seat is blind."""
    _, group = recorded()
    status = StaticGroupStatus.from_wire(group["status"])
    known = history_from(status, group["metadata"]["uid"])
    assert continuity is not None
    assert known.continuity is not None
    assert digest_of(status) == group["status"]["continuity"]["digest"]
    assert (continuity.epoch, continuity.timeline) == (known.continuity.epoch, known.continuity.timeline)
    assert continuity.resource_versions == {"": 6240}
    assert (known.continuity.blind, known.issued_ordinals.text) == ((), "0-7")
    assert known.injected is not None
    assert (known.injected.session_timeout_ms, known.injected.suffix_follows_preset) == (SESSION_MS, False)
    (seven,) = known.seats.values()
    assert seven.removal is not None
    assert (seven.removal.instance_id, seven.removal.settled_at_s) == ("web-7.ef73f63c", None)


class Upgraded(OperatorWorld):
    """The recorded StaticGroup before today's operator, which goes on from the recorded position; time stands at its end."""

    def __init__(self, suffix: str = "None") -> None:
        super().__init__()
        _, group = recorded()
        known = group["status"]["continuity"]
        self.now_s = datetime.fromisoformat(known["at"]).timestamp() + 20
        self.kube.workloads["shop", "web"] = self.stores.workloads["shop", "web"] = replace(
            workload(2), uid=known["workload"]["uid"], metadata_generation=known["workload"]["generation"],
            observed_generation=known["workload"]["generation"],
        )  # fmt: skip
        group["spec"]["identity"]["suffix"] = suffix
        group["metadata"]["generation"] += suffix != "None"
        group["metadata"]["managedFields"] = [OWNED_BY_US]  # which the recording leaves out; the manager was called the same
        self.declare(group)
        self.uids = {seat["ordinal"]: seat["uid"] for seat in known["seats"]}
        self.nodes = {seat["ordinal"]: seat["nodeName"] for seat in known["seats"]}
        self.kube.resource_version = 6240
        self.pods = self._new_pods(known["watchEpoch"])
        self.pods.timeline = known["timeline"]
        self.pods.nodes.update({name: replace(NODE, name=name) for name in set(self.nodes.values())})
        self.pods.merge(ledger_from("shop", self.status, group["metadata"]["uid"], timeline=known["timeline"]))
        self.reconciler = self._new_reconciler()
        self.kafka.coordinator = group["status"]["settling"][0]["coordinator"]
        for ordinal in (*STAYING, *TOLD_TO_END):
            self.start(
                ordinal, self.uids[ordinal], node_name=self.nodes[ordinal], session_timeouts_ms=(SESSION_MS,),
                is_deleting=ordinal in TOLD_TO_END, created_at_s=self.now_s - 60,
            )  # fmt: skip
        self.kafka.join(self.id_of(ENDED))


def injection(status: StaticGroupStatus) -> dict[str, Any]:
    """Return what the next pods get; what `suffixFollowsPreset` says means nothing where the client appends nothing."""
    wire: dict[str, Any] = status.to_wire()["injected"]
    return {name: value for name, value in wire.items() if name != "suffixFollowsPreset"}


@pytest.mark.parametrize("suffix", ["None", "Auto"])
async def test_departures_begun_before_go_on_as_if_nothing_had_been(suffix: str) -> None:
    """Auto is what a manifest without the field gets when it is replaced after the upgrade."""
    world = Upgraded(suffix)
    before = world.status
    await world.settled()
    assert left(world) == [world.id_of(ENDED)], "who had ended; 7 was removed before"
    assert set(guards(world)) == {"PodStillRunning"}
    for ordinal in TOLD_TO_END:
        world.end(ordinal, world.uids[ordinal])
    await world.settled()
    assert left(world) == [world.id_of(o) for o in (*TOLD_TO_END, ENDED)]
    assert world.kafka.members.keys() == {world.id_of(o) for o in STAYING}
    assert injection(world.status) == injection(before)
    assert world.status.continuity is not None
    assert (world.status.continuity.blind, world.status.continuity.watch_epoch) == ([], "5c855a631291ca26")
    assert {s.instance_id for s in world.status.settling if s.settled_at} == {world.id_of(o) for o in (*TOLD_TO_END, ENDED, REMOVED)}
    assert world.condition("RemovalSettled")[:2] == ("True", "Removed")


async def test_timeout_of_before_is_read_and_told_in_full() -> None:
    world = Upgraded()
    before = world.status.timeout
    assert before is not None
    assert (before.effective_ms, before.effective_max_ms, before.next_ms) == (SESSION_MS, None, None)
    await world.settled()
    after = world.status.timeout
    assert after is not None
    assert (after.effective_ms, after.effective_max_ms, after.next_ms, after.unknown_pods) == (SESSION_MS, SESSION_MS, SESSION_MS, 0)
