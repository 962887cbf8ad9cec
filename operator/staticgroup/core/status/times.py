"""Times in a status."""

from __future__ import annotations

from datetime import UTC, datetime


def wire_time(seconds: float) -> datetime:
    """Write seconds since the Unix epoch as metav1.Time keeps them, whole."""
    return datetime.fromtimestamp(int(seconds), tz=UTC)
