"""Three brokers: which of them leads which shard of the group coordinator, and how a shard is given to another one.

One idea: every history has a shard for itself, so that its fail-overs disturb no other. A shard is a partition of
__consumer_offsets; it moves when its replicas are put in another order and the first of them is elected.
Source: GroupCoordinatorService.partitionFor (hash of the group's name), .onElection and .onResignation; KIP-455,
KIP-460.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from conformance.wire.client import WireClient
from conformance.wire.targets import TOPICS, create_topics, has_assignment, real_broker
from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode as E
from coordinator_model.wire.codec import Api
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_jars import Report

SHARDS = 16
CLUSTER_PROPERTIES: Mapping[str, str] = {
    "offsets.topic.num.partitions": str(SHARDS),
    "auto.leader.rebalance.enable": "false",
}
OFFSETS_TOPIC = "__consumer_offsets"
PATIENCE_S = 30.0
_MOVING = frozenset({E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE})
_ALTER_REASSIGNMENTS, _ELECT_LEADERS, _PREFERRED = 45, 43, 0


def shard_of(group: str) -> int:
    """Return the shard of a group: the absolute value of Java's String.hashCode modulo the number of shards."""
    code = 0
    for letter in group.encode("ascii"):
        code = (31 * code + letter) & 0xFFFFFFFF
    return abs(code - (1 << 32) if code >> 31 else code) % SHARDS


def group_on(shard: int, prefix: str) -> str:
    """Return a group name with this prefix that belongs to the shard."""
    return next(name for n in itertools.count() if shard_of(name := f"{prefix}-{n}") == shard)


@contextmanager
def three_brokers(version: str, suffix: str, overrides: Mapping[str, str], report: Report = print) -> Iterator[Brokers]:
    """Run three brokers of a version for as long as the block lasts."""
    with real_broker(version, suffix, {**overrides, **CLUSTER_PROPERTIES}, report, nodes=3) as brokers:
        yield brokers


@dataclass(slots=True)
class Cluster:
    """Connections to all brokers.

    Parameters
    ----------
    clients: by the broker's id.
    leaders: shard → the broker that has it.
    """

    clients: Mapping[int, WireClient]
    leaders: dict[int, int] = field(default_factory=dict)
    moves: int = 0

    def of(self, shard: int) -> WireClient:
        """Return the connection to the shard's coordinator."""
        return self.clients[self.leaders[shard]]

    async def move(self, shard: int) -> None:
        """Give a shard to the next broker, and wait until that one has loaded it."""
        ids = sorted(self.clients)
        successor = ids[(ids.index(self.leaders[shard]) + 1) % len(ids)]
        replicas = [successor, *(each for each in ids if each != successor)]
        row = {"partition_index": shard, "replicas": replicas}
        topic = {"name": OFFSETS_TOPIC, "partitions": [row]}
        changed = await self._anyone.call(_ALTER_REASSIGNMENTS, 0, topics=[topic], timeout_ms=10_000)
        assert changed["error_code"] == 0, changed
        chosen = [{"topic": OFFSETS_TOPIC, "partitions": (shard,)}]
        async with asyncio.timeout(PATIENCE_S):
            while not await self._serves(successor, shard):
                await self._anyone.call(
                    _ELECT_LEADERS, 2, election_type=_PREFERRED, topic_partitions=chosen, timeout_ms=10_000
                )
                await asyncio.sleep(0.05)
        self.leaders[shard] = successor
        self.moves += 1

    @property
    def _anyone(self) -> WireClient:
        return next(iter(self.clients.values()))

    async def _serves(self, node: int, shard: int) -> bool:
        request = m.DescribeGroupsRequest(groups=(group_on(shard, "nobody"),))
        answer = cast(m.DescribeGroupsResponse, await self.clients[node].ask(request))
        return answer.groups[0].error_code not in _MOVING

    async def learn(self) -> None:
        """Make the topics, find each shard's leader, and wait until each one knows the topics."""
        await create_topics(self._anyone, TOPICS)
        for client in self.clients.values():
            await create_topics(client, TOPICS)
        async with asyncio.timeout(PATIENCE_S):
            while len(self.leaders) < SHARDS or -1 in self.leaders.values():
                answer = await self._anyone.call(Api.METADATA, 12, topics=[{"name": OFFSETS_TOPIC}])
                (topic,) = answer["topics"]
                rows: Any = topic["partitions"]
                self.leaders = {row["partition_index"]: row["leader_id"] for row in rows}
                await asyncio.sleep(0.05)
            for shard in range(SHARDS):
                attempt = 0
                while not await has_assignment(self.of(shard), group_on(shard, f"warm-up-{attempt}")):
                    attempt += 1
                    await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Close all connections."""
        for client in self.clients.values():
            await client.close()


@asynccontextmanager
async def connected(brokers: Brokers) -> AsyncIterator[Cluster]:
    """Connect to every broker of a running cluster."""
    cluster = Cluster({node: await WireClient.connect(*brokers.address(node)) for node in brokers.nodes})
    try:
        await cluster.learn()
        yield cluster
    finally:
        await cluster.close()
