"""`python -m conformance.wire TARGET [PREFIX…]`: run rows against one target and print what came of them."""

from __future__ import annotations

import sys
import time

from conformance.wire import all_rows
from conformance.wire.runs import outcomes


def main(argv: list[str]) -> int:
    """Return 1 when a row differs."""
    target, *prefixes = argv
    rows = [row for name, row in all_rows().items() if not prefixes or name.startswith(tuple(prefixes))]
    began_s = time.monotonic()
    results = outcomes(target, rows)
    for name, outcome in results.items():
        print(f"{outcome.verdict:8} {outcome.seconds:5.1f}s {name}")
        if outcome.text:
            print("   ", outcome.text.replace("\n", "\n    "))
    differing = sum(outcome.verdict == "differs" for outcome in results.values())
    print(f"{len(results)} rows, {differing} differ, {time.monotonic() - began_s:.1f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
