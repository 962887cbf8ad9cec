"""The report for programs: one JSON document with everything, and Parquet tables of what has rows.

The one idea: nothing is computed here; a field of the model is a field of the file under the same name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..lake.objects import draft_of
from .html import to_html
from .model import MODEL_VERSION, Report


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
    """Turn nested fields into columns: `counts.restarts` becomes `counts_restarts`; the key's fields keep their names."""
    columns: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            columns |= _flat(inner, "" if name == "key" else f"{prefix}{name}_")
        else:
            columns[f"{prefix}{name}"] = inner
    return columns


def group_rows(report: Report) -> list[dict[str, Any]]:
    """Return one flat row per group, the greatest avoidable cost first."""
    return [_flat(asdict(row)) for row in report.rows]


def write_parquet(report: Report, directory: Path) -> tuple[Path, ...]:
    """Write groups, days, quality and the curves of the group pages as Parquet files.

    Returns
    -------
    The files; a table without rows has none, for want of column types.
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
        **{name: of_pages(name) for name in ("survival", "cost", "hazard", "what_if")},
    }
    written = []
    for name, rows in tables.items():
        path = directory / f"{name}.parquet"
        if rows:
            draft = draft_of(path)
            pq.write_table(pa.Table.from_pylist(rows), draft, compression="zstd")
            draft.replace(path)
            written.append(path)
        else:
            path.unlink(missing_ok=True)  # of an earlier report
    return tuple(written)


def write_report(report: Report, directory: Path) -> tuple[Path, ...]:
    """Write report.html, report.json and the Parquet tables into a directory, made if it is not there.

    Each file is replaced as a whole: who reads one while it is written, or after a crash, sees the former one.

    Returns
    -------
    The files written, the page first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    page, document = directory / "report.html", directory / "report.json"
    for path, text in ((page, to_html(report)), (document, to_json(report))):
        draft = draft_of(path)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    return page, document, *write_parquet(report, directory)
