"""The report for programs: one JSON document with everything, and Parquet tables.

The one idea: nothing is computed here; a field of the model is a field of the file under the same name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..lake.objects import draft_of
from .model import MODEL_VERSION, Report, Saving
from .pages import draw, team_pages, to_html

if TYPE_CHECKING:
    import pyarrow as pa


TEAMS: Final = "teams"
"""Folder of the teams' pages, beside that of the fleet."""


def to_json(report: Report) -> str:
    """Write the whole report as JSON.

    Returns
    -------
    One document with sorted keys, the same for the same report; `model_version` counts incompatible changes.

    Raises
    ------
    ValueError
        When a figure is not a number: a report never says NaN.
    """
    document = {"model_version": MODEL_VERSION, **asdict(report)}
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested fields into columns: `counts.restarts` becomes `counts_restarts`; key fields keep their names."""
    columns: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            columns |= _flat(inner, "" if name == "key" else f"{prefix}{name}_")
        else:
            columns[f"{prefix}{name}"] = inner
    return columns


def group_rows(report: Report) -> list[dict[str, Any]]:
    """Return one flat row per group, in the order of the report."""
    return [_flat(_with_saving(asdict(row))) for row in report.rows]


def _with_saving(row: dict[str, Any]) -> dict[str, Any]:
    """Give every row the columns of a saving, even without a saving."""
    row["advice"]["saving"] = row["advice"]["saving"] or dict.fromkeys(Saving.__slots__)
    return row


def bill_rows(report: Report) -> list[dict[str, Any]]:
    """Return one flat row per group of the bill; causes are a list of names and numbers."""
    rows = [asdict(row) for row in report.bill]
    return [_flat({**row, "rebalances": [{"cause": c, "rebalances": n} for c, n in sorted(row["rebalances"].items())]})
            for row in rows]  # fmt: skip


def write_parquet(report: Report, directory: Path) -> tuple[Path, ...]:
    """Write groups, days, quality and the curves of the group pages as Parquet files.

    Returns
    -------
    The files; a table without rows has none, because its column types are unknown.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def of_pages(name: str) -> list[dict[str, Any]]:
        return [
            {"kafka_cluster_id": page.row.key.kafka_cluster_id, "group_id": page.row.key.group_id, **asdict(point)}
            for page in report.pages
            for point in getattr(page, name)
        ]

    tables: dict[str, Sequence[Mapping[str, Any]]] = {
        "groups": group_rows(report),
        "days": [asdict(d) for d in report.days],
        "quality": [asdict(check) for check in report.quality],
        "bill": bill_rows(report),
        **{name: of_pages(name) for name in ("survival", "cost", "hazard", "what_if")},
    }
    written = []
    for name, rows in tables.items():
        path = directory / f"{name}.parquet"
        if rows:
            draft = draft_of(path)
            pq.write_table(_typed(pa.Table.from_pylist(rows)), draft, compression="zstd")
            draft.replace(path)
            written.append(path)
        else:
            path.unlink(missing_ok=True)  # of an earlier report
    return tuple(written)


def _typed(table: pa.Table) -> pa.Table:
    """Give columns without any value their usual type: all optional ones are integers."""
    import pyarrow as pa

    fields = [f.with_type(pa.int64()) if pa.types.is_null(f.type) else f for f in table.schema]
    empty = {pa.list_(pa.null()): pa.list_(pa.string())}
    return table.cast(pa.schema([f.with_type(empty.get(f.type, f.type)) for f in fields]))


def write_report(report: Report, directory: Path) -> tuple[Path, ...]:
    """Write report.html, teams/*.html, report.json and the Parquet tables into a directory, created if missing.

    Each file is replaced atomically: a reader sees the former file during a write and after a crash. Pages of teams
    without groups are deleted.

    Returns
    -------
    The files written, the page of the fleet first.
    """
    folder = directory / TEAMS
    folder.mkdir(parents=True, exist_ok=True)
    drawings = draw(report)
    page, document = directory / "report.html", directory / "report.json"
    by_team = {folder / name: text for name, text in team_pages(report, drawings)}
    for path, text in {page: to_html(report, drawings), document: to_json(report), **by_team}.items():
        draft = draft_of(path)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    for path in set(folder.glob("*.html")) - set(by_team):
        path.unlink()
    return page, document, *write_parquet(report, directory), *by_team
