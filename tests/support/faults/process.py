"""One real operator process on this machine, of one namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from support import children
from support.fault_proxy.free_port import free_port

OPERATOR = Path(__file__).parents[3] / "operator"
STOP_PATIENCE_S = 20.0


@dataclass(slots=True, kw_only=True)
class OperatorProcess:
    """The operator as `staticgroup run` starts it.

    Parameters
    ----------
    namespace: the only one that it serves, and where its Lease is.
    folder: of its log.
    settings: more of its settings, without the prefix.
    """

    namespace: str
    kubeconfig: Path
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it has said, of all its lives."""
        return self.folder / "operator.log"

    def start(self) -> None:
        settings = {
            "WATCH_NAMESPACES": self.namespace, "NAMESPACE": self.namespace, "IDENTITY": f"{self.namespace}-operator",
            "HEALTH_PORT": str(self.port), **self.settings,
        }  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": str(OPERATOR),
            "KUBECONFIG": str(self.kubeconfig), **{f"STATICGROUP_{name}": value for name, value in settings.items()},
        }  # fmt: skip
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "staticgroup", "run"],
                env=environment,
                cwd=self.folder,
                stdout=output,
                stderr=output,
            )

    def stop(self) -> None:
        """End it as Kubernetes does, and by force when it does not end."""
        if self._child is None:
            return
        children.end(self._child, STOP_PATIENCE_S)
        self._child = None

    def is_alive(self) -> bool:
        """Say whether it runs."""
        return self._child is not None and self._child.poll() is None

    def is_ready(self) -> bool:
        """Say whether its readiness probe succeeds."""
        return self._probe("readyz")

    def is_healthy(self) -> bool:
        """Say whether its liveness probe succeeds."""
        return self._probe("healthz")

    def _probe(self, path: str) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}/{path}", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def rss_max_mib(self) -> int:
        """Return the most memory that this life has used (VmHWM of proc(5))."""
        if self._child is None:
            return 0
        lines = Path(f"/proc/{self._child.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)

    def exceptions(self) -> list[str]:
        """Return what was logged with a traceback: the unforeseen errors."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                if line.startswith("Traceback"):
                    found.append(line)
                continue
            if "exception" in record:
                found.append(f"{record['message']}: {record['exception'].splitlines()[-1]}")
        return found
