"""A test's application in Java: built by Maven from its sources, and put into an image with a Java runtime.

The one idea: nothing but jars is fetched. The runtime is linked from this machine's JDK, and the base image is the
Debian of this machine, so the runtime finds its libraries there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .cache import built, digest
from .images import build_image
from .kafka_jars import COPY_JARS, ensure_tools, maven
from .process import run
from .progress import say, step

TOOLS = {"mvn": "maven", "javac": "openjdk-17-jdk-headless", "jlink": "openjdk-17-jdk-headless"}
MODULES = (
    "java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.sql,jdk.unsupported"
)
"""What the Kafka client, Kafka Streams and RocksDB's binding load."""
_RECIPE = """\
# The application's jars and a Java runtime of just the modules that they need.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE}
COPY java /opt/java
COPY jars /opt/application
USER 65532:65532
WORKDIR /opt/application
ENTRYPOINT ["/opt/java/bin/java", "-Xms32m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", \\
            "-XX:-UsePerfData", "-cp", "/opt/application/*"]
"""


def application_jars(project: Path) -> Path:
    """Return the folder with the jar of a Maven project and all that it needs; built once for its sources as they are.

    Parameters
    ----------
    project: a folder with `pom.xml` and `src`.
    """

    def make(folder: Path) -> None:
        say(f"building the Java application {project.name}")
        scratch = folder / "scratch"
        shutil.copytree(project / "src", scratch / "src")
        shutil.copy(project / "pom.xml", scratch / "pom.xml")
        maven(["package", *COPY_JARS], scratch)
        for jar in [*(scratch / "target").glob("*.jar"), *(scratch / "libs").iterdir()]:
            jar.rename(folder / jar.name)
        shutil.rmtree(scratch)

    ensure_tools(say, TOOLS)
    return built(f"{project.name}-application-{digest(project / 'pom.xml', project / 'src')}", make)


def java_runtime(modules: str = MODULES) -> Path:
    """Return the folder that holds the Java runtime as `java`, linked from some modules."""
    ensure_tools(say, TOOLS)
    jlink_version = subprocess.run(["jlink", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def link(folder: Path) -> None:
        options = ["--strip-debug", "--no-header-files", "--no-man-pages"]
        with step(f"link a Java {jlink_version} runtime"):
            run(["jlink", *options, "--add-modules", modules, "--output", folder / "java"])

    return built(f"java-runtime-{digest(jlink_version, modules)}", link)


def build_java_image(tag: str, jars: Path, main_class: str, modules: str = MODULES) -> Path:
    """Build an image that runs a class out of a folder of jars, unless it was built from the very same inputs before.

    Parameters
    ----------
    tag: reference that nodes will know, for instance `localhost/streams-application:0.1.0`.
    jars: a folder of the cache, named by what it was built from.
    main_class: its full name; arguments of a container replace it.
    modules: of the Java runtime.

    Returns
    -------
    The docker archive.
    """
    java = java_runtime(modules)
    recipe = f'{_RECIPE}CMD ["{main_class}"]\n'

    def assemble(folder: Path) -> None:
        for name, source in (("jars", jars), ("java", java / "java")):
            shutil.copytree(source, folder / name, copy_function=os.link, symlinks=True)
        (folder / "Dockerfile").write_text(recipe)

    return build_image(tag, built(f"java-context-{digest(jars.name, java.name, recipe)}", assemble))
