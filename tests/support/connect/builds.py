"""What a Connect worker is made of, fetched or built once per version and machine: its jars, the agent, a connector.

`python -m support.connect.builds` runs the agent's own tests, on a machine that may have no Maven yet.
One idea: a folder of the cache is named by what it was made from and appears by a rename, so one that exists is
complete.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.devcluster.agent_image import JAR, agent_jar
from support.devcluster.java_application import TOOLS
from support.devcluster.kafka_jars import (
    MAVEN_TIMEOUT_S,
    Report,
    cache_root,
    class_path,
    ensure_tools,
    made_once,
    version_key,
)

HERE = Path(__file__).parent
AGENT = HERE.parents[2] / "operator" / "connect_agent"
AGENT_JAR = JAR
DEFAULT_VERSION = "4.3.1"


def ensure_connect(version: str, report: Report) -> Path:
    """Return the folder with the jars of a Connect worker."""
    profile = "reload4j" if version_key(version) < (4,) else "log4j2"
    goal = ["dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime"]

    def make(folder: Path) -> None:
        report(f"fetching the jars of Connect {version}")
        shutil.copy(HERE / "pom.xml", folder / "pom.xml")
        _run(["mvn", "-B", "-q", "-P", profile, f"-Dconnect.version={version}", *goal], folder)

    ensure_tools(report, TOOLS)
    return made_once(cache_root() / f"connect-{version}", make) / "libs"


def ensure_agent(report: Report) -> Path:
    """Return the agent's jar, built from the sources as they are."""
    return agent_jar(AGENT, report)


def ensure_ticking(jars: Path, report: Report) -> Path:
    """Return the folder of classes of the ticking connector, compiled against a worker's jars."""
    ensure_tools(report, TOOLS)
    source = HERE / "ticking"
    files = sorted(path for path in source.rglob("*") if path.is_file())

    def make(folder: Path) -> None:
        report("compiling the ticking connector")
        shutil.copytree(source / "META-INF", folder / "META-INF")
        java = [str(path) for path in files if path.suffix == ".java"]
        _run(["javac", "--release", "8", "-nowarn", "-d", str(folder), "-cp", class_path(jars), *java], folder)

    return made_once(cache_root() / f"connect-ticking-{_digest(files)}", make)


def ensure_debezium(report: Report) -> Path:
    """Return a plugin path with Debezium's PostgreSQL connector and all that it needs beside Connect."""
    pom = HERE / "debezium" / "pom.xml"
    given = "-DexcludeGroupIds=org.apache.kafka,org.slf4j"  # by the worker
    goal = ["dependency:copy-dependencies", "-DoutputDirectory=plugins/debezium", "-DincludeScope=runtime", given]

    def make(folder: Path) -> None:
        report("fetching the jars of Debezium's connector")
        shutil.copy(pom, folder / "pom.xml")
        _run(["mvn", "-B", "-q", *goal], folder)

    ensure_tools(report, TOOLS)
    return made_once(cache_root() / f"connect-debezium-{_digest([pom])}", make) / "plugins"


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _run(command: Sequence[str], folder: Path) -> None:
    outcome = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=MAVEN_TIMEOUT_S
    )
    if outcome.returncode != 0:
        errors = [line for line in (outcome.stdout + outcome.stderr).splitlines() if "ERROR" in line or "error" in line]
        raise RuntimeError(f"{command[0]} failed: {(errors or ['no message'])[0][:300]}")


if __name__ == "__main__":
    ensure_tools(print, TOOLS)
    sys.exit(subprocess.call(["mvn", "-B", "-q", "-f", str(AGENT / "pom.xml"), "package"]))
