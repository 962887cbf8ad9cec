"""Terms of the Lease in whole operator processes: standby, loss, return and deletion."""

from __future__ import annotations

import asyncio
from typing import Any

from staticgroup.api.resources.memory import StatusMemory
from staticgroup.core.status.memory import seal_of
from staticgroup.kube.lease import POSITION_ANNOTATION
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from unit.kube.raw_objects import eventually

from .operator_world import KEY
from .process_world import CONNECTIONS, GROUPS, KAFKA, LEASE, LEASE_PATH, Cluster, departed, left, take_lease, writes


async def test_standby_watches_but_writes_nothing_until_the_holder_is_gone(cluster: Cluster) -> None:
    async with cluster.operating("one") as (first, first_task), cluster.operating("two") as (second, _):
        await cluster.populated()
        assert (first.lease.holds(), second.lease.holds()) == (True, False)
        await eventually(second.is_ready)
        before = second.metrics.status_writes._value.get()
        first_task.cancel()
        await asyncio.gather(first_task, return_exceptions=True)
        await eventually(second.lease.holds)
        await cluster.departs()
        assert before == 0
    assert left(cluster) == [cluster.id_of(2)]


async def test_lost_lease_makes_a_standby_that_writes_nothing_and_goes_on_watching(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, task):
        await cluster.populated()
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.lease.holds() and not operator.is_active)
        await eventually(lambda: not any(w for w in operator.queue._rounds if not w.done()))
        written = len(writes(cluster))
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: operator.stores.workloads["shop", "web"].replicas == 2)
        await eventually(lambda: not any(p.object_present for p in departed(operator)))
        assert operator.is_ready()
        assert not task.done()
        assert len(writes(cluster)) == written
    assert left(cluster) == []


async def test_replica_that_gets_its_lease_back_does_all_that_a_new_holder_does(cluster: Cluster) -> None:
    """Another holder wrote the status meanwhile: it is read again, never overwritten with what was remembered."""
    async with cluster.operating() as (operator, task):
        await cluster.populated()
        watch, queue = operator.pods.names(), operator.queue
        await eventually(lambda: watch in str(cluster.server.objects[LEASE]["metadata"].get("annotations")))
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.is_active)
        cluster.server.set_stalled(True)  # only a LIST shows what the other one wrote
        connection = cluster.server.objects[CONNECTIONS, *KAFKA]
        cluster.server.put(connection | {"status": connection["status"] | {"brokers": 99}}, CONNECTIONS)
        body = cluster.server.objects[GROUPS, *KEY]
        conditions = [c | {"lastTransitionTime": "2020-01-01T00:00:00Z"} for c in body["status"]["conditions"]]
        theirs = {"uid": "u7", "pod": "web-7", "ids": [cluster.id_of(7)], "since": "2026-11-21T10:00:00Z"}
        written = body["status"]["memory"] | {"suspects": [theirs]}
        parsed = StatusMemory.model_validate(written)
        written["seal"] = seal_of(parsed.watch, parsed.seats, parsed.suspects)
        cluster.server.put(body | {"status": body["status"] | {"memory": written, "conditions": conditions}}, GROUPS)
        take_lease(cluster, "")
        await eventually(lambda: operator.is_active)
        cluster.server.set_stalled(False)
        await cluster.departs()
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("instanceId") == cluster.id_of(2))
        await eventually(lambda: cluster.server.objects[CONNECTIONS, *KAFKA]["status"]["brokers"] != 99)
        (connected,) = (c for c in cluster.status["conditions"] if c["type"] == "Connected")
        assert connected["lastTransitionTime"] == "2020-01-01T00:00:00Z"
        assert operator.queue is not queue
        assert operator.pods.names() == watch
        assert "web-7" in str(cluster.status["memory"]["suspects"])
        assert not task.done()
    assert left(cluster) == [cluster.id_of(2)]


async def test_replica_that_gets_its_lease_back_goes_on_under_the_watch_of_the_holder_in_between(
    cluster: Cluster,
) -> None:
    """Acquiring the Lease must not overwrite what that holder stored on it before it was read."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        take_lease(cluster, "somebody-else")
        await eventually(lambda: not operator.is_active)
        theirs = WatchPosition({"": ScopePosition(cluster.server.resource_version, "1790000000-0000abcd")})
        cluster.server.objects[LEASE]["metadata"]["annotations"] = {POSITION_ANNOTATION: theirs.to_json()}
        take_lease(cluster, "")
        await eventually(lambda: operator.is_active)
        assert operator.pods.names() == "1790000000-0000abcd"


async def test_lease_that_was_deleted_begins_new_watches(cluster: Cluster) -> None:
    """A restore of an older etcd is declared by this: present members may be of unseen pods."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        watch = operator.pods.names()
        cluster.server.remove(*LEASE[1:], LEASE[0])
        await eventually(lambda: operator.pods.names() not in ("", watch))


async def test_round_of_an_earlier_term_is_cut_off_and_the_next_term_waits_until_it_has_ended(cluster: Cluster) -> None:
    """It would go on under the Lease of the new term and write what it remembers from before."""
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        may_end, described = asyncio.Event(), cluster.kafka.describe
        begun: list[str] = []
        cut: list[str] = []

        async def describe(settings: Any, group_id: str) -> Any:
            begun.append(group_id)
            try:
                await asyncio.Event().wait()
            finally:
                cut.append(group_id)
                await may_end.wait()

        cluster.kafka.describe = describe  # type: ignore[method-assign]
        operator.listener.request_round(KEY)
        await eventually(lambda: begun)
        take_lease(cluster, "somebody-else")
        await eventually(lambda: cut == ["orders"])
        written = len([w for w in writes(cluster) if "staticgroups" in w])
        cluster.kafka.describe = described  # type: ignore[method-assign]
        take_lease(cluster, "")
        await eventually(operator.lease.holds)
        renewals = writes(cluster).count(LEASE_PATH)
        await eventually(lambda: writes(cluster).count(LEASE_PATH) > renewals + 3)
        assert not operator.is_active
        assert len([w for w in writes(cluster) if "staticgroups" in w]) == written
        may_end.set()
        await eventually(lambda: operator.is_active)
