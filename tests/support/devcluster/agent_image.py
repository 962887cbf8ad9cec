"""The agent of Connect workers as a jar, and as an image that the operator's build takes it from.

The one idea: the jar is built by this machine's Maven, with its settings, because no image with Maven can be pulled
where there is no registry; a Dockerfile takes it through `ARG MAVEN_IMAGE`, and finds that there is nothing to build.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .base_image import base_image
from .buildah import buildah, is_stored
from .cache import built, cache_directory, digest, file_lock
from .kafka_jars import Report, ensure_tools, maven
from .progress import say, step

JAR = "staticgroup-connect-agent.jar"
TOOLS = {"mvn": "maven", "javac": "openjdk-17-jdk-headless"}


def agent_jar(project: Path, report: Report = say) -> Path:
    """Return the agent's jar, built from its sources as they are, without running its tests.

    Parameters
    ----------
    project: folder with `pom.xml` and `src/main`.
    """

    def make(folder: Path) -> None:
        report("building the Connect agent")
        scratch = folder / "scratch"
        shutil.copytree(project / "src" / "main", scratch / "src" / "main")
        shutil.copy(project / "pom.xml", scratch / "pom.xml")
        maven(["-Dmaven.test.skip=true", "package"], scratch)
        (scratch / "target" / JAR).rename(folder / JAR)
        shutil.rmtree(scratch)

    ensure_tools(report, TOOLS)
    return built(f"connect-agent-{digest(project / 'pom.xml', project / 'src' / 'main')}", make) / JAR


def agent_image(project: Path) -> str:
    """Return the reference of the base image with the jar in the cache's store; `project` as for `agent_jar`."""
    jar, base = agent_jar(project), base_image()
    recipe = f"FROM {base}\nCOPY {JAR} /agent/\n"
    key = digest(jar, recipe)
    reference = f"localhost/connect-agent:{key}"

    def assemble(folder: Path) -> None:
        shutil.copy(jar, folder / JAR)
        (folder / "Containerfile").write_text(recipe)

    context = built(f"connect-agent-context-{key}", assemble)
    with file_lock(cache_directory() / f".connect-agent-store-{key}.lock"):
        if not is_stored(reference):
            with step(f"build image {reference}"):
                buildah(
                    ["build", "--pull-never", f"--file={context / 'Containerfile'}", f"--tag={reference}", str(context)]
                )
    return reference
