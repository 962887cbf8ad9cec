"""Locations of tables: URIs in the one form that Hadoop and Delta compare.

The one idea: a plain path is a URI of the local file system, and a URI with an unknown scheme is an error at once, not
a folder with an odd name.
"""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def uri_of(place: str | Path) -> str:
    """Return the URI of a folder: `file:/data/fleet`, `s3a://bucket/fleet`; a plain path is local."""
    text = str(place)
    if not _SCHEME.match(text):
        return f"file:{Path(text).absolute()}"
    if text.startswith("file:"):
        return f"file:{Path('/' + text.removeprefix('file:').lstrip('/'))}"
    return text.rstrip("/")


def local_path(uri: str) -> Path | None:
    """Return the folder of a `file:` URI; None for other URIs."""
    return Path(uri.removeprefix("file:")) if uri.startswith("file:") else None
