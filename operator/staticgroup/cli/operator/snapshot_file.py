"""One round's input as a file: what `plan --snapshot` writes and `plan -f` reads.

It holds the spec, the snapshot and the history, never a credential: what was decided on a cluster can be decided again
on a desk.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ...api.resources.staticgroup import StaticGroupSpec
from ...core.snapshot import History, Snapshot
from ...runtime.stores import violations
from ..api_server import Refused

SNAPSHOT_FILE_BYTES_MAX = 16 * 1024 * 1024


class SnapshotFile(BaseModel):
    """Everything `plan` reads, with the time it was taken, seconds since the Unix epoch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: StaticGroupSpec
    snapshot: Snapshot
    history: History
    now_s: float


def write_snapshot_file(taken: SnapshotFile, path: Path) -> None:
    """Write a snapshot file as JSON."""
    path.write_text(taken.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_snapshot_file(path: Path) -> SnapshotFile:
    """Read a snapshot file.

    Raises
    ------
    Refused: the file is missing, too large, not JSON or not a snapshot file; the message says which field is wrong.
    """
    try:
        if path.stat().st_size > SNAPSHOT_FILE_BYTES_MAX:
            text = f"{path} is larger than {SNAPSHOT_FILE_BYTES_MAX} bytes, which no snapshot is"
            raise Refused(text, status=2)
        return SnapshotFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", status=2) from error
    except ValidationError as error:
        text = f"{path} is no snapshot of `staticgroup plan --snapshot`: {violations(error)}"
        raise Refused(text, status=2) from error
