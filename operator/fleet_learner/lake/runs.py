"""The log of runs: each run's plan, fixed before it reads, and its result, published at its end.

The one idea: a run's number is a name that can be taken once. `<n>.plan.json` fixes the sources' positions, the
window's end and the settings; `<n>.json` says which version of each table is the run's. A killed run is repeated from
its plan; readers read the versions of the last published run, so they never see half a run. Of two writers one gets the
name.

Layout: `<root>/_runs/<n>.plan.json`, `<root>/_runs/<n>.json` with n of 12 digits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..errors import CorruptError
from .objects import Objects

FOLDER: Final = "_runs"
_DIGITS: Final = 12
_REMEDY: Final = "bring it back, or delete it with all later ones: the next run continues from the one before it"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as a run left it.

    Parameters
    ----------
    version: of the Delta table.
    rows: total number.
    """

    version: int
    rows: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run, fixed before it reads anything.

    Parameters
    ----------
    number: of the run.
    as_of_ms: the end of the window, Unix milliseconds; a run never reads a clock.
    sources: by source, its start and end positions, as JSON values.
    settings: parameters that results depend on.
    """

    number: int
    as_of_ms: int
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """Return the run's id in snapshots and reports."""
        return f"{self.number:0{_DIGITS}d}"


@dataclass(frozen=True, slots=True)
class Published:
    """One published state of all tables.

    Parameters
    ----------
    tables: every table with a version, including those that this run did not touch.
    counts: the run's figures (records read, duplicates, late rows, ...).
    """

    plan: Plan
    tables: Mapping[str, TableState]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Return the run's number."""
        return self.plan.number

    def version(self, table: str) -> int | None:
        """Return the version of a table; None when it has none yet."""
        return self.tables[table].version if table in self.tables else None

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self.tables[table].rows if table in self.tables else 0


class RunLog:
    """The runs of one lake."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def latest(self) -> Published | None:
        """Return the last published run; None when there is none."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def numbers(self) -> list[int]:
        """Return the numbers of the published runs, ascending."""
        names = (name.removesuffix(".json") for name in self._objects.names() if name.endswith(".json"))
        return sorted(int(name) for name in names if name.isdigit())

    def read(self, number: int) -> Published:
        """Return one published run.

        Raises
        ------
        FileNotFoundError: no run has this number.
        CorruptError: it cannot be read; the error names the object.
        """
        name = _name(number)
        try:
            raw = json.loads(self._objects.read(name))
            tables = {table: TableState(**state) for table, state in raw["tables"].items()}
            return Published(plan=Plan(**raw["plan"]), tables=tables, counts=raw["counts"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptError(f"{self._objects.where(name)} is no run ({_brief(error)}): {_REMEDY}") from None

    def unfinished(self) -> Plan | None:
        """Return the plan of an unfinished run; None without one."""
        name = _name(max(self.numbers(), default=-1) + 1, ".plan")
        try:
            return Plan(**json.loads(self._objects.read(name)))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            where = self._objects.where(name)
            raise CorruptError(
                f"{where} is no plan ({_brief(error)}): delete it, nothing was published of it"
            ) from None

    def begin(self, plan: Plan) -> None:
        """Fix a plan.

        Raises
        ------
        ConflictError: a plan with this number exists.
        """
        self._objects.create(_name(plan.number, ".plan"), _dump(asdict(plan)))

    def amend(self, plan: Plan) -> None:
        """Replace the plan of an unfinished run that has written nothing.

        Raises
        ------
        ConflictError: another writer did so at the same time.
        """
        self._objects.delete(_name(plan.number, ".plan"))
        self.begin(plan)

    def publish(self, published: Published) -> None:
        """Publish a run, so that readers see its versions.

        Raises
        ------
        ConflictError: this number is published already.
        ValueError: the number is not the next one.
        """
        following = max(self.numbers(), default=-1) + 1
        if published.number > following:
            raise ValueError(f"run {published.number} would leave a hole: the next one is {following}")
        self._objects.create(_name(published.number), _dump(asdict(published)))

    def published_ms(self, number: int) -> int:
        """Return when a run was published, by the clock of the file system, Unix milliseconds."""
        return self._objects.modified_ms(_name(number))

    def forget(self, keep: int) -> list[int]:
        """Delete all but the last runs from the log; returns their numbers, ascending."""
        old = self.numbers()[:-keep] if keep > 0 else []
        for number in old:
            self._objects.delete(_name(number))
            self._objects.delete(_name(number, ".plan"))
        return old


def _name(number: int, suffix: str = "") -> str:
    return f"{number:0{_DIGITS}d}{suffix}.json"


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:100]}"


def _dump(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1) + "\n").encode()
