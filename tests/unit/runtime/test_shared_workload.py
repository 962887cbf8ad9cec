"""Two StaticGroups on one StatefulSet: pods that consume as two groups carry an id of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticgroup.api import names
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.group import BrokerBounds, GroupView, KafkaProblem, LeaveEntry, LeaveResult
from staticgroup.core.status.memory import ledger_from
from staticgroup.kafka.credentials import ConnectionSettings
from support.fake_gateways import FakeKafka
from unit.core.builders import ended

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group

AUDIT = ("shop", "audit")
Json = dict[str, Any]


class KafkaOfGroups:
    """A Kafka with a group of its own for each group.id."""

    def __init__(self, *group_ids: str) -> None:
        self.groups = {group_id: FakeKafka() for group_id in group_ids}

    async def describe(self, settings: ConnectionSettings, group_id: str) -> GroupView | KafkaProblem:
        return await self.groups[group_id].describe(settings, group_id)

    async def bounds(self, settings: ConnectionSettings, group_id: str) -> BrokerBounds | KafkaProblem:
        return await self.groups[group_id].bounds(settings, group_id)

    async def leave(
        self, settings: ConnectionSettings, group_id: str, entries: Sequence[LeaveEntry]
    ) -> LeaveResult | KafkaProblem:
        return await self.groups[group_id].leave(settings, group_id, entries)


class SharedWorld(OperatorWorld):
    """The world of `orders`, and a second StaticGroup `audit` on the same three pods."""

    def __init__(self, **audit_spec: Any) -> None:
        super().__init__(identity={"env": [{"suffix": "-a"}]})
        self.kafkas = KafkaOfGroups("orders", "audit")
        self.reconciler.kafka = self.kafkas  # type: ignore[assignment]
        self.audit_spec = audit_spec
        self.declare_audit()

    def declare_audit(self, uid: str = "sg-audit", generation: int = 1, **changes: Any) -> None:
        env = {"suffix": "-b", "instanceIdName": "B_INSTANCE_ID", "sessionTimeoutName": ""}
        spec = {"identity": {"env": [env]}, "groupId": "audit"} | self.audit_spec | changes
        body = static_group(uid, generation, **spec)
        body["metadata"]["name"] = "audit"
        key = (names.STATIC_GROUP_PLURAL, *AUDIT)
        body |= {k: v for k, v in self.kube.objects.get(key, {}).items() if k == "status"}
        self.kube.objects[key] = body
        self.stores.put_group(AUDIT, body)

    @property
    def audit_status(self) -> StaticGroupStatus:
        return StaticGroupStatus.model_validate(self.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT].get("status") or {})

    def ids(self, ordinal: int) -> tuple[str, str]:
        """The id in `orders` and the id in `audit`."""
        assert self.audit_status.injected is not None
        return f"web-{ordinal}.{self.scope}-a", f"web-{ordinal}.{self.audit_status.injected.scope}-b"

    async def rounds(self, count: int, step_s: float = 10) -> None:
        """Run rounds of both, with time between them."""
        for _ in range(count):
            await self.round()
            await self.reconciler.reconcile(AUDIT)
            self.now_s += step_s

    async def started(self, pods: int = 3) -> SharedWorld:
        self.scale(pods)
        await self.rounds(1)
        for n in range(pods):
            self.start(n, joins=False, instance_ids=frozenset(self.ids(n)))
            for group_id, instance_id in zip(self.kafkas.groups, self.ids(n), strict=True):
                self.kafkas.groups[group_id].join(instance_id)
        self.now_s += 300
        await self.rounds(1)
        return self

    def restart_without_orders(self) -> None:
        """Delete `orders`, and replace the operator process by one that goes on from the status of `audit`."""
        del self.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
        self.stores.drop_group(KEY, self.stores.group_uids[KEY])
        before = self.pods
        self.pods = self._new_pods(before.epoch)
        self.pods.merge(ledger_from("shop", self.audit_status))
        self.pods.resume_after(before)
        self.reconciler = self._new_reconciler()
        self.reconciler.kafka = self.kafkas  # type: ignore[assignment]
        self.stores.put_group(AUDIT, self.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT])

    def scaled_down(self) -> None:
        """Scale from 3 to 2: web-2 ends with a certificate."""
        self.scale(2)
        self._happens(ended(2, "u2", instance_ids=frozenset(self.ids(2))))
        self.remove_object(2)

    def members(self, group_id: str) -> set[str]:
        return set(self.kafkas.groups[group_id].members)


async def test_evidence_stays_until_the_last_staticgroup_of_the_workload_needs_it_no_more() -> None:
    """The hold window of `audit` ends long after the removal from `orders` is settled."""
    world = await SharedWorld(removal={"holdSeconds": 180}).started()
    world.scaled_down()
    await world.rounds(16)
    assert world.ids(2)[0] not in world.members("orders")
    assert world.condition("RemovalSettled")[1] == "Removed"
    assert world.ids(2)[1] in world.members("audit")
    assert world.pods.state("u2") == "Dead"
    await world.rounds(4)
    assert world.ids(2)[1] not in world.members("audit")
    await world.rounds(9)  # no reading has needed it for a minute
    assert world.pods.state("u2") == ""


async def test_suspended_staticgroup_finds_its_evidence_when_it_goes_on() -> None:
    world = await SharedWorld().started()
    world.declare_audit(generation=2, suspend=True)
    world.scaled_down()
    await world.rounds(16)
    assert world.ids(2)[1] in world.members("audit")
    world.declare_audit(generation=3)
    await world.rounds(3)
    assert world.ids(2)[1] not in world.members("audit")


async def test_staticgroup_whose_brokers_do_not_answer_keeps_its_evidence() -> None:
    world = await SharedWorld().started()
    world.scaled_down()
    world.kafkas.groups["audit"].problems["describe"] = UNREACHABLE
    await world.rounds(16)
    assert world.members("orders") == {world.ids(0)[0], world.ids(1)[0]}
    world.kafkas.groups["audit"].problems.clear()
    await world.rounds(3)
    assert world.members("audit") == {world.ids(0)[1], world.ids(1)[1]}


async def test_staticgroup_that_had_no_round_in_this_process_yet_is_waited_for() -> None:
    world = await SharedWorld().started()
    world.scaled_down()
    world.reconciler.forget_all()
    for _ in range(16):
        await world.reconciler.reconcile(KEY)
        world.now_s += 10
    assert world.ids(2)[0] not in world.members("orders")
    assert world.pods.state("u2") == "Dead"


async def test_deleted_staticgroup_keeps_nothing() -> None:
    world = await SharedWorld(removal={"policy": "Never"}).started()
    world.scaled_down()
    await world.rounds(3)
    assert world.pods.state("u2") == "Dead"
    del world.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT]
    world.stores.drop_group(AUDIT, world.stores.group_uids[AUDIT])
    world.reconciler.forget(AUDIT)
    for _ in range(8):
        await world.round()
        world.now_s += 10
    assert world.pods.state("u2") == ""
