"""ATTACK: an event of before a restore that comes after the LIST of the restored etcd."""

from random import Random

from staticgroup.kube.informer import Informer
from staticgroup.kube.outage import Outage
from staticgroup.kube.transport import STATEFULSETS, connect
from support.fake_apiserver import FakeApiServer

from .test_informer import RESOURCE, Clock, Store, changed, workload


async def test_an_event_of_before_a_restore_hides_nothing_of_what_comes_after_it() -> None:
    async with FakeApiServer().serving() as server:
        clock = Clock()
        transport, store = connect(server.configuration()), Store()
        transport.outage = Outage(clock_s=clock)
        informer = Informer(
            transport, STATEFULSETS, store, scope="", outage=transport.outage, rng=Random(1), clock_s=clock, sleep=clock.sleep
        )
        server.put(workload("web", "first"), RESOURCE)
        backup = server.snapshot()
        for _ in range(100):
            server.tick()
        await informer.list()
        late = changed("ADDED", "web2", "of-before", server.resource_version + 1)
        server.restore(backup)
        await informer.list()
        informer.take(late)  # kopf had it in the queue of its uid
        made = server.put(workload("web2", "of-after"), RESOURCE)
        informer.take({"type": "ADDED", "object": made})
        await transport.close()
        assert store.uids == {"web": "first", "web2": "of-after"}
