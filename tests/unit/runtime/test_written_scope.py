"""A scope that the user wrote: a StaticGroup that is created again keeps its ids, and what proves deaths only while nothing was missed."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.status import Writer
from staticgroup.core.evidence.spans import GapWord
from staticgroup.runtime.rivals import Rivals
from staticgroup.runtime.stores import Stores

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import LIVING, away, blind, gap, left, start_as
from .test_tenants import answered

SCOPE = "5ca1ab1e"
WRITTEN: dict[str, Any] = {"identity": {"scope": SCOPE}}
SINCE_EVER = "1970-01-01T00:00:00Z"


def oath(world: OperatorWorld) -> GapWord:
    """Say that nothing from before runs."""
    return GapWord(since_s=0.0, until_s=world.now_s + 1, said_at_s=world.now_s + 1, said_by="ann", statement="all nodes are new")


async def sworn(pods: int = 3, **spec: Any) -> OperatorWorld:
    """Return a world whose ids have a written scope, and of which somebody has said that nothing from before runs."""
    world = OperatorWorld(**(WRITTEN | spec))
    world.template = f"web-{{ordinal}}.{SCOPE}"
    await world.started(pods)
    world.gap_words = (oath(world),)
    await world.settled(1)
    world.gap_words = ()
    await world.settled(1)
    return world


def create_again(world: OperatorWorld, uid: str = "sg-2", **spec: Any) -> None:
    world.declare(static_group(uid, **(WRITTEN | spec)))


async def departs(world: OperatorWorld, rounds: int = 5) -> None:
    world.scale(2)
    world.end(2)
    await world.settled(rounds)


async def test_ids_have_the_scope_that_was_written() -> None:
    world = await OperatorWorld(**WRITTEN).started()
    assert world.status.injected is not None
    assert (world.scope, world.status.injected.id_template) == (SCOPE, f"{{podName}}.{SCOPE}")


async def test_ids_may_be_older_than_a_staticgroup_whose_scope_was_written_so_nobody_is_removed_unsworn() -> None:
    world = await OperatorWorld(**WRITTEN).started()
    await departs(world)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]
    assert world.status.continuity is not None
    (span,) = world.status.continuity.to_wire()["blind"]
    assert (span["ordinals"], span["since"], span["reason"]) == ("0-2147483647", SINCE_EVER, "ScopeWritten")
    status, reason, message = world.condition("RemovalSettled")
    assert (status, reason) == ("False", "WatchGap")
    assert "the scope was written" in message
    assert "staticgroup confirm-gap --list" in message


async def test_word_that_ids_are_nobody_elses_says_nothing_of_processes_from_before() -> None:
    """`exclusive` stands in a repository, however often it is applied."""
    world = await OperatorWorld(identity={"scope": SCOPE, "exclusive": True}).started()
    await departs(world)
    assert left(world) == []
    assert blind(world) == "0-2147483647"


async def test_word_that_nothing_from_before_runs_ends_the_wait() -> None:
    world = await sworn()
    await departs(world)
    assert left(world) == [world.id_of(2)]


async def test_word_about_a_time_that_began_later_does_not_end_it() -> None:
    world = await OperatorWorld(**WRITTEN).started()
    world.gap_words = (GapWord(since_s=1.0, until_s=world.now_s, said_at_s=world.now_s, said_by="ann", statement="a gap"),)
    await departs(world)
    assert left(world) == []


async def test_staticgroup_created_again_goes_on_while_the_operator_watched() -> None:
    world = await sworn()
    world.delete_group()
    world.now_s += 30
    create_again(world)
    await world.settled(2)
    assert (world.scope, blind(world)) == (SCOPE, "")
    assert world.status.continuity is not None
    assert world.status.continuity.static_group_uid == "sg-2"
    await departs(world)
    assert left(world) == [world.id_of(2)]


async def test_pod_that_ended_properly_while_there_was_no_staticgroup_is_known_to_be_dead() -> None:
    world = await sworn()
    world.delete_group()
    world.scale(2)
    world.end(2)
    create_again(world)
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_pod_that_was_lost_while_there_was_no_staticgroup_is_a_suspect() -> None:
    world = await sworn()
    world.delete_group()
    world.remove_object(2)
    world.start(2, "u2b", joins=False)
    create_again(world)
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["DeathNotProven"]


async def test_gap_of_the_watch_in_between_makes_every_name_blind() -> None:
    """The pods that came and went in it are nobody's, and no status tells what was there before."""
    world = await sworn()
    world.delete_group()
    gap(world)
    create_again(world)
    await world.settled(2)
    assert (world.scope, blind(world)) == (SCOPE, "0-2147483647")
    assert world.status.continuity is not None
    assert [s.reason for s in world.status.continuity.blind] == ["ScopeWritten"]
    await departs(world)
    assert left(world) == []


async def test_gap_before_the_first_round_is_one_over_which_nobody_knows_how_pods_came_to_their_ids() -> None:
    """Nobody injected meanwhile, and nobody looked, so the rules about names say nothing."""
    world = await sworn()
    world.delete_group()
    create_again(world)
    assert await world.reconciler.memories.of(KEY, world.stores.groups[KEY]) is not None
    gap(world)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


async def test_gap_that_hid_a_process_of_before_removes_nobody() -> None:
    """A pod is replaced unseen, its process lives on and holds the seat; then its successor ends properly."""
    world = await sworn()
    world.delete_group()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b", joins=False)
    world.end(2, "u2b", gone=False)
    gap(world)
    create_again(world)
    await world.settled(1)
    world.kafka.join(world.id_of(2), LIVING)
    world.scale(2)
    world.remove_object(2)
    await world.settled(5)
    assert left(world) == []


@pytest.mark.parametrize("epoch", [None, "epoch-2"], ids=["a watch that was resumed", "a new watch"])
async def test_operator_that_began_in_between_knows_nothing_of_before(epoch: str | None) -> None:
    """The ledger went with the status: a resumed watch shows no pod that was lost before its position."""
    world = await sworn()
    world.delete_group()
    world.remove_object(2)
    create_again(world)
    world.restart(epoch=epoch)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


async def test_replica_that_was_a_standby_in_between_knows_nothing_of_before() -> None:
    world = await sworn()
    world.delete_group()
    world.reconciler.forget_all()
    create_again(world)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


async def test_replica_that_finds_words_of_a_later_holder_leaves_nothing_behind() -> None:
    world = await sworn()
    world.holding = Writer(lease_uid="lease", lease_transitions=1)
    world.is_lease_ours = False
    memory = world.reconciler.memories.known(KEY)
    assert memory is not None
    memory.is_unsure = True
    world.kube.objects["staticgroups", *KEY]["status"]["writer"] = {"leaseUid": "lease", "leaseTransitions": 2}
    await world.round()
    world.delete_group()
    create_again(world)
    assert world.reconciler.memories.estates.inherit(world.stores.groups[KEY]) is None


async def test_suspect_of_nobody_that_was_forgotten_in_between_makes_every_name_blind() -> None:
    world = await sworn()
    world.delete_group()
    world.remove_object(2)
    world.pods.book.gone = type(world.pods.book.gone)(0)
    world.pods.book.gone.note("u2", is_gone=True)
    world.pods.book.unwritten.drop("u2")
    world.pods.is_managed = lambda namespace, name: False
    world.pods.book.purge()
    assert world.pods.get("u2") is None
    create_again(world)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


@pytest.mark.parametrize(
    "spec",
    [
        {"groupId": "audit"},
        {"workloadRef": {"name": "api"}},
        {"connectionRef": {"name": "elsewhere"}},
        {"identity": {"scope": "0ddba115"}},
    ],
    ids=["another group", "another StatefulSet", "another Kafka cluster", "another scope"],
)
async def test_staticgroup_of_something_else_inherits_nothing(spec: dict[str, Any]) -> None:
    world = await sworn()
    world.delete_group()
    create_again(world, **spec)
    (inherited,) = [world.reconciler.memories.estates.inherit(world.stores.groups[KEY])]
    assert inherited is None


async def test_what_was_left_is_inherited_once() -> None:
    world = await sworn()
    world.delete_group()
    for uid, expected in (("sg-2", ""), ("sg-3", "0-2147483647")):
        create_again(world, uid)
        await world.settled(2)
        assert blind(world) == expected
        del world.kube.objects["staticgroups", *KEY]
        world.stores.drop_group(KEY, uid)
        del world.reconciler.memories._by_key[KEY]


async def test_spans_that_were_open_stay_open() -> None:
    world = await OperatorWorld(**WRITTEN).started()
    world.delete_group()
    create_again(world)
    await world.settled(2)
    assert blind(world) == "0-2147483647"


async def test_staticgroup_with_the_scope_that_was_drawn_before_goes_on() -> None:
    """How one that exists comes into a repository: delete it, and create it with what its status said."""
    world = await OperatorWorld().started()
    drawn = world.scope
    world.delete_group()
    world.declare(static_group("sg-2", identity={"scope": drawn}))
    await world.settled(2)
    assert (world.scope, blind(world)) == (drawn, "")
    await departs(world)
    assert left(world) == [world.id_of(2)]


async def test_scope_of_the_status_may_be_written_later_and_changes_nothing() -> None:
    world = await OperatorWorld().started()
    drawn = world.scope
    world.declare(static_group(generation=2, identity={"scope": drawn}))
    await world.settled(2)
    assert (world.scope, blind(world)) == (drawn, "")
    await departs(world)
    assert left(world) == [world.id_of(2)]


async def test_another_scope_than_ids_were_issued_with_is_refused() -> None:
    """The API server refuses it too; a status may have been put back."""
    world = await OperatorWorld().started()
    drawn = world.scope
    world.declare(static_group(generation=2, identity={"scope": SCOPE}))
    await world.settled(2)
    assert world.scope == drawn
    status, reason, message = world.condition("Injected")
    assert (status, reason) == ("False", "IdentityInvalid")
    assert f"spec.identity.scope is {SCOPE}" in message


@pytest.mark.parametrize("part", ["", "continuity"])
async def test_status_that_was_lost_is_ignorance_since_ever_where_the_scope_was_written(part: str) -> None:
    world = await sworn()
    body = world.kube.objects["staticgroups", *KEY]
    body["status"] = {k: v for k, v in body["status"].items() if part and k != part}
    world.restart(epoch="epoch-2")
    world.declare(static_group(**WRITTEN))
    await world.settled(2)
    assert world.status.continuity is not None
    assert [s["since"] for s in world.status.continuity.to_wire()["blind"]] == [SINCE_EVER]


async def test_id_of_a_pod_from_before_is_given_to_no_other_pod() -> None:
    """By an earlier template that nobody remembers web-1 has the id that web-11 would get now, and would be fenced."""
    world = OperatorWorld(**WRITTEN)
    start_as(world, "web-1", "old", {f"web-11.{SCOPE}"})
    await world.settled(2)
    assert world.status.injected is None
    status, reason, message = world.condition("Injected")
    assert (status, reason) == ("False", "IdentityInvalid")
    assert f"pod shop/web-1 has id web-11.{SCOPE}" in message
    world.remove_object(1)
    start_as(world, "web-1", "new", set())
    world.pods.forget("old")
    await world.settled(1)
    assert world.status.injected is not None


# the same scope twice ------------------------------------------------------------------------------------------------


def group(namespace: str, name: str, *, drawn: str | None = None, **spec: Any) -> dict[str, Any]:
    body = static_group(f"uid-{namespace}-{name}", **({"workloadRef": {"name": name}} | spec))
    body["metadata"] |= {"namespace": namespace, "name": name}
    if drawn is not None:
        ids = [{"annotation": "staticgroup.io/instance-id", "suffix": ""}]
        injected = {"scope": drawn, "watchEpoch": "e1", "method": "Policy", "idTemplate": f"{{podName}}.{drawn}", "ids": ids, "env": []}
        body["status"] = {"injected": injected}
    return body


@pytest.mark.parametrize(
    ("a", "b", "are_rivals"),
    [
        (group("shop", "web", **WRITTEN), group("bill", "web", **WRITTEN), True),
        (group("shop", "web", **WRITTEN), group("shop", "api", **WRITTEN), True),
        (group("shop", "web", **WRITTEN), group("bill", "api", drawn=SCOPE), True),
        (group("shop", "web", **WRITTEN), group("bill", "api", **(WRITTEN | {"groupId": "audit"})), False),
        (group("shop", "web", **WRITTEN), group("bill", "web", drawn="0ddba115"), False),
        (group("shop", "web"), group("bill", "web"), False),
    ],
    ids=["two namespaces", "other pods", "one that was drawn", "another group", "another scope", "neither has one yet"],
)
def test_two_staticgroups_of_one_kafka_group_with_one_scope_know_of_each_other(
    a: dict[str, Any], b: dict[str, Any], are_rivals: bool
) -> None:
    stores = Stores()
    keys = [(body["metadata"]["namespace"], body["metadata"]["name"]) for body in (a, b)]
    for key, body in zip(keys, (a, b), strict=True):
        stores.put_group(key, body)
        stores.put_connection((key[0], "kafka"), answered(key[0]))
    named = ["/".join(key) for key in keys]
    found = [Rivals(stores).same_scope(key) for key in keys]
    assert found == ([(named[1],), (named[0],)] if are_rivals else [(), ()])


async def test_neither_of_two_with_one_scope_removes_anybody_and_says_which_is_the_other() -> None:
    world = await sworn()
    world.stores.put_group(("bill", "pay"), group("bill", "pay", **WRITTEN))
    for namespace in ("shop", "bill"):
        world.stores.put_connection((namespace, "kafka"), answered(namespace))
    await departs(world)
    assert left(world) == []
    assert [e.reason for e in world.status.exceptions] == ["ConflictingStaticGroup"]
    status, reason, message = world.condition("Ready")
    assert (status, reason) == ("False", "ConflictingStaticGroups")
    assert "StaticGroup bill/pay of this Kafka group has the same scope" in message
    assert "create it with another one" in message
