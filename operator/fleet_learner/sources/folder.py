"""Scan a folder for journal files, and report what could not be read.

The one idea: every possible journal that is not read is reported: a folder without the right to list it, a compressed
file, a name that no table can hold. Otherwise a part of the fleet would seem quiet.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fleet_learner.errors import SourceError

SUFFIX: Final = ".jsonl"
_ASIDE: Final = re.compile(r"^(?P<plain>.+\.jsonl)\.(gz|zip|zst|zstd|bz2|xz|lz4|[0-9]+)$")
_LOST: Final = "lost+found"
"""The file system's own folder, which only root may list."""


@dataclass(slots=True)
class Found:
    """The journal files below a folder.

    Parameters
    ----------
    ends: the end of the last complete line, by name below the folder.
    left_out: why a file or a folder could not be read, by name below the folder.
    aside: names of compressed or renamed copies, by the name of the journal file.
    """

    ends: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)

    def is_left_out(self, name: str) -> bool:
        """Return whether a file, or a folder above it, could not be read."""
        return any(each in self.left_out for each in (name, *map(str, Path(name).parents)))


def look(folder: Path, end_of: Callable[[Path], int]) -> Found:
    """Find the journal files below a folder; links to folders are followed, and each folder is read once.

    Parameters
    ----------
    end_of: returns the end of the last complete line of a file.

    Raises
    ------
    SourceError: the folder is missing, or cannot be listed.
    """
    found = Found()
    for path in _files(folder, found):
        name = path.relative_to(folder).as_posix()
        shown = _shown(folder / name)
        if match := _ASIDE.match(name):
            found.aside[match["plain"]] = name
        elif not _is_text(name):
            found.left_out[name] = f"{shown} has a name that is no UTF-8: rename it"
        else:
            try:
                if stat.S_ISREG(path.stat().st_mode):
                    found.ends[name] = end_of(path)
            except FileNotFoundError:
                continue  # the writer's limit has just deleted it
            except OSError as error:
                found.left_out[name] = _unreadable(shown, error)
    return found


def _files(folder: Path, found: Found) -> Iterator[Path]:
    """Yield possible journals, folders before links to folders, so that a link does not rename a file."""
    waiting, links, seen = [folder], list[Path](), set[tuple[int, int]]()
    while waiting or links:
        here = waiting.pop(0) if waiting else links.pop(0)
        try:
            status = here.stat()
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            _not_listed(folder, here, error, found)
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            path = here / entry.name
            if os.path.isdir(path):
                (links if entry.is_symlink() else waiting).append(path)
            elif not entry.name.startswith(".") and (path.suffix == SUFFIX or _ASIDE.match(entry.name)):
                yield path


def _not_listed(folder: Path, here: Path, error: OSError, found: Found) -> None:
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    if here == folder:
        reason = "is not a folder; is the volume mounted?" if is_missing else f"cannot be listed ({error.strerror})"
        raise SourceError(f"journal files: {folder} {reason}") from error
    if not is_missing and here.name != _LOST:
        found.left_out[here.relative_to(folder).as_posix()] = _unreadable(_shown(here), error)


def _unreadable(shown: str, error: OSError) -> str:
    return f"{shown} cannot be read ({error.strerror}): let the learner's user read it, or move it out of the folder"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: Path) -> str:
    return str(path).encode(errors="backslashreplace").decode()
