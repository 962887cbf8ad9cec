"""Every row that can be spoken over the wire, with one body against the model's listener and against real brokers.

CONFORMANCE_BROKERS names the brokers' versions, separated by commas; the default is the newest one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest

from conformance import results
from conformance.wire import all_rows
from conformance.wire.catalogue import Outcome, Row
from conformance.wire.runs import outcomes
from conformance.wire.targets import MODEL
from support.devcluster.kafka_jars import Report, full_version

pytestmark = [pytest.mark.timeout(900)]

BROKERS = tuple(full_version(v) for v in os.environ.get("CONFORMANCE_BROKERS", "4.4").split(",") if v)
CASES = [
    pytest.param(row, target, id=f"{name}-{target}", marks=() if target == MODEL else pytest.mark.broker)
    for target in (MODEL, *BROKERS)
    for name, row in all_rows().items()
]


class Runs:
    """Runs the chosen rows of a target all at once when the first of them is asked for."""

    def __init__(self, chosen: Mapping[str, list[Row]], report: Report) -> None:
        self._chosen = chosen
        self._report = report
        self._done: dict[str, Mapping[str, Outcome]] = {}

    def outcome(self, row: Row, target: str) -> Outcome:
        """Return what came of a row."""
        if target not in self._done:
            self._done[target] = outcomes(target, self._chosen[target], self._report)
            counts = Counter(outcome.verdict for outcome in self._done[target].values())
            self._report(f"rows on {target}: {', '.join(f'{n} {verdict}' for verdict, n in sorted(counts.items()))}")
            rows = {row.name: row for row in self._chosen[target]}
            shown = {
                name: {
                    **{"row": rows[name].row, "kafka": rows[name].kafka, "given": rows[name].given},
                    **{"verdict": outcome.verdict, "text": outcome.text},
                }
                for name, outcome in self._done[target].items()
            }
            results.record_rows(target, shown)
        return self._done[target][row.name]


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, progress: Report) -> Runs:
    """The chosen rows by target."""
    chosen: dict[str, list[Row]] = {}
    for item in request.session.items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if isinstance(parameters.get("row"), Row):
            chosen.setdefault(parameters["target"], []).append(parameters["row"])
    return Runs(chosen, progress)


@pytest.mark.parametrize(("row", "target"), CASES)
def test_row(runs: Runs, row: Row, target: str) -> None:
    outcome = runs.outcome(row, target)
    if outcome.verdict == "absent":
        assert target != MODEL, "the model has every row"
        pytest.skip(outcome.text)
    assert outcome.verdict == "agrees", f"{row.given}\n{outcome.text}"
