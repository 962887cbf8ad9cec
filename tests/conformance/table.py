"""The table of agreement: `python -m conformance.table [--write]`.

It shows what the conformance runs have recorded; `--write` puts it into docs/reference/conformance.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import results
from conformance.wire.targets import MODEL

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
BROKERS = {"4.4.0": "4.4", "4.1.2": "4.1", "4.0.2": "4.0", "3.9.2": "3.9"}
_MARKS = {"agrees": "yes", "differs": "**no**", "absent": "–"}
_HEAD = """# Conformance of the coordinator model

One row per rule that a test shows; the ids are those of the catalogue of rules, but for A (cases that no Kafka test
has) and X (Kafka tests that the catalogue has not). *model* is `coordinator_model` in process or behind its listener,
the numbers are real brokers, tested over TCP by the same test body. *yes*: as the row says; –: this version of Kafka
does not have what the row is about; blank: not run there, because the row reads records, timers or assignors, which no
broker shows on the wire.

Not modelled, so no row asks for it: OffsetDelete and the expiry of offsets, stable fetch (`requireStable` of
OffsetFetch, KIP-447), the clean-up of offsets, subscriptions and share state after a topic was deleted, and assignors
that run in another thread (`…assignor.offload.enable`, KIP-1263): an assignment that is due is computed within the
request.

This file is generated: `make conformance`, then `PYTHONPATH=tests:operator python -m conformance.table --write`.
"""


def render(recorded: Mapping[str, Any]) -> str:
    """Return the document."""
    rows = sorted(recorded["rows"].items(), key=lambda item: (item[1]["row"], item[0]))
    lines = [_HEAD, _summary(recorded, [entry for _, entry in rows])]
    shown = [(name, entry) for name, entry in rows if set(entry["verdicts"]) - {MODEL}]
    alone = [(name, entry) for name, entry in rows if not set(entry["verdicts"]) - {MODEL}]
    lines += ["## Rows tested over the wire\n", *_table(shown, with_brokers=True)]
    lines += ["\n## Rows shown on the model alone\n", *_table(alone, with_brokers=False)]
    return "\n".join(lines) + "\n"


def _summary(recorded: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for target in (MODEL, *BROKERS):
        verdicts = [entry["verdicts"][target]["verdict"] for entry in entries if target in entry["verdicts"]]
        if verdicts:
            counts = ", ".join(f"{verdicts.count(v)} {word}" for v, word in _WORDS.items() if verdicts.count(v))
            lines.append(f"* {'the model' if target == MODEL else 'Kafka ' + target}: {counts}")
    for broker, run in sorted(recorded["histories"].items()):
        text = f"{run['count']} random histories, {run['steps']} steps ({run['fail_overs']} of them fail-overs"
        text += f" between three brokers), compared after each step: {run['differing']} differ"
        lines.append(f"* the model against Kafka {broker}: {text}")
    return "\n".join(lines) + "\n"


_WORDS = {"agrees": "rows agree", "differs": "differ", "absent": "not in this version"}


def _table(rows: Iterable[tuple[str, Mapping[str, Any]]], *, with_brokers: bool) -> list[str]:
    brokers = list(BROKERS) if with_brokers else []
    columns = [
        "row",
        "given → when → then",
        "Kafka's test",
        MODEL,
        *(BROKERS[b] for b in brokers),
        *["why not"] * bool(brokers),
    ]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, entry in rows:
        verdicts = entry["verdicts"]
        marks = [_MARKS.get(verdicts.get(t, {}).get("verdict", ""), "") for t in (MODEL, *brokers)]
        says = entry["given"] or re.sub(r"^\w\d+_", "", name).replace("_", " ")
        cells = [entry["row"], says, entry["kafka"], *marks]
        if with_brokers:
            cells.append(_why(verdicts))
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return lines


def _why(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    """Say why a broker has not the row, each reason once."""
    reasons: dict[str, list[str]] = {}
    for broker, short in BROKERS.items():
        verdict = verdicts.get(broker)
        if verdict and verdict["verdict"] == "absent":
            reasons.setdefault(verdict["text"], []).append(short)
        if verdict and verdict["verdict"] == "differs":
            reasons.setdefault("differs: see the run", []).append(short)
    return "; ".join(f"{reason} ({', '.join(versions)})" for reason, versions in reasons.items())


def main(argv: Sequence[str]) -> int:
    """Print or write the table; 1 when something differs or nothing has been run."""
    parser = argparse.ArgumentParser(prog="conformance.table", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name} instead of printing")
    options = parser.parse_args(argv)
    recorded = results.load()
    if not recorded["rows"]:
        parser.exit(1, "nothing has been run yet: make conformance\n")
    text = render(recorded)
    if options.write:
        DOCUMENT.write_text(text)
    else:
        sys.stdout.write(text)
    verdicts = (v["verdict"] for entry in recorded["rows"].values() for v in entry["verdicts"].values())
    differing = "differs" in verdicts or any(run["differing"] for run in recorded["histories"].values())
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
