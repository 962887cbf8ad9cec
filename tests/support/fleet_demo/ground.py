"""The demo's environment: a cluster, a broker, an operator that reads recommendations, and a file server.

The one idea: recommendations are served as for another cluster's operator, as plain files over HTTP, on the address by
which pods reach this machine.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.devcluster.kafka_broker import down as kafka_down
from support.devcluster.progress import say, step
from support.scene.stage import Stage

CLUSTER = "sg-fleet-demo"
PREFIX = "orders-"
"""Prefix of the names of the real group and its namespace."""
FOLDER = Path(__file__).parents[3] / "build" / "pipeline-demo"
"""Tables, report and recommendations; recreated in every run."""
RECOMMENDATIONS = FOLDER / "fleet" / "output" / "recommendations"
REPORT = FOLDER / "fleet" / "output" / "report" / "report.html"
POLL_S = 10


class _Handler(SimpleHTTPRequestHandler):
    """Serve files without logging."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass(slots=True, kw_only=True)
class Ground:
    """The stage with its file server."""

    stage: Stage
    server: ThreadingHTTPServer

    def close(self) -> None:
        """End the file server."""
        self.server.shutdown()
        self.server.server_close()


def url_of(server: ThreadingHTTPServer) -> str:
    """Return the base URL of a server."""
    host, port = server.server_address[:2]
    return f"http://{host!s}:{port}"


def serve(folder: Path, address: str) -> ThreadingHTTPServer:
    """Serve a folder, which may not exist yet, on a free port of an address until `shutdown` is called."""
    server = ThreadingHTTPServer((address, 0), partial(_Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True, name="recommendations").start()
    return server


def bring_up() -> Ground:
    """Bring up cluster, broker, images, the file server and the operator that reads from it.

    Raises
    ------
    RuntimeError, OSError, TimeoutError
        When a part cannot be built or does not start; the text says which.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    kafka_down(CLUSTER, say)
    stage = Stage.up(CLUSTER)
    with step("empty the namespace of an earlier run"):
        names = stage.kubectl("get", "namespaces", "-o", "name").split()
        old = [name for name in names if name.startswith(f"namespace/{PREFIX}")]
        if old:
            stage.kubectl("delete", *old, "--timeout=120s")
    server = serve(RECOMMENDATIONS, stage.cluster.state.host_address)
    stage.install(recommendations={"source": url_of(server), "pollSeconds": POLL_S})
    return Ground(stage=stage, server=server)
