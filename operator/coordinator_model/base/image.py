"""The topics a coordinator knows: what assignments and regular expressions are made of."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicImage:
    """An immutable picture of the topics.

    Parameters
    ----------
    partitions: topic name → number of partitions, 1 or more.
    racks: (topic name, partition) → racks of its replicas; absent: unknown.
    """

    partitions: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[tuple[str, int], frozenset[str]] = field(default_factory=dict)

    def existing(self, topics: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return what is left of (topic, partitions) pairs once deleted topics are left out."""
        return tuple(entry for entry in topics if entry[0] in self.partitions)

    def with_topic(self, name: str, partitions: int) -> TopicImage:
        """Return an image in which a topic has this many partitions."""
        return TopicImage({**self.partitions, name: partitions}, self.racks)

    def without_topic(self, name: str) -> TopicImage:
        """Return an image without a topic."""
        return TopicImage({n: c for n, c in self.partitions.items() if n != name}, self.racks)


def metadata_hash(names: Iterable[str], image: TopicImage) -> int:
    """Return a hash of the topics' partitions and racks (Utils.computeGroupHash); 0: no topics."""
    described = [
        (name, image.partitions[name], [sorted(image.racks.get((name, p), ())) for p in range(image.partitions[name])])
        for name in sorted(names)
        if name in image.partitions
    ]
    return zlib.crc32(repr(described).encode()) if described else 0
