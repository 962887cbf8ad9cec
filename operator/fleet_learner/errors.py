"""Errors that a user can do something about."""

from __future__ import annotations

from typing import Final

EXIT_LEFT_OUT: Final = 4
"""Exit status of a run that finished, but could not read one of its sources."""


class JobError(RuntimeError):
    """A job cannot do what was requested; the text says why in one line."""


class SourceError(JobError):
    """One source cannot be read now; a run with other sources continues without it."""


class UnreachableError(SourceError):
    """No broker of a source answered."""


class ConflictError(RuntimeError):
    """Another writer was faster: the result exists already."""


class CorruptError(JobError):
    """A file is not what it should be; the text names it."""
