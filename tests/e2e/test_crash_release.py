"""A killed process of a KIP-848 group is back at once with the release, and a session later without it.

The one idea: what a crash cost is seen by another client that describes the group, and by the kubelet's count of
restarts, never by the operator. Clients differ in what they do when they are refused, so each is crashed with and
without.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.process import signal_each
from support.jvm_workload.image import JVM_WORKLOAD_IMAGE, load_jvm_workload_image
from support.long_drills import by_length
from support.scene.figures import record, spread
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SESSION_S = 45
"""Of a stock broker (group.consumer.session.timeout.ms)."""
HEARTBEAT_S = 5
"""Stock group.consumer.heartbeat.interval.ms; the session counts from the last heartbeat before the crash."""
SEEN_FOR_S = 20.0
"""The operator has described a member 10 s before it is released."""
PODS = by_length(short=3, long=4)
ROUNDS = by_length(short=1, long=5)
"""Each pod is crashed once a round: a new pod has no back-off, and one that was refused needs a new process."""
WINS_MIN = 0.95
CLIENTS: dict[str, dict[str, str]] = {
    "silent": {"EXIT_ON_FATAL": "false"}, "exits": {"EXIT_ON_FATAL": "true"}, "slow": {"EXIT_ON_FATAL": "true"},
    "jvm": {},
}  # fmt: skip
"""librdkafka in an application that ignores its fatal error, in one that ends with it, and in one that ends and starts
as slowly as a large JVM; and the Java client, whose application ends with its exception."""
STARTS_AFTER_S = 3
ALWAYS_WINS = ("slow", "jvm")
"""Their start takes longer than the release; the others race with it."""


def started(game: Play, removal: str, client: str, pods: int) -> None:
    """Bring pods of a client up."""
    game.stage.apply(game.static_group(removal=removal))
    until(lambda: (game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    workload = game.stateful_set(pods, env=CLIENTS[client], podManagementPolicy="Parallel")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    if client == "slow":
        container["command"] = ["sh", "-c", f"sleep {STARTS_AFTER_S}; exec python consumer.py"]
    if client == "jvm":
        load_jvm_workload_image(game.stage.cluster)
        container["image"] = JVM_WORKLOAD_IMAGE
    game.stage.apply(workload)
    game.await_joined(pods)


def await_seen(game: Play) -> None:
    """Let the members stay for as long as the operator must have seen them."""
    members = game.member_ids()
    holds(lambda: game.member_ids() == members, for_s=SEEN_FOR_S, what="the members stay", poll_s=2.0)


def replace_pods(game: Play) -> None:
    """Delete all pods, which leave in good order, and wait until their successors have joined."""
    before = game.member_ids()
    game.stage.kubectl("delete", "pod", "-l", f"app={game.name}", "-n", game.name)

    def are_replaced() -> bool:
        now = game.member_ids()
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    until(are_replaced, deadline_s=SESSION_S + 90, what="new members in all seats", poll_s=0.3)


def restarts(game: Play, pod_name: str) -> int:
    (pod,) = (p for p in game.pods() if p["metadata"]["name"] == pod_name)
    return sum(s["restartCount"] for s in pod["status"].get("containerStatuses", []))


def crash(game: Play, pod_name: str, *, wait_s: float) -> tuple[float | None, int]:
    """Kill the process of a pod.

    Returns
    -------
    Seconds until another member holds its id, None when that took longer than `wait_s`; and how often it was started
    for it.
    """
    instance_id = next(i for i in game.member_ids() if i.startswith(f"{pod_name}."))
    ghost, before = game.member_ids()[instance_id], restarts(game, pod_name)
    (uid,) = (p["metadata"]["uid"] for p in game.pods() if p["metadata"]["name"] == pod_name)
    pids = game.stage.cluster.pod_processes(uid)
    assert pids, "a process to kill"
    signal_each(pids, signal.SIGKILL)
    killed_s = time.monotonic()

    def is_back() -> bool:
        return game.member_ids().get(instance_id, ghost) != ghost

    while not is_back() and time.monotonic() - killed_s < wait_s:
        time.sleep(0.1)
    back_s = time.monotonic() - killed_s if is_back() else None
    # A member may be back before the kubelet has reported that it was started.
    until(lambda: restarts(game, pod_name) > before, deadline_s=30, what="the restart in the status")
    return back_s, restarts(game, pod_name) - before


def held(game: Play, pod_name: str) -> frozenset[tuple[str, int]]:
    """Return the partitions of a pod's member, as the coordinator describes the group to another client."""
    members = game.admin.describe_group(game.name).members
    return next((m.topic_partitions for m in members if (m.instance_id or "").startswith(f"{pod_name}.")), frozenset())


def await_held(game: Play, pod_name: str, partitions: frozenset[tuple[str, int]]) -> None:
    """Wait until a pod's member has these partitions and no others."""
    until(lambda: held(game, pod_name) == partitions, deadline_s=15, what="the same partitions are back", poll_s=0.3)


def release_lines(game: Play) -> list[str]:
    logs = game.stage.operator_logs()
    return [line for line in logs.splitlines() if "member release" in line and game.name in line]


def refusals(lines: PodLines, pod_name: str) -> list[str]:
    """Return which fatal errors the client of a pod had."""
    return [line["error"] for voice in lines.voices(pod_name) for line in voice.of_kind("error") if line["fatal"]]


@pytest.mark.parametrize(
    "client",
    [
        "jvm", pytest.param("silent", marks=pytest.mark.long), pytest.param("exits", marks=pytest.mark.long),
        pytest.param("slow", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_crashed_process_is_back_at_once(new_play: Callable[..., Play], client: str) -> None:
    game = new_play(protocol="consumer")
    started(game, "DepartedAndCrashed", client, PODS)
    waited_s: list[float] = []
    starts: Counter[int] = Counter()
    for number in range(ROUNDS):
        if number:
            replace_pods(game)
        await_seen(game)
        for ordinal in range(PODS):
            since_ms, pod_name = now_ms(), f"{game.name}-{ordinal}"
            before = held(game, pod_name)
            assert before
            back_s, runs = crash(game, pod_name, wait_s=30.0)
            starts[runs] += 1
            if back_s is not None and runs == 1:
                waited_s.append(back_s)
                await_held(game, pod_name, before)
                assert game.rebalances(since_ms) == 0
    sent, won, crashes = release_lines(game), len(waited_s), ROUNDS * PODS
    back_s = spread(waited_s) if waited_s else None
    record(
        "crash release", client=client, crashes=crashes, won=won, released=len(sent), starts=dict(starts), back_s=back_s
    )
    assert len(sent) >= max(1, won)
    assert all('"outcome": "Released"' in line for line in sent)
    if client in ALWAYS_WINS:
        assert won >= WINS_MIN * crashes


@pytest.mark.long
@pytest.mark.parametrize("client", ["silent", "exits", "jvm"])
def test_without_it_a_crashed_process_waits_for_its_own_session(new_play: Callable[..., Play], client: str) -> None:
    game = new_play(protocol="consumer")
    pod_name = f"{game.name}-0"
    with collected_lines(game.stage.cluster, game.name) as lines:
        started(game, "Departed", client, 2)
        await_seen(game)
        since_ms = now_ms()
        back_s, starts = crash(game, pod_name, wait_s=SESSION_S + 75)
        errors = refusals(lines, pod_name)
    rebalances = game.rebalances(since_ms)
    record("crash without release", client=client, back_s=back_s, starts=starts, errors=errors, rebalances=rebalances)
    assert back_s is None or back_s >= SESSION_S - HEARTBEAT_S
    if client == "silent":
        assert (back_s, starts) == (None, 1)
    if client == "jvm":
        assert starts >= 3
        assert errors == ["UnreleasedInstanceIdException"] * (starts - 1)
        assert back_s is not None
    assert release_lines(game) == []
    warnings = [e.get("message", "") for e in game.stage.items("events", game.name) if e.get("type") == "Warning"]
    assert any("have crashed" in message for message in warnings)


def test_a_crashed_pod_is_named_with_its_remedy(new_play: Callable[..., Play]) -> None:
    game = new_play(protocol="consumer")
    started(game, "Departed", "silent", 2)
    await_seen(game)
    back_s, _ = crash(game, f"{game.name}-1", wait_s=5.0)
    assert back_s is None

    def named() -> list[dict[str, Any]]:
        exceptions = (game.status() or {}).get("issues", [])
        return [e for e in exceptions if e["reason"] == "LockedOut" and e["podName"] == f"{game.name}-1"]

    (exception,) = until(named, deadline_s=15, what="the pod is named")
    assert "set spec.removal to DepartedAndCrashed" in exception["message"]
    assert exception["message"].endswith(f"kubectl -n {game.name} delete pod {game.name}-1")
