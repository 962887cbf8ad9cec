"""Carriers of which nothing is known any more, as after the watch began anew: suspects, and each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.ids.naming import naming_of
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.members.memory import Members, described
from staticgroup.core.members.node_gone import NodeLifecycle
from staticgroup.runtime.members import SightGatherer
from unit.core.builders import (
    NOW_S,
    WATCH,
    attributed,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    spec,
    suspect,
)

SETTLE_S = 600.0


class Pods:
    """A pod store that knows these pods."""

    ends = 0

    def __init__(self, *known: KnownPod) -> None:
        self.known = {pod.uid: pod for pod in known}
        self.name = WATCH

    async def reach_present(self, namespace: str) -> bool:
        return True

    def watch(self, namespace: str) -> str:
        return self.name

    def get(self, uid: str) -> KnownPod | None:
        return self.known.get(uid)

    def doubtful(self) -> Iterator[KnownPod]:
        return iter(())

    def chain(self, namespace: str, **of: Any) -> tuple[KnownPod, ...]:
        return tuple(self.known.values())

    def carriers(self, instance_ids: frozenset[str]) -> tuple[KnownPod, ...]:
        return ()


class Nodes:
    def node_of(self, name: str) -> None:
        return None

    def is_present(self, name: str) -> bool:
        return False


class Group:
    """One group with the member of web-2, described every minute."""

    def __init__(self, pods: Pods, remembered: Members) -> None:
        self.pods, self.members, self.at_s = pods, remembered, 0.0

    async def look(self, *held: int) -> list[str]:
        """Describe members of these ordinals; returns the suspects that count for members to come."""
        self.at_s += 60
        naming = naming_of(spec(), history())
        view = group(*(member(n) for n in held))
        gatherer = SightGatherer(
            pods=self.pods,
            nodes=Nodes(),
            lifecycle=NodeLifecycle.UNTRUSTED,
            may_be_of=lambda pod: False,
            read_node=None,  # type: ignore[arg-type]
            clock_ahead_s=lambda: 0.0,
        )
        sight = await gatherer.gather(
            "shop", naming, view, self.members, described_at_s=self.at_s, dated_at_s=NOW_S + self.at_s,
            brokers="b",
        )  # fmt: skip
        self.members = described(
            self.members, {id_of(n): f"m{n}" for n in held}, sight, lambda s, i: i in s.instance_ids, settle_s=SETTLE_S
        )
        return [s.uid for s in self.members.suspects]


async def test_a_carrier_of_which_nothing_is_known_is_a_suspect_of_the_ids_that_it_may_hold() -> None:
    world = Group(
        Pods(),
        members(
            attributions={id_of(2): attributed("m2", "gone", UNSEEN), id_of(1): attributed("m1", "gone", UNATTRIBUTED)}
        ),
    )
    assert await world.look(1, 2) == ["gone"]
    (found,) = world.members.suspects
    assert (found.pod_name, found.instance_ids) == ("web-1", {id_of(1), id_of(2)})


async def test_a_carrier_that_is_known_or_whose_watch_is_not_whole_is_none() -> None:
    world = Group(Pods(known_pod(uid="there")), members(attributions={id_of(2): attributed("m2", "there")}))
    assert await world.look(2) == []
    pods = Pods()
    pods.name = ""
    assert await Group(pods, members(attributions={id_of(2): attributed("m2", "gone")})).look(2) == []


async def test_it_is_taken_in_once_and_dropped_for_members_to_come_for_good_while_no_member_is_its_own() -> None:
    """It is a carrier of the member of a seat that is wanted no more; the seat that it may hold as well is another
    one's."""
    held = {id_of(2): attributed("m2", "gone"), id_of(1): attributed("m1", "u1")}
    world = Group(Pods(known_pod(1, "u1")), members(attributions=held))
    seen = [await world.look(1, 2) for _ in range(3)]
    assert seen == [["gone"]] * 3, "a member that it may hold is there"
    since_s = {s.since_s for s in world.members.suspects}
    assert since_s == {attributed("m2").first_seen_s}


async def test_it_is_not_taken_in_anew_after_its_silence() -> None:
    """It stays among the carriers of the member that was there beside it: no time takes it out of them."""
    guessed = attributed("m2", "gone", UNSEEN)  # kept also while its id is described empty
    world = Group(Pods(), members(attributions={id_of(2): guessed}))
    seen = [await world.look() for _ in range(30)]
    assert seen[0] == ["gone"]
    assert seen[int(SETTLE_S / 60) + 1 :] == [[]] * (30 - int(SETTLE_S / 60) - 1)
    assert world.members.attributions[id_of(2)].carriers == guessed.carriers


async def test_a_suspect_of_the_status_is_not_replaced_by_less() -> None:
    written = suspect("gone", node_name="n7", provider="aws")
    world = Group(Pods(), members(attributions={id_of(2): attributed("m2", "gone")}, suspects=(written,)))
    await world.look(2)
    (found,) = world.members.suspects
    assert (found.node_name, found.provider) == ("n7", "aws")
