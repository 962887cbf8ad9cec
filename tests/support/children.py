"""Child processes of tests and benchmarks."""

from __future__ import annotations

import subprocess


def end(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """End a process as Kubernetes does: by SIGTERM, and by SIGKILL once `patience_s` are over."""
    child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
