"""What a Connect worker is made of, fetched or built once per version and machine: its jars, the agent, a connector.

`python -m support.connect.builds` runs the agent's own tests, on a machine that may have no Maven yet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from support.devcluster.agent_image import JAR, agent_jar
from support.devcluster.cache import built, digest
from support.devcluster.java_application import TOOLS
from support.devcluster.kafka_jars import COPY_JARS, Report, class_path, ensure_tools, maven, version_key
from support.devcluster.process import run

HERE = Path(__file__).parent
AGENT = HERE.parents[2] / "operator" / "connect_agent"
AGENT_JAR = JAR
DEFAULT_VERSION = "4.3.1"


def ensure_connect(version: str, report: Report) -> Path:
    """Return the folder with the jars of a Connect worker."""
    profile = "reload4j" if version_key(version) < (4,) else "log4j2"

    def make(folder: Path) -> None:
        report(f"fetching the jars of Connect {version}")
        shutil.copy(HERE / "pom.xml", folder / "pom.xml")
        maven(["-P", profile, f"-Dconnect.version={version}", *COPY_JARS], folder)

    ensure_tools(report, TOOLS)
    return built(f"connect-{version}", make) / "libs"


def ensure_agent(report: Report) -> Path:
    """Return the agent's jar, built from the sources as they are."""
    return agent_jar(AGENT, report)


def ensure_ticking(jars: Path, report: Report) -> Path:
    """Return the folder of classes of the ticking connector, compiled against a worker's jars."""
    ensure_tools(report, TOOLS)
    source = HERE / "ticking"

    def make(folder: Path) -> None:
        report("compiling the ticking connector")
        shutil.copytree(source / "META-INF", folder / "META-INF")
        java = sorted(source.rglob("*.java"))
        run(["javac", "--release", "8", "-nowarn", "-d", folder, "-cp", class_path(jars), *java])

    return built(f"connect-ticking-{digest(source)}", make)


def ensure_debezium(report: Report) -> Path:
    """Return a plugin path with Debezium's PostgreSQL connector and all that it needs beside Connect."""
    pom = HERE / "debezium" / "pom.xml"
    given = "-DexcludeGroupIds=org.apache.kafka,org.slf4j"  # by the worker

    def make(folder: Path) -> None:
        report("fetching the jars of Debezium's connector")
        shutil.copy(pom, folder / "pom.xml")
        maven([*COPY_JARS, given], folder)
        (folder / "plugins").mkdir()
        (folder / "libs").rename(folder / "plugins" / "debezium")

    ensure_tools(report, TOOLS)
    return built(f"connect-debezium-{digest(pom)}", make) / "plugins"


if __name__ == "__main__":
    ensure_tools(print, TOOLS)
    sys.exit(subprocess.call(["mvn", "-B", "-q", "-f", str(AGENT / "pom.xml"), "package"]))
