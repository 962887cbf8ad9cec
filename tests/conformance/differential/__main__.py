"""`python -m conformance.differential FIRST COUNT`: compare histories with three brokers and print what differs."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from conformance.differential.cluster import three_brokers
from conformance.differential.run import OVERRIDES, compare_all, summary
from support.devcluster.kafka_jars import full_version


def main(argv: list[str]) -> int:
    """Return 1 when a history differs, 2 when the arguments are wrong."""
    if len(argv) != 2 or not all(word.isdigit() for word in argv):
        print("usage: python -m conformance.differential FIRST COUNT", file=sys.stderr)
        return 2
    first, count = map(int, argv)
    with three_brokers(full_version("4.4"), "-histories", OVERRIDES) as brokers:
        began_s = time.monotonic()
        verdicts = asyncio.run(compare_all(brokers, range(first, first + count), os.urandom(3).hex()))
    print(f"{summary(verdicts)}\n{time.monotonic() - began_s:.1f} s")
    return 1 if any(verdict.difference for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
