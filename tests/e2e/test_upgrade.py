"""The operator is replaced by a newer one while members depart: each leaves as if nothing had been, and nobody else does.

The one idea: pods that were told to end before the upgrade end when the test says so: while the earlier version is at work,
while it is being replaced, and when it is gone. Whoever is told to end before has been seen alive by the earlier version
alone, so a member that the newer one removes at once shows that nothing of what was known has been lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.earlier import BEFORE_SEATS, DEPLOYMENT, Earlier, is_known
from support.scene.figures import prompt_s, record, spread
from support.scene.gaps import (
    await_injecting,
    await_ready,
    blind,
    continuity,
    let_go,
    linger,
    lingering_pod,
    members,
    removed,
    seats,
    start_after_a_change,
    suspects,
)
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.stage import SYSTEM, Stage
from support.scene.witnesses import PodWatch
from support.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not is_known(BEFORE_SEATS), reason=f"the git history does not hold {BEFORE_SEATS[:12]}, the earlier version"),
]

NewPlay = Callable[..., Play]
Leavers = Mapping[str, Sequence[int]]
SESSION_MS = 240_000
CLASSIC: Leavers = {"before": (8, 7), "during": (6, 5), "after": (4, 3)}
CONSUMER: Leavers = {"before": (4,), "during": (3,), "after": (2,)}
"""Which pods end while which version is at work, by ordinal, highest first."""
ACKNOWLEDGED_S_MAX = prompt_s(10.0, otherwise_s=30)
"""From the visible end of a pod to its removal; who ends while the operator is replaced may wait for a new holder besides."""
HANDED_OVER_S_MAX = prompt_s(30.0, otherwise_s=60)
REBALANCE_AFTER_REMOVAL_MS = 1_000
"""Within this the coordinator has logged the rebalance that a removal causes; it is the same request."""


@pytest.fixture
def earlier(installed: Stage) -> Iterator[Earlier]:
    """The earlier version, not yet in place; afterwards the checkout's is, with its default values."""
    yield Earlier.bring(installed, BEFORE_SEATS)
    installed.install()
    installed.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")


class Departing:
    """One group of which pods are told to end before the upgrade, and end when they are let go."""

    def __init__(self, game: Play, leavers: Leavers, watch: PodWatch) -> None:
        self.game, self.leavers, self.watch = game, leavers, watch
        self.known, self.uids = members(game), seats(game)
        self.ids = {m: i for i, m in game.member_ids().items()}
        self.injected = (game.status() or {})["injected"]
        self.since_ms = now_ms()
        self.staying = {o: m for o, m in self.known.items() if o < min(leavers["after"])}

    def scale_down(self) -> None:
        """Tell all of them to end, of which only the first may."""
        for which in (*self.leavers["during"], *self.leavers["after"]):
            linger(self.game, which)
        self.since_ms = now_ms()
        self.game.scale(len(self.staying))
        self.await_removed("before")

    def await_removed(self, *whens: str) -> None:
        leaving = {self.known[o] for when in whens for o in self.leavers[when]}
        until(lambda: leaving <= removed(self.game, self.since_ms).keys(), deadline_s=REMOVED_WITHIN_S,
              what=f"who left {' and '.join(whens)} of {self.game.name} removed", poll_s=0.2)  # fmt: skip

    def removed_s(self, when: str) -> list[float]:
        """Return the seconds from the visible end of each pod to the removal of its member."""
        at_ms = removed(self.game, self.since_ms)
        ended_at_ms = {o: self.watch.pods[self.uids[o]].terminal_at_ms for o in self.leavers[when]}
        return [(at_ms[self.known[o]] - (ended or 0)) / 1000 for o, ended in ended_at_ms.items()]

    def removed_at_ms(self, when: str) -> list[int]:
        at_ms = removed(self.game, self.since_ms)
        return [at_ms[self.known[o]] for o in self.leavers[when]]

    def is_without_gap(self) -> None:
        """The status has no doubt about any seat, and the ids are those that were given out."""
        status = self.game.status() or {}
        assert (blind(self.game, range(1000)), suspects(self.game)) == (set(), {})
        assert [row for row in status["exceptions"] if row["reason"] == "WatchGap"] == []
        assert status["injected"] == self.injected

    def has_lost_nothing(self) -> int:
        """Who departed was removed, by the operator and once, and nothing else happened; returns the rebalances."""
        game, removals = self.game, self.game.removals()
        departed = {m for o, m in self.known.items() if m not in self.staying.values()}
        assert sorted(str(e.member_id) for e in removals) == sorted(departed)
        assert game.events(GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED) == []
        until(lambda: members(game) == self.staying, deadline_s=10, what=f"only who stays to be shown in {game.name}")
        uids = seats(game)  # a member may be removed a little before the object of its pod goes
        assert [uids.get(o) for o in self.staying] == [self.uids[o] for o in self.staying]
        kind = GroupEventKind.REBALANCE_PREPARED if game.protocol == "classic" else GroupEventKind.EPOCH_BUMPED
        rebalances = game.events(kind, since_ms=self.since_ms)
        causes_ms = [e.at_ms for e in removals]
        unasked = [e for e in rebalances if all(abs(e.at_ms - at) > REBALANCE_AFTER_REMOVAL_MS for at in causes_ms)]
        assert unasked == []
        assert 1 <= len(rebalances) <= len(removals)
        return len(rebalances)

    def restart_first(self) -> None:
        """A pod of the earlier version's time is deleted; its successor gets its id, and takes its seat silently."""
        self.game.await_joined(len(self.staying))  # a restart within a rebalance makes another one
        game, since_ms, uid, member_id = self.game, now_ms(), self.uids[0], self.known[0]
        game.stage.kubectl("delete", "pod", f"{game.name}-0", "-n", game.name)
        until(lambda: seats(game).get(0) not in (None, uid), deadline_s=60, what="a successor of pod 0")
        until(lambda: members(game).get(0) not in (None, member_id), deadline_s=60, what="its member in the seat")
        assert game.member_ids().keys() == {self.ids[m] for m in self.staying.values()}
        assert (game.removals(since_ms), game.rebalances(since_ms)) == ([], 0)


def hand_over(earlier: Earlier, groups: Sequence[Departing]) -> int:
    """Upgrade, and let pods end meanwhile; returns when a replica of the checkout's was first seen to hold the Lease."""
    stage = earlier.stage
    old = {p["metadata"]["name"] for p in stage.operator_pods()}
    holder = stage.lease_holder()
    assert holder in old
    during = [[(g.game, o) for o in g.leavers["during"]] for g in groups]
    one, other, *rest = [each for each in itertools.chain.from_iterable(itertools.zip_longest(*during)) if each]

    def working() -> set[str]:
        return old & {p["metadata"]["name"] for p in stage.operator_pods()}

    earlier.upgrade()
    let_go(*one)
    until(lambda: holder not in working(), deadline_s=90, what="the holder of the earlier version to be told to end", poll_s=0.05)
    let_go(*other)
    until(lambda: not working(), deadline_s=90, what="every replica of the earlier version to be told to end", poll_s=0.05)
    for each in rest:
        let_go(*each)
    until(lambda: stage.lease_holder() not in {"", *old}, deadline_s=90, what="a replica of the checkout's at work", poll_s=0.05)
    return now_ms()


def of_a_preset(game: Play) -> dict[str, Any]:
    """Return a StaticGroup of no pods whose preset's client appends something to the ids that it is given."""
    body = game.static_group(workloadRef={"name": "none"}, groupId=f"{game.name}-none", identity={"preset": "SpringBoot"})
    return {**body, "metadata": {"name": "none", "namespace": game.name}}


def gets_the_default_of_now(game: Play) -> None:
    """A manifest without the field is put in the place of one that got the default of before: its ids go on to be those.

    The API server stores the default of the day; a preset whose client appends something would mean other ids by today's.
    """
    body = of_a_preset(game)
    found = game.stage.get("ksg", "none", game.name) or {}
    injected = found["status"]["injected"]
    assert found["spec"]["identity"]["suffix"] == "None"
    game.stage.kubectl("replace", "-f", "-", stdin=yaml.safe_dump(body))

    def read_again() -> dict[str, Any]:
        found = game.stage.get("ksg", "none", game.name) or {}
        return found if found["status"].get("observedGeneration") == found["metadata"]["generation"] else {}

    found = until(read_again, deadline_s=30, what="the replaced StaticGroup to be read")
    assert found["spec"]["identity"]["suffix"] == "Auto"
    assert found["status"]["injected"] == injected
    assert "suffixFollowsPreset" not in injected


def begin(games: Sequence[Play], watches: Sequence[PodWatch]) -> list[Departing]:
    """Start both groups and scale them down, of which the earlier version sees the first end."""
    classic, consumer = games
    static = {"sessionTimeout": {"mode": "Fixed", "seconds": SESSION_MS // 1000}}
    start_after_a_change(classic, 9, static, grace_s=300, pod=lingering_pod(classic))
    start_after_a_change(consumer, 5, {}, grace_s=300, pod=lingering_pod(consumer))
    for game, replicas in zip(games, (9, 5), strict=True):
        await_ready(game, replicas)
    until(lambda: all(continuity(g).get("watchEpoch") for g in games), deadline_s=60, what="both histories to be told")
    groups = [Departing(g, leavers, w) for g, leavers, w in zip(games, (CLASSIC, CONSUMER), watches, strict=True)]
    for group in groups:
        group.scale_down()
        group.is_without_gap()
    return groups


def end_the_rest(groups: Sequence[Departing]) -> None:
    """Let those end who go on until the newer version is alone, once who ended before that has been removed."""
    for group in groups:
        group.await_removed("during")
        group.is_without_gap()
        for which in group.leavers["after"]:
            let_go(group.game, which)
    for group in groups:
        group.await_removed("after")


def timeouts(game: Play) -> dict[str, Any]:
    """Return `status.timeout`."""
    found: dict[str, Any] = (game.status() or {})["timeout"]
    return found


def tell(replicas: int, groups: Sequence[Departing], rebalances: Sequence[int], upgraded_ms: int, handed_over_ms: int) -> None:
    """Record the figures and hold them against the targets."""

    def took_s(when: str) -> list[float]:
        return [s for group in groups for s in group.removed_s(when)]

    def at_ms(when: str) -> list[int]:
        return [at for group in groups for at in group.removed_at_ms(when)]

    by_the_newer = sum(at > handed_over_ms for at in at_ms("during"))
    record(
        f"upgrade in the middle of a scale-down, {replicas} replica(s)", removals=sum(len(g.game.removals()) for g in groups),
        rebalances=rebalances, sessions_expired=sum(len(g.game.events(GroupEventKind.SESSION_EXPIRED)) for g in groups),
        seats_blind=sum(len(blind(g.game, range(1000))) for g in groups),
        handed_over_s=round((handed_over_ms - upgraded_ms) / 1000, 1),
        during_removed_by_the_newer=by_the_newer,
        **{f"removed_s_{when}": spread(took_s(when)) for when in CLASSIC},
    )  # fmt: skip
    assert by_the_newer or replicas > 1, "somebody ended while nobody was at work"
    assert max(at_ms("before")) < upgraded_ms
    assert min(at_ms("after")) > handed_over_ms
    assert max(took_s("before") + took_s("after")) <= ACKNOWLEDGED_S_MAX
    assert max(took_s("during")) <= HANDED_OVER_S_MAX


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2], ids=["one-replica", "two-replicas"])
def test_upgrade_in_the_middle_of_a_scale_down_loses_nothing(new_play: NewPlay, earlier: Earlier, replicas: int) -> None:
    """With one replica nobody is at work for some seconds, in which pods end; with two there is always one that watches."""
    stage = earlier.stage
    earlier.install(replicas=replicas)
    games = new_play("classic"), new_play("kip848", protocol="consumer")
    stage.admin.alter_group(games[1].name, {"consumer.session.timeout.ms": "60000"})
    stage.apply(of_a_preset(games[0]))
    with games[0].watched() as one, games[1].watched() as other:
        groups = begin(games, (one, other))
        epoch, before = until(stage.continuity_epoch, deadline_s=30, what="a stored epoch"), timeouts(games[0])
        assert (before["effectiveMs"], "nextMs" in before) == (SESSION_MS, False)
        upgraded_ms = now_ms()
        handed_over_ms = hand_over(earlier, groups)
        stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")
        assert not any(earlier.is_of(p) for p in stage.operator_pods())
        end_the_rest(groups)
    assert stage.continuity_epoch() == epoch, "the watch goes on from where the earlier version's stood"
    after = until(lambda: "nextMs" in (t := timeouts(games[0])) and t, deadline_s=30, what="the timeouts as they are told now")
    assert (after["effectiveMs"], after["effectiveMaxMs"], after["nextMs"]) == (SESSION_MS,) * 3
    rebalances = [group.has_lost_nothing() for group in groups]
    gets_the_default_of_now(games[0])
    await_injecting(games[0])  # for the tests that follow
    for group in groups:
        group.is_without_gap()
        group.restart_first()
    tell(replicas, groups, rebalances, upgraded_ms, handed_over_ms)
