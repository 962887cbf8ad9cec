"""Delete the modules of the `kubernetes` package that the operator never loads, while its image is built.

The package has a module for each type and each API of Kubernetes, twice: 120 of its 126 MB. The operator takes its
configuration and its HTTP client. `kubernetes` loads the rest on demand only, and the operator's own tests run in the
image that this makes.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOTS = (
    "staticgroup.cli.operator.commands", "staticgroup.runtime.process.run", "staticgroup.runtime.webhook.process",
    "journal.journal",
)  # fmt: skip
"""Modules that load all that a command of the image needs."""


def main() -> None:
    """Delete what is not loaded, and say how much that was."""
    for name in ROOTS:
        importlib.import_module(name)
    package = importlib.import_module("kubernetes")
    loaded = {
        Path(str(module.__file__)).resolve()
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "kubernetes" and getattr(module, "__file__", None)
    }
    unused = [p for p in Path(str(package.__file__)).parent.rglob("*.py") if p.resolve() not in loaded]
    freed = sum(path.stat().st_size for path in unused)
    for path in unused:
        path.unlink()
    sys.stdout.write(f"kubernetes: {len(loaded)} modules kept, {len(unused)} deleted, {freed // 2**20} MiB\n")


if __name__ == "__main__":
    main()
