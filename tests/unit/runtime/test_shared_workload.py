"""Two StaticGroups on one StatefulSet: pods that consume as two groups carry an id of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.group import BrokerBounds, GroupView, KafkaProblem, LeaveCall, LeaveEntry, LeaveResult
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores
from support.fake_gateways import FakeKafka
from unit.core.builders import ended, workload

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
        self, settings: ConnectionSettings, group_id: str, entries: Sequence[LeaveEntry], by: LeaveCall
    ) -> LeaveResult | KafkaProblem:
        return await self.groups[group_id].leave(settings, group_id, entries, by)


class SharedWorld(OperatorWorld):
    """The world of `orders`, and a second StaticGroup `audit` on the same three pods."""

    def __init__(self, **audit_spec: Any) -> None:
        super().__init__(client={"type": "Custom", "env": [{"suffix": "-a"}]})
        self.kafkas = KafkaOfGroups("orders", "audit")
        self.ask_kafka(self.kafkas)
        self.audit_spec = audit_spec
        self.declare_audit()

    def declare_audit(self, uid: str = "sg-audit", generation: int = 1, **changes: Any) -> None:
        env = {"suffix": "-b", "instanceIdName": "B_INSTANCE_ID", "sessionTimeoutName": ""}
        spec = {"client": {"type": "Custom", "env": [env]}, "groupId": "audit"} | self.audit_spec | changes
        body = static_group(uid, generation, **spec)
        body["metadata"]["name"] = "audit"
        key = (names.STATIC_GROUP_PLURAL, *AUDIT)
        body |= {k: v for k, v in self.kube.objects.get(key, {}).items() if k == "status"}
        self.kube.objects[key] = body
        self.stores.put_group(AUDIT, body)

    @property
    def audit_status(self) -> StaticGroupStatus:
        return StaticGroupStatus.model_validate(
            self.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT].get("status") or {}
        )

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

    def scaled_down(self) -> None:
        """Scale from 3 to 2: web-2 ends with a certificate."""
        self.scale(2)
        self._happens(ended(2, "u2", instance_ids=frozenset(self.ids(2))))
        self.remove_object(2)

    def members(self, group_id: str) -> set[str]:
        return set(self.kafkas.groups[group_id].members)


def suspend(world: SharedWorld, is_so: bool) -> None:
    world.declare_audit(generation=2 + (not is_so), mode="Suspended" if is_so else "Manage")


def silence(world: SharedWorld, is_so: bool) -> None:
    world.kafkas.groups["audit"].problems = {"describe": UNREACHABLE} if is_so else {}


@pytest.mark.parametrize("hold_up", [suspend, silence])
async def test_staticgroup_that_is_held_up_finds_its_evidence_when_it_goes_on(
    hold_up: Callable[[SharedWorld, bool], None],
) -> None:
    world = await SharedWorld().started()
    hold_up(world, True)
    world.scaled_down()
    await world.rounds(16)
    assert world.members("orders") == {world.ids(0)[0], world.ids(1)[0]}
    assert world.ids(2)[1] in world.members("audit")
    hold_up(world, False)
    await world.rounds(3)
    assert world.members("audit") == {world.ids(0)[1], world.ids(1)[1]}


async def test_staticgroup_that_had_no_round_in_this_process_yet_is_waited_for() -> None:
    world = await SharedWorld().started()
    world.scaled_down()
    world.list_again()
    world.reconciler.forget_all()
    for _ in range(16):
        await world.reconciler.reconcile(KEY)
        world.now_s += 10
    assert world.ids(2)[0] not in world.members("orders")
    await world.rounds(3)
    assert world.ids(2)[1] not in world.members("audit")


def collisions(stores: Stores) -> list[tuple[str, str]]:
    """Return what the StaticGroup `orders` and others both write, with the remedy."""
    return [(c.sentence, c.remedy) for c in rivals_of(stores, None, KEY).collisions]


def of_one_set(orders: Json, audit: Json) -> Stores:
    stores = Stores()
    for key, spec in ((KEY, orders), (AUDIT, audit)):
        body = static_group(f"uid-{key[1]}", **spec)
        body["metadata"]["name"] = key[1]
        stores.put_group(key, body)
    return stores


def test_types_of_their_own_still_share_an_annotation() -> None:
    """The variables differ, and so do the suffixes; what the pod carries is one annotation."""
    stores = of_one_set({"client": {"type": "SpringBoot"}}, {"client": {"type": "Quarkus"}, "groupId": "audit"})
    assert collisions(stores) == [
        (
            "StaticGroup shop/audit uses the same pod annotation staticgroup.io/instance-id of these pods, "
            "which show the ids of only one",
            "set spec.client.type of one of them to Custom, and give the entries of spec.client.env of that one a "
            "suffix of their own",
        )
    ]
    assert rivals_of(stores, None, KEY).overlaps == ()


@pytest.mark.parametrize(
    ("first", "container", "client_type", "collides"),
    [
        ("", None, "Custom", True),
        ("app", "app", "Custom", True),
        ("app", "sidecar", "Custom", False),
        ("app", "app", "Own", False),
    ],
)
def test_one_variable_of_one_container_takes_one_id(
    first: str, container: str | None, client_type: str, collides: bool
) -> None:
    env = {"suffix": "-b"} | ({"container": container} if container else {})
    stores = of_one_set({}, {"client": {"type": client_type, "env": [env]}, "groupId": "audit"})
    if first:
        stores.put_workload(workload(3))
    said = (
        f"sets the same variable KAFKA_GROUP_INSTANCE_ID of {f'container {first}' if first else 'the first container'}"
    )
    assert [said in sentence for sentence, _ in collisions(stores)] == [True] * collides


async def test_two_defaults_on_one_statefulset_name_the_field_to_change_and_changing_it_ends_it() -> None:
    world = SharedWorld()
    world.declare(static_group())
    world.audit_spec = {"client": {}}
    world.declare_audit()
    await world.rounds(2)
    assert world.condition("Ready")[1] == world.condition("Injected")[1] == "ConflictingStaticGroups"
    text = world.condition("Ready")[2]
    assert (
        "Set spec.client.type of one of them to Custom, and give the entries of spec.client.env of that one a suffix "
        "and an instanceIdName of their own, and let its client read that variable."
    ) in text
    assert "template" not in text
    world.audit_spec = {
        "client": {
            "type": "Custom", "env": [{"instanceIdName": "B_INSTANCE_ID", "suffix": "-b", "sessionTimeoutName": ""}]
        }
    }  # fmt: skip
    world.declare_audit(generation=2)
    await world.rounds(2)
    assert world.condition("Ready")[1] != "ConflictingStaticGroups"
    assert world.condition("Injected")[1] != "ConflictingStaticGroups"


async def test_members_of_a_variable_that_two_staticgroups_set_are_not_to_be_restarted() -> None:
    """The one client of a pod was given audit's id; the annotation of orders is wrong."""
    world = SharedWorld()
    world.audit_spec = {"client": {"type": "Custom", "env": [{"suffix": "-b"}]}}
    world.declare_audit()
    world.scale(3)
    await world.rounds(1)
    for ordinal in range(3):
        world.start(ordinal, joins=False, instance_ids=frozenset(world.ids(ordinal)))
        world.kafkas.groups["orders"].join(world.ids(ordinal)[1])
    world.now_s += 300
    await world.rounds(3)
    assert "sets the same variable KAFKA_GROUP_INSTANCE_ID of container app" in world.condition("Injected")[2]
    assert world.condition("MembershipComplete")[2].endswith("though their pods are Ready: see Injected.")
    said = [e.message for e in world.status.issues if e.kind.value == "Missing"]
    assert said
    assert all("the condition Injected says what to do" in text and "restart" not in text for text in said)
    world.scale(2)
    world._happens(ended(2, "u2", instance_ids=frozenset(world.ids(2)), ids_are_fixed=True))
    world.remove_object(2)
    world.kafkas.groups["orders"].join(world.ids(2)[0])
    await world.rounds(4)
    assert [e.reason for e in world.status.issues if e.instance_id == world.ids(2)[0]] == ["ConflictingStaticGroup"]
