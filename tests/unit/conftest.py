"""What all unit tests share."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Take all that was imported out of the collector's sight, or each of its full runs walks through it again."""
    gc.collect()
    gc.freeze()
