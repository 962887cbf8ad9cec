"""The operator dies in the middle of its work, or runs twice: departed members still go, live ones never do.

The one idea: whatever the operator knows is in Kafka, the API server and the status, so a SIGKILL at any moment costs
only time. Truth is the brokers' log: each member's removals, and the sessions that ran out instead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import by_length
from support.scene.figures import record, spread
from support.scene.operators import await_active, kill
from support.scene.play import Play
from support.scene.remembered import every_process, is_plain
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(600)]

SEED = 20_261_121
SESSION_S = 120
LONG_SESSION = {"sessionTimeout": {"seconds": SESSION_S}}
MOMENTS_S = 1.8
"""On a quiet machine a pod ends 1 s after the scale-down and its member is removed 0.3 s later."""
DEPLOYMENT = f"deployment/{RELEASE}-operator"
ELECTION = "STATICGROUP_LEADER_ELECTION"


@pytest.fixture
def reinstalled(installed: Stage) -> Iterator[Stage]:
    """The stage, whose operator is installed with its default values again afterwards."""
    yield installed
    installed.install()


def replaced(stage: Stage, names: Sequence[str]) -> None:
    """Replace killed replicas by new ones, because the kubelet waits longer before each further start of a container."""
    stage.kubectl("delete", "pod", *names, "-n", SYSTEM, "--ignore-not-found")
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")


def kill_in_the_middle_of_scale_downs(
    play: Play, stage: Stage, rounds: int, seed: int, moments_s: float = MOMENTS_S, *, all_replicas: bool = False
) -> None:
    """Scale down by one and kill replicas within `moments_s`, wait until the member is removed, and repeat.

    The moments are spread evenly over that time, in random order: before the pod ends, while its end is checked,
    while the member is removed and while that is verified.
    """
    rng = random.Random(seed)
    moments = [
        (number + rng.random() / 5) * moments_s / rounds for number in range(rounds)
    ]  # the first comes before any removal
    rng.shuffle(moments)
    replicas = rounds + 1
    play.start(replicas, static=LONG_SESSION, podManagementPolicy="Parallel")
    watch = until(stage.watch_name, deadline_s=30, what="a stored position")
    until(lambda: is_plain(play, replicas), deadline_s=30, what="the members in the status", poll_s=0.3)
    ids = {int(i.removeprefix(f"{play.name}-").split(".")[0]): i for i in play.member_ids()}
    killed_at_ms, waits_s = now_ms() - 60_000, []  # of removals that the kill delayed
    for ordinal in range(replicas - 1, 0, -1):
        pids = await_active(stage, killed_at_ms)
        killed = list(stage.operator_processes()) if all_replicas else [stage.lease_holder()]
        moment_s = time.monotonic() + moments.pop()  # from before the command, which may be slow to return
        play.scale(ordinal)
        until(lambda at_s=moment_s: time.monotonic() >= at_s, deadline_s=5, what="the moment", poll_s=0.01)
        killed_at_ms = kill(every_process(stage) if all_replicas else pids)
        until(
            lambda o=ordinal: ids[o] in play.removed_ids(), deadline_s=SESSION_S - 10, what=f"{ids[ordinal]} removed",
            poll_s=0.3,
        )  # fmt: skip
        removed_at_ms = max(e.at_ms for e in play.removals())
        waits_s += [(removed_at_ms - killed_at_ms) / 1000] if removed_at_ms > killed_at_ms else []
        assert stage.watch_name() == watch, f"the pod watch began anew after the kill before ordinal {ordinal}"
        replaced(stage, killed)
    assert play.events(GroupEventKind.SESSION_EXPIRED) == []
    assert play.removed_ids() == sorted(ids[o] for o in range(1, replicas)), "each departed member once"
    assert list(play.member_ids()) == [ids[0]]
    # The faster the removals, the fewer moments lie before them; the earliest fifth always does.
    assert len(waits_s) * 5 >= rounds, "too few kills came in the middle of the work"
    record("operator killed in scale-downs", replicas=len(stage.operator_pods()), all_replicas=all_replicas,
           kills=rounds,
           kills_before_removal=len(waits_s), kill_to_removed_s=spread(waits_s), sessions_expired=0)  # fmt: skip


def test_kill_of_the_active_of_two_replicas_only_delays_removals(
    new_play: Callable[..., Play], reinstalled: Stage
) -> None:
    kill_in_the_middle_of_scale_downs(new_play(), reinstalled, rounds=by_length(short=3, long=10), seed=SEED)


@pytest.mark.long
def test_kill_of_both_replicas_only_delays_removals(new_play: Callable[..., Play], reinstalled: Stage) -> None:
    kill_in_the_middle_of_scale_downs(new_play(), reinstalled, rounds=3, seed=SEED + 2, all_replicas=True)


@pytest.mark.long
def test_kill_of_the_only_replica_only_delays_removals(new_play: Callable[..., Play], reinstalled: Stage) -> None:
    reinstalled.install(replicaCount=1)
    until(lambda: len(reinstalled.operator_pods()) == 1, deadline_s=60, what="a single replica")
    rounds = by_length(short=2, long=3)
    kill_in_the_middle_of_scale_downs(new_play(), reinstalled, rounds=rounds, seed=SEED + 1, moments_s=1.0)


@pytest.fixture
def first_installation(reinstalled: Stage) -> Stage:
    """Two replicas that start at the same moment and find no Lease, as after the very first installation."""
    reinstalled.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=0")
    until(lambda: not reinstalled.items("pods", SYSTEM), deadline_s=60, what="no operator")
    reinstalled.kubectl("delete", "lease", f"{RELEASE}-operator", "-n", SYSTEM, "--ignore-not-found")
    reinstalled.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=2")
    reinstalled.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")
    return reinstalled


def test_standby_of_a_first_installation_takes_over_without_a_gap(
    new_play: Callable[..., Play], first_installation: Stage
) -> None:
    play, stage = new_play(), first_installation
    play.start(2, static=LONG_SESSION, podManagementPolicy="Parallel")
    holder = until(stage.lease_holder, deadline_s=30, what="a replica at work")
    watch = until(stage.watch_name, deadline_s=30, what="a stored position")
    first = stage.watch_version()
    until(lambda: stage.watch_version() > first, deadline_s=90, what="a position behind the first LIST of both")
    taken_at_ms = now_ms()
    stage.kubectl("delete", "pod", holder, "-n", SYSTEM, "--wait=false")
    until(lambda: stage.lease_holder() not in ("", holder), deadline_s=60, what="the standby takes over")
    await_active(stage, taken_at_ms)
    play.scale(1)
    until(lambda: len(play.removals()) == 1, deadline_s=30, what="a removal by the former standby")
    assert stage.watch_name() == watch
    assert stage.lease_holder() != holder


@pytest.fixture
def two_active(reinstalled: Stage) -> Iterator[Stage]:
    """Two replicas that both act, because leader election is off in both."""
    reinstalled.kubectl("set", "env", DEPLOYMENT, "-n", SYSTEM, f"{ELECTION}=false")
    reinstalled.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")
    until(lambda: len(reinstalled.operator_pods()) == 2, deadline_s=60, what="only the two new replicas")
    yield reinstalled
    reinstalled.kubectl("set", "env", DEPLOYMENT, "-n", SYSTEM, f"{ELECTION}=true")
    reinstalled.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")


@pytest.mark.long
def test_two_operators_without_a_lease_do_no_harm(new_play: Callable[..., Play], two_active: Stage) -> None:
    names = [p["metadata"]["name"] for p in two_active.operator_pods()]
    until(lambda: all("lease acquired" in two_active.kubectl("logs", "-n", SYSTEM, n) for n in names),
          deadline_s=30, what="both replicas to be active")  # fmt: skip
    play = new_play()
    play.start(5, static=LONG_SESSION, podManagementPolicy="Parallel")
    ids = set(play.member_ids())
    rolled_at_ms = now_ms()
    play.roll()
    play.await_joined(5)
    assert (play.rebalances(rolled_at_ms), play.removals()) == (0, [])
    departures = 0
    for low, high in ((2, 4), (1, 3)):
        before = set(play.member_ids())
        play.scale(low)
        play.await_joined(low)
        departures += len(before) - low
        play.scale(high)
        play.await_joined(high)
    removed = [e.member_id for e in play.removals()]
    assert len(removed) == len(set(removed)) == departures, "every departed member removed, none twice"
    assert set(play.member_ids()) < ids
    assert play.events(GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED) == []
    record(
        "two operators without a lease", departures=departures, leave_requests_granted=len(removed),
        rebalances_of_a_roll=0,
    )  # fmt: skip
