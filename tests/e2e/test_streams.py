"""Kafka Streams with state: pods are rolled, crashed and scaled, and no state is restored without need.

The one idea: each cost is measured where it occurs: the brokers' log counts generations, the application's own restore
listener counts records that were read again, and its stores hold a number for every offset that they have ever seen.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.long_drills import by_length
from support.scene.figures import prompt_s, record, spread
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.scene.stage import Stage
from support.scene.witnesses import PodWatch, ProcessTable
from support.streams import deployment
from support.streams.deployment import THREADS
from support.streams.image import load_streams_image
from support.streams.members import described, partitions, streams_processes
from support.waiting import until
from support.workload.process import Program, ranges_of
from support.workload.ranges import size

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

PODS, PARTITIONS = 3, 18
SESSION_S = 120
LONG_SESSION = {"sessionTimeout": {"seconds": SESSION_S}}
RATE_PER_S = 300
ROLLS = by_length(short=1, long=3)
ACKNOWLEDGED_S_MAX = prompt_s(1.5, otherwise_s=15)
BATCH_MS_MAX = prompt_s(0.1, otherwise_s=1) * 1000
"""The coordinator removes the members of one request in one turn; its log lines may be this far apart."""
DEPARTURES = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED)


def instance_ids(game: Play, ordinal: int) -> set[str]:
    """Return the ids of one pod's threads that are in the group."""
    return {i for i in game.member_ids() if i.startswith(f"{game.name}-{ordinal}.")}


def is_balanced(game: Play, lines: PodLines) -> bool:
    """Say whether every thread has its share of the partitions, and every pod has opened the stores of its threads."""
    held = [m.topic_partitions for m in game.admin.describe_group(game.name).members]
    opened = Counter(deployment.hosts(lines).values())
    share = PARTITIONS // (PODS * THREADS)
    return [len(each) for each in held] == [share] * PODS * THREADS and [*opened.values()] == [share * THREADS] * PODS


def roll(game: Play, lines: PodLines) -> float:
    """Roll all pods and return the seconds it took; every store opened again in its place with all its records."""
    before, began_ms = deployment.hosts(lines), now_ms()
    game.roll()
    game.await_joined(PODS * THREADS)
    opened = deployment.await_opened(lines, range(PARTITIONS), began_ms, deadline_s=60)
    took_s = (now_ms() - began_ms) / 1000
    assert {partition: pod for partition, (pod, _) in opened.items()} == before
    assert {(line["count"] == line["next"] > 0) for _, line in opened.values()} == {True}
    return took_s


def crash(game: Play, lines: PodLines, ordinal: int) -> float:
    """Kill the process of one pod and return how long it took until all its stores were open again."""
    name = f"{game.name}-{ordinal}"
    pod = next(p for p in game.pods() if p["metadata"]["name"] == name)
    mine = [partition for partition, host in deployment.hosts(lines).items() if host == name]
    members, began_ms = game.member_ids(), now_ms()
    for node in game.stage.cluster.nodes:
        node.kill_pod(pod["metadata"]["uid"])
    opened = deployment.await_opened(lines, mine, began_ms, deadline_s=60)
    took_s = (now_ms() - began_ms) / 1000
    assert {host for host, _ in opened.values()} == {name}
    assert {line["count"] == line["next"] for _, line in opened.values()} == {True}
    game.await_joined(PODS * THREADS)
    replaced = {i for i, member_id in game.member_ids().items() if members[i] != member_id}
    assert replaced == instance_ids(game, ordinal)
    return took_s


def leave(game: Play, watch: PodWatch, table: ProcessTable) -> tuple[list[GroupEvent], int]:
    """Scale the last pod away; return the removals of its members, and when the end of the pod was visible."""
    last = f"{game.name}-{PODS - 1}"
    (uid,) = [p["metadata"]["uid"] for p in game.pods() if p["metadata"]["name"] == last]
    leaving = {i: m for i, m in game.member_ids().items() if i in instance_ids(game, PODS - 1)}
    assert len(leaving) == THREADS
    since_ms = now_ms()
    game.scale(PODS - 1)

    def removed() -> list[GroupEvent]:
        found = game.removals(since_ms)
        return found if len(found) >= THREADS else []

    removals = until(removed, deadline_s=SESSION_S / 2, what=f"{THREADS} members to be removed", poll_s=0.2)
    assert {e.member_id for e in removals} == set(leaving.values())
    base = next(iter(leaving)).rpartition("-")[0]
    assert max(life.last_seen_ms for life in table.lives(base)) < min(e.at_ms for e in removals)
    terminal_at_ms = watch.pods[uid].terminal_at_ms
    assert terminal_at_ms is not None
    return removals, terminal_at_ms


def uncounted(producer: Program, lines: PodLines) -> dict[int, dict[str, Any]]:
    """Return acknowledged and counted records of each partition whose store does not hold every record once."""
    acked, counts = ranges_of(producer.lines, "acked"), deployment.counts(lines)
    store_lines = deployment.store_lines(lines)
    return {
        partition: {"acked": acked.get(partition), "counted": store_lines.get(partition, [])[-4:]}
        for partition in sorted(acked.keys() | counts.keys())
        if counts.get(partition) != (size(acked.get(partition, [])),) * 2
    }


def await_counted(producer: Program, lines: PodLines, deadline_s: float) -> None:
    """Wait until the stores hold every acknowledged record once; the error shows what differs."""
    try:
        until(
            lambda: not uncounted(producer, lines),
            deadline_s=deadline_s,
            what="every acknowledged record to be counted once",
        )
    except AssertionError as late:
        raise AssertionError(f"{late}; what differs: {uncounted(producer, lines)}") from None


@pytest.mark.long
def test_streams_with_state_are_rolled_crashed_and_scaled(
    new_play: Callable[..., Play], process_table: ProcessTable, tmp_path: Path
) -> None:
    game = new_play(partitions=PARTITIONS)
    load_streams_image(game.stage.cluster)
    load = {"BOOTSTRAP": game.stage.brokers.bootstrap, "TOPIC": game.name, "RATE_PER_S": str(RATE_PER_S)}
    producer = Program("producer", load)
    try:
        with game.watched() as watch, collected_lines(game.stage.cluster, game.name) as lines:
            deployment.start(game, PODS, tmp_path, **LONG_SESSION)
            producer.wait_for_kind("acked")
            until(lambda: is_balanced(game, lines), deadline_s=90, what="every thread has its tasks", poll_s=0.5)
            assert game.rebalances(game.since_ms) > 0  # so the brokers' log does show rebalances
            assert {len(instance_ids(game, n)) for n in range(PODS)} == {THREADS}

            quiet_since_ms = now_ms()
            rolls_s = [roll(game, lines) for _ in range(ROLLS)]
            rolled_until_ms = now_ms()
            read_again = deployment.restored(lines, quiet_since_ms)
            assert read_again == []
            assert len(deployment.generations(lines, quiet_since_ms)) == 1

            crashed_s = crash(game, lines, ordinal=1)
            after_crash = deployment.restored(lines, rolled_until_ms)
            # What was not in a checkpoint yet is read again, as Kafka Streams does; everything else was on the volume.
            assert [line for line in after_crash if line["from"] == 0] == []
            rebalances, departed = game.rebalances(quiet_since_ms), game.events(*DEPARTURES, since_ms=quiet_since_ms)

            scaled_at_ms = now_ms()
            removals, terminal_at_ms = leave(game, watch, process_table)
            game.await_joined((PODS - 1) * THREADS)
            survivors = {f"{game.name}-{n}" for n in range(PODS - 1)}
            until(
                lambda: set(deployment.hosts(lines).values()) == survivors, deadline_s=60, what="tasks to be taken over"
            )
            taken_over = deployment.restored(lines, scaled_at_ms)
            assert producer.terminate() == 0
            await_counted(producer, lines, deadline_s=60)
            acknowledged_s = [(e.at_ms - terminal_at_ms) / 1000 for e in removals]
            within_ms = max(e.at_ms for e in removals) - min(e.at_ms for e in removals)
            record(
                "Kafka Streams, 3 pods of 3 threads",
                session_s=SESSION_S,
                rolls=ROLLS,
                roll_s=spread(rolls_s),
                records_restored_by_rolls=sum(line["records"] for line in read_again),
                crash_to_all_stores_open_s=round(crashed_s, 1),
                records_restored_by_crash=sum(line["records"] for line in after_crash),
                generations=rebalances,
                departures=len(departed),
                removed_in_scale_down=len(removals),
                acknowledged_s=spread(acknowledged_s),
                removals_within_ms=within_ms,
                records_restored_by_scale_down=sum(line["records"] for line in taken_over),
                records_counted=sum(count for count, _ in deployment.counts(lines).values()),
            )
    finally:
        if producer.is_running:
            producer.terminate()
    assert rebalances <= 1
    assert departed == []
    assert [line for line in lines.lines("error")] == []
    # Otherwise the last count of a store could be of a pod that no longer has it.
    assert deployment.counted_too_late(lines) == []
    assert taken_over != []  # so the listener does show restored state
    assert len(removals) == THREADS
    assert within_ms <= BATCH_MS_MAX
    assert min(acknowledged_s) > -2.0
    assert max(acknowledged_s) <= ACKNOWLEDGED_S_MAX


def test_static_members_of_the_streams_protocol_are_rolled_in_one_epoch(stage: Stage) -> None:
    """Three processes of three threads, rolled three times: each member returns in its epoch to its tasks."""
    name = f"streams-protocol-{os.urandom(2).hex()}"
    stage.admin.create_topic(name, partitions=PARTITIONS)

    async def story() -> None:
        async with streams_processes(stage.brokers, name, name) as fleet:
            names = [f"{name}-{n}" for n in range(PODS)]
            for each in names:
                await fleet.start(each, f"{each}.0123abcd", THREADS)
            before = await fleet.settle()
            tasks = fleet.tasks()
            assert partitions(tasks) == list(range(PARTITIONS))
            assert {len(held) for held in tasks.values()} == {PARTITIONS // (PODS * THREADS)}
            for each in names * 3:
                await fleet.close(each)
                await fleet.beat()
                await fleet.start(each, f"{each}.0123abcd", THREADS)
            after = await fleet.settle()
            assert (after.group_epoch, after.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
            assert {m.instance_id for m in after.members} == {m.instance_id for m in before.members} == set(tasks)
            assert not {m.member_id for m in after.members} & {m.member_id for m in before.members}
            assert fleet.tasks() == tasks

    asyncio.run(story())
    log = stage.brokers.group_log
    replaced = log.events(name, kind=GroupEventKind.STATIC_MEMBER_REPLACED)
    record("streams protocol, 3 processes of 3 threads", rolls=3, members_replaced=len(replaced))
    assert len(replaced) == 3 * PODS * THREADS
    assert max(e.at_ms for e in log.events(name, kind=GroupEventKind.EPOCH_BUMPED)) < min(e.at_ms for e in replaced)


def sleepers(game: Play) -> dict[str, Any]:
    """Return a StatefulSet whose pods are given ids and do nothing: their members are driven from here."""
    made = game.stateful_set(PODS, grace_s=2, podManagementPolicy="Parallel")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container |= {"command": ["sleep", "3600"], "readinessProbe": None}
    return made


def test_members_of_the_streams_protocol_leave_long_before_their_session_ends(
    new_play: Callable[..., Play], process_table: ProcessTable
) -> None:
    game = new_play(partitions=PARTITIONS)
    game.stage.admin.alter_group(game.name, {"streams.session.timeout.ms": "60000"})
    game.stage.apply(game.static_group(**deployment.STATIC, groupProtocol="Streams"))
    until(lambda: (game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    game.stage.apply(sleepers(game))

    def pods() -> dict[str, str] | None:
        found = {p["metadata"]["name"]: p for p in game.pods() if p["status"].get("phase") == "Running"}
        ids = {name: p["metadata"]["annotations"]["staticgroup.io/instance-id"] for name, p in found.items()}
        return ids if len(ids) == PODS else None

    ids = until(pods, deadline_s=60, what="the pods to run")
    last = f"{game.name}-{PODS - 1}"
    gone: dict[str, str] = {}

    async def story() -> None:
        async with streams_processes(game.brokers, game.name, game.name) as fleet:
            for name, instance_id in ids.items():
                await fleet.start(name, instance_id, THREADS)
            before = await fleet.settle()
            gone.update({m.member_id: str(m.instance_id) for m in before.members if ids[last] in str(m.instance_id)})
            await fleet.close(last)
            await asyncio.to_thread(game.scale, PODS - 1)

            async def removed() -> bool:
                await fleet.beat()
                return not {m.member_id for m in (await described(fleet.talk)).members} & gone.keys()

            await fleet.talk.until(removed, within_s=30)
            after = await fleet.settle()
            assert {m.instance_id for m in after.members} == set(fleet.tasks())
            assert partitions(fleet.tasks()) == list(range(PARTITIONS))

    with game.watched() as watch:
        asyncio.run(story())
        (sighting,) = [p for p in watch.pods.values() if p.name == last]
    assert len(gone) == THREADS
    left = [e for e in game.events(GroupEventKind.LEFT) if e.member_id in gone]
    assert len(left) == THREADS
    assert sighting.terminal_at_ms is not None
    acknowledged_s = [(e.at_ms - sighting.terminal_at_ms) / 1000 for e in left]
    within_ms = max(e.at_ms for e in left) - min(e.at_ms for e in left)
    record("streams protocol, scale-down", acknowledged_s=spread(acknowledged_s), removals_within_ms=within_ms)
    assert max(life.last_seen_ms for life in process_table.lives(ids[last])) < min(e.at_ms for e in left)
    assert min(acknowledged_s) > -2.0
    assert max(acknowledged_s) <= ACKNOWLEDGED_S_MAX
