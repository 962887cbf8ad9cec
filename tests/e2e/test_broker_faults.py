"""Brokers die around a removal: it is done in the end, and a removal that the fail-over undid is done again.

The one idea: a classic LeaveGroup is acknowledged before the next generation is stored (seen on 4.4.0), so a
coordinator that dies in between takes the removal back. Truth is what each coordinator logged: removed, loaded with how
many, removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.devcluster.kafka_admin import BrokerRefused
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log import GroupEvent, GroupLog, now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.progress import say
from support.scene.detached_admin import DetachedAdmin
from support.scene.figures import record
from support.scene.play import Play
from support.scene.stage import SYSTEM, Stage
from support.scene.witnesses import ProcessTable, is_operators
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(500)]

K = GroupEventKind
LONG_SESSION = {"sessionTimeout": {"seconds": 120}}
TRIES = 4


def revive(brokers: Brokers) -> None:
    """Start every node that is dead, all at once: a single one has no quorum."""
    Brokers.up(brokers.state.settings, report=say)


def await_removed(play: Play, log: GroupLog, member_id: str, since_ms: int) -> GroupEvent:
    def is_it(event: GroupEvent) -> bool:
        return is_operators(event) and event.member_id == member_id

    return log.wait_for(is_it, group_id=play.name, since_ms=since_ms, timeout_s=100)


def await_gone(play: Play, instance_id: str) -> None:
    """Wait until a stable group, as a new client sees it, has no member of this id."""
    if isinstance(play.admin, DetachedAdmin):
        play.admin.close()  # a client that saw all brokers die may never answer again

    def gone() -> bool:
        try:
            group = play.admin.describe_group(play.name)
        except BrokerRefused:  # no coordinator yet
            return False
        return group.state == "Stable" and instance_id not in {m.instance_id for m in group.members}

    until(gone, deadline_s=60, what=f"{instance_id} gone from a stable group", poll_s=0.3)


def last_id(play: Play) -> tuple[str, str]:
    """Return instance id and member id of the highest ordinal."""
    return max(play.member_ids().items(), key=lambda pair: int(pair[0].removeprefix(f"{play.name}-").split(".")[0]))


@pytest.mark.long
def test_removal_waits_for_brokers_that_are_down_and_is_done_when_they_are_back(
    new_play: Callable[..., Play], three_brokers: Brokers
) -> None:
    revive(three_brokers)
    play = new_play(other_brokers=three_brokers)
    play.start(3, static=LONG_SESSION, podManagementPolicy="Parallel")
    log = three_brokers.group_log

    instance_id, member_id = last_id(play)
    killed_at_ms = now_ms()
    three_brokers.kill(three_brokers.coordinator(play.name))
    play.scale(2)
    one_down = await_removed(play, log, member_id, killed_at_ms)
    await_gone(play, instance_id)

    instance_id, member_id = last_id(play)
    for node in three_brokers.nodes:
        three_brokers.kill(node)
    play.scale(1)
    until(lambda: len(play.pods()) == 1, deadline_s=60, what="the departed pod gone")
    revived_at_ms = now_ms()
    revive(three_brokers)
    all_down = await_removed(play, log, member_id, revived_at_ms)
    await_gone(play, instance_id)

    assert play.events(K.SESSION_EXPIRED) == [], "removed by the operator, not by the session"
    record(
        "removal with brokers down", coordinator_killed_to_removed_s=(one_down.at_ms - killed_at_ms) / 1000,
        all_brokers_started_to_removed_s=(all_down.at_ms - revived_at_ms) / 1000,
    )  # fmt: skip


def kill_coordinator_at_removal(play: Play, brokers: Brokers) -> tuple[str, bool, int]:
    """Scale the play down by one, kill the coordinator once it logged the removal, and wait for the next coordinator.

    Returns
    -------
    Member id of the departed member, whether the fail-over brought it back, and the milliseconds from line to kill.
    """
    before = play.admin.describe_group(play.name).members
    instance_id, member_id = last_id(play)
    log, coordinator = brokers.group_log, brokers.coordinator(play.name)
    log.events()  # only what comes from now on is left to be read
    began_at_ms = now_ms()
    play.scale(len(before) - 1)
    removed = until(
        lambda: [e for e in log.events(play.name, since_ms=began_at_ms) if is_operators(e)],
        deadline_s=100, what="a removal to kill the coordinator at", poll_s=0.004,
    )  # fmt: skip
    brokers.kill(coordinator)
    killed_at_ms = now_ms()
    loaded = log.wait_for(
        lambda e: e.kind is K.GROUP_LOADED and e.node_id != coordinator,
        group_id=play.name, since_ms=removed[0].at_ms, timeout_s=60,
    )  # fmt: skip
    assert [e.member_id for e in removed] == [member_id]
    is_back = loaded.member_count == len(before)
    if is_back:
        again = await_removed(play, log, member_id, loaded.at_ms)
        assert again.node_id != coordinator
        record(
            "removal undone by a fail-over", line_to_kill_ms=killed_at_ms - removed[0].at_ms,
            loaded_to_removed_again_s=(again.at_ms - loaded.at_ms) / 1000,
        )  # fmt: skip
    await_gone(play, instance_id)
    return member_id, is_back, killed_at_ms - removed[0].at_ms


@pytest.mark.long
def test_removal_that_a_dying_coordinator_forgot_is_done_again(
    new_play: Callable[..., Play], three_brokers: Brokers
) -> None:
    play = new_play(other_brokers=three_brokers)
    play.start(TRIES + 2, static=LONG_SESSION, podManagementPolicy="Parallel")
    came_back = []
    for _ in range(TRIES):
        revive(three_brokers)
        member_id, is_back, _ = kill_coordinator_at_removal(play, three_brokers)
        came_back.append(is_back)
        assert member_id not in play.member_ids().values()
        if is_back:
            break
    revive(three_brokers)
    assert any(came_back), f"no fail-over was early enough to undo a removal in {TRIES} tries"
    expired = [e.member_id for e in play.events(K.SESSION_EXPIRED)]
    assert expired == [], "removed by the operator, not by the session"


def metrics(stage: Stage) -> str:
    """Return what all replicas of the operator expose."""
    names = [p["metadata"]["name"] for p in stage.operator_pods()]
    return "\n".join(
        stage.kubectl("get", "--raw", f"/api/v1/namespaces/{SYSTEM}/pods/{n}:8080/proxy/metrics") for n in names
    )


@pytest.mark.long
def test_deletion_with_kafka_down_is_quick_and_leaves_nothing(
    new_play: Callable[..., Play], three_brokers: Brokers, process_table: ProcessTable
) -> None:
    revive(three_brokers)
    play = new_play(other_brokers=three_brokers)
    stage = play.stage
    play.start(3, podManagementPolicy="Parallel")
    ids = list(play.member_ids())
    until(lambda: f'namespace="{play.name}"' in metrics(stage), deadline_s=30, what="metrics of the namespace")
    restarts = stage.operator_restarts()
    for node in three_brokers.nodes:
        three_brokers.kill(node)
    try:
        until(lambda: play.condition("Connected").get("status") == "False", deadline_s=60, what="the operator notices")
        began_s = time.monotonic()
        stage.kubectl("delete", "ksg", play.name, "-n", play.name, "--timeout=30s")
        stage.kubectl("delete", "kafkaconnection", "kafka", "-n", play.name, "--timeout=30s")
        group_s = time.monotonic() - began_s
        stage.apply(play.static_group(), play.connection())
        began_s = time.monotonic()
        stage.kubectl("delete", "namespace", play.name, "--timeout=60s")
        namespace_s = time.monotonic() - began_s
    finally:
        revive(three_brokers)
    assert not any(process_table.is_alive(each) for each in ids), "a process outlived its namespace"
    until(lambda: f'namespace="{play.name}"' not in metrics(stage), deadline_s=10, what="metrics forget the namespace")
    holds(lambda: f'namespace="{play.name}"' not in metrics(stage), for_s=3, what="metrics stay without the namespace")
    assert stage.operator_restarts() == restarts
    record("deletion with Kafka down", group_and_connection_s=round(group_s, 2), namespace_s=round(namespace_s, 2))
    assert max(group_s, namespace_s) <= 30
