"""What all unit tests share."""

from __future__ import annotations

import gc

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
if settings.get_current_profile_name() == "default":  # not where another one was asked for
    settings.load_profile("unhurried")  # how long an example takes says how busy the machine is


def pytest_collection_finish() -> None:
    """Take all that was imported out of the collector's sight, or each of its full runs walks through it again."""
    gc.collect()
    gc.freeze()
