"""The two sides of a comparison: the model in virtual time and a broker in real time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from conformance.differential.cluster import Cluster
from conformance.wire.client import WireClient
from coordinator_model.base import messages as m
from coordinator_model.base.image import TopicImage
from coordinator_model.base.records import Record
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator


class ModelSide:
    """The model, one coordinator for one group; its time stands still unless a step waits."""

    def __init__(self, settings: BrokerSettings, topics: Mapping[str, int]) -> None:
        self._uuids = itertools.count(1)
        self.coordinator = GroupCoordinator(settings, image=TopicImage(dict(topics)), new_uuid=self._new_uuid)
        self.now_ms = 1_000_000
        self.completed: dict[int, m.Response] = {}
        self._log: list[Record] = []

    def ask(self, request: m.Request) -> tuple[m.Response | None, int | None]:
        """Carry out a request; returns its answer, or None and its ticket while it waits."""
        result = self.coordinator.handle(request, self.now_ms)
        self._take(result)
        self._take(self.coordinator.expire(self.now_ms))
        if result.response is None and result.ticket in self.completed:
            return self.completed.pop(result.ticket), None
        return result.response, result.ticket if result.response is None else None

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += round(seconds * 1000)
        self._take(self.coordinator.expire(self.now_ms))

    def fail_over(self) -> None:
        """Let another broker become the coordinator: it knows the log and the configs of groups, nothing else."""
        before = self.coordinator
        self._take(before.unload(self.now_ms))
        self.coordinator = GroupCoordinator(before.settings, image=before.image, new_uuid=self._new_uuid)
        self.coordinator.group_configs = before.group_configs
        self._take(self.coordinator.replay(tuple(self._log), self.now_ms))

    def _new_uuid(self) -> str:
        return f"{next(self._uuids):08d}"

    def _take(self, result: Any) -> None:
        self._log.extend(result.records)
        self.completed.update({done.ticket: done.response for done in result.completed})


class RealSide:
    """Three brokers, one of which is the coordinator of the history's shard."""

    def __init__(self, cluster: Cluster, shard: int) -> None:
        self._cluster = cluster
        self._shard = shard

    @property
    def client(self) -> WireClient:
        """The connection to the coordinator."""
        return self._cluster.of(self._shard)

    async def fail_over(self) -> None:
        """Let the next broker become the coordinator."""
        await self._cluster.move(self._shard)

    def start(self, request: m.Request) -> asyncio.Task[m.Response]:
        """Send a request; the task ends with its answer."""
        return asyncio.create_task(self.client.ask(request))
