"""Fleets of two kinds for a while: classic and KIP-848 clients, static and dynamic members, two workloads with one id.

The one idea: the kind changes as users change it, by a rollout of the StatefulSet with the operator in place, and the
brokers' log, the clients' own lines and the process table show what it costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import record
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NewPlay = Callable[..., Play]
LOSSES = (
    GroupEventKind.REMOVED, GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED, GroupEventKind.JOIN_REFUSED,
    GroupEventKind.REBALANCE_TIMED_OUT,
)  # fmt: skip
PODS = by_length(short=2, long=4)
SESSION_S = 20
"""Of classic members that leave their seats behind, so that the test does not wait long for their end."""


def switch(game: Play, protocol: str, replicas: int, **spec: Any) -> None:
    """Declare the next protocol, then roll to it, as the guide says."""
    game.protocol = protocol
    game.stage.apply(game.static_group(**spec))

    def is_injected() -> bool:
        timeout = (game.status() or {}).get("injected", {}).get("sessionTimeoutMs")
        return (timeout is None) is (protocol == "consumer")

    until(is_injected, deadline_s=30, what=f"the next pods to be made for {protocol}")
    game.stage.apply(game.stateful_set(replicas, podManagementPolicy="Parallel"))
    game.stage.kubectl("rollout", "status", f"statefulset/{game.name}", "-n", game.name, "--timeout=180s")
    game.await_joined(replicas)


def partitions(game: Play) -> set[int]:
    """Return the partitions with an owner, as the coordinator describes the group."""
    return {number for m in game.admin.describe_group(game.name).members for _, number in m.topic_partitions}


def fatal(lines: PodLines) -> list[str]:
    """Return every fatal error that a client of the play ever had."""
    return [line["error"] for voice in lines.voices() for line in voice.of_kind("error") if line["fatal"]]


@pytest.mark.long
@pytest.mark.parametrize("first", ["classic", "consumer"])
def test_a_fleet_changes_its_protocol_and_back_seat_by_seat(new_play: NewPlay, first: str) -> None:
    """The coordinator needs no leave of a seat that a member of the other protocol holds (KIP-848)."""
    other = {"classic": "consumer", "consumer": "classic"}[first]
    game = new_play(protocol=first)
    with collected_lines(game.stage.cluster, game.name) as lines:
        game.start(PODS, podManagementPolicy="Parallel")
        assert game.admin.group_type(game.name) == first
        seats = set(game.member_ids())
        for protocol in (other, first):
            since_ms, began_s, before = now_ms(), time.monotonic(), game.member_ids()
            switch(game, protocol, PODS)
            what = f"a {protocol} group"
            until(lambda p=protocol: game.admin.group_type(game.name) == p, deadline_s=30, what=what)  # type: ignore
            until(
                lambda: partitions(game) == set(range(game.partitions)),
                deadline_s=60,
                what="every partition with an owner",
            )
            replaced = game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=since_ms)
            kinds = (GroupEventKind.REBALANCE_PREPARED, GroupEventKind.EPOCH_BUMPED)
            rebalances = len(game.events(*kinds, since_ms=since_ms))
            assert set(game.member_ids()) == seats
            assert not set(game.member_ids().values()) & set(before.values())
            assert len(replaced) == PODS
            assert game.events(*LOSSES, since_ms=since_ms) == []
            took_s = round(time.monotonic() - began_s, 1)
            record("protocol changed", to=protocol, pods=PODS, rebalances=rebalances, took_s=took_s)
        errors = fatal(lines)
    assert errors == []
    assert all(s["restartCount"] == 0 for p in game.pods() for s in p["status"]["containerStatuses"])
    until(lambda: game.condition("MembershipComplete").get("status") == "True", deadline_s=30, what="a complete group")


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_become_dynamic_ones_and_static_again(new_play: NewPlay, protocol: str) -> None:
    """Seats that a roll leaves behind are wanted, so the operator does not remove them: their sessions expire."""
    game = new_play(protocol=protocol)
    session = {"sessionTimeout": {"seconds": SESSION_S}} if protocol == "classic" else {}
    game.start(PODS, static=session, podManagementPolicy="Parallel")
    since_ms, left = now_ms(), set(game.member_ids().values())
    game.stage.apply(game.static_group(client={"type": "Own"}, idTemplate="{podName}.{scope}", **session))
    until(lambda: game.condition("Injected").get("reason") == "InjectionOff", deadline_s=30, what="no more ids")
    game.roll()

    def kinds() -> tuple[int, int]:
        members = game.admin.describe_group(game.name).members
        return sum(m.instance_id is None for m in members), sum(m.instance_id is not None for m in members)

    until(lambda: kinds() == (PODS, 0), deadline_s=120, what="dynamic members only")
    assert {e.member_id for e in game.events(GroupEventKind.SESSION_EXPIRED, since_ms=since_ms)} <= left
    assert game.removals(since_ms) == []
    assert game.condition("Injected")["reason"] == "PodsWithoutId"
    game.stage.apply(game.static_group(**session))
    until(lambda: game.condition("Injected").get("reason") == "PodsWithoutId"
          and "rollout restart" in game.condition("Injected")["message"],
          deadline_s=30, what="the pods without id to be named")  # fmt: skip
    game.roll()
    until(lambda: kinds() == (0, PODS), deadline_s=120, what="static members only")
    assert game.removals(since_ms) == []
    record("dynamic and static again", protocol=protocol, pods=PODS)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_second_workload_with_the_same_ids_is_named_within_a_minute_and_removes_no_member(
    new_play: NewPlay, protocol: str
) -> None:
    """In a classic group the two fence each other again and again, in a KIP-848 group the later one is refused."""
    game = new_play(protocol=protocol)
    game.start(PODS, podManagementPolicy="Parallel")
    twin = next(i for i in game.member_ids() if i.startswith(f"{game.name}-0."))
    copy = game.stateful_set(1, env={"KAFKA_GROUP_INSTANCE_ID": twin})
    labels = {"app": f"{game.name}-copy"}
    copy["metadata"]["name"] = f"{game.name}-copy"
    copy["spec"] |= {"selector": {"matchLabels": labels}}
    copy["spec"]["template"]["metadata"]["labels"] = labels
    began_s = time.monotonic()
    game.stage.apply(copy)

    def copies() -> list[dict[str, Any]]:
        return [e for e in (game.status() or {}).get("issues", []) if e["reason"] == "IdCarriedTwice"]

    (said,) = until(copies, deadline_s=60, what="the copy to be named")
    named_s = round(time.monotonic() - began_s, 1)
    assert said["instanceId"] == twin
    assert f"pod {game.name}/{game.name}-copy-0 " in said["message"]
    game.stage.kubectl("delete", "statefulset", f"{game.name}-copy", "-n", game.name)
    until(lambda: not copies(), deadline_s=60, what="the end of the copy to be noticed")
    until(lambda: set(game.member_ids()) == {i for i in game.member_ids() if not i.startswith(f"{game.name}-copy")} and
          len(game.member_ids()) == PODS, deadline_s=120, what="the fleet to be whole")  # fmt: skip
    assert game.removals() == []
    record("second workload with the same id", protocol=protocol, named_s=named_s)
