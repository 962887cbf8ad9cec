"""Say which file of a table cannot be read, in one line, where Spark says it in a hundred."""

from __future__ import annotations

import re
from typing import Final

from ..errors import CorruptError

_PATH: Final = re.compile(r"(?:file|s3a|hdfs|abfss?|gs):/[^\s'\",;\])]+?\.(?:parquet|json|crc)\b(?!/)")
_SIGNS: Final = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "Could not read footer",
    "DELTA_",
    "FileNotFoundException",
    "FileAlreadyExists",
    "MALFORMED_RECORD",
    "JsonParseException",
    "ChecksumException",
)


def unreadable(error: BaseException) -> CorruptError | None:
    """Return what an error of Spark says of a file that cannot be read; None when it speaks of something else."""
    text = str(error)
    path = _PATH.search(text)
    if path is None or not any(sign in text for sign in _SIGNS):
        return None
    return CorruptError(
        f"cannot read {path[0]}: bring it back from a copy, or name a new root: what the journal still holds is read "
        "again"
    )
