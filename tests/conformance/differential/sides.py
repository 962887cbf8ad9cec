"""The two sides of a comparison: the model in virtual time and a broker in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from conformance.wire.client import WireClient
from coordinator_model import messages as m
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.image import TopicImage
from coordinator_model.settings import BrokerSettings


class ModelSide:
    """The model, one coordinator for one group; its time stands still unless a step waits."""

    def __init__(self, settings: BrokerSettings, topics: Mapping[str, int]) -> None:
        self.coordinator = GroupCoordinator(settings, image=TopicImage(dict(topics)))
        self.now_ms = 1_000_000
        self.completed: dict[int, m.Response] = {}

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

    def _take(self, result: Any) -> None:
        self.completed.update({done.ticket: done.response for done in result.completed})


class RealSide:
    """A broker."""

    def __init__(self, client: WireClient) -> None:
        self.client = client

    def start(self, request: m.Request) -> asyncio.Task[m.Response]:
        """Send a request; the task ends with its answer."""
        return asyncio.create_task(self.client.ask(request))
