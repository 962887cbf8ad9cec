"""The coordinator that most tests of classic groups begin with."""

from __future__ import annotations

import pytest

from conformance.classic_bench import ClassicBench


@pytest.fixture
def bench() -> ClassicBench:
    return ClassicBench()
