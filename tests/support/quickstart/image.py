"""An image in the place of apache/kafka: the jars of that release, and scripts of the same names in the same place.

Why: the quickstart must run here as it is written, and no registry is reached. One idea: of the public image the
quickstart uses nothing but the programs in /opt/kafka/bin. The scripts are stand-ins: they start the same classes with
the same arguments, and `exec` them as the real ones do.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from support.connect_pods.image import MODULES
from support.devcluster.cache import built, digest
from support.devcluster.cluster import Cluster
from support.devcluster.images import build_image
from support.devcluster.java_application import java_runtime
from support.devcluster.kafka_jars import COPY_JARS, RESOURCES, ensure_tools, maven
from support.devcluster.progress import say, step

HERE = Path(__file__).parent
SAMPLE = HERE.parents[2] / "deploy" / "samples" / "quickstart"
OVERLAY = HERE / "overlay"
REPOSITORY = "localhost/kafka-quickstart"
PROGRAMS = {
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
_SCRIPT = """\
#!/bin/sh
exec java ${{KAFKA_HEAP_OPTS:--Xmx256m}} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \\
    -Dlog4j2.configurationFile=/opt/kafka/config/{logging} -cp '/opt/kafka/libs/*' {main_class} "$@"
"""
_RECIPE = """\
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE}
COPY java /opt/java
COPY kafka /opt/kafka
ENV PATH=/opt/java/bin:/opt/kafka/bin:/usr/local/bin:/usr/bin:/bin
USER 1000:1000
WORKDIR /opt/kafka
"""


def version() -> str:
    """Return the version of Kafka that the quickstart names, by the tag of its images."""
    found = {
        tag for file in SAMPLE.glob("*.yaml") for tag in re.findall(r"image: apache/kafka:(\S+)", file.read_text())
    }
    (tag,) = found
    return tag


def _jars(kafka: str) -> Path:
    def fetch(folder: Path) -> None:
        shutil.copy(HERE / "pom.xml", folder / "pom.xml")
        with step(f"fetch the jars of Kafka {kafka} and its tools"):
            maven([f"-Dkafka.version={kafka}", *COPY_JARS], folder)

    ensure_tools(say)
    return built(f"kafka-distribution-{kafka}-{digest(HERE / 'pom.xml')}", fetch) / "libs"


def build() -> str:
    """Build the image unless it was built from the very same inputs before, and return its reference."""
    kafka = version()
    libs, java = _jars(kafka), java_runtime(MODULES)
    loud, quiet = RESOURCES / "log4j2.properties", HERE / "quiet.properties"

    def assemble(folder: Path) -> None:
        shutil.copytree(java / "java", folder / "java", copy_function=os.link, symlinks=True)
        shutil.copytree(libs, folder / "kafka" / "libs", copy_function=os.link)
        (folder / "kafka" / "config").mkdir()
        for file in (loud, quiet):
            shutil.copy(file, folder / "kafka" / "config" / file.name)
        (folder / "kafka" / "bin").mkdir()
        for name, main_class in PROGRAMS.items():
            logging = loud.name if name == "kafka-server-start.sh" else quiet.name
            script = folder / "kafka" / "bin" / name
            script.write_text(_SCRIPT.format(logging=logging, main_class=main_class))
            script.chmod(0o755)
        (folder / "Dockerfile").write_text(_RECIPE)

    key = digest(libs.parent.name, java.name, _RECIPE, _SCRIPT, str(PROGRAMS), loud, quiet)
    reference = f"{REPOSITORY}:{kafka}"
    build_image(reference, built(f"kafka-distribution-context-{key}", assemble))
    return reference


def load(cluster: Cluster) -> None:
    """Build the image where its inputs changed, and load it into every node."""
    cluster.load_image(build())
