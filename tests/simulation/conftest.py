"""Options of the simulation's tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden traces be written again."""
    parser.addoption("--update-golden", action="store_true", help="write the golden traces instead of comparing them")
