"""Read journal files: append-only files of JSON lines.

The one idea: a file corresponds to a partition of a topic, and a byte to an offset. A position is the end of the last
complete line, so an incomplete line, still being written or cut by a crash, is not read, and every complete line is
read exactly once. Source: the operator's writer gives a file its final name from the first byte and never renames it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleet_learner import schemas
from fleet_learner.errors import SourceError

from .folder import Found, look
from .topic import DataLossError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_CHUNK_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 10_000


class JournalFiles:
    """The files (`*.jsonl`) below one folder that every task can read (a disk, a shared volume).

    Parameters
    ----------
    folder: searched recursively, including linked folders; names that begin with a dot are ignored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """Return the name under which runs keep this source's positions."""
        return f"files:{self.folder}"

    def ends(self) -> dict[str, int]:
        """Return the end of the last complete line of every readable file, by name below the folder.

        Raises
        ------
        SourceError: the folder is missing, or cannot be listed.
        """
        return self._found({}).ends

    def plan(self, start: Mapping[str, Any], log: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the positions between which a run will read, and what is `left_out` and `gone`.

        A file that cannot be read, or that was cut or replaced, keeps its position. A missing file was deleted by the
        writer's own limit: its unread content is unknown, and its position is dropped.

        Raises
        ------
        DataLossError: no file is left, and one does not continue at its position.
        SourceError: the folder is missing, or nothing in it can be read.
        """
        found = self._found(start)
        left_out = dict(found.left_out)
        for plain, name in found.aside.items():
            if plain not in found.ends and not start.get(plain):
                left_out[name] = f"{self.folder / name} is not read: unpack it to {plain}, or move it out of the folder"
        shorter = [name for name, end in found.ends.items() if end < start.get(name, 0)]
        left_out |= {name: self._shrank(name, start[name]) for name in shorter}
        ends = {name: end for name, end in found.ends.items() if name not in shorter}
        if left_out and not ends:
            raise (DataLossError if shorter else SourceError)(next(iter(left_out.values())))
        missing = [name for name in start if name not in ends]
        kept = {
            name: start[name] for name in missing if name in shorter or name in found.aside or found.is_left_out(name)
        }
        return {
            "start": {**{name: start.get(name, 0) for name in ends}, **kept},
            "end": {**ends, **kept},
            **_said(left_out.values(), (name for name in missing if name not in kept)),
        }

    def recheck(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Return a plan without the files that can no longer be read up to its end; they are `left_out` or `gone`.

        Raises
        ------
        SourceError: the folder is missing, or cannot be listed.
        """
        start, end = plan["start"], dict(plan["end"])
        found = self._found(start)
        left_out, gone = [], []
        for name, until in plan["end"].items():
            if until == start[name] or found.ends.get(name, -1) >= until:
                continue
            end[name] = start[name]
            if name in found.ends:
                left_out.append(self._shrank(name, until))
            elif found.is_left_out(name):
                left_out.append(
                    next(text for each, text in found.left_out.items() if name == each or name.startswith(f"{each}/"))
                )
            else:
                gone.append(name)
        return {**plan, "end": end, **_said(left_out, gone)}

    def _found(self, start: Mapping[str, int]) -> Found:
        """Scan the folder; a file without a line end at its old position gets an end before all positions."""

        def end_of(path: Path) -> int:
            at = start.get(path.relative_to(self.folder).as_posix(), 0)
            return last_line_end(path) if is_line_end(path, at) else 0

        return look(self.folder, end_of)

    def _shrank(self, name: str, read: int) -> str:
        return (
            f"{self.folder / name} was read up to byte {read}, and no line of it ends there now: bring it back as it "
            "was, or move it out of the folder; what was read of it stays"
        )

    def frame(self, spark: SparkSession, plan: Mapping[str, Any]) -> DataFrame:
        """Return the records of a plan, with the columns of bronze/events."""
        todo = [(n, plan["start"][n], end) for n, end in sorted(plan["end"].items()) if end > plan["start"][n]]
        if not todo:
            return spark.createDataFrame([], schemas.EVENTS.spark_nullable)
        ranges = spark.createDataFrame(todo, "file string, start bigint, end bigint")
        folder = self.folder

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    yield from _batches(folder, row["file"], row["start"], row["end"])

        # Equal small ranges: with a task per file the largest file would bound the time.
        return ranges.repartitionByRange(len(todo), "file").mapInArrow(read, schemas.EVENTS.spark_nullable)


def _said(left_out: Iterable[str], gone: Iterable[str]) -> dict[str, list[str]]:
    """Return a plan's notes on files that it does not read; empty if it reads all."""
    notes = {"left_out": list(left_out), "gone": sorted(gone)}
    return {name: said for name, said in notes.items() if said}


def last_line_end(path: Path) -> int:
    """Return the position after the last newline of a file; 0 without one."""
    with path.open("rb") as file:
        at = file.seek(0, io.SEEK_END)
        while at > 0:
            size = min(_CHUNK_BYTES, at)
            file.seek(at - size)
            newline = file.read(size).rfind(b"\n")
            if newline >= 0:
                return at - size + newline + 1
            at -= size
    return 0


def is_line_end(path: Path, at: int) -> bool:
    """Return whether a line begins at this position; in a file that was cut and grew again this is unlikely."""
    with path.open("rb") as file:
        file.seek(max(0, at - 1))
        return at == 0 or file.read(1) == b"\n"


def lines(path: Path, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (position, line without its newline) of the complete lines in [start, end); empty lines are skipped.

    Raises
    ------
    DataLossError: the file ends before `end`.
    """
    with path.open("rb") as file:
        file.seek(start)
        at = start
        while at < end:
            line = file.readline()
            if not line.endswith(b"\n"):
                raise DataLossError(f"{path} ends at byte {at + len(line)}, {end} expected")
            if line.strip():
                yield at, line[:-1]
            at += len(line)


def _batches(folder: Path, name: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    waiting: list[tuple[int, bytes]] = []

    def batch() -> pa.RecordBatch:
        rows = len(waiting)
        columns: dict[str, list[Any]] = {
            **{column: [None] * rows for column in schemas.EVENTS.names},
            "raw": [line for _, line in waiting],
            "offset": [at for at, _ in waiting],
            "file": [name] * rows,
        }
        arrays = [pa.array(columns[field.name], field.type) for field in schemas.EVENTS.arrow]
        waiting.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=schemas.EVENTS.arrow)

    for line in lines(folder / name, start, end):
        waiting.append(line)
        if len(waiting) >= _BATCH_ROWS:
            yield batch()
    if waiting:
        yield batch()
