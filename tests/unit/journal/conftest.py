"""An operator that has seen a calm group."""

from __future__ import annotations

import pytest

from unit.journal.observer import Observer, running


@pytest.fixture
def observer() -> Observer:
    """Return an observer after its first look, at three running members."""
    observer = Observer()
    observer.look(running())
    return observer
