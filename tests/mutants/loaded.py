"""A pytest plugin for mutant runs: proves that the mutated copy was the one under test, and finds failures fast."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# Shrinking a counter-example takes long and is of no use here.
settings.register_profile(
    "mutants", deadline=None, max_examples=40, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("mutants")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when the tests imported another copy: a survivor would prove nothing, nor would a kill."""
    import staticgroup

    copy = Path(os.environ["MUTATED_OPERATOR"]).resolve()
    (found,) = staticgroup.__path__
    if Path(found).resolve() != copy / "staticgroup":
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
