"""The image of the Java consumer."""

from __future__ import annotations

from pathlib import Path

from support.devcluster.cluster import Cluster
from support.devcluster.java_application import application_jars, build_java_image

JVM_WORKLOAD_IMAGE = "localhost/jvm-workload:0.1.0"


def load_jvm_workload_image(cluster: Cluster) -> None:
    """Build the image where its inputs changed, and load it into every node."""
    build_java_image(JVM_WORKLOAD_IMAGE, application_jars(Path(__file__).parent), "consuming.ConsumingApplication")
    cluster.load_image(JVM_WORKLOAD_IMAGE)
