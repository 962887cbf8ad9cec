"""A leap of resourceVersions that no cluster writes: etcd was restored with a raised revision, and nothing else tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.kube.pods.continuity import ConsistentRead, Continuity
from staticgroup.kube.pods.watch.sink import Gap
from support.fake_apiserver import FakeApiServer
from unit.kube.pods.watched import WatchedStore, brief, following
from unit.kube.raw_objects import composed, eventually, finished, pod

RAISED = 1_000_000_000
"""What etcd's own example adds to the revision (etcd, "Disaster recovery")."""
DAY_S = 86_400.0


def raise_revision(server: FakeApiServer, backup: Any, by: int = RAISED) -> None:
    """Restore etcd as `etcdutl snapshot restore --bump-revision --mark-compacted` does."""
    server.restore(backup)
    server.resource_version += by
    server.compact()


async def stored_by_a_first(server: FakeApiServer, scopes: tuple[str, ...] = ("",)) -> Continuity:
    """Return what a process that watched two pods has stored, at 50 s."""
    for number in range(2):
        server.put(composed(pod(f"web-{number}", uid=f"u{number}")))
    async with following(server, scopes=scopes) as first:
        await eventually(lambda: server.watches)
        stored = first.store.continuity()
    assert stored is not None
    assert stored.at_s > 0
    return stored


async def timeline_of_resumed(server: FakeApiServer, stored: Continuity, *, away_s: float, scopes: tuple[str, ...] = ("",)) -> str:
    """Return the timeline of a process that comes after so many seconds."""
    async with following(server, resume=stored, now_s=lambda: stored.at_s + away_s, scopes=scopes, seed=2) as second:
        same = second.store.timeline == stored.timeline
        # The pods are the same objects, so only another timeline tells what came and went between the backup and the restore.
        assert (stored.epoch in second.store.unbroken_since("shop", "web-1")) <= same
        assert second.store.saw_restore is not same
        return second.store.timeline


@pytest.mark.parametrize(("away_s", "by", "is_seen"), [
    (0.0, 49_999_000, False),  # a peak of load, a position that is minutes old, a clock that is wrong
    (0.0, 50_001_000, True),
    (20.0, RAISED, True),
    (7 * DAY_S, RAISED, True),  # as etcd's own example has it
    (8 * DAY_S, RAISED, False),  # so much may have been written
])  # fmt: skip
async def test_revision_that_was_raised_beyond_what_a_cluster_writes_ends_the_timeline(
    server: FakeApiServer, away_s: float, by: int, is_seen: bool
) -> None:
    """Lease and statuses are restored, too, so the position is older than all that happened after the backup, and every name as it was."""
    stored = await stored_by_a_first(server)
    backup = server.snapshot()
    server.remove("shop", "web-1")
    server.put(composed(pod("web-1", uid="joined-and-forgotten")))
    raise_revision(server, backup, by)
    assert (await timeline_of_resumed(server, stored, away_s=away_s) != stored.timeline) is is_seen


async def test_raised_revision_is_seen_where_the_old_position_is_still_served(server: FakeApiServer) -> None:
    """Another tool than etcdutl, which marks all before as compacted: the watch goes on from there, and brings nothing."""
    stored = await stored_by_a_first(server)
    server.resource_version += RAISED
    assert await timeline_of_resumed(server, stored, away_s=20.0) != stored.timeline


async def test_raised_revision_is_seen_in_a_namespace_that_was_not_followed_before(server: FakeApiServer) -> None:
    stored = await stored_by_a_first(server, ("shop",))
    raise_revision(server, server.snapshot())
    assert await timeline_of_resumed(server, stored, away_s=20.0, scopes=("bill",)) != stored.timeline


async def test_resource_versions_that_count_time_tell_nothing_by_their_pace(server: FakeApiServer) -> None:
    """Other stores than etcd: microseconds since 1970."""
    server.resource_version = 1_764_000_000_000_000
    stored = await stored_by_a_first(server)
    server.resource_version += 20_000_000
    server.compact()
    server.resource_version += 600_000_000
    assert await timeline_of_resumed(server, stored, away_s=620.0) == stored.timeline


async def test_leap_from_a_counter_to_where_clocks_are_is_a_leap(server: FakeApiServer) -> None:
    stored = await stored_by_a_first(server)
    raise_revision(server, server.snapshot(), 10**12)
    assert await timeline_of_resumed(server, stored, away_s=20.0) != stored.timeline


async def test_raised_revision_is_seen_though_one_status_has_been_refused_for_a_week(server: FakeApiServer) -> None:
    """The Lease says of what time its oldest unwritten end is, and its position is of now: the pace is that since the latest read."""
    now = [50.0]
    server.put(composed(pod("api-0", uid="x0")))
    server.put(composed(pod("web-1", uid="u1")))
    async with following(server, now_s=lambda: now[0]) as first:
        await eventually(lambda: server.watches)
        server.put(composed(finished("api-0", uid="x0")))
        await eventually(lambda: first.store.position("") == server.resource_version)
        now[0] += 8 * DAY_S
        server.put(composed(pod("other-0", uid="o0")))
        await eventually(lambda: first.store.position("") == server.resource_version)
        stored = Continuity.from_json(first.store.continuity().to_json())  # type: ignore[union-attr]
    assert stored is not None
    assert (set(stored.behind), stored.at_s) == ({("shop", "api")}, 50.0)
    backup = server.snapshot()
    server.remove("shop", "web-1")
    server.put(composed(pod("web-1", uid="joined-and-forgotten")))
    raise_revision(server, backup)
    async with following(server, resume=stored, now_s=lambda: now[0] + 20.0, seed=2) as second:
        assert second.store.timeline != stored.timeline


async def test_position_that_leapt_unread_is_no_read(server: FakeApiServer) -> None:
    """A bookmark brings the raised revision, the Lease is renewed, and all replicas end before the next consistent read."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        server.resource_version += RAISED
        server.bookmark()
        await eventually(lambda: world.store.position("") == server.resource_version)
        stored = world.store.continuity()
    assert stored is not None
    assert await timeline_of_resumed(server, stored, away_s=20.0) != stored.timeline


@pytest.mark.parametrize("read", [[0, 5.0], [-1, 5.0], [7, float("inf")], [7, float("nan")]])
def test_read_that_makes_no_sense_is_not_known(read: list[float]) -> None:
    known = Continuity(epoch="e1", resource_versions={"": 42}, read=ConsistentRead(40, 5.0))
    spoiled = json.dumps(json.loads(known.to_json()) | {"read": read})
    assert Continuity.from_json(known.to_json()) == known
    assert Continuity.from_json(spoiled) == replace(known, read=ConsistentRead())


async def test_position_of_a_time_that_is_not_known_tells_nothing_by_its_pace(server: FakeApiServer) -> None:
    """Of an earlier release."""
    stored = replace(await stored_by_a_first(server), at_s=0.0, read=ConsistentRead())
    raise_revision(server, server.snapshot())
    assert await timeline_of_resumed(server, stored, away_s=1_795_000_000.0) == stored.timeline


@pytest.mark.parametrize("is_compacted", [True, False])
async def test_watch_that_comes_back_to_a_raised_revision_ends_the_timeline(server: FakeApiServer, is_compacted: bool) -> None:
    """All that happened between the backup and the restore ended before anybody listed it."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline, epoch = world.store.timeline, world.store.epoch
        if is_compacted:
            raise_revision(server, server.snapshot())
        else:
            server.resource_version += RAISED
            server.break_watches()
        await eventually(lambda: world.gaps and world.store.epoch)
        assert "raised revision" in world.gaps[0]
        assert world.store.timeline != timeline
        assert epoch not in world.store.unbroken_since("shop", "web-0")
        # It is compared with what is read from then on.
        again = world.store.timeline
        server.resource_version += RAISED
        server.break_watches()
        await eventually(lambda: len(world.gaps) == 2 and world.store.epoch)
        assert world.store.timeline != again


async def relist(world: WatchedStore, server: FakeApiServer) -> None:
    await world.store.relist()


async def pass_a_barrier(world: WatchedStore, server: FakeApiServer) -> None:
    assert not await world.store.barrier("shop", server.resource_version)


@pytest.mark.parametrize("read", [relist, pass_a_barrier])
async def test_read_that_finds_a_raised_revision_ends_the_timeline(
    server: FakeApiServer, read: Callable[[WatchedStore, FakeApiServer], Awaitable[None]]
) -> None:
    """The connection was kept by a proxy, or by an API server that was not restarted."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        server.resource_version += RAISED
        await read(world, server)
        await eventually(lambda: world.gaps and world.store.epoch)
        assert world.store.timeline != timeline


async def test_restore_that_is_seen_while_another_scope_cannot_list_is_no_later_contradiction(server: FakeApiServer) -> None:
    """`bill` is in a gap of its own when `shop` sees the restore, and begins anew only after `shop` has listed."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(pod("pay-0", uid="p0", namespace="bill")))
    async with following(server, scopes=("shop", "bill"), sleep=brief) as world:
        await eventually(lambda: len(server.watches) == 2)
        shop, bill = (world.store._streams[n] for n in ("shop", "bill"))
        timeline = world.store.timeline
        server.failing_paths.add("/api/v1/namespaces/bill/pods")
        bill.report_gap(Gap(reason="410", is_expired=True))
        await eventually(lambda: world.gaps)
        server.resource_version += RAISED
        await shop.relist()
        await eventually(lambda: len(world.gaps) == 2 and shop.is_anchored)
        assert world.store.epoch == ""
        server.failing_paths.clear()
        await eventually(lambda: world.store.epoch)
        assert world.store.timeline != timeline
        seen = len(world.gaps)
        await world.store.relist()
        await asyncio.sleep(0.05)
        assert len(world.gaps) == seen, world.gaps


async def test_restore_that_one_scope_sees_is_one_for_all_of_them(server: FakeApiServer) -> None:
    """The others have not listed since; until they have, nothing may be concluded or stored."""
    server.put(composed(pod("web-0", uid="u0")))
    server.put(composed(pod("pay-0", uid="p0", namespace="bill")))
    async with following(server, scopes=("shop", "bill"), sleep=brief) as world:
        await eventually(lambda: len(server.watches) == 2)
        shop, bill = (world.store._streams[n] for n in ("shop", "bill"))
        epoch = world.store.epoch
        server.resource_version += RAISED
        assert await shop.relist()
        await eventually(lambda: world.store.epoch not in ("", epoch))
        assert bill.position >= RAISED
        assert [gap for gap in world.gaps if "raised revision" not in gap] == []
        assert len(world.gaps) == 2
        # Neither of them contradicts what it shows afterwards.
        await world.store.relist()
        await asyncio.sleep(0)
        assert len(world.gaps) == 2


async def test_nothing_is_looked_back_for_over_a_restore(server: FakeApiServer) -> None:
    """410 first, and then the LIST shows why."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        (stream,) = world.store._streams.values()
        server.failing["list", "pods"] = [503] * 2
        server.send_error(410)
        await eventually(lambda: world.gaps)
        server.resource_version += RAISED
        await eventually(lambda: world.store.epoch)
        await eventually(lambda: server.watches)
        assert ["raised revision" in gap for gap in world.gaps] == [False, True]
        assert stream._look_back_task is None


async def test_reads_at_an_everyday_pace_are_no_restore_however_long_they_go_on(server: FakeApiServer) -> None:
    """What was read last is compared, and not what was read first."""
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server) as world:
        await eventually(lambda: server.watches)
        timeline = world.store.timeline
        for _ in range(3):
            server.resource_version += 30_000_000
            await world.store.relist()
        await asyncio.sleep(0)
        assert world.gaps == []
        assert world.store.timeline == timeline
