"""Restores of etcd, told or seen, and what looks like one and is none: positions, late ends, take-overs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.pods.store import PodStore
from staticgroup.kube.pods.watch.sink import Gap
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import WatchedStore, brief, following, lost_history
from unit.kube.raw_objects import NODE, composed, eventually, finished, pod


async def resumed_by_two(server: FakeApiServer) -> Continuity:
    """Return what a first process stored."""
    async with following(server, scopes=("shop",)) as first:
        await eventually(lambda: server.watches)
        stored = first.store.continuity()
    assert stored is not None
    return stored


@asynccontextmanager
async def two_told(server: FakeApiServer) -> AsyncIterator[tuple[WatchedStore, WatchedStore]]:
    """Let two replicas that resumed from one position hear the same word about a restored etcd, and anchor again."""
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    scopes = ("shop",)
    async with following(server, scopes=scopes, resume=stored, seed=2) as a, following(server, scopes=scopes, resume=stored, seed=3) as b:
        for replica in (a, b):
            replica.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: a.store.epoch and b.store.epoch and a.store.epoch != stored.epoch)
        yield a, b


async def test_healed_second_gap_heals_no_first_one(server: FakeApiServer) -> None:
    """Two namespaces; `bill` cannot be listed for a while, and `shop` has two gaps before the epoch is drawn.

    Only the events of the second gap are found. What came and went in the first one was never seen, and yet every name of
    the namespace counts as unbroken since before both.
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server, scopes=("shop", "bill"), sleep=brief) as world:
        await eventually(lambda: len(server.watches) == 2)
        epoch = world.store.epoch
        shop, bill = (world.store._streams[n] for n in ("shop", "bill"))
        server.failing_paths.add("/api/v1/namespaces/bill/pods")
        bill.report_gap(Gap(reason="410", is_expired=True))
        await eventually(lambda: world.gaps)
        server.failing["watch", "pods"] = [503] * 3
        server.break_watches()
        server.put(composed(pod("web-1", uid="came-and-went")))
        server.remove("shop", "web-1")
        server.tick()
        server.compact()
        await eventually(lambda: len(world.gaps) == 2 and shop.is_anchored)
        await eventually(lambda: server.watches)
        history, compacted = list(server.history), server.compacted
        server.break_watches()
        server.tick()
        server.compact()
        await eventually(lambda: len(world.gaps) == 3 and shop.is_anchored)
        server.failing_paths.clear()
        await eventually(lambda: world.store.epoch)
        assert epoch not in world.store.unbroken_since("shop", "web-1")
        server.compacted, server.history = compacted, history + server.history
        await asyncio.sleep(0.3)
        assert world.store.get("came-and-went") is None
        assert epoch not in world.store.unbroken_since("shop", "web-1")


async def test_restore_that_only_the_list_after_a_gap_shows_ends_the_timeline(server: FakeApiServer) -> None:
    """etcd loses its quorum: the watch is answered 410, the LIST fails until etcd is restored from a backup.

    The LIST sees that the versions went back, but the timeline goes on, so the uid rule and the generation rule compare
    facts of two timelines, and `adopt` knows nothing of a restore.
    """
    server.put(composed(pod("web-0", uid="u0")))
    backup = server.snapshot()
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: world.state("u1"))
        timeline = world.store.timeline
        server.failing["list", "pods"] = [503] * 3
        server.send_error(410)
        await eventually(lambda: world.gaps)
        server.restore(backup)
        await eventually(lambda: world.store.epoch and world.store.position("") <= server.resource_version)
        assert world.state("u1") is IncarnationState.SUSPECT
        assert (world.store.timeline != timeline, world.store.saw_restore) == (True, True)


async def test_restore_that_is_told_while_a_gap_ends_counts_before_the_next_epoch(server: FakeApiServer) -> None:
    """The word about a restored etcd (or the Lease's version) arrives while the LIST that ends another gap is under way.

    The epoch is drawn under the old timeline, and everything may be concluded, until the stream has slept its back-off.
    """
    server.put(composed(pod()))
    async with following(server, reconnect_delay_s=0.2) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        server.failing["list", "pods"] = [503] * 2
        server.send_error(410)
        await eventually(lambda: world.gaps)
        world.store.restored("2026-11-22T07:00:00Z")
        await eventually(lambda: world.store.epoch)
        assert world.store.timeline != timeline


@pytest.mark.parametrize("turns", [3, 4])
async def test_restore_that_is_told_while_another_gap_begins_is_not_lost(server: FakeApiServer, turns: int) -> None:
    """A restore breaks watches and is told by a word at about the same time; `_recover` clears what was reported.

    `restored` has noted the word, so it is never told again, and the Lease says that it is known.
    """
    server.put(composed(pod()))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline, stream, loop = world.store.timeline, world.store._streams[""], asyncio.get_running_loop()
        watch_once = stream._watch_once

        def later(turns_left: int) -> None:
            loop.call_soon(*((later, turns_left - 1) if turns_left else (world.store.restored, "2026-11-22T07:00:00Z")))

        async def watched(*, check_restore: bool) -> Gap | None:
            found = await watch_once(check_restore=check_restore)
            if found is not None:
                later(turns - 1)
            return found

        stream._watch_once = watched  # type: ignore[method-assign]
        server.break_watches()
        await eventually(lambda: server.watches)
        server.send_error(410)
        await eventually(lambda: world.gaps and world.store.epoch)
        await asyncio.sleep(0.1)
        assert world.store.timeline != timeline


async def test_word_about_a_restore_is_not_stored_as_known_under_the_old_timeline(server: FakeApiServer) -> None:
    """The attempt that reads the word from the Lease writes the Lease a moment later, before any stream has noticed.

    It stores the old epoch and the old timeline beside the word. A process that ends before its next renewal (2 s) leaves a
    Lease that says that the word is known: its successor resumes, and the word is lost for good.
    """
    server.put(composed(pod()))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        world.store.restored("2026-11-22T07:00:00Z")  # ActiveLease._observe
        stored = world.store.continuity()  # ActiveLease._body, in the same attempt
        assert stored is None or stored.timeline != timeline


async def test_looking_back_at_an_everyday_deletion_is_no_restore(server: FakeApiServer) -> None:
    """A pod is deleted gracefully while one API server loses its history; another one still has the events.

    The first event of a graceful deletion shows a pod that runs. The LIST after the gap did not show the pod any more, so
    the event seems to be a pod that is back: every history of every StaticGroup ends, as "Restored".
    """
    for number in range(2):
        server.put(composed(pod(f"web-{number}", uid=f"u{number}")))
    async with following(server, sleep=brief) as world:
        await eventually(lambda: server.watches)
        epoch, timeline = world.store.epoch, world.store.timeline
        server.break_watches()
        server.put(composed(pod("web-1", uid="u1", deletionTimestamp="2026-01-01T00:00:30Z")))
        server.put(composed(finished("web-1", uid="u1")))
        server.remove("shop", "web-1")
        history, compacted = list(server.history), server.compacted
        await lost_history(server, world)
        server.compacted, server.history = compacted, history + server.history
        await eventually(lambda: world.state("u1") is IncarnationState.DEAD or len(world.gaps) > 1)
        await asyncio.sleep(0.1)
        assert len(world.gaps) == 1, world.gaps
        assert world.store.timeline == timeline
        assert epoch in world.store.unbroken_since("shop")


async def test_certificate_of_a_holder_that_is_ahead_is_no_restore(server: FakeApiServer) -> None:
    """A standby takes over while its watch is behind; the ledger of the last holder has the end of a pod already.

    The watch then delivers the everyday event before that end (the deletion begins), and seems to show a pod that runs after
    its end was certified: every history of every StaticGroup ends, as "Restored".
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as standby:
        await eventually(lambda: server.watches)
        timeline = standby.store.timeline
        server.set_stalled(True)
        server.put(composed(pod("web-0", uid="u0", deletionTimestamp="2026-01-01T00:00:30Z")))
        server.put(composed(finished("web-0", uid="u0")))
        async with following(server, seed=2) as holder:
            ledger = holder.store.chain("shop", pod_names=["web-0"])
            assert [i.state for i in ledger] == [IncarnationState.DEAD]
        standby.store.merge(ledger)
        server.set_stalled(False)
        await eventually(lambda: standby.store.position("") == server.resource_version)
        await asyncio.sleep(0.05)
        assert (standby.gaps, standby.store.timeline) == ([], timeline)


async def test_holder_that_saw_a_restore_takes_its_own_lease_up_again_without_another_one(server: FakeApiServer) -> None:
    """After the restore positions are below those that were resumed, and it is our own Lease that holds them."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as first:
        await eventually(lambda: server.watches)
        stored = first.store.continuity()
    backup = server.snapshot()
    for number in range(5):
        server.put(composed(pod("web-1", uid=f"u{number + 1}")))
    assert stored is not None
    late = replace(stored, resource_versions={"": server.resource_version})
    async with following(server, resume=late) as world:
        await eventually(lambda: server.watches)
        server.restore(backup)
        await eventually(lambda: world.store.saw_restore and world.store.epoch)
        own = world.store.continuity()
        assert own is not None
        assert own.resource_versions[""] < late.resource_versions[""]
        timeline = world.store.timeline
        assert world.store.adopt(own)
        assert world.store.timeline == timeline


async def test_restore_that_was_said_before_the_operator_began_is_told_as_one(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the guide asks, somebody says that etcd was restored while no operator runs; the status then says MemoryLost."""
    run = PodStore.run
    monkeypatch.setattr(PodStore, "run", lambda store, resume: run(store, resume, restored="2026-11-22T07:00:00Z"))
    async with following(server) as world:
        assert world.store.saw_restore


async def test_standby_that_is_behind_and_leads_for_a_moment_is_no_restore(server: FakeApiServer) -> None:
    """A rolling update of two replicas that serve one quiet namespace: the holder has been brought further (by a barrier or
    a bookmark) than the standby that leads after it for some seconds; a third replica has begun at the first one's position.
    """
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    async with following(server, scopes=("shop",), resume=stored, seed=2) as b:
        async with following(server, scopes=("shop",), resume=stored, seed=3) as a:
            for _ in range(5):
                server.tick()
            assert await a.store.barrier("shop", server.resource_version)
            last_words = a.store.continuity()
        assert last_words is not None
        async with following(server, scopes=("shop",), resume=last_words, seed=4) as c:
            timeline = c.store.timeline
            assert b.store.adopt(last_words)
            of_b = b.store.continuity()
            assert of_b is not None
            assert of_b.epoch == last_words.epoch
            assert c.store.adopt(of_b)
            assert (c.store.timeline, c.gaps) == (timeline, [])


async def test_end_that_is_judged_late_takes_the_position_back_and_is_no_restore(server: FakeApiServer) -> None:
    """A pod ends on a node that is not known yet; meanwhile the position is stored and a standby begins at it.

    When the node is known, the end counts at the version of long ago and the position stands below it for a moment.
    """
    server.put(composed(pod("web-0", uid="u0")))
    stored = await resumed_by_two(server)
    now = [50.0]
    async with following(server, resume=replace(stored, resource_versions={"": stored.resource_versions["shop"]}), seed=2, now_s=lambda: now[0]) as a:
        a.nodes.clear()
        server.put(composed(finished("web-0", uid="u0")))
        for number in range(3):
            server.put(composed(pod("api-0", uid=f"x{number}")))
        await eventually(lambda: a.store.position("") == server.resource_version)
        now[0] += 100
        begun_at = a.store.continuity()
        assert begun_at is not None
        async with following(server, resume=begun_at, seed=3) as c:
            timeline = c.store.timeline
            a.nodes["node-a"] = NODE
            a.store.node_changed("node-a")
            last_words = a.store.continuity()
            assert last_words is not None
            c.store.adopt(last_words)
            assert c.store.timeline == timeline


async def test_restore_that_both_replicas_were_told_of_costs_nothing_more_at_a_fail_over(server: FakeApiServer) -> None:
    """Somebody says `staticgroup restored`; both replicas hear it. Weeks later the standby takes over."""
    async with two_told(server) as (a, b):
        server.put(composed(pod("web-1", uid="u1")))
        await eventually(lambda: a.state("u1") and b.state("u1"))
        last_words = a.store.continuity()
        assert last_words is not None
        assert b.store.adopt(last_words)
        assert b.store.timeline == a.store.timeline


async def test_replica_that_is_made_after_a_told_restore_is_not_blinded_by_a_standby_that_was_told_too(server: FakeApiServer) -> None:
    """As above; in the next rolling update the old standby leads for a moment, and then the new replica."""
    async with two_told(server) as (a, b):
        of_a = a.store.continuity()
        assert of_a is not None
        async with following(server, scopes=("shop",), resume=of_a, seed=4) as c:
            b.store.adopt(of_a)
            of_b = b.store.continuity()
            assert of_b is not None
            c.store.adopt(of_b)
            assert of_a.timeline == of_b.timeline == c.store.timeline


async def test_reconnect_whose_read_is_overtaken_by_the_replay_of_a_barrier_is_no_restore(server: FakeApiServer) -> None:
    """The read before a reconnect is answered, and before its answer is taken a barrier's own short watch brings a newer event."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        (stream,) = world.store._streams.values()
        read, is_read, may_go_on = stream._current_resource_version, asyncio.Event(), asyncio.Event()

        async def slow() -> int | None:
            found = await read()
            is_read.set()
            await may_go_on.wait()
            return found

        stream._current_resource_version = slow  # type: ignore[method-assign]
        server.break_watches()
        await is_read.wait()
        server.put(composed(pod("web-1", uid="u1")))
        assert await world.store.barrier("shop", server.resource_version)
        may_go_on.set()
        await asyncio.sleep(0.1)
        assert world.gaps == []
        assert world.store.timeline == timeline
