"""Read the commits of a Delta table's log: the run behind each version, and the number of its rows.

The one idea: every write of a run carries `txnVersion` = the run's number, so the log itself shows what a run has
already written, even if its process died. This file reads only single commits, from the newest back; Delta reads
everything else. Source: the Delta protocol, "Commit Provenance Information" and "Transaction Identifiers".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import CorruptError
from .objects import Objects

APP_ID: Final = "fleet-learner"
_NAME: Final = re.compile(r"^([0-9]{20})\.json$")
_WANTED: Final = ('{"commitInfo"', '{"txn"')


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table.

    Parameters
    ----------
    run: the number of the run that wrote it; None for upkeep.
    metrics: figures of the operation, by Delta's names.
    """

    version: int
    operation: str
    run: int | None
    metrics: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return the number of rows that were added: a merge's inserted ones, else those written."""
        name = "numTargetRowsInserted" if self.operation == "MERGE" else "numOutputRows"
        return int(self.metrics.get(name, 0)) - int(self.metrics.get("numCopiedRows", 0))


class CommitLog:
    """The commits of one table; `objects` are those of its `_delta_log`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def versions(self) -> list[int]:
        """Return the versions whose commit files exist, ascending."""
        return sorted(int(match[1]) for match in map(_NAME.match, self._objects.names()) if match)

    def latest(self) -> int | None:
        """Return the newest version; None without a table."""
        return max(self.versions(), default=None)

    def read(self, version: int) -> Commit:
        """Return a commit.

        Raises
        ------
        CorruptError: it cannot be read; the error names the file.
        """
        name = f"{version:020d}.json"
        info: dict[str, Any] = {}
        run = None
        try:
            for line in self._objects.read(name).decode().splitlines():
                if line.startswith(_WANTED):
                    action = json.loads(line)
                    info |= action.get("commitInfo", {})
                    txn = action.get("txn", {})
                    run = txn["version"] if txn.get("appId") == APP_ID else run
        except (ValueError, KeyError, TypeError) as error:
            where = self._objects.where(name)
            raise CorruptError(
                f"{where} is no commit of a table ({str(error)[:100]}): bring it back from a copy"
            ) from None
        return Commit(version, info.get("operation", ""), run, info.get("operationMetrics", {}))

    def of_run(self, run: int) -> Commit | None:
        """Return the commit of a run; None if it made none."""
        for version in reversed(self.versions()):
            commit = self.read(version)
            if commit.run is not None and commit.run <= run:
                return commit if commit.run == run else None
        return None
