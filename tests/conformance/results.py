"""What conformance runs found, kept in build/conformance.json from run to run until the table is written."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "build" / "conformance.json"


def load() -> dict[str, Any]:
    """Return all results; empty when nothing has been run."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"rows": {}, "histories": {}}


def record_rows(target: str, rows: Mapping[str, Mapping[str, str]]) -> None:
    """Keep the outcome of rows on one target.

    Parameters
    ----------
    rows: row name → row, kafka, given, verdict, text.
    """

    def change(results: dict[str, Any]) -> None:
        for name, row in rows.items():
            entry = results["rows"].setdefault(name, {"verdicts": {}})
            entry |= {key: row[key] for key in ("row", "kafka", "given")}
            entry["verdicts"][target] = {"verdict": row["verdict"], "text": row["text"]}

    _update(change)


def record_histories(broker: str, count: int, steps: int, fail_overs: int, differing: int) -> None:
    """Keep the outcome of the largest run of random histories against a broker; steps are those that did something."""

    def change(results: dict[str, Any]) -> None:
        before = results["histories"].get(broker, {"count": 0, "differing": 0})
        if differing or count >= before["count"] or before["differing"]:
            results["histories"][broker] = {
                **{"count": count, "steps": steps, "fail_overs": fail_overs, "differing": differing}
            }

    _update(change)


def _update(change: Any) -> None:
    FILE.parent.mkdir(exist_ok=True)
    with (FILE.parent / "conformance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = load()
        change(results)
        FILE.write_text(json.dumps(results, indent=1, sort_keys=True))
