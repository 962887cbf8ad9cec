"""A watch keeps its name for as long as no pod can have come and gone unseen, and each gap begins another one."""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.core.evidence.chain import PodState
from staticgroup.kube.outage import RETRY_MAX_S
from staticgroup.kube.pods.position import WatchPosition
from staticgroup.kube.pods.watch import stream
from staticgroup.kube.pods.watch.messages import Gap
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
from unit.kube.pods.watched import UID, WatchedStore, following
from unit.kube.raw_objects import eventually, finished, pod, running, unknown, waiting


async def lost_history(server: FakeApiServer, world: WatchedStore) -> None:
    """Let the API server forget what happened since the watch was last there, and wait until it is whole again."""
    server.compact()
    server.end_watches()
    await eventually(lambda: world.gaps and world.watch())


@pytest.mark.parametrize("gone_as_event", [False, True])
async def test_history_that_is_gone_begins_a_new_watch_and_what_is_known_stays(server: FakeApiServer, gone_as_event: bool) -> None:
    server.gone_as_event = gone_as_event
    server.put(pod())
    server.put(pod("web-1", uid="stays"))
    async with following(server) as world:
        before = world.watch()
        await eventually(lambda: server.watches)
        server.break_watches()
        server.remove("shop", "web-0")
        server.put(pod(uid="uid-1"))
        await lost_history(server, world)
        assert "410" in world.gaps[0]
        assert world.watch() != before
        states = {uid: world.state(uid) for uid in (UID, "uid-1", "stays")}
        assert states == {UID: PodState.SUSPECT, "uid-1": PodState.LIVE, "stays": PodState.LIVE}
        assert world.uncertified == ["NotTerminal"], "a known uid that a LIST does not show is a suspect"
        some(world.store.get(UID))
        assert [i.uid for i in world.store.doubtful()] == [UID]


async def test_a_new_watch_has_another_name_and_another_namespace_keeps_its_own(server: FakeApiServer) -> None:
    clock = Clock()
    server.put(pod())
    async with following(server, scopes=("shop", "bill"), clock_s=clock, now_s=lambda: 1_800_000_000.0 + clock.now_s) as world:
        await eventually(lambda: len(server.watches) == 2)
        names = world.watch("shop"), world.watch("bill")
        assert names[0] != names[1]
        world.store._streams["shop"].report_gap(Gap(reason="a test"))
        assert world.store.watch("shop") == "", "from the moment on in which it is reported"
        await eventually(lambda: world.gaps and world.watch("shop"))
        assert world.watch("bill") == names[1]
        assert world.watch("shop") not in names
        assert world.store.names() == f"{world.watch('shop')},{names[1]}"


async def test_nothing_may_be_concluded_between_a_gap_and_the_new_anchor(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        server.denied.add(("list", "pods"))
        server.send_error(500)
        await eventually(lambda: world.gaps)
        assert (world.watch(), world.store.names()) == ("", "")
        assert not await world.store.barrier("shop", 1)
        assert not await world.store.reach_present("shop")
        server.denied.clear()
        await eventually(world.watch)


async def test_relist_that_agrees_is_no_gap(server: FakeApiServer) -> None:
    server.put(pod())
    async with following(server) as world:
        server.put(pod("web-1", uid="uid-1"))
        server.remove("shop", "web-0")
        server.tick()
        await world.store.relist()
        assert world.gaps == []


@pytest.mark.parametrize("what", ["created", "changed", "deleted"])
async def test_relist_that_contradicts_is_a_gap(server: FakeApiServer, what: str) -> None:
    server.put(pod())
    async with following(server) as world:
        before = world.watch()
        if what == "created":
            server.put(pod("web-1", uid="uid-1"))
        elif what == "changed":
            server.put(pod(instance_id="another"))
        else:
            server.remove("shop", "web-0")
        server.drop_event()
        await world.store.relist()
        await eventually(lambda: world.gaps and world.watch())
        assert world.watch() != before
        if what == "deleted":
            assert world.state() is PodState.SUSPECT
        else:
            assert {"created": "never delivered", "changed": "stopped at"}[what] in world.gaps[0]


async def test_silent_stream_is_connected_again_without_a_gap(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STALL_TIMEOUT_S", 0.05)
    async with following(server) as world:
        await eventually(lambda: len(server.watch_starts) >= 3)
        assert world.gaps == []


async def test_api_server_that_is_away_is_no_gap_and_age_grows(server: FakeApiServer) -> None:
    async with following(server) as world:
        before = world.watch()
        server.failing_status = 503
        server.break_watches()
        await eventually(lambda: world.problems)
        assert world.problems[0].status == 503
        assert world.store.age_s() > 0
        server.failing_status = 0
        server.put(pod())
        await eventually(lambda: world.state() is PodState.LIVE)
        assert (world.watch(), world.gaps) == (before, [])


async def test_unreadable_pod_is_a_gap(server: FakeApiServer) -> None:
    async with following(server) as world:
        raw = pod()
        raw["spec"]["containers"] = "none"
        server.put(raw)
        await eventually(lambda: world.gaps)
        assert "spec.containers" in world.gaps[0]


async def test_pods_of_nobody_that_are_forgotten_are_no_gap(server: FakeApiServer) -> None:
    async with following(server, gone_max=20, is_managed=lambda: False) as world:
        before = world.watch()
        for number in range(60):
            server.put(pod(f"job-{number}", uid=f"j{number}", instance_id=None))
            server.remove("shop", f"job-{number}")
        await eventually(lambda: world.store.position("") == server.resource_version)
        assert (world.watch(), world.gaps) == (before, [])
        assert len(world.store) <= 20


@pytest.mark.parametrize("is_gap", [False, True])
async def test_what_never_ran_is_known_of_a_pod_that_was_there_before_unless_something_was_missed(server: FakeApiServer, is_gap: bool) -> None:
    """An image that is never pulled; the watch goes on from where that of another process ended, and has a gap or has none."""
    pulling = [running(), waiting("side", "ImagePullBackOff")]
    spec = [{"name": "app"}, {"name": "side"}]
    async with following(server) as world:
        stored = world.stored()
    async with following(server, resume=WatchPosition({"": stored})) as world:
        server.break_watches()
        raw = pod(statuses=pulling)
        raw["spec"]["containers"] = spec
        server.put(raw)
        if is_gap:
            await lost_history(server, world)
        await eventually(world.state)
        last = finished()
        last["spec"]["containers"] = spec
        last["status"]["containerStatuses"].append(unknown("side"))
        server.put(last)
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() in (PodState.DEAD, PodState.SUSPECT))
        assert world.state() is (PodState.SUSPECT if is_gap else PodState.DEAD)


async def test_watches_that_are_refused_as_too_old_one_after_the_other_are_asked_for_at_a_pace(server: FakeApiServer) -> None:
    """An API server whose watch cache lags behind its LISTs answers each new watch with 410, as an event (HTTP 200).

    Every time all pods are listed anew, so without a pause that grows the operator is what keeps the server busy.
    """
    server.put(pod())
    server.gone_as_event = True
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    async with following(server, sleep=sleep, chunk_size=500, reconnect_delay_s=0.2) as world:
        server.compacted = 10**9
        server.end_watches()
        await eventually(lambda: len(world.gaps) >= 8)
        pauses = [s for s in slept if s <= RETRY_MAX_S]
        assert max(pauses) > RETRY_MAX_S / 2, pauses
        server.compacted = server.resource_version
        await eventually(world.watch)
