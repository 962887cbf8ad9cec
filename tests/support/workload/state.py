"""What an application keeps about each partition on a volume of its pod, and reads again where it does not have it.

The one idea: the state of a partition is made of all its records and holds up to an offset, so the next owner of the
partition, with an older state or with none, reads the records in between again before it goes on, no faster than its
store takes them in.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

BATCH = 500
POLL_S = 1.0


@dataclass(slots=True)
class Fold:
    """A state: how many records went into it, and a checksum of their values in order; it holds below an offset."""

    offset: int = 0
    records: int = 0
    checksum: int = 0

    def add(self, offset: int, value: bytes) -> None:
        """Take in a record; one that is in it already changes nothing."""
        if offset >= self.offset:
            self.offset, self.records, self.checksum = offset + 1, self.records + 1, zlib.crc32(value, self.checksum)


class States:
    """The states of the partitions that a process is given.

    Parameters
    ----------
    folder: where they outlive the process.
    settings: of a client that reads without being a member of a group.
    per_s: records that the store takes in, per second.
    """

    def __init__(self, folder: Path, topic: str, settings: Mapping[str, str | int | bool], *, per_s: int) -> None:
        self._folder, self._topic, self._per_s = folder, topic, per_s
        self._settings = {**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._folds: dict[int, Fold] = {}

    def restore(self, partition: int, until_offset: int, *, is_stopping: Callable[[], bool]) -> int:
        """Bring the state of a partition to an offset and return how many records were read for it.

        Parameters
        ----------
        until_offset: up to which the state is to hold, itself left out.
        is_stopping: asked between batches; then the state stays where it is.
        """
        fold = self._folds[partition] = self._kept(partition)
        if fold.offset >= until_offset:
            return 0
        before, began_s = fold.records, time.monotonic()
        reader = Consumer(self._settings)
        try:
            reader.assign([TopicPartition(self._topic, partition, fold.offset)])
            while fold.offset < until_offset and not is_stopping():
                for message in reader.consume(min(BATCH, until_offset - fold.offset), POLL_S):
                    offset = message.offset()
                    if message.error() is None and offset is not None and offset < until_offset:
                        fold.add(offset, message.value() or b"")
                ahead_s = (fold.records - before) / self._per_s - (time.monotonic() - began_s)
                time.sleep(max(0.0, ahead_s))
        finally:
            reader.close()
        return fold.records - before

    def add(self, partition: int, offset: int, value: bytes) -> None:
        """Take in a record; one of a partition that was revoked meanwhile belongs to another member."""
        if partition in self._folds:
            self._folds[partition].add(offset, value)

    def give_up(self, partitions: list[int]) -> None:
        """Keep the states of partitions that are taken away, or of all when the process ends."""
        for partition in partitions:
            fold = self._folds.pop(partition, None)
            if fold is not None:
                self._write(partition, fold)

    def save(self) -> None:
        """Keep all states; called with each commit, so that a state is never behind what was committed."""
        for partition, fold in self._folds.items():
            self._write(partition, fold)

    def _write(self, partition: int, fold: Fold) -> None:
        target = self._path(partition)
        beside = target.with_suffix(".new")
        beside.write_text(json.dumps([fold.offset, fold.records, fold.checksum]))
        beside.replace(target)

    def _kept(self, partition: int) -> Fold:
        try:
            return Fold(*json.loads(self._path(partition).read_text()))
        except FileNotFoundError:
            return Fold()

    def _path(self, partition: int) -> Path:
        return self._folder / f"{self._topic}-{partition}.json"
