"""One round's input as a file: what `explain --snapshot` writes and `plan -f` reads.

A picture holds the spec, the snapshot and the history, never a credential: whatever was decided on a cluster can be
decided again on a desk.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ...api.staticgroup import StaticGroupSpec
from ...core.snapshot import History, Snapshot
from ..stores import violations

PICTURE_BYTES_MAX = 16 * 1024 * 1024


class PictureError(ValueError):
    """A file is no picture; the message says which field is wrong."""


class Picture(BaseModel):
    """Everything `plan` reads, with the time it was taken, seconds since the Unix epoch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: StaticGroupSpec
    snapshot: Snapshot
    history: History
    now_s: float


def write_picture(picture: Picture, path: Path) -> None:
    """Write a picture as JSON."""
    path.write_text(picture.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_picture(path: Path) -> Picture:
    """Read a picture.

    Raises
    ------
    PictureError: the file is missing, too large, not JSON or not a picture.
    """
    try:
        if path.stat().st_size > PICTURE_BYTES_MAX:
            raise PictureError(f"{path} is larger than {PICTURE_BYTES_MAX} bytes, which no snapshot is")
        return Picture.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PictureError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise PictureError(f"{path} is no snapshot of `staticgroup explain --snapshot`: {violations(error)}") from error
