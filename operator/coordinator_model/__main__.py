"""`python -m coordinator_model`: serve the model to real clients, or explore it in a shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

_HELP = "serve: behind a TCP port, in Kafka's protocol; shell: type joins, leaves and clock steps"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code; `serve` alone needs more than the standard library."""
    parser = argparse.ArgumentParser(prog="coordinator_model", description=__doc__)
    parser.add_argument("command", choices=("serve", "shell"), help=_HELP)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="`serve --help` and `shell --help` tell more")
    options = parser.parse_args(argv)
    if options.command == "shell":
        from .shell import program as shell

        return shell.main(options.arguments)
    from .wire import serve

    return serve.main(options.arguments)


if __name__ == "__main__":
    sys.exit(main())
