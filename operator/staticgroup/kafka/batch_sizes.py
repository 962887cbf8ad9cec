"""How many groups may share a describe, learned for each group from answers that were too large.

Such an answer has cost its transfer for nothing, so the same request is not made again and again: its groups share a
request with half as many from then on, and slowly with more again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .pool import GROUPS_PER_REQUEST, REMEMBERED_GROUPS_MAX

BATCH_GROWTH = 1.02
"""By which a batch that was too large may grow each time it was read: 35 readings from half to whole."""


class BatchSizes:
    """The most groups with which each group may share a request."""

    def __init__(self) -> None:
        self._largest: dict[str, float] = {}

    def batches(self, group_ids: Iterable[str]) -> Iterator[list[str]]:
        """Divide groups so that none is in a larger batch than it may be."""
        batch: list[str] = []
        for group_id in sorted(group_ids, key=self._largest_of):
            if batch and len(batch) >= self._largest_of(batch[0]):
                yield batch
                batch = []
            batch.append(group_id)
        if batch:
            yield batch

    def did_fit(self, group_ids: Iterable[str]) -> None:
        """Remember that a batch could be read."""
        for group_id in self._largest.keys() & set(group_ids):
            self._largest[group_id] *= BATCH_GROWTH
            if self._largest[group_id] >= GROUPS_PER_REQUEST:
                del self._largest[group_id]

    def was_too_large(self, group_ids: Sequence[str]) -> None:
        """Remember that the answer to a batch was too large."""
        if len(self._largest) + len(group_ids) > REMEMBERED_GROUPS_MAX:
            self._largest.clear()
        self._largest |= dict.fromkeys(group_ids, (len(group_ids) + 1) // 2)

    def _largest_of(self, group_id: str) -> int:
        return int(self._largest.get(group_id, GROUPS_PER_REQUEST))
