"""From what a node shows to the removal: who is looked at, what is closed by it, how it is told, and what survives a restart."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from staticgroup.api.ordinals import Ordinals
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.continuity import Checkpoint
from staticgroup.core.evidence.nodes import NodeLifecycle, NodeRules
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.evidence.spans import BlindSpan, SpanReason
from staticgroup.core.snapshot import History
from staticgroup.kube.nodes.ledger import NodeLedger
from staticgroup.kube.nodes.looks import NodeLooks
from staticgroup.kube.nodes.records import NodeRecords
from staticgroup.kube.transport import connect
from staticgroup.runtime.nodes.evidence import NodeEvidence
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.fake_pods import FakePods
from unit.core.builders import NOW_S, pod_version
from unit.kube.nodes.test_node_records import raw
from unit.kube.raw_objects import pod

from .operator_world import KEY, OperatorWorld, guards, static_group
from .test_words import audited, lost

REAPED = Certificate(kind=CertificateKind.REAPED, resource_version=1, statement="node n1 worked on")
SPAN = BlindSpan(ordinals=Ordinals.of(range(2, 5)), since_s=NOW_S - 100, until_s=NOW_S - 50, reason=SpanReason.WATCH_GAP.value)
RUNNING_PODS = "/api/v1/nodes/n1/proxy/runningpods/"
LATER = {"metadata": {"namespace": "shop", "name": "web-1", "uid": "later"}}
"""A pod that runs on the node, by which its runtime's list is known."""


# what a certificate does ------------------------------------------------------------------------------------------


async def test_the_member_of_a_suspect_that_its_node_closed_is_removed_and_all_of_it_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await lost()
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        assert world.pods.close("u2", REAPED)
        await world.settled(4)
    assert [i for _, i in world.left] == [world.id_of(2)]
    (line,) = audited(caplog, "suspect closed by its node")
    assert (line["pod"], line["node"], line["certificate"], line["evidence"]) == ("web-2", "n1", "E3", "node n1 worked on")
    (removal,) = audited(caplog, "member removal")
    assert "uid u2 E3 (node n1 worked on)" in removal["evidence"]
    (event,) = [e for e in world.kube.events if e[1] == "SuspectClosedByNode"]
    assert "pod web-2 uid u2 on node n1 counts as ended (E3)" in event[2]
    assert world.status.last_removal is None
    assert world.status.last_confirmed_removal is None
    told = world.status.last_node_removal
    assert told is not None
    assert (told.certificate, told.evidence, told.instance_id) == ("E3", "node n1 worked on", world.id_of(2))


async def test_what_a_node_proved_holds_after_a_restart_and_is_not_told_again() -> None:
    world = await lost()
    world.declare(static_group(generation=2, removal={"policy": "Never"}))
    world.pods.close("u2", REAPED)
    await world.settled(2)
    assert world.left == []
    assert world.status.ledger is not None
    (entry,) = [e for e in world.status.ledger.incarnations if e.uid == "u2"]
    assert (entry.state, entry.certificate, entry.node_certificate) == ("Suspect", None, "E3")
    world.restart()
    world.declare(static_group(generation=3))
    await world.settled(4)
    assert [i for _, i in world.left] == [world.id_of(2)]
    assert [reason for _, reason, _ in world.kube.events].count("SuspectClosedByNode") == 1


async def test_a_pod_that_comes_back_before_its_removal_keeps_its_member() -> None:
    world = await lost()
    world.pods.close("u2", REAPED)
    world.start(2, "u2", joins=False)
    await world.settled(4)
    assert world.left == []
    world.remove_object(2)
    await world.settled(4)
    assert world.left == []
    assert guards(world) == ["DeathNotProven"]


async def test_what_is_owed_stands_in_the_status_and_what_reaping_needs_survives_a_restart() -> None:
    world = await OperatorWorld().started()
    world.start(2, "u2", joins=False, grace_s=30)
    world.scale(2)
    world.remove_object(2)
    world.pods.owe("u2", "node n1 has to become Ready (since today)")
    await world.settled(2)
    assert world.status.ledger is not None
    (entry,) = [e for e in world.status.ledger.incarnations if e.uid == "u2"]
    assert (entry.grace_seconds, entry.owed) == (30, "node n1 has to become Ready (since today)")
    assert any("has to become Ready" in e.message for e in world.status.exceptions)
    before = world.pods.get("u2")
    world.restart(epoch="later")
    after = world.pods.get("u2")
    assert before is not None
    assert after is not None
    kept = ("grace_s", "reap_doubt", "created_at_s", "owed", "since_s", "node_name")
    assert [getattr(after, k) for k in kept] == [getattr(before, k) for k in kept]


# who is looked at, and when ---------------------------------------------------------------------------------------


@dataclass
class Scene:
    """One process that watches over nodes: real looks and records over HTTP, the real book, a clock that the test moves."""

    server: FakeApiServer
    pods: FakePods
    ledger: NodeLedger
    evidence: NodeEvidence
    clock: Clock
    groups: dict[Any, Any]
    memories: dict[Any, Any]
    looked_again: list[Any]

    def renew(self) -> None:
        lease = {"metadata": {"namespace": "kube-node-lease", "name": "n1"}, "spec": {"renewTime": f"at {self.clock.now_s}"}}
        self.server.put(lease, "leases.coordination.k8s.io")

    async def pass_s(self, seconds: float) -> None:
        """Let time pass in which the kubelet renews its Lease and the operator goes round."""
        until_s = self.clock.now_s + seconds
        while self.clock.now_s < until_s:
            self.clock.now_s += 5.0
            self.renew()
            await self.evidence.tick()

    def vanish(self, uid: str = "u2", **changes: Any) -> None:
        values = {"created_at_s": NOW_S - 600, "grace_s": 30} | changes
        version = pod_version(2, uid, self.pods.at + 1, **values)
        self.pods.push(version)
        self.pods.push(replace(version, resource_version=version.resource_version + 1), is_deleted=True)

    def bind(self, name: str = "web-1", uid: str = "later") -> None:
        self.server.put(pod(name, uid=uid, node="n1"))

    def state(self) -> str:
        found = self.pods.get("u2")
        return found.certificate.kind.value if found is not None and found.certificate is not None else self.pods.state("u2")

    def owed(self) -> str:
        found = self.pods.get("u2")
        return found.owed if found is not None else ""

    def asked(self) -> int:
        return sum("/configmaps" not in path for _, path in self.server.requests)


@asynccontextmanager
async def scene(rules: NodeRules | None = None, *, is_needed: Callable[[Any], bool] = lambda suspect: True) -> AsyncIterator[Scene]:
    async with FakeApiServer().serving() as server:
        transport = connect(server.configuration())
        clock = Clock(NOW_S)
        pods = FakePods(now_s=clock)
        rules = replace(rules or NodeRules(), trusts_kubelet=True)
        ledger = NodeLedger(now_s=lambda: NOW_S - 9000, timeline=lambda: pods.timeline, trusts_deletion=rules.trusts_deletion)
        server.put({"metadata": {"name": "ops"}}, "namespaces")
        server.put(raw(), "nodes")
        pods.nodes["n1"] = NodeView(name="n1", uid="n1-uid", machine_id="m1", system_uuid="s1", boot_id="b1")
        ledger.take(pods.nodes["n1"])
        ledger.began(NOW_S - 9000, ("n1",))
        groups: dict[Any, Any] = {}
        memories: dict[Any, Any] = {}
        looked_again: list[Any] = []
        evidence = NodeEvidence(
            pods=pods,  # type: ignore[arg-type]  # the same questions and answers
            stores=SimpleNamespace(groups=groups),  # type: ignore[arg-type]
            memories=SimpleNamespace(known=memories.get),  # type: ignore[arg-type]
            ledger=ledger,
            records=NodeRecords(transport, ledger, namespace="ops", prefix="op"),
            looks=NodeLooks(transport, scopes=("",), clock_s=clock),
            rules=rules,
            is_needed=is_needed,
            look_again=looked_again.append,
            now_s=clock,
            monotonic_s=clock,
        )
        try:
            yield Scene(server, pods, ledger, evidence, clock, groups, memories, looked_again)
        finally:
            await transport.close()


async def test_a_suspect_is_closed_when_its_kubelet_has_caught_up_and_worked_on() -> None:
    async with scene() as s:
        s.bind("web-0", "earlier")
        s.vanish()
        await s.pass_s(300)
        assert s.state() == "Suspect"
        assert s.owed().startswith("the kubelet of node n1 has to start a container of a pod that is bound to it from now on (since ")
        s.bind()
        await s.pass_s(90)
        assert s.owed().startswith("node n1 has to stay Ready and renew its Lease for more than 90 s (since ")
        await s.pass_s(40)
        assert s.state() == "E3"


async def test_what_stands_against_a_suspect_is_told_also_while_its_node_is_looked_at_for_another_one() -> None:
    async with scene() as s:
        s.vanish()
        s.vanish("u3", created_at_s=NOW_S - 9500)
        await s.pass_s(60)
        older = s.pods.get("u3")
        assert older is not None
        assert older.owed.startswith("node n1 may have been another machine when the pod came to it (since ")


async def test_what_a_node_owes_is_told_once_until_it_is_something_else() -> None:
    """Each change is a status that is written."""
    async with scene() as s:
        s.vanish()
        await s.pass_s(60)
        first = s.owed()
        await s.pass_s(200)
        assert s.owed() == first


async def test_an_operator_to_whom_nothing_is_owed_asks_nothing() -> None:
    async with scene() as s:
        await s.pass_s(600)
        assert s.asked() == 0
        before = len(s.server.requests)
        await s.pass_s(600)
        assert len(s.server.requests) == before


@pytest.mark.parametrize(
    "changes",
    [{"node_name": "n9"}, {"node_name": ""}, {"created_at_s": NOW_S - 9500}, {"grace_s": None}, {"host_pid": True}],
)  # fmt: skip
async def test_no_node_is_looked_at_that_could_not_help(changes: dict[str, Any]) -> None:
    async with scene() as s:
        s.vanish(**changes)
        await s.pass_s(300)
        assert s.asked() == 0
        assert s.state() in ("Suspect", "E1Prime")


async def test_suspects_of_nobody_are_left_alone() -> None:
    async with scene(is_needed=lambda suspect: False) as s:
        s.vanish()
        await s.pass_s(100)
        assert s.asked() == 0
        assert s.owed() == ""


async def test_a_process_that_begins_begins_every_vigil_again() -> None:
    async with scene() as s:
        s.vanish()
        await s.pass_s(30)
        s.bind()
        await s.pass_s(60)
        s.evidence.forget_all()
        await s.pass_s(300)
        assert s.state() == "Suspect"
        s.bind("web-3", "newest")
        await s.pass_s(150)
        assert s.state() == "E3"


async def test_another_timeline_begins_every_vigil_again() -> None:
    async with scene() as s:
        s.vanish()
        await s.pass_s(30)
        s.bind()
        await s.pass_s(60)
        s.pods.timeline = "another"
        await s.pass_s(300)
        assert s.state() == "Suspect"


async def test_a_node_that_cannot_be_read_proves_nothing_and_is_asked_seldom() -> None:
    async with scene() as s:
        s.server.denied.add(("get", "leases.coordination.k8s.io"))
        s.vanish()
        s.bind()
        await s.pass_s(300)
        assert s.state() == "Suspect"
        assert s.owed().startswith("node n1 cannot be looked at")
        assert s.asked() <= 3 * 300 / 20 + 3


async def test_without_a_right_to_configmaps_evidence_comes_all_the_same() -> None:
    async with scene() as s:
        s.server.denied |= {("get", "configmaps"), ("create", "configmaps")}
        s.vanish()
        await s.pass_s(30)
        s.bind()
        await s.pass_s(150)
        assert s.state() == "E3"
        assert sum("/configmaps" in path for _, path in s.server.requests) < 10


async def test_a_runtime_that_still_lists_the_pod_keeps_it_a_suspect() -> None:
    async with scene(NodeRules(asks_runtime=True)) as s:
        listed = {"metadata": {"namespace": "shop", "name": "web-2", "uid": "u2"}}
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [listed, LATER]}
        s.vanish()
        await s.pass_s(30)
        s.bind()
        await s.pass_s(300)
        assert s.owed().startswith("the container runtime of node n1 still lists the pod")
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [LATER]}
        await s.pass_s(10)
        assert s.state() == "E3"


async def test_a_node_that_is_gone_closes_its_suspects_where_its_lifecycle_says_so() -> None:
    for lifecycle, state in ((NodeLifecycle.UNTRUSTED, "Suspect"), (NodeLifecycle.CLOUD, "E2Node")):
        async with scene(NodeRules(lifecycle=lifecycle)) as s:
            s.vanish()
            s.server.remove("", "n1", "nodes")
            s.ledger.take_gone("n1")
            await s.pass_s(60)
            assert s.state() == state


async def test_the_list_of_another_kubelet_proves_nothing() -> None:
    """A Node's address may lead elsewhere; a list that lacks all that runs on this node is not its own."""
    async with scene(NodeRules(asks_runtime=True)) as s:
        other = {"metadata": {"namespace": "shop", "name": "web-7", "uid": "elsewhere"}}
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [other]}
        s.vanish()
        await s.pass_s(30)
        s.bind()
        await s.pass_s(300)
        assert s.owed().startswith("the container runtime of node n1 was not asked")
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [other, LATER]}
        await s.pass_s(10)
        assert s.state() == "E3"


# sweeps -------------------------------------------------------------------------------------------------------------


def blind(s: Scene, **changes: Any) -> None:
    known = Checkpoint(epoch="e", timeline=s.pods.timeline, at_s=NOW_S, workload_name="web", blind=(SPAN,))
    s.groups[KEY] = SimpleNamespace(spec=SimpleNamespace(workload_ref=SimpleNamespace(name="web")))
    s.memories[KEY] = SimpleNamespace(history=History(continuity=replace(known, **changes)))


async def test_a_blind_span_is_swept_when_every_node_has_shown_that_it_runs_no_stranger() -> None:
    async with scene(NodeRules(asks_runtime=True)) as s:
        stranger = {"metadata": {"namespace": "shop", "name": "web-3", "uid": "unseen"}}
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [stranger, LATER]}
        blind(s)
        await s.pass_s(30)
        s.bind()
        await s.pass_s(200)
        assert s.evidence.swept(KEY) == frozenset()
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [LATER]}
        await s.pass_s(10)
        assert s.evidence.swept(KEY) == {SPAN}
        assert s.looked_again == [KEY]
        s.memories.clear()
        await s.pass_s(5)
        assert s.evidence.swept(KEY) == frozenset()


@pytest.mark.parametrize(
    "changes",
    [{"timeline": "another"}, {"ids_by_hand": True}, {"blind": (replace(SPAN, reason="Restored"),)}, {"blind": ()}],
)
async def test_what_a_sweep_cannot_tell_is_not_asked(changes: dict[str, Any]) -> None:
    async with scene(NodeRules(asks_runtime=True)) as s:
        blind(s, **changes)
        await s.pass_s(100)
        assert s.asked() == 0


async def test_where_processes_outlive_their_containers_no_runtime_tells_of_them() -> None:
    """Its list shows containers; what a pod with hostPID has left running is on none."""
    async with scene(NodeRules(asks_runtime=True)) as s:
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [LATER]}
        s.pods.push(pod_version(0, "u0", s.pods.at + 1, host_pid=True))
        blind(s)
        await s.pass_s(30)
        s.bind()
        await s.pass_s(200)
        assert s.evidence.swept(KEY) == frozenset()
        assert s.asked() == 0


async def test_one_node_that_is_gone_keeps_the_span_open() -> None:
    async with scene(NodeRules(asks_runtime=True)) as s:
        s.server.served[RUNNING_PODS] = {"kind": "PodList", "items": [LATER]}
        s.ledger.take(NodeView(name="n2", uid="n2-uid", machine_id="m2", system_uuid="s2", boot_id="b2"))
        s.ledger.merge(())
        s.ledger._now_s = lambda: NOW_S
        s.ledger.take_gone("n2")
        blind(s)
        await s.pass_s(30)
        s.bind()
        await s.pass_s(200)
        assert s.evidence.swept(KEY) == frozenset()
