"""What goes wrong for reasons that a user can do something about."""

from __future__ import annotations

from typing import Final

EXIT_LEFT_OUT: Final = 4
"""Exit status of a run that came to its end without a source that it could not read."""


class JobError(RuntimeError):
    """A job cannot do what it was asked for; the text says why in one line."""


class SourceError(JobError):
    """One source cannot be read now; a run that has others goes on without it."""


class UnreachableError(SourceError):
    """No broker of a source answered."""


class ConflictError(RuntimeError):
    """Another writer was faster: what this one wanted to write is there already."""


class CorruptError(JobError):
    """A file is not what it should be; the text names it."""
