"""The program `staticgroup` as pip installs it: the operator's commands, and `simulate`, which needs the simulator.

The one idea: the operator must not know the simulator, so what knows both stands above them. The operator's image and
the kubectl plugin carry no simulator; there the operator's own command line says where to get it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

SIMULATE = "simulate"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    The exit status: 0 good, 1 a finding or a failure, 2 wrong usage.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [SIMULATE]:
        from simulator.__main__ import main as simulate

        return simulate(words[1:], program=f"staticgroup {SIMULATE}")
    from staticgroup.cli.command_line import main as operate

    return operate(words)
