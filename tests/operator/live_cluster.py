"""Reach a real API server with the real kubectl."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


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
