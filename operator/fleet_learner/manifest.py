"""Publish what a run wrote, all at once or not at all.

The one idea: files are written first and mean nothing; a numbered manifest that lists them is what makes them the table.
A manifest is created only if its number is free (a hard link of a complete, synced file), so of two writers one fails and
no reader ever sees half a run. Before anything is read, a run fixes its *plan* (source offsets, the time it is as of) in
the same way: a run that was killed at any moment is done again with the same plan, and writes the same bytes.

Layout: `<root>/_manifest/<n>.plan.json`, `<root>/_manifest/<n>.json` with n of 12 digits, data below
`<root>/<table>/run=<n>/`. Readers take the highest n. The root is a folder of a POSIX file system (a disk, a shared
volume); `link` must fail when the name exists.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from .errors import JobError

_FOLDER: Final = "_manifest"
_DIGITS: Final = 12


class ConflictError(RuntimeError):
    """Another writer was faster: this number is taken."""


class CorruptError(JobError):
    """A file is not what the manifest says, or is no manifest."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file.

    Parameters
    ----------
    path: below the root.
    sha256: of its bytes, in hexadecimal.
    low_ms, high_ms: the least and greatest time of its rows; None in a table without one.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    low_ms: int | None = None
    high_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What a table consists of."""

    schema_id: str
    files: tuple[DataFile, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do, fixed before it reads anything.

    Parameters
    ----------
    number: of the manifest that it will publish.
    as_of_ms: the end of the window, Unix milliseconds; nothing in a run asks for the time.
    sources: by source, its start and end positions, as JSON values.
    settings: parameters that results depend on.
    """

    number: int
    as_of_ms: int
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """Return the name of the run's folders."""
        return f"{self.number:0{_DIGITS}d}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One published state of all tables.

    Parameters
    ----------
    tables: every live file of every table, also those of earlier runs.
    counts: the run's figures (records read, duplicates, late rows, ...).
    """

    plan: Plan
    tables: Mapping[str, TableFiles]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Return its number."""
        return self.plan.number


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def draft_of(path: Path) -> Path:
    """Return a hidden name beside a file that no other writer takes: pods that share a volume have the same pids."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def create_if_absent(path: Path, text: str) -> None:
    """Create a file with this text, whole and durable.

    Raises
    ------
    ConflictError: the name is taken.
    """
    draft = draft_of(path)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise ConflictError(f"{path.name} exists") from error
    finally:
        draft.unlink()
    sync_folder(path.parent)


class Warehouse:
    """The tables below one folder.

    Parameters
    ----------
    root: is made when it is missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / _FOLDER).mkdir(parents=True, exist_ok=True)

    def latest(self) -> Manifest | None:
        """Return the highest manifest; None in an empty warehouse."""
        numbers = self._numbers()
        return self.read(max(numbers)) if numbers else None

    def read(self, number: int) -> Manifest:
        """Return one manifest.

        Raises
        ------
        FileNotFoundError: there is none with this number.
        CorruptError: it cannot be read; names the file.
        """
        path = self._path(number)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            tables = {
                name: TableFiles(table["schema_id"], tuple(DataFile(**file) for file in table["files"]))
                for name, table in raw["tables"].items()
            }
            return Manifest(plan=Plan(**raw["plan"]), tables=tables, counts=raw["counts"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptError(f"{path} is no manifest ({_brief(error)}): {_REMEDY}") from None

    def unfinished(self) -> Plan | None:
        """Return the plan of a run that did not come to its end; None when there is none."""
        numbers = self._numbers()
        path = self._path(max(numbers, default=-1) + 1, ".plan")
        if not path.exists():
            return None
        try:
            return Plan(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise CorruptError(f"{path} is no plan ({_brief(error)}): delete it, nothing was published of it") from None

    def begin(self, plan: Plan) -> None:
        """Fix a plan.

        Raises
        ------
        ConflictError: a plan with this number exists.
        """
        create_if_absent(self._path(plan.number, ".plan"), _dump(asdict(plan)))

    def publish(self, manifest: Manifest) -> None:
        """Make a run's files the tables' contents.

        Raises
        ------
        ConflictError: this number is published already.
        ValueError: the number is not the next one.
        """
        following = max(self._numbers(), default=-1) + 1
        if manifest.number > following:
            raise ValueError(f"manifest {manifest.number} would leave a hole: the next one is {following}")
        create_if_absent(self._path(manifest.number), _dump(asdict(manifest)))

    def paths(self, manifest: Manifest | None, table: str, *, since_ms: int | None = None) -> list[str]:
        """Return the files of a table, sorted; with `since_ms` without those that are older altogether."""
        files = manifest.tables[table].files if manifest is not None and table in manifest.tables else ()
        wanted = (f for f in files if since_ms is None or f.high_ms is None or f.high_ms >= since_ms)
        return sorted(str(self.root / file.path) for file in wanted)

    def verify(self, manifest: Manifest) -> None:
        """Compare every live file with its size and digest.

        Raises
        ------
        CorruptError: naming the first file that is missing or differs.
        """
        for table in manifest.tables.values():
            for file in table.files:
                path = self.root / file.path
                if not path.is_file() or path.stat().st_size != file.bytes or _digest(path) != file.sha256:
                    raise CorruptError(f"{file.path} is not what manifest {manifest.number} says")

    def collect_garbage(self, keep: int) -> list[str]:
        """Delete old manifests and every data file that none of the last `keep` manifests lists.

        Files of a run that is not published yet are kept.

        Returns
        -------
        The deleted data files, sorted, below the root.
        """
        numbers = sorted(self._numbers())
        kept = numbers[-keep:] if keep > 0 else []
        if not kept:
            return []
        states = [self.read(n) for n in numbers]
        tables = {name for state in states for name in state.tables}
        live = {f.path for state in states[-keep:] for table in state.tables.values() for f in table.files}
        newest = f"run={kept[-1]:0{_DIGITS}d}"
        garbage = []
        # By name: the root may hold folders of others, recommendations for one.
        for path in sorted(path for name in tables for path in self.root.glob(f"{name}/run=*/*")):
            name = path.relative_to(self.root).as_posix()
            if name not in live and path.parent.name <= newest:
                path.unlink()
                garbage.append(name)
        for number in set(numbers) - set(kept):
            self._path(number).unlink()
            self._path(number, ".plan").unlink(missing_ok=True)
        return garbage

    def _numbers(self) -> list[int]:
        names = (path.stem for path in (self.root / _FOLDER).glob("*.json"))
        return [int(name) for name in names if name.isdigit()]

    def _path(self, number: int, suffix: str = "") -> Path:
        return self.root / _FOLDER / f"{number:0{_DIGITS}d}{suffix}.json"


def with_files(old: TableFiles | None, schema_id: str, new: Iterable[DataFile]) -> TableFiles:
    """Return a table's files with more of them; files of another schema version stay and are read by name."""
    before = old.files if old is not None else ()
    return TableFiles(schema_id, tuple(sorted({f.path: f for f in (*before, *new)}.values(), key=lambda f: f.path)))


_REMEDY: Final = "bring it back, or delete it with all later ones: the next run goes on from the one before it"


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:100]}"


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, indent=1) + "\n"
