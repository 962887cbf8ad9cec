"""An earlier version's Lease and status are no history for this one, nor this one's for it; what it calls suspect stays one.

The texts were recorded from a running operator of commit dc86fb59, which came after one of this version; its rules are
quoted by what they conclude. With both images at hand `tests/e2e/test_rollback.py` shows the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.core.status.checkpoints import sealed, wire_continuity
from staticgroup.core.status.memory import history_from, ledger_from, wire_injected, wire_issued, wire_ledger
from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.transport import Transport, connect
from support.fake_apiserver import FakeApiServer
from unit.core.builders import checkpoint, history, incarnation, injected, spec

LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")
RECORDED_LEASE = {
    "staticgroup.io/watch-continuity": '{"epoch": "2eab33a95f50b8a8", "resourceVersions": {"": 14151}}',
}
RECORDED_STATUS = """
injected:
  env:
  - {annotation: staticgroup.io/instance-id, container: '', name: KAFKA_GROUP_INSTANCE_ID}
  - {annotation: staticgroup.io/session-timeout-ms, container: '', name: KAFKA_SESSION_TIMEOUT_MS}
  idTemplate: '{podName}.93bfd34c'
  ids:
  - {annotation: staticgroup.io/instance-id, suffix: ''}
  method: Policy
  scope: 93bfd34c
  sessionTimeoutMs: 140000
  watchEpoch: 2eab33a95f50b8a8
issued: {ordinals: 0-1, templates: []}
ledger:
  incarnations:
  - evidence: 'its object vanished uncertified: phase is Running, not Succeeded or Failed'
    instanceIds: [web-1.93bfd34c]
    nodeName: sg-rb-control-plane
    podName: web-1
    resourceVersion: '14165'
    since: '2026-11-22T10:34:33Z'
    state: Suspect
    uid: 5925acde-6b84-4c5a-bc1b-cf6fa53bb3c7
  overflow: false
observedGeneration: 1
protocol: Classic
settling: []
"""
THEIR_CERTIFICATES = {"E1", "E1Prime"}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer().serving() as running:
        yield running


@pytest.fixture
async def transport(server: FakeApiServer) -> AsyncIterator[Transport]:
    made = connect(server.configuration())
    yield made
    await made.close()


def lease(transport: Transport, continuity: Continuity | None) -> ActiveLease:
    return ActiveLease(
        transport, LeaseSettings(namespace="ops"), identity="a", continuity=lambda: continuity, clock_s=lambda: 1000.0,
        now_s=lambda: 1_800_000_000.0,
    )  # fmt: skip


def epoch_they_go_on_from(annotations: dict[str, str]) -> str:
    """Return the epoch that the earlier version resumes; "" when it draws a new one, which no status can name."""
    text = annotations.get("staticgroup.io/watch-continuity")
    return str(json.loads(text)["epoch"]) if text is not None else ""


def epoch_they_began_in(status: dict[str, Any], own_epoch: str) -> str:
    """Return the epoch since which the earlier version believes to have seen all: it moves it while nothing was issued."""
    has_issued = bool((status.get("issued") or {}).get("ordinals"))
    return str(status["injected"]["watchEpoch"]) if has_issued else own_epoch


async def test_status_and_lease_of_the_earlier_version_are_read_as_no_history(
    server: FakeApiServer, transport: Transport
) -> None:
    await lease(transport, None).attempt()
    server.objects[LEASE]["metadata"]["annotations"] = RECORDED_LEASE
    assert await lease(transport, None).read_continuity() is None
    status = StaticGroupStatus.from_wire(yaml.safe_load(RECORDED_STATUS))
    known = history_from(status, "sg-1")
    assert known.continuity is None
    assert known.injected is not None, "so the beginning is known, and nothing of what was since: every seat is blind"
    assert known.issued_ordinals.text == "0-1"


def test_suspect_of_the_earlier_version_is_one_here() -> None:
    (suspect,) = ledger_from("shop", StaticGroupStatus.from_wire(yaml.safe_load(RECORDED_STATUS)), "sg-1")
    assert (suspect.pod_name, suspect.state, suspect.certificate) == ("web-1", IncarnationState.SUSPECT, None)
    assert suspect.instance_ids == {"web-1.93bfd34c"}


@pytest.mark.parametrize("theirs", [{}, RECORDED_LEASE])
async def test_status_and_lease_of_this_version_are_no_history_for_the_earlier_one(
    server: FakeApiServer, transport: Transport, theirs: dict[str, str]
) -> None:
    ours = lease(transport, Continuity(epoch="epoch-1", resource_versions={"": 42}))
    await ours.attempt()
    server.objects[LEASE]["metadata"]["annotations"] |= theirs
    await ours.attempt()
    own_epoch = epoch_they_go_on_from(server.objects[LEASE]["metadata"]["annotations"]) or "drawn-again"
    for known in (history(injected=injected(watch_epoch="epoch-1")), history(injected=injected(), issued_ordinals=Ordinals())):
        status = StaticGroupStatus(injected=wire_injected(spec(), known.injected), issued=wire_issued(known)).to_wire()
        assert own_epoch != epoch_they_began_in(status, own_epoch), "an epoch of this version is never one of theirs"


def test_ledger_of_this_version_tells_the_earlier_one_of_every_suspect() -> None:
    """A word is none to it, and a proof of a kind that it does not know would make it drop the whole StaticGroup."""
    said = Certificate(kind=CertificateKind.CONFIRMED, resource_version=9, statement="scrapped", said_by="alice")
    vanished = incarnation(1, "u1", state=IncarnationState.SUSPECT)
    confirmed = incarnation(2, "u2", state=IncarnationState.DEAD, certificate=said)
    proven = incarnation(3, "u3", state=IncarnationState.DEAD)
    status = sealed(StaticGroupStatus(
        injected=wire_injected(spec(), injected()),
        ledger=wire_ledger([vanished, confirmed, proven]),
        continuity=wire_continuity(checkpoint()),
    )).to_wire()  # fmt: skip
    entries = {e["uid"]: e for e in status["ledger"]["incarnations"]}
    assert {uid: e["state"] for uid, e in entries.items()} == {"u1": "Suspect", "u2": "Suspect", "u3": "Dead"}
    assert {e["certificate"] for e in entries.values() if e.get("certificate")} <= THEIR_CERTIFICATES
