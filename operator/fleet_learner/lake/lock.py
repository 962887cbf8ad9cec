"""Allow one writer at a time if the file system has locks.

The one idea: on a disk or a shared volume Delta's own commit is a check and then a rename, with a race between them; a
lock of the operating system prevents the race and ends with its process. Without such locks (object stores) only the
log of runs decides which writer wins.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..errors import ConflictError, JobError
from .locations import local_path

NAME: Final = ".writer"


@contextmanager
def only_writer(uri: str) -> Iterator[None]:
    """Hold the lock of a root while a command writes.

    Raises
    ------
    ConflictError: another process holds it.
    JobError: the root is not a writable folder.
    """
    folder = local_path(uri)
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise JobError(f"root: {folder} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"it writes to {folder} at this moment") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
