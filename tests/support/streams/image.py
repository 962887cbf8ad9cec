"""The image of the Kafka Streams application."""

from __future__ import annotations

from pathlib import Path

from support.devcluster.cluster import Cluster
from support.devcluster.java_application import application_jars, build_java_image

STREAMS_IMAGE = "localhost/streams-application:0.1.0"


def load_streams_image(cluster: Cluster) -> None:
    """Build the image where its inputs changed, and load it into every node."""
    build_java_image(STREAMS_IMAGE, application_jars(Path(__file__).parent), "counting.CountingApplication")
    cluster.load_image(STREAMS_IMAGE)
