"""Select the fleet learner's unit tests of `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

SMOKE = {
    "test_cli.py", "test_journal_topic.py", "test_recommend.py", "test_recommendation_snapshot.py", "test_sources.py",
}  # fmt: skip
"""Tests of the interface to the operator: reading its journal, and writing its recommendations."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the other tests to `make pipeline`, because they do not involve the operator."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name not in SMOKE:
            item.add_marker(pytest.mark.pipeline)
