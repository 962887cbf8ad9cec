"""Keeps the log lines that the product writes in a run, so that they can be searched for secrets, and silences them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message and every field beside it."""
        self.lines.append(f"{record.getMessage()} {vars(record)}")


@contextmanager
def captured_logs() -> Iterator[list[str]]:
    """Take every line that `staticgroup` logs while this is open; none reaches a terminal.

    Returns
    -------
    The lines so far, each with all its fields.
    """
    logger, keeper = logging.getLogger("staticgroup"), _Keeper()
    before = (logger.level, logger.propagate, logger.handlers[:])
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [keeper]
    try:
        yield keeper.lines
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1:]
