"""Which of the fleet learner's unit tests `make test` has."""

from __future__ import annotations

from pathlib import Path

import pytest

SMOKE = {"test_cli.py", "test_journal_topic.py", "test_recommend.py", "test_sources.py"}
"""What meets the operator: its journal is read, and what it reads is written."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the others to `make pipeline`, since nothing of the operator is in them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name not in SMOKE:
            item.add_marker(pytest.mark.pipeline)
