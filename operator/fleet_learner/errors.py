"""What goes wrong for reasons that a user can do something about."""

from __future__ import annotations


class JobError(RuntimeError):
    """A job cannot do what it was asked for; the text says why in one line."""
