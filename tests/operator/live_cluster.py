"""Reach a real API server with the real kubectl, and wait for what becomes true with a deadline."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).parents[2]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """Run the real kubectl against the real API server."""

    program: str
    kubeconfig: str

    def run(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.program, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def must(self, *arguments: str, stdin: str | None = None) -> str:
        answer = self.run(*arguments, stdin=stdin)
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def apply(self, body: dict[str, Any], *arguments: str) -> str:
        return self.must("apply", "--server-side", "--force-conflicts", *arguments, "-f", "-", stdin=json.dumps(body))


def until(look: Callable[[], T | None], *, deadline_s: float, what: str) -> T:
    """Look again until there is an answer; fail loudly at the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not so within {deadline_s} s")
