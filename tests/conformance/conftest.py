"""Groups that many tests begin with; and which rows of the catalogue the model's own tests show."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from conformance import results
from conformance.classic_bench import ClassicBench
from conformance.consumer_bench import FIRST, SECOND, ConsumerBench, member
from support.devcluster.kafka_jars import Report

_ROW = re.compile(r"test_([A-Z]\d{2})_")
_seen: dict[str, dict[str, str]] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Take note of a test whose name begins with a row's id; it passes when all of its variants do."""
    report = (yield).get_result()
    name = getattr(item, "originalname", item.name)
    found = _ROW.match(name)
    if report.when != "call" or found is None:
        return
    words = " ".join((inspect.getdoc(getattr(item, "function", None)) or "").split())
    entry = _seen.setdefault(
        name.removeprefix("test_"), {"row": found[1], "kafka": "", "given": words, "verdict": "agrees", "text": ""}
    )
    if report.failed:
        entry |= {"verdict": "differs", "text": str(report.longrepr)[-300:]}


@pytest.fixture
def bench() -> ClassicBench:
    return ClassicBench()


@pytest.fixture
def pair() -> ConsumerBench:
    """Two static members at epoch 10: m1 holds x, m2 holds y."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST), member("m2", "y", SECOND))
    return bench


@pytest.fixture(scope="session")
def progress(request: pytest.FixtureRequest) -> Report:
    """Prints a line at once, past what pytest captures: runs against brokers take minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def report(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was seen."""
    if _seen:
        results.record_rows("model", _seen)
