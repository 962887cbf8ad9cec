"""Publish recommendations as an immutable snapshot that operators pull.

The one idea: shards first, each written once under a name of its run; the manifest last, and by rename, so a reader
sees either the old snapshot or the new one, never half. The same records give the same bytes, so a killed run is simply
repeated; another run with the same id is refused. Layout: `<root>/run=<id>/shard=<000..255>.jsonl`,
`<root>/run=<id>/manifest.json`, `<root>/manifest.json`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from journal import recommendations as api

from ..errors import JobError
from ..lake.objects import draft_of


class SnapshotConflictError(JobError):
    """Another run has published other bytes under this run id."""


def write_snapshot(
    records: Iterable[api.Recommendation],
    root: Path,
    *,
    run_id: str,
    model_version: str,
    created_ms: int,
    expires_ms: int,
    shard_count: int = api.SHARD_COUNT,
) -> api.Manifest:
    """Write a snapshot and make it the current one.

    Parameters
    ----------
    records: one for each group.
    root: folder; made when absent.
    run_id: letters, digits, `.`, `_` and `-`.
    created_ms, expires_ms: Unix milliseconds.

    Returns
    -------
    Manifest
        The written manifest.

    Raises
    ------
    SnapshotConflictError
        When files of this run exist with other bytes.
    ValueError
        When a group has two records.
    """
    folder = f"run={run_id}"
    shards = _write_shards(records, root, folder, shard_count)
    document: dict[str, object] = {
        "schema_id": api.RECOMMENDATION_SCHEMA,
        "model_version": model_version,
        "run_id": run_id,
        "created_ms": created_ms,
        "expires_ms": expires_ms,
        "shard_count": shard_count,
        "records": sum(each["records"] for each in shards),
        "shards": shards,
    }
    document["digest"] = api.manifest_digest(document)
    manifest = api.Manifest.model_validate(document)
    payload = json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"
    _create(root / folder / api.MANIFEST_NAME, payload)
    _replace(root / api.MANIFEST_NAME, payload)
    return manifest


def _write_shards(
    records: Iterable[api.Recommendation], root: Path, folder: str, shard_count: int
) -> list[dict[str, Any]]:
    """Write the records by shard, each sorted by group; returns the manifest's entries of the shards."""
    lines: dict[int, dict[tuple[str, str], bytes]] = {}
    for record in records:
        shard = lines.setdefault(api.shard_of(*record.key, shard_count), {})
        if record.key in shard:
            raise ValueError(f"two records for {record.key}")
        shard[record.key] = api.canonical_json(record.model_dump(mode="json"))
    shards = []
    for index, by_key in sorted(lines.items()):
        payload = b"".join(by_key[key] + b"\n" for key in sorted(by_key))
        path = f"{folder}/shard={index:03d}.jsonl"
        _create(root / path, payload)
        digest = hashlib.sha256(payload).hexdigest()
        shards.append(
            {"index": index, "path": path, "sha256": digest, "size_bytes": len(payload), "records": len(by_key)}
        )
    return shards


def delete_old_snapshots(root: Path, *, keep: int) -> list[str]:
    """Delete all but the last snapshots, by run id, never the current one; a reader of an older one starts again.

    Returns
    -------
    The deleted run ids, in order.
    """
    if not (root / api.MANIFEST_NAME).is_file():
        return []
    current = json.loads((root / api.MANIFEST_NAME).read_bytes())["run_id"]
    folders = sorted(path for path in root.glob("run=*") if path.is_dir())
    old = [path for path in folders[:-keep] if path.name != f"run={current}"]
    for folder in old:
        shutil.rmtree(folder)
    return [folder.name.removeprefix("run=") for folder in old]


def _create(path: Path, payload: bytes) -> None:
    """Create a file atomically and durably; an existing file with the same bytes is left alone."""
    if path.exists():
        if path.read_bytes() != payload:
            raise SnapshotConflictError(
                f"{path} is there with other bytes, as of another root whose runs have the same numbers: name "
                "another output, or move what lies there away"
            )
        return
    _replace(path, payload)


def _replace(path: Path, payload: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    with draft.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
