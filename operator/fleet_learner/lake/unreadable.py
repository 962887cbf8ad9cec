"""Name the unreadable file of a table in one line instead of Spark's hundred."""

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
    """Return one line about the unreadable file in an error of Spark; None for other errors."""
    text = str(error)
    path = _PATH.search(text)
    if path is None or not any(sign in text for sign in _SIGNS):
        return None
    return CorruptError(
        f"cannot read {path[0]}: bring it back from a copy, or name a new root: what the journal still holds is read "
        "again"
    )
