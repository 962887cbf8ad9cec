"""The images of the applications, built from what package registries have and loaded into the nodes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from support.devcluster.cache import built, digest
from support.devcluster.cluster import Cluster
from support.devcluster.images import build_image
from support.devcluster.java_application import MODULES, application_jars, build_java_image
from support.devcluster.programs import run_go

HERE: Final = Path(__file__).parent
SPRING_IMAGE: Final = "localhost/spring-application:0.1.0"
FRANZ_IMAGE: Final = "localhost/franz-application:0.1.0"
SPRING_MODULES: Final = f"{MODULES},java.desktop,java.instrument"
"""Spring's beans need the property editors of java.desktop, its context the instrumentation."""
_FRANZ_RECIPE: Final = """\
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE}
COPY franz /usr/local/bin/franz
USER 65532:65532
ENTRYPOINT ["franz"]
"""


def load_spring_image(cluster: Cluster) -> None:
    """Build the application of Spring Boot where its inputs changed, and load it into every node."""
    jars = application_jars(HERE / "spring")
    build_java_image(SPRING_IMAGE, jars, "listening.ListeningApplication", SPRING_MODULES)
    cluster.load_image(SPRING_IMAGE)


def load_franz_image(cluster: Cluster) -> None:
    """Build the program of franz-go where its inputs changed, and load it into every node."""
    source = HERE / "franz"

    def compile_it(folder: Path) -> None:
        arguments = ["build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", str(folder / "franz"), "."]
        run_go(arguments, "build the program of franz-go", source, {})

    def assemble(folder: Path) -> None:
        shutil.copy2(program, folder / "franz")
        (folder / "Dockerfile").write_text(_FRANZ_RECIPE)

    program = built(f"franz-program-{digest(source)}", compile_it) / "franz"
    context = built(f"franz-context-{digest(program, _FRANZ_RECIPE)}", assemble)
    build_image(FRANZ_IMAGE, context)
    cluster.load_image(FRANZ_IMAGE)
