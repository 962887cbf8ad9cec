"""Measures which processes believe that they own which partition: idle and double work, and rebalances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Partition = tuple[str, int]


@dataclass(slots=True)
class GroupMeter:
    """The partitions of one group.

    Parameters
    ----------
    topics: somebody should work on each of their partitions.
    counts: returns topic → number of partitions, another object when it has changed.

    Attributes
    ----------
    idle_s, double_s: partition-seconds in which nobody, or more than one consumer, worked on a partition.
    rounds: generations (classic) or member epochs (KIP-848) that clients have seen; every one after the first cost
        somebody a rebalance.
    revoked: partitions taken away from consumers that went on working.
    """

    now_s: Callable[[], float]
    topics: frozenset[str]
    counts: Callable[[], Mapping[str, int]]
    idle_s: float = 0.0
    double_s: float = 0.0
    revoked: int = 0
    rounds: set[int] = field(default_factory=set)
    owned: dict[str, frozenset[Partition]] = field(default_factory=dict)
    _since_s: float = field(init=False)
    _seen: Mapping[str, int] = field(default_factory=dict)
    _partitions: frozenset[Partition] = frozenset()

    def __post_init__(self) -> None:
        self._since_s = self.now_s()
        self._look_at_topics()

    def own(self, consumer: str, partitions: Iterable[Partition]) -> None:
        """Note what a consumer works on from now on; nothing when it ended or froze."""
        self.settle()
        now = frozenset(partitions)
        if now:
            self.owned[consumer] = now
        else:
            self.owned.pop(consumer, None)

    def settle(self) -> GroupMeter:
        """Count the time up to now and return the meter."""
        now_s = self.now_s()
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        if elapsed_s > 0:
            claims = sum(len(owned) for owned in self.owned.values())
            worked_on: set[Partition] = set()
            for owned in self.owned.values():
                worked_on |= owned
            self.idle_s += elapsed_s * len(self._partitions - worked_on)
            self.double_s += elapsed_s * (claims - len(worked_on))
        self._look_at_topics()
        return self

    def count_topics(self, topics: frozenset[str]) -> None:
        """Count idle time on the partitions of these topics from now on."""
        self.topics, self._seen = topics, {}
        self._look_at_topics()

    def _look_at_topics(self) -> None:
        counts = self.counts()
        if counts is not self._seen:
            self._seen = counts
            self._partitions = frozenset((t, n) for t in self.topics for n in range(counts.get(t, 0)))

    @property
    def rebalances(self) -> int:
        """Rounds beyond the first that any client has seen."""
        return max(0, len(self.rounds) - 1)


class PartitionMeter:
    """All groups.

    Parameters
    ----------
    now_s: virtual time.
    counts: returns topic → number of partitions, another object when it has changed.
    """

    def __init__(self, now_s: Callable[[], float], counts: Callable[[], Mapping[str, int]]) -> None:
        self.groups: dict[str, GroupMeter] = {}
        self._now_s = now_s
        self._counts = counts

    def group(self, group_id: str, topics: Iterable[str] = ()) -> GroupMeter:
        """Return the meter of a group, made at its first use; from now on these topics count too."""
        meter = self.groups.get(group_id)
        if meter is None:
            meter = self.groups[group_id] = GroupMeter(self._now_s, frozenset(topics), self._counts)
        elif not meter.topics.issuperset(topics):
            meter.settle().count_topics(meter.topics | frozenset(topics))
        return meter
