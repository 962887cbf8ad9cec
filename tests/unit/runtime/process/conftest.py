"""What tests of one process share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from staticgroup.runtime.process import logs


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    levels = {name: logging.getLogger(name).level for name in logs.LOUDEST_LEVELS}
    yield
    root.handlers[:], _ = before[0], root.setLevel(before[1])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
