"""How many partitions topics have, asked of each Kafka cluster for all of its topics at once, and not again soon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...core.group import KafkaProblem
from ...kafka.gateway import KioGateway
from ...kafka.login.credentials import ConnectionSettings

MAX_AGE_S = 600.0
"""Partitions that are added to a topic are noticed after this time."""
CONNECTIONS_MAX = 10_000
TOPICS_MAX = 10_000
"""Topics of one connection that are remembered; with more, all are forgotten and asked for again."""


@dataclass(slots=True)
class _Known:
    counts: dict[str, int | None] = field(default_factory=dict)
    asked_at_s: float = float("-inf")


@dataclass(slots=True)
class TopicSizes:
    """The partitions of topics, by connection."""

    kafka: KioGateway
    monotonic_s: Callable[[], float]
    _known: dict[str, _Known] = field(default_factory=dict)

    async def of(self, settings: ConnectionSettings, topics: Iterable[str]) -> Mapping[str, int] | None:
        """Return how many partitions topics have, without those that do not exist; None when they cannot be read."""
        wanted = set(topics)
        if len(self._known) >= CONNECTIONS_MAX:
            self._known.clear()
        known = self._known.setdefault(settings.fingerprint, _Known())
        is_old = self.monotonic_s() - known.asked_at_s > MAX_AGE_S
        if is_old or not wanted <= known.counts.keys():
            asked = wanted | known.counts.keys() if is_old and len(known.counts) < TOPICS_MAX else wanted
            found = await self.kafka.partition_counts(settings, sorted(asked))
            if isinstance(found, KafkaProblem):
                return None
            kept = {} if is_old else known.counts
            known.counts = {**kept, **{topic: found.get(topic) for topic in asked}}
            known.asked_at_s = self.monotonic_s() if is_old else known.asked_at_s
        return {topic: count for topic in wanted if (count := known.counts[topic]) is not None}
