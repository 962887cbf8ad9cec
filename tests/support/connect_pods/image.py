"""The image of a Connect worker: stock Connect and the ticking connector; the agent is none of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.connect.builds import DEFAULT_VERSION, ensure_connect, ensure_ticking
from support.devcluster.cache import built, digest
from support.devcluster.cluster import Cluster
from support.devcluster.java_application import build_java_image
from support.devcluster.progress import say

CONNECT_IMAGE = "localhost/connect-worker:0.1.0"
MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
MODULES = "java.se,jdk.crypto.ec,jdk.unsupported"
"""A whole Java runtime, which is what connectors expect; `java.se` has java.instrument, by which agents come in."""


def load_connect_image(cluster: Cluster) -> None:
    """Build the image where its inputs changed, and load it into every node."""
    build_java_image(CONNECT_IMAGE, _jars(), MAIN_CLASS, MODULES)
    cluster.load_image(CONNECT_IMAGE)


def _jars() -> Path:
    """Return a folder of the cache with the jars of a worker and of the connector."""
    libs = ensure_connect(DEFAULT_VERSION, say)
    ticking = ensure_ticking(libs, say)

    def make(folder: Path) -> None:
        for jar in libs.glob("*.jar"):
            shutil.copy(jar, folder)
        archive = shutil.make_archive(str(folder / "ticking"), "zip", ticking)
        Path(archive).rename(folder / "ticking.jar")

    return built(f"connect-worker-{digest(DEFAULT_VERSION, ticking.name)}", make)
