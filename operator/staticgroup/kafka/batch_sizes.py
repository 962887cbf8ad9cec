"""How many groups share a describe.

Why: the answer about many groups may be more than is read, though about each it is not. One idea: learn it for each group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .pool import GROUPS_PER_REQUEST, REMEMBERED_GROUPS_MAX

BATCH_GROWTH = 1.02
"""By which a batch that was too large may grow each time it was read: 35 readings from half to whole."""


class BatchSizes:
    """How many groups may share a request, learned for each group from answers that were too large.

    An answer that is too large has cost its transfer for nothing, so the same request is not made again and again: its
    groups share a request with half as many from then on, and slowly with more again.
    """

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
        for group_id in group_ids:
            if group_id in self._largest:
                self._largest[group_id] *= BATCH_GROWTH
            if self._largest_of(group_id) >= GROUPS_PER_REQUEST:
                self._largest.pop(group_id, None)

    def was_too_large(self, group_ids: Sequence[str]) -> None:
        """Remember that the answer to a batch was too large."""
        if len(self._largest) + len(group_ids) > REMEMBERED_GROUPS_MAX:
            self._largest.clear()
        self._largest |= dict.fromkeys(group_ids, (len(group_ids) + 1) // 2)

    def _largest_of(self, group_id: str) -> int:
        return int(self._largest.get(group_id, GROUPS_PER_REQUEST))
