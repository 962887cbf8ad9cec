"""What the system tests count: members of the group, lost partitions, restarted brokers.

Modelled consumers do not read records, so there is no position to compare with a count of records. What that comparison
guards against, a partition that two consumers work on or that a live one had to give up, is counted here instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from conformance.streams_app import TOPOLOGY, App
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import Request
from coordinator_model.base.records import Record
from coordinator_model.base.result import Result
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from simulator.clients.partition_meter import Partition
from simulator.clients.settings import ConsumerSettings, ContainerSettings
from simulator.engine.loop import run
from simulator.kafka.network import Exchange
from staticgroup.core.group import GroupView
from unit.simulator.kafka_world import CONNECTION, GROUP, KafkaWorld, until

JOIN_TIMEOUT_S = 60.0
RESTART_S = 10.0
"""A broker is away so long when it is restarted."""


def simulate(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a system test in virtual time."""
    run(main, seed=1, until_s=7_200.0)


async def eventually(check: Callable[[], Awaitable[bool]], timeout_s: float) -> None:
    """Look every half second; fail when the check still says no after the timeout."""
    for _ in range(int(timeout_s / 0.5)):
        if await check():
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{check} still says no after {timeout_s:g} s")


class Fleet:
    """Pods `web-<n>` of one consumer group, started, stopped and restarted as a system test does.

    Parameters
    ----------
    count: pods.
    is_static: each has an instance id.
    partitions: of the topic.
    """

    def __init__(
        self,
        count: int,
        *,
        partitions: int,
        is_static: bool = True,
        brokers: BrokerSettings | None = None,
        container: dict[str, Any] | None = None,
        **consumer: Any,
    ) -> None:
        self.world = KafkaWorld(brokers=brokers)
        self.world.cluster.image = TopicImage({"orders": partitions})
        self.container = container or {"startup_s": (0.5, 1.5)}
        self.configure(**consumer)
        self.count = count
        self.is_static = is_static
        self.partitions = partitions
        self.uids: dict[int, str] = {}
        self.losses: dict[str, int] = {}
        self._had: dict[str, frozenset[Partition]] = {}
        self._starts = 0
        self.world.loop.step_hooks.append(self._look)

    def configure(self, **consumer: Any) -> None:
        """Set what pods that start from now on run."""
        settings = ConsumerSettings(**{"group_id": GROUP, "topics": ("orders",), **consumer})
        self.world.programs.containers["app"] = ContainerSettings(consumers=(settings,), **self.container)

    async def start(self, *numbers: int) -> None:
        """Start pods and wait until all that run are members and every partition is worked on once."""
        self.launch(*numbers)
        await self.all_in()

    def launch(self, *numbers: int) -> None:
        """Start pods."""
        for number in numbers:
            self._starts += 1
            uid = self.uids[number] = f"uid-{number}-{self._starts}"
            if self.is_static:
                self.world.start(number, uid)
            else:
                self.world.start(number, uid, KAFKA_GROUP_INSTANCE_ID="")

    async def start_all(self) -> None:
        """Start every pod and wait until the group is complete."""
        await self.start(*range(self.count))

    async def stop(self, *numbers: int) -> None:
        """Send SIGTERM and wait for the end of the processes."""
        gone = [self.uids.pop(number) for number in numbers]
        for uid in gone:
            self.world.terminate(uid)
        await until(lambda: not any(self.world.table.is_running(uid, "app") for uid in gone))

    async def bounce(self, mode: str, numbers: Iterable[int], times: int = 1) -> None:
        """Restart pods, all at once or one after the other."""
        numbers = tuple(numbers)
        for _ in range(times):
            for together in (numbers,) if mode == "all" else tuple((number,) for number in numbers):
                await self.stop(*together)
                await self.start(*together)

    async def all_in(self, timeout_s: float = JOIN_TIMEOUT_S) -> None:
        """Wait until the pods' processes, and no others, are the members, and the group has settled."""
        await eventually(self._is_complete, timeout_s)

    async def is_empty(self) -> bool:
        """Tell whether the group has no members."""
        return (await self.world.view()).state == "Empty"

    async def _is_complete(self) -> bool:
        view = await self.world.gateway.describe(CONNECTION, GROUP)
        if not isinstance(view, GroupView) or not view.is_settled or self.worked_on() != self.partitions:
            return False
        creators = {self.world.table.creator(member.member_id) for member in view.members}
        return {c.pod_uid for c in creators if c is not None} == set(self.uids.values())

    def worked_on(self) -> int:
        """Count the partitions that running pods work on; one that two work on counts twice."""
        return sum(self.world.owner(uid) for uid in self.uids.values())

    async def restart_broker(self, node_id: int) -> None:
        """Stop a broker in order, which hands its groups over first, and start it again."""
        cluster = self.world.cluster
        if cluster.locate(GROUP) == node_id:
            cluster.fail_over(GROUP, is_clean=True)
            await asyncio.sleep(1.0)
        cluster.kill_broker(node_id)
        await asyncio.sleep(RESTART_S)
        cluster.start_broker(node_id)
        await self.all_in()

    def _look(self) -> None:
        """Note for each consumer how often partitions were taken from it while its process went on."""
        owned = self.world.meter.owned
        for name, had in self._had.items():
            uid = name.split("/")[2]
            if had - owned.get(name, frozenset()) and self.world.table.is_running(uid, "app"):
                self.losses[uid] = self.losses.get(uid, 0) + 1
        self._had = dict(owned)


class Requests:
    """What the coordinator of the group was asked since this was made, by the name of the pod that asked."""

    def __init__(self, fleet: Fleet) -> None:
        self.sent: list[tuple[str, Request]] = []
        shard = fleet.world.cluster.shard(GROUP)
        self._next, shard.on_request = shard.on_request, self._note

    def _note(self, asking: Exchange | None, request: Request) -> None:
        self._next(asking, request)
        if asking is not None:
            self.sent.append((asking.link.name.split("/")[0], request))

    def of(self, kind: type[Request]) -> list[Any]:
        """Return those of one kind."""
        return [request for _, request in self.sent if isinstance(request, kind)]


class LoggedCoordinator(GroupCoordinator):
    """A coordinator that keeps its log, so that the next broker can read it."""

    def __init__(self, partitions: int, log: list[Record] | None = None) -> None:
        settings = BrokerSettings(streams_initial_rebalance_delay_ms=0)
        super().__init__(settings, image=TopicImage({TOPOLOGY.subtopologies[0].source_topics[0]: partitions}))
        self.log = log or []
        if self.log:
            self.replay(self.log)

    def handle(self, request: Request, now_ms: int) -> Result:
        """Do a request and keep its records."""
        result = super().handle(request, now_ms)
        self.log += result.records
        return result

    def successor(self, partitions: int) -> LoggedCoordinator:
        """Return the coordinator that another broker makes of the log."""
        return LoggedCoordinator(partitions, list(self.log))


def streams_apps(broker: GroupCoordinator, names: str = "ABC", threads: int = 3) -> list[App]:
    """Make Streams applications `consumer-A`, ... that keep their process ids on disk."""
    return [App(broker, name, f"consumer-{name}", f"process-{name}", count=threads) for name in names]
