"""Static members of the streams protocol (KIP-1071), heartbeat by heartbeat, as no available client sends them.

Kafka Streams 4.3.1 refuses an instance id with group.protocol=streams, and 4.4 is not published. The one idea: a
process is what a pod would run, a few stream threads with one process id, and all that it does is what such a client
sends.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from conformance.wire.client import WireClient
from conformance.wire.conversation import Conversation, E
from conformance.wire.rows_streams import AWAY, Thread, described
from conformance.wire.targets import Target
from coordinator_model.streams import messages as st
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_jars import version_key

SUBTOPOLOGY = "counting"


@dataclass(slots=True)
class StreamsProcess:
    """One running application: its threads share a process id, which a state directory would keep over a restart.

    Parameters
    ----------
    instance_id: without the number that the client appends for each thread, from 1.
    """

    talk: Conversation
    topic: str
    instance_id: str
    process_id: str
    threads: list[Thread] = field(default_factory=list)

    async def start(self, count: int) -> None:
        """Join with new member ids; AssertionError when a join is refused."""
        topology = st.Topology(1, (st.Subtopology(SUBTOPOLOGY, (self.topic,), is_stateful=False),))
        self.threads = [
            Thread(self.talk, f"{self.instance_id}-{n}", process=self.process_id) for n in range(1, count + 1)
        ]
        for thread in self.threads:
            answer = await thread.beat(0, topology=topology)
            assert answer.error_code is E.NONE, f"{thread.instance} may not join: {answer.error_code.name}"

    async def beat(self) -> None:
        """Send one heartbeat of each thread; AssertionError when one is not a member any more."""
        for thread in self.threads:
            answer = await thread.beat()
            assert answer.error_code is E.NONE, f"{thread.instance} lives and gets {answer.error_code.name}"

    async def close(self) -> None:
        """Leave for a while, as static members do when they are closed."""
        for thread in self.threads:
            answer = await thread.beat(AWAY)
            assert answer.error_code is E.NONE, f"{thread.instance} may not leave: {answer.error_code.name}"
        self.threads = []

    def tasks(self) -> Mapping[str, frozenset[int]]:
        """Return the active tasks of each thread by its instance id."""
        return {
            str(thread.instance): frozenset(p for _, partitions in thread.tasks for p in partitions)
            for thread in self.threads
        }


@dataclass(slots=True)
class StreamsProcesses:
    """The processes of one group."""

    talk: Conversation
    topic: str
    running: dict[str, StreamsProcess] = field(default_factory=dict)
    process_ids: dict[str, str] = field(default_factory=dict)

    async def start(self, name: str, instance_id: str, threads: int) -> None:
        """Start a process, with the process id that its predecessor of this name had."""
        process_id = self.process_ids.setdefault(name, str(uuid.uuid4()))
        process = StreamsProcess(self.talk, self.topic, instance_id, process_id)
        await process.start(threads)
        self.running[name] = process

    async def close(self, name: str) -> None:
        """End a process: its members leave for a while."""
        await self.running.pop(name).close()

    async def beat(self) -> None:
        """Let every running process send its heartbeats."""
        for process in self.running.values():
            await process.beat()

    def tasks(self) -> dict[str, frozenset[int]]:
        """Return the active tasks of every thread."""
        return {name: held for process in self.running.values() for name, held in process.tasks().items()}

    async def settle(self) -> st.StreamsGroupDescribedGroup:
        """Send heartbeats until every member has what it shall have; return the group as described."""
        last: list[st.StreamsGroupDescribedGroup] = []

        async def settled() -> bool:
            await self.beat()
            last.append(await described(self.talk))
            epochs = {thread.epoch for process in self.running.values() for thread in process.threads}
            return last[-1].group_state == "Stable" and epochs == {last[-1].group_epoch}

        await self.talk.until(settled)
        return last[-1]


@asynccontextmanager
async def streams_processes(brokers: Brokers, group: str, topic: str) -> AsyncIterator[StreamsProcesses]:
    """Speak to the first node of running brokers as the processes of one group; nothing is running yet."""
    client = await WireClient.connect(*brokers.address(1))

    async def fail_over() -> None:
        raise RuntimeError("these brokers belong to others, so none of them is stopped")

    version = brokers.state.settings.version
    try:
        yield StreamsProcesses(Conversation(Target(version, version_key(version), client, fail_over), group), topic)
    finally:
        await client.close()


def partitions(tasks: Mapping[str, frozenset[int]]) -> Sequence[int]:
    """Return all partitions that threads hold, one held twice also twice."""
    return sorted(partition for held in tasks.values() for partition in held)
