"""`python -m conformance.differential FIRST COUNT [host:port]`: compare histories and print what differs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter

from conformance.differential.run import OVERRIDES, compare_all
from conformance.wire.targets import real_broker


def main(argv: list[str]) -> int:
    """Return 1 when a history differs."""
    seeds = range(int(argv[0]), int(argv[0]) + int(argv[1]))
    with real_broker("4.4.0", "-histories", OVERRIDES) as brokers:
        began_s = time.monotonic()
        verdicts = asyncio.run(compare_all(*brokers.address(1), seeds, os.urandom(3).hex()))
    for verdict in verdicts:
        if verdict.difference:
            history = verdict.history
            print(f"=== seed {history.seed} ({history.family}, static {history.static}), {len(history.ops)} steps")
            print("\n".join(verdict.transcript))
    seen = sum((verdict.seen for verdict in verdicts), Counter())
    print("\n".join(f"{count:6} {what}" for what, count in sorted(seen.items())))
    differing = sum(bool(verdict.difference) for verdict in verdicts)
    steps = sum(verdict.steps for verdict in verdicts)
    print(f"{len(verdicts)} histories, {steps} steps, {differing} differ, {time.monotonic() - began_s:.1f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
