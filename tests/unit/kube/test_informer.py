"""What an informer passes on ends up as the API server has it, whatever ended its watch."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from simulator.operators.entrance import follow
from staticgroup.kube.informer import Informer
from staticgroup.kube.outage import Outage
from staticgroup.kube.pages import PAGE_LIMIT, PageLimit
from staticgroup.kube.transport import STATEFULSETS, connect
from support.fake_apiserver import FakeApiServer
from support.long_drills import by_length
from unit.kube.raw_objects import eventually

Json = dict[str, Any]
RESOURCE = "statefulsets.apps"


def workload(name: str, uid: str = "", namespace: str = "shop") -> Json:
    return {"metadata": {"namespace": namespace, "name": name, "uid": uid or f"uid-{name}"}, "spec": {}}


class Clock:
    """Seconds that pass only by sleeping, and then at once."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, delay_s: float) -> None:
        """Let time pass."""
        self.slept.append(delay_s)
        self.now_s += delay_s
        await asyncio.sleep(0.001)


class Store:
    """Keep what is received, as the operator's stores do: the end of a uid drops that uid only."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}
        self.received: list[tuple[str, bool]] = []

    def __call__(self, raw: Json, *, is_deleted: bool) -> None:
        """Take one object."""
        metadata = raw["metadata"]
        self.received.append((metadata["uid"], is_deleted))
        if not is_deleted:
            self.uids[metadata["name"]] = metadata["uid"]
        elif self.uids.get(metadata["name"]) == metadata["uid"]:
            del self.uids[metadata["name"]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def following(
    server: FakeApiServer, clock: Clock, *, scope: str = "", on_object: Any = None, is_watched: bool = True,
    page_limit: int = PAGE_LIMIT, **options: Any,
) -> AsyncIterator[tuple[Informer, Store]]:
    transport, store = connect(server.configuration()), Store()
    transport.outage = Outage(clock_s=clock)
    informer = Informer(
        transport, STATEFULSETS, on_object or store, scope=scope, outage=transport.outage, rng=Random(1), clock_s=clock,
        sleep=clock.sleep, **options,
    )
    informer._page_limit = PageLimit(page_limit)
    task = asyncio.create_task(follow(informer))
    try:
        if is_watched:
            await watched(server)
        yield informer, store
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


async def watched(server: FakeApiServer) -> None:
    await eventually(lambda: server.watches)


def lists(server: FakeApiServer) -> int:
    return sum("watch=true" not in path for _, path in server.requests)


async def test_objects_are_listed_in_chunks_and_then_followed(server: FakeApiServer, clock: Clock) -> None:
    for n in range(5):
        server.put(workload(f"w{n}"), RESOURCE)
    async with following(server, clock, page_limit=2) as (informer, store):
        async with asyncio.timeout(60):
            await informer.wait_complete()
        assert informer.is_complete
        assert store.uids == {f"w{n}": f"uid-w{n}" for n in range(5)}
        await watched(server)
        server.put(workload("w5"), RESOURCE)
        server.remove("shop", "w0", RESOURCE)
        await eventually(lambda: set(store.uids) == {f"w{n}" for n in range(1, 6)})
        assert lists(server) == 3
        await informer.refresh()
        assert store.received.count(("uid-w0", True)) == 1


@pytest.mark.parametrize("how", ["broken", "410", "error event", "ended", "restored"])
async def test_deletion_that_nobody_watched_is_shown_by_the_next_list(
    server: FakeApiServer, clock: Clock, how: str
) -> None:
    server.put(workload("kept"), RESOURCE)
    backup = server.snapshot()
    server.put(workload("gone"), RESOURCE)
    async with following(server, clock) as (_, store):
        await eventually(lambda: set(store.uids) == {"kept", "gone"})
        await watched(server)
        server.gone_as_event = how == "error event"
        if how == "restored":
            server.restore(backup)
        else:
            (server.end_watches if how == "ended" else server.break_watches)()
            watches = server.watches.copy()
            server.watches.clear()
            server.remove("shop", "gone", RESOURCE)
            server.watches += watches
            if how != "broken":
                server.compact()
        await eventually(lambda: set(store.uids) == {"kept"})
        assert ("uid-gone", True) in store.received


async def test_error_event_of_an_open_watch_leads_to_a_list(server: FakeApiServer, clock: Clock) -> None:
    async with following(server, clock) as (_, store):
        server.put(workload("unseen"), RESOURCE)
        await eventually(lambda: "unseen" in store.uids)
        before = lists(server)
        server.send_error(410)
        await eventually(lambda: lists(server) > before and server.watches)


async def test_object_created_again_under_its_name_unseen_is_the_new_one_and_the_old_one_is_reported_gone(
    server: FakeApiServer, clock: Clock
) -> None:
    server.put(workload("web", "old"), RESOURCE)
    async with following(server, clock) as (_, store):
        server.break_watches()
        server.remove("shop", "web", RESOURCE)
        server.put(workload("web", "new"), RESOURCE)
        server.compact()
        await eventually(lambda: ("old", True) in store.received)
        assert store.uids == {"web": "new"}


async def test_event_that_was_never_sent_is_made_up_for_by_the_periodic_list(
    server: FakeApiServer, clock: Clock
) -> None:
    """Each watch asks to end within the period; a server that ends it makes the next LIST due."""
    server.put(workload("web"), RESOURCE)
    async with following(server, clock, relist_s=600) as (_, store):
        server.remove("shop", "web", RESOURCE)
        server.drop_event()
        (asked,) = [p for _, p in server.requests if "watch=true" in p]
        timeout_s = int(asked.partition("timeoutSeconds=")[2].partition("&")[0])
        assert 480 <= timeout_s <= 600
        server.end_watches()
        await eventually(lambda: store.uids == {})


async def test_long_outage_is_outlasted_with_tries_never_more_than_five_seconds_apart(
    server: FakeApiServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(workload("gone"), RESOURCE)
    async with following(server, clock) as (_, store):
        clock.slept.clear()
        server.failing_status = 503
        server.break_watches()
        # The delay has long reached its longest by the end of the short form.
        outage_s = by_length(short=900, long=3600)
        await eventually(lambda: sum(clock.slept) > outage_s)
        assert 2 < max(clock.slept) < 5
        assert len(clock.slept) < outage_s
        server.remove("shop", "gone", RESOURCE)
        server.compact()
        server.failing_status = 0
        begun = len(clock.slept)
        await eventually(lambda: store.uids == {})
        assert sum(clock.slept[begun:]) < 5
    assert [r.message for r in caplog.records] == [
        "the API server is away; nothing is done until it answers",
        "the API server answers again",
    ]


async def test_resource_that_is_refused_is_reported_once_and_once_when_it_is_followed(
    server: FakeApiServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing right or CustomResourceDefinition is no outage: the API server answers."""
    caplog.set_level("INFO", "staticgroup")
    server.denied.add(("list", RESOURCE))
    async with following(server, clock, scope="shop", is_watched=False) as (informer, _):
        await eventually(lambda: sum(clock.slept) > 600, 30)
        assert not informer.is_complete
        server.denied.clear()
        await watched(server)
        await eventually(lambda: len(caplog.records) > 1)
    assert [r.message for r in caplog.records] == ["cannot be followed", "followed again"]
    assert "not allowed to list statefulsets.apps" in vars(caplog.records[0])["problem"]
    assert {vars(r)["resource"] for r in caplog.records} == {"statefulsets.apps in shop"}


async def test_watch_that_ends_at_once_does_not_make_a_storm_of_lists(server: FakeApiServer, clock: Clock) -> None:
    """A proxy that cannot informer: each watch is closed as it opens, but the LIST before it succeeded."""
    async with following(server, clock) as (informer, _):
        await informer.wait_complete()

        async def close_all() -> None:
            while True:
                server.end_watches()
                await asyncio.sleep(0)

        closing = asyncio.create_task(close_all())
        await eventually(lambda: sum(clock.slept) > 120, 30)
        closing.cancel()
        assert lists(server) < 120


async def test_refresh_waits_for_a_list_that_began_after_it(server: FakeApiServer, clock: Clock) -> None:
    """A stalled watch delivers nothing; a refresh shows what existed when it was asked for."""
    server.put(workload("gone"), RESOURCE)
    async with following(server, clock) as (informer, store):
        server.set_stalled(True)
        server.remove("shop", "gone", RESOURCE)
        server.put(workload("new"), RESOURCE)
        async with asyncio.timeout(60):
            await asyncio.gather(informer.refresh(), informer.refresh())
        assert store.uids == {"new": "uid-new"}


async def test_refresh_during_an_outage_waits_for_its_end(server: FakeApiServer, clock: Clock) -> None:
    async with following(server, clock) as (informer, store):
        server.failing_status = 503
        refreshing = asyncio.create_task(informer.refresh())
        await eventually(lambda: len(clock.slept) > 5)
        assert not refreshing.done()
        server.put(workload("web"), RESOURCE)
        server.failing_status = 0
        async with asyncio.timeout(60):
            await refreshing
        assert set(store.uids) == {"web"}


async def test_only_the_scope_is_followed(server: FakeApiServer, clock: Clock) -> None:
    server.put(workload("web"), RESOURCE)
    server.put(workload("other", namespace="bank"), RESOURCE)
    async with following(server, clock, scope="shop") as (informer, store):
        await informer.wait_complete()
        await watched(server)
        server.put(workload("another", namespace="bank"), RESOURCE)
        server.put(workload("web2"), RESOURCE)
        await eventually(lambda: set(store.uids) == {"web", "web2"})


async def test_fault_over_one_object_does_not_affect_the_others(
    server: FakeApiServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[str] = []

    def on_object(raw: Json, *, is_deleted: bool) -> None:
        if raw["metadata"]["name"] == "b":
            raise KeyError("spec")
        received.append(raw["metadata"]["name"])

    for name in "abc":
        server.put(workload(name), RESOURCE)
    async with following(server, clock, on_object=on_object) as (informer, _):
        await informer.wait_complete()
        assert received == ["a", "c"]
    (fault,) = caplog.records
    assert (fault.message, vars(fault)["object"]) == ("an object could not be taken", "b")


async def test_a_resource_that_the_operator_can_do_without_is_complete_when_it_is_refused(server: FakeApiServer, clock: Clock) -> None:
    """Without `on_refused` it would never be complete, and a caller that waits for it would wait as long."""
    said: list[str] = []
    server.denied.add(("list", RESOURCE))
    server.put(workload("web"), RESOURCE)
    async with following(
        server, clock, is_watched=False, on_refused=lambda problem: said.append(problem.kind.value if problem else "")
    ) as (informer, store):
        async with asyncio.timeout(60):
            await informer.wait_complete()
            await informer.refresh()
        assert informer.is_complete
        assert (store.uids, set(said)) == ({}, {"Forbidden"})
        await eventually(lambda: clock.slept and max(clock.slept) > 30)  # a right hardly comes from one second to the next
        server.denied.clear()
        await eventually(lambda: set(store.uids) == {"web"})
        assert said[-1] == ""


def changed(kind: str, name: str, uid: str, version: int) -> Json:
    made = workload(name, uid)
    made["metadata"]["resourceVersion"] = str(version)
    return {"type": kind, "object": made}


async def test_of_changes_out_of_order_the_newest_under_a_name_counts(server: FakeApiServer, clock: Clock) -> None:
    """kopf handles each uid by itself: what the old object was last may come after its successor."""
    transport, store = connect(server.configuration()), Store()
    informer = Informer(transport, STATEFULSETS, store, scope="", outage=transport.outage, rng=Random(1), clock_s=clock)
    changes = informer.changes(listed := await informer.list())
    for _ in range(12):
        server.tick()
    server.put(workload("other"), RESOURCE)
    await anext(changes)
    at = int(listed)
    for event in (
        changed("ADDED", "web", "old", at + 5), changed("ADDED", "web", "new", at + 9),
        changed("MODIFIED", "web", "old", at + 7), changed("DELETED", "web", "old", at + 8),
        changed("MODIFIED", "web", "new", at + 9),
    ):  # fmt: skip
        informer.take(event)
    assert store.received == [("old", False), ("old", True), ("new", False)]
    informer.take(changed("DELETED", "web", "another", at + 11))
    assert store.received[-1] == ("new", True), "the end of an object whose beginning went unseen ends the one before it, too"
    informer.take(changed("DELETED", "never", "seen", at + 12))
    assert len(store.received) == 4
    await changes.aclose()
    await transport.close()


async def test_change_that_was_waiting_while_a_list_was_asked_for_is_older_than_the_list(server: FakeApiServer, clock: Clock) -> None:
    server.put(workload("gone"), RESOURCE)
    first = server.put(workload("web"), RESOURCE)
    async with following(server, clock) as (informer, store):
        server.set_stalled(True)
        server.put(workload("web", "second"), RESOURCE)
        server.remove("shop", "gone", RESOURCE)
        await informer.refresh()
        assert store.uids == {"web": "second"}
        informer.take({"type": "MODIFIED", "object": first})
        informer.take(changed("MODIFIED", "gone", "uid-gone", server.resource_version - 1))
        assert store.uids == {"web": "second"}


async def test_change_of_before_a_restore_hides_nothing_of_what_comes_after_it(server: FakeApiServer, clock: Clock) -> None:
    server.put(workload("web", "first"), RESOURCE)
    async with following(server, clock) as (informer, store):
        backup = server.snapshot()
        for _ in range(100):
            server.tick()
        late = changed("ADDED", "web2", "of-before", server.resource_version + 1)
        server.restore(backup)
        await informer.refresh()
        informer.take(late)  # kopf had it in the queue of its uid
        server.put(workload("web2", "of-after"), RESOURCE)
        await eventually(lambda: store.uids == {"web": "first", "web2": "of-after"})


async def test_after_a_restore_versions_that_are_lower_than_before_count(server: FakeApiServer, clock: Clock) -> None:
    server.put(workload("web", "first"), RESOURCE)
    backup = server.snapshot()
    for _ in range(5):
        server.put(workload("web", "later"), RESOURCE)
    async with following(server, clock) as (_, store):
        server.restore(backup)
        await eventually(lambda: store.uids == {"web": "first"})
        await watched(server)
        server.put(workload("web2"), RESOURCE)
        await eventually(lambda: set(store.uids) == {"web", "web2"})
