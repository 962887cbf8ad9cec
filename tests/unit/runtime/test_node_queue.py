"""Many nodes in debt: all of them close, the slow and the dead hold nobody up, and what waits is told so."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from simulator.engine.loop import run as run_simulation
from simulator.engine.loop import simulation
from staticgroup.core.evidence.nodes import LOOKS_APART_MAX_S, Look, NodeRules
from staticgroup.core.evidence.pod import NodeView
from staticgroup.kube.nodes.ledger import NodeLedger
from staticgroup.kube.nodes.looks import LOOK_LIMIT_S
from staticgroup.runtime.nodes import queue
from staticgroup.runtime.nodes.evidence import PAUSE_MIN_S, NodeEvidence, _at_most
from support.fake_pods import FakePods
from unit.core.builders import NOW_S, pod_version

HOUR_S = 3600.0


@dataclass
class Fleet:
    """So many nodes of which each owes a proof; a later pod runs on each from 10 s on.

    Parameters
    ----------
    look_s: how long a look takes. dead: nodes that make no look, after all that is allowed. hung: nodes that list the suspect for ever.
    """

    count: int
    look_s: float = 0.02
    dead: frozenset[str] = frozenset()
    hung: frozenset[str] = frozenset()
    is_ready: Callable[[str], bool] = lambda name: True
    asked: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    at_once_max: int = 0
    told: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [f"n{n:04d}" for n in range(self.count)]
        self.pods = FakePods(now_s=lambda: NOW_S)
        self.ledger = NodeLedger(now_s=lambda: NOW_S - 9000)
        for name in self.names:
            self.ledger.take(self.view(name))
            version = pod_version(2, f"uid-{name}", self.pods.at + 1, node_name=name, created_at_s=NOW_S - 600, grace_s=30)
            self.pods.push(version)
            self.pods.push(replace(version, resource_version=version.resource_version + 1), is_deleted=True)
        self.ledger.began(NOW_S - 9000, self.names)

    def view(self, name: str) -> NodeView:
        return NodeView(
            name=name, uid=f"uid of {name}", kubelet_version="v1.36.3", kubelet_minor=36, machine_id=f"m{name}",
            system_uuid=f"s{name}", boot_id=f"b{name}", is_ready=self.is_ready(name),
        )  # fmt: skip

    async def look(self, name: str, *, asks_runtime: bool = False) -> Look | None:
        loop = simulation()
        at_s = loop.time()
        self.asked[name] += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(LOOK_LIMIT_S if name in self.dead else self.look_s)
        self.at_once -= 1
        if name in self.dead:
            return None
        is_late = at_s > 10 and self.asked[name] > 1
        listed = frozenset({("shop", "web-2", f"uid-{name}")} if name in self.hung else ())
        running = frozenset({"later"} if is_late else ())
        bound = running | {"earlier"}
        lease = str(int(at_s // 10))
        return Look(at_s=at_s, view=self.view(name), lease=lease, bound=bound, running=running, listed=listed)

    def owing(self) -> list[str]:
        return [s.node_name for s in self.pods.suspects()]

    def run(self, within_s: float, *, rules: NodeRules | None = None) -> float:
        """Go round until nobody but the dead and the hung owes anything, or the time is up; return the virtual time."""

        async def main() -> float:
            loop = simulation()
            evidence = NodeEvidence(
                pods=self.pods,  # type: ignore[arg-type]  # the same questions and answers
                stores=SimpleNamespace(groups={}),  # type: ignore[arg-type]
                memories=SimpleNamespace(known=lambda key: None),  # type: ignore[arg-type]
                ledger=self.ledger,
                records=Records(),  # type: ignore[arg-type]
                looks=SimpleNamespace(look=self.look),  # type: ignore[arg-type]
                rules=rules or NodeRules(trusts_kubelet=True),
                is_needed=lambda suspect: True,
                look_again=lambda key: None,
                now_s=lambda: NOW_S + loop.time(),
                monotonic_s=loop.time,
            )
            following = loop.spawn(evidence.follow(), name="follow")
            while set(self.owing()) - self.dead - self.hung and loop.time() < within_s:
                await asyncio.sleep(5)
                for suspect in list(self.pods.suspects())[-20:]:
                    told = self.told.setdefault(suspect.node_name, [])
                    sentence = re.sub(r" \(since .*", "", suspect.owed)
                    if sentence and told[-1:] != [sentence]:
                        told.append(sentence)
            following.cancel()
            return loop.time()

        return run_simulation(main, seed=1)


class Records:
    """What is remembered of nodes, written nowhere."""

    has_news = False

    async def read(self) -> bool:
        return True

    async def write(self) -> bool:
        return True


def test_a_thousand_nodes_in_debt_all_close() -> None:
    fleet = Fleet(1000)
    took_s = fleet.run(2 * HOUR_S)
    assert fleet.owing() == []
    assert took_s < HOUR_S
    assert fleet.asked.total() <= queue.LOOKS_A_TICK * (took_s / queue.TICK_S + 1)


@pytest.mark.parametrize(("count", "look_s"), [(20, 3.0), (60, 1.0), (200, 0.02), (100, LOOK_LIMIT_S - 0.1)])
def test_slow_looks_prove_as_well(count: int, look_s: float) -> None:
    fleet = Fleet(count, look_s)
    took_s = fleet.run(HOUR_S)
    assert fleet.owing() == []
    assert took_s < 1200
    assert fleet.at_once_max <= queue.LOOKS_AT_ONCE


def test_a_few_nodes_are_as_quick_as_they_can_be() -> None:
    """Catching up, then grace and margin."""
    assert Fleet(5).run(HOUR_S) < 20 + 90 + 20


def test_nodes_that_never_answer_starve_nobody() -> None:
    fleet = Fleet(200, dead=frozenset(f"n{n:04d}" for n in range(0, 200, 2)))
    assert fleet.run(HOUR_S) < 1500
    assert set(fleet.owing()) == fleet.dead
    assert {told[-1] for name, told in fleet.told.items() if name in fleet.dead} == {
        f"node {name} cannot be looked at" for name in fleet.told if name in fleet.dead
    }


def test_runtimes_that_list_the_pod_for_ever_starve_nobody() -> None:
    """More of them than are ever in hand: each gives its turn back."""
    fleet = Fleet(200, hung=frozenset(f"n{n:04d}" for n in range(150)))
    assert fleet.run(2 * HOUR_S, rules=NodeRules(asks_runtime=True)) < HOUR_S
    assert set(fleet.owing()) == fleet.hung


def test_nodes_that_never_get_ready_starve_nobody() -> None:
    fleet = Fleet(200, is_ready=lambda name: name >= "n0150")
    fleet.hung = frozenset(f"n{n:04d}" for n in range(150))
    assert fleet.run(HOUR_S) < 1500
    assert set(fleet.owing()) == fleet.hung


def test_what_waits_for_its_turn_says_so_and_seldom_something_else() -> None:
    fleet = Fleet(300)
    fleet.run(HOUR_S)
    told = fleet.told["n0299"]
    waits = [sentence for sentence in told if "waits for its turn" in sentence]
    assert waits[0] == "node n0299 waits for its turn to be looked at, at most 500 before it"
    assert all(len(sentences) < 20 for sentences in fleet.told.values())


def test_all_in_hand_are_looked_at_within_thirty_seconds_when_nothing_answers() -> None:
    """Otherwise their vigils would begin again for ever."""
    tick_s = queue.LOOKS_A_TICK / queue.LOOKS_AT_ONCE * LOOK_LIMIT_S + PAUSE_MIN_S
    rounds = -(-queue.IN_HAND_MAX // queue.IN_HAND_A_TICK)
    assert rounds * tick_s < 30 < LOOKS_APART_MAX_S
    assert LOOK_LIMIT_S < 10


@pytest.mark.parametrize(("count", "said"), [(0, "none"), (1, "at most 1"), (3, "at most 5"), (99, "at most 100"), (501, "at most 1000")])
def test_a_place_in_the_line_is_told_in_steps(count: int, said: str) -> None:
    assert _at_most(count) == said


def test_a_turn_is_given_back_only_to_somebody() -> None:
    """A node alone keeps its turn, however long it stands still."""
    turns = queue.LookQueue()
    asked: dict[str, float | None] = {"n1": 90.0}
    for at_s in range(0, 3600, 5):
        assert turns.next(asked, float(at_s)) == ["n1"]
        turns.looked("n1", float(at_s), is_steady=False)
    assert list(turns.before(asked)) == []


def test_a_node_with_news_is_scouted_at_every_tick_for_a_minute() -> None:
    """As one that is Ready again: a wait of 20 s on top of grace and margin would be nobody's but ours."""
    turns = queue.LookQueue()
    asked: dict[str, float | None] = {"n1": None, "n2": None}
    looked: dict[str, list[int]] = {"n1": [], "n2": []}
    for at_s in range(0, 150, 5):
        if at_s == 25:
            turns.hurry("n1", 23.0)
            turns.hurry("n3", 23.0)  # owes nothing, and is not looked at
        for name in turns.next(asked, float(at_s)):
            looked[name].append(at_s)
            turns.looked(name, float(at_s), is_steady=False)
    assert looked["n1"] == [0, 20, *range(25, 85, 5), 100, 120, 140]
    assert looked["n2"] == list(range(0, 150, 20))
