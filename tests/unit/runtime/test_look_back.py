"""What was put back while no replica looked is found by the events since, and by nothing that is there in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.kube.object_stream import ObjectStream
from staticgroup.kube.outage import Outage
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.transport import connect
from staticgroup.runtime.memory import put_back
from staticgroup.runtime.memory.put_back import DOUBTED_MAX, WAIT_FOR_S, LookBack
from staticgroup.runtime.process.streams import ours
from staticgroup.runtime.stores import Stores
from staticgroup.runtime.work_queue import Key
from support.fake_apiserver import BROKEN, FakeApiServer

from .operator_world import static_group

Json = dict[str, Any]
RESOURCE = "staticgroups.staticgroup.io"
STORED = Continuity(epoch="e1", resource_versions={"": 1})


def group(digest: str, manager: str = names.FIELD_MANAGER, *, name: str = "orders", namespace: str = "shop", **more: Any) -> Json:
    body = static_group(uid=f"{namespace}-{name}")
    owned = {"f:status": {"f:continuity": {"f:digest": {}}}}
    body["metadata"] |= {"namespace": namespace, "name": name, "managedFields": [{"manager": manager, "fieldsV1": owned}], **more}
    return body | {"status": {"continuity": {"digest": digest}}}


class Told:
    """An API server, stores that one stream for each scope feeds, and how far these were looked at."""

    def __init__(self, server: FakeApiServer, scopes: tuple[str, ...]) -> None:
        self.server = server
        self.stores = Stores()
        self.slept: list[float] = []
        self.now_s = 0.0
        transport = connect(server.configuration())
        self.transport = transport
        transport.outage = Outage(clock_s=lambda: self.now_s)
        resource = ours(names.STATIC_GROUP_PLURAL)
        self.streams = [
            ObjectStream(transport, resource, self.tell, scope=s, outage=transport.outage, rng=Random(1), clock_s=lambda: self.now_s)
            for s in scopes
        ]
        self.look_back = LookBack(
            transport, resource, self.streams, self.stores, clock_s=lambda: self.now_s, sleep=self.sleep
        )

    def tell(self, raw: Json, *, is_deleted: bool) -> None:
        key = raw["metadata"]["namespace"], raw["metadata"]["name"]
        if is_deleted:
            self.stores.drop_group(key, raw["metadata"]["uid"])
        else:
            self.stores.put_group(key, raw)

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.now_s += delay_s
        await asyncio.sleep(0)

    def put(self, *args: Any, **more: Any) -> int:
        return int(self.server.put(group(*args, **more), RESOURCE)["metadata"]["resourceVersion"])

    async def doubted(
        self, since: dict[str, int], *, earlier: frozenset[Key] = frozenset(), unsettled: dict[Key, int] | None = None
    ) -> set[Key]:
        """Look at all that there is, as whoever takes the Lease over."""
        await asyncio.gather(*(s.refresh() for s in self.streams))
        await self.look_back.begin(replace(STORED, groups=since, doubted=earlier, unsettled=unsettled or {}))
        return self.stores.doubted

    @property
    def watches(self) -> int:
        """How many watches have looked back; those of the streams last longer."""
        return sum(f"timeoutSeconds={put_back.SERVER_TIMEOUT_S}&" in path for _, path in self.server.requests)


Telling = Callable[..., Any]


@asynccontextmanager
async def telling(*scopes: str) -> AsyncIterator[Told]:
    async with FakeApiServer().serving() as server:
        told = Told(server, scopes or ("",))
        following = [asyncio.create_task(s.run()) for s in told.streams]
        try:
            await asyncio.gather(*(s.wait_complete() for s in told.streams))
            yield told
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await told.transport.close()


ORDERS: Key = ("shop", "orders")


async def test_history_that_was_put_back_together_with_its_owners_is_doubted() -> None:
    async with telling() as told:
        since = told.put("d2")
        told.put("d1", "velero-server")
        told.put("d1")
        assert await told.doubted({"": since}) == {ORDERS}


async def test_what_was_put_back_before_the_position_and_ordinary_edits_after_it_make_nobody_doubt() -> None:
    async with telling() as told:
        told.put("d1", "velero-server")
        since = told.put("d2")
        told.put("d2", labels={"seen-by": "argo"})
        told.put("d3")
        assert await told.doubted({"": since}) == set()


async def test_operator_that_has_written_another_history_over_it_ends_the_doubt() -> None:
    async with telling() as told:
        since = told.put("d2")
        told.put("d1", "velero-server")
        told.put("d1")
        told.put("d3")
        assert await told.doubted({"": since}) == set()
        told.put("d2", "velero-server")
        told.put("d2")
        assert await told.doubted({"": since}) == {ORDERS}


async def test_nothing_is_asked_where_nothing_was_written_or_no_position_is_known() -> None:
    async with telling() as told:
        since = told.put("d2")
        assert await told.doubted({"": since}) == set()
        told.put("d1", "velero-server")
        told.put("d1")
        assert await told.doubted({}) == set()
        await told.look_back.begin(None)
        assert (told.stores.doubted, told.watches) == (set(), 0)
        assert await told.doubted({"": since}) == {ORDERS}
        assert told.watches == 1


async def test_what_cannot_be_looked_at_is_asked_for_until_it_can_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with telling() as told:
        since = told.put("d2")
        told.put("d1", "velero-server")
        told.put("d1")
        await told.streams[0].refresh()
        told.server.failing["watch", RESOURCE] = [403, 403, 503, BROKEN]
        assert await told.doubted({"": since}) == {ORDERS}
        waited = [r.__dict__["problem"] for r in caplog.records if "waiting" in r.getMessage()]
        assert len(waited) == len(set(waited)) >= 2
        assert "not allowed to watch" in waited[0]


async def test_only_what_was_written_since_is_doubted_where_the_events_are_gone() -> None:
    async with telling() as told:
        told.put("d1", name="payments")
        since = told.put("d2")
        told.put("d2", labels={"seen-by": "argo"})
        told.server.compact()
        assert await told.doubted({"": since}) == {ORDERS}
        assert sum(told.slept) >= put_back.ASK_FOR_S


@pytest.mark.parametrize("as_event", [False, True])
async def test_another_api_server_may_have_the_events(as_event: bool) -> None:
    async with telling() as told:
        since = told.put("d2")
        told.put("d2", labels={"seen-by": "argo"})
        kept, told.server.gone_as_event = told.server.history, as_event
        told.server.compact()
        sleep = told.look_back._sleep

        async def another(delay_s: float) -> None:
            await sleep(delay_s)
            told.server.compacted, told.server.history = 0, kept

        told.look_back._sleep = another
        assert await told.doubted({"": since}) == set()
        assert len(told.slept) == 1


async def test_each_scope_has_a_position_of_its_own_and_may_go_on_from_that_of_all() -> None:
    async with telling("shop", "bills") as told:
        since = told.put("d2"), told.put("d2", namespace="bills")
        for namespace in ("shop", "bills"):
            told.put("d1", "velero-server", namespace=namespace)
            last = told.put("d1", namespace=namespace)
        assert await told.doubted({"shop": since[0], "bills": last}) == {ORDERS}
        assert await told.doubted({"": since[0]}) == {ORDERS, ("bills", "orders")}
        assert await told.doubted({"shop": last, "bills": since[1]}) == {("bills", "orders")}


async def test_what_an_earlier_holder_doubted_stays_doubted_while_the_staticgroup_is_there() -> None:
    async with telling() as told:
        since = told.put("d2")
        assert await told.doubted({"": since}, earlier=frozenset({ORDERS, ("shop", "gone")})) == {ORDERS}
        assert told.look_back.stored()[1] == {ORDERS}
        told.server.remove("shop", "orders", RESOURCE)
        await told.streams[0].refresh()
        assert told.look_back.stored()[1] == frozenset()


async def test_position_stays_behind_when_there_are_more_doubts_than_are_listed() -> None:
    async with telling() as told:
        since = told.put("d2")
        assert await told.doubted({"": since}) == set()
        for n in range(DOUBTED_MAX + 1):
            told.stores.doubted.add(("shop", f"g{n:03}"))
        last = told.put("d3")
        await told.streams[0].refresh()
        positions, listed, _ = told.look_back.stored()
        assert (positions, len(listed)) == ({"": since}, DOUBTED_MAX)
        told.stores.doubted.pop()
        assert told.look_back.stored()[0][""] >= last


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_who_was_doubted_before_the_position_stays_listed_when_there_are_more_doubts_than_are_listed(is_taken_over: bool) -> None:
    """Nothing that is told again from the position shows them."""
    async with telling() as told:
        since = told.put("d2")
        earlier = frozenset(("shop", f"z{n:03}") for n in range(DOUBTED_MAX - 1))
        told.stores.group_uids |= dict.fromkeys(earlier, "uid")
        assert await told.doubted({"": since}, earlier=earlier) == earlier
        if not is_taken_over:
            assert told.look_back.stored()[1] == earlier
        told.stores.doubted |= {("shop", f"a{n:03}") for n in range(10)}
        positions, listed, _ = told.look_back.stored()
        assert (positions, len(listed)) == ({"": since}, DOUBTED_MAX)
        assert earlier <= listed


async def test_what_cannot_be_looked_at_for_five_minutes_is_doubted(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is removed while it waits, and no status says why: for a person on call there is only the log, then the status."""
    async with telling() as told:
        since = told.put("d2")
        told.put("d2", labels={"seen-by": "argo"})
        await told.streams[0].refresh()
        told.server.failing["watch", RESOURCE] = [403] * 1000
        assert await told.doubted({"": since}) == {("shop", "orders")}
        assert WAIT_FOR_S <= sum(told.slept) <= WAIT_FOR_S + 2
        assert [r.getMessage() for r in caplog.records].count("waiting for what was written to StaticGroups meanwhile") == 1


async def test_no_answer_in_between_is_no_sign_that_the_events_are_gone() -> None:
    """Whoever answered 410 before is asked anew, and others with him, for as long as after the first one."""
    async with telling() as told:
        since = told.put("d2")
        told.put("d2", labels={"seen-by": "argo"})
        await told.streams[0].refresh()
        told.server.failing["watch", RESOURCE] = [410, *[503] * 20, 410, 410]
        assert await told.doubted({"": since}) == set()


async def put_in(told: Told, scopes: tuple[str, ...]) -> dict[str, int]:
    """Put one StaticGroup into each namespace, and edit it; return how far these were looked at before the edit."""
    since = {s: told.put("d2", namespace=s) for s in scopes}
    for scope in scopes:
        told.put("d2", namespace=scope, labels={"seen-by": "argo"})
    for stream in told.streams:
        await stream.refresh()
    return since


async def test_what_cannot_be_looked_at_in_several_namespaces_is_waited_for_no_longer_than_in_one() -> None:
    scopes = tuple(f"n{i}" for i in range(5))
    async with telling(*scopes) as told:
        since = await put_in(told, scopes)
        told.server.failing["watch", RESOURCE] = [403] * 100_000
        assert await told.doubted(since) == {(s, "orders") for s in scopes}
        assert told.now_s <= put_back.WAIT_FOR_S + len(scopes)


async def test_what_is_gone_in_several_namespaces_is_asked_for_no_longer_than_in_one() -> None:
    scopes = tuple(f"n{i}" for i in range(5))
    async with telling(*scopes) as told:
        since = await put_in(told, scopes)
        told.server.compact()
        assert await told.doubted(since) == {(s, "orders") for s in scopes}
        assert told.now_s <= put_back.ASK_FOR_S + len(scopes)


async def test_edits_in_two_namespaces_that_cannot_be_looked_at_do_not_hold_a_take_over_up_for_ever() -> None:
    """Somebody edits one object or the other every four minutes, and each would be waited for anew."""
    scopes = ("shop", "bills")
    async with telling(*scopes) as told:
        since = await put_in(told, scopes)
        told.server.failing["watch", RESOURCE] = [403] * 100_000
        sleep, edits = told.look_back._sleep, list[int]()

        async def edited(delay_s: float) -> None:
            await sleep(delay_s)
            if int(told.now_s) // 240 > len(edits):
                edits.append(1)
                await put_in(told, scopes)
            assert told.now_s < 2 * put_back.WAIT_FOR_S, "nobody removes anything, and no status says why"

        told.look_back._sleep = edited
        assert await told.doubted(since) == {(s, "orders") for s in scopes}


async def test_status_that_is_sent_and_not_answered_is_behind_and_holds_nobody_else_back() -> None:
    async with telling("shop", "bills") as told:
        since = {s: told.put("d1", namespace=s) for s in ("shop", "bills")}
        await asyncio.gather(*(s.refresh() for s in told.streams))
        assert await told.doubted(since) == set()
        assert told.look_back.stored().unsettled == {}
        told.stores.unsettled[ORDERS] = (told.stores.told_version, told.now_s)
        newest = {s: told.put("d1", namespace=s, labels={"seen-by": "argo"}) for s in since}
        await asyncio.gather(*(s.refresh() for s in told.streams))
        looked = told.look_back.stored()
        assert all(looked.groups[s] >= newest[s] for s in newest)
        assert since["shop"] <= looked.unsettled[ORDERS] < newest["shop"]
        assert told.look_back.stored().unsettled == looked.unsettled, "it waits for the same answer"
        told.stores.unsettled[ORDERS] = (told.stores.told_version, told.now_s + 1)
        assert told.look_back.stored().unsettled[ORDERS] >= newest["shop"], "another one was sent"
        del told.stores.unsettled[ORDERS]
        assert told.look_back.stored().unsettled == {}


async def test_what_is_sent_comes_after_the_position_that_was_stored_before() -> None:
    """A watch that begins anew tells of each object in the version that it has, and bookmarks tell of no object."""
    async with telling() as told:
        since = told.put("d1")
        last = told.put("d1", name="bills")
        await told.streams[0].refresh()
        assert await told.doubted({"": since}) == set()
        assert told.look_back.stored().groups == {"": last}
        told.stores.unsettled[ORDERS] = (since, told.now_s)
        assert told.look_back.stored().unsettled == {ORDERS: last}


@pytest.mark.parametrize("is_gone", [False, True])
async def test_what_is_put_back_over_what_was_not_answered_is_doubted_and_nothing_else(is_gone: bool) -> None:
    async with telling() as told:
        since = told.put("d1")
        told.put("d1", name="bills")
        told.put("d2")
        told.put("d1", manager="velero")
        told.put("d1", labels={"seen-by": "argo"})
        last = told.put("d1", name="bills", labels={"seen-by": "argo"})
        if is_gone:
            told.server.compact()
        unsettled = {ORDERS: since, ("shop", "gone"): since}
        assert await told.doubted({"": last}) == set()
        assert await told.doubted({"": last}, unsettled=unsettled) == {ORDERS}
        assert await told.doubted({"": last}, unsettled={("shop", "bills"): last}) == set()


async def test_status_whose_answer_has_not_come_for_long_makes_its_staticgroup_doubted() -> None:
    async with telling() as told:
        since = told.put("d1")
        assert await told.doubted({"": since}) == set()
        told.stores.unsettled[ORDERS] = (since, told.now_s)
        told.now_s += put_back.SETTLED_WITHIN_S - 1
        assert told.look_back.stored().doubted == frozenset()
        told.now_s += 1
        assert told.look_back.stored() == ({"": since}, {ORDERS}, {})
        assert told.stores.unsettled == {}
