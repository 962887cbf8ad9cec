"""One writer at a time where the file system can say so.

The one idea: on a disk or a shared volume Delta's own commit is a look and then a rename, with a moment between the
two; a lock of the operating system closes it, and it is gone with its process. Where there are no such locks (object
stores) the log of runs decides who wins, as it does everywhere.
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
    JobError: the root is no folder that this process may write.
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
