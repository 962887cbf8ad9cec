"""Kafka Streams pods of two threads, with and without the operator, each with its state on its own volume.

The one idea: beside the records that each thread processed, the application tells what was read again to rebuild state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from support.demo.consumers import Reading
from support.demo.groups import DemoGroup
from support.demo.role import FILES, MANAGED, REPLICAS, STOCK, TOPIC
from support.demo.wording import STREAMS
from support.devcluster.progress import step
from support.scene.stage import Stage
from support.streams import deployment
from support.streams.image import load_streams_image

THREADS = 2
"""Of each pod: with three pods, one for each partition."""


class StreamsPods(Reading):
    """Kafka Streams applications, one member for each thread."""

    wording = STREAMS
    titles: ClassVar[Mapping[str, str]] = {STOCK: "dynamic members, 45 s session", MANAGED: "with StaticGroup"}
    members_per_pod = THREADS
    timeout_variable = "KAFKA_STREAMS_SESSION_TIMEOUT_MS"
    own_session_ms = 45_000
    """The default of the Java client since 3.0 (KIP-735)."""
    steady_deadline_s = 180.0
    # Without static ids each restart waits for the session of the threads before it.
    roll_deadline_s = 400.0

    def prepare(self, stage: Stage) -> None:
        """Build the application's image and load it."""
        with step("the image of the Kafka Streams application"):
            load_streams_image(stage.cluster)

    def static_group(self) -> dict[str, Any]:
        """Return the type of the client and the number of threads."""
        return {**deployment.STATIC}

    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Return the StatefulSet, whose pods find their state again by their names."""
        env = {"TOPIC": TOPIC, "REPORT_TIMES": "true"}
        return deployment.workload(group.play, REPLICAS, FILES, threads=THREADS, env=env)

    def interruptions(self, group: DemoGroup, since_ms: int) -> tuple[int, float | None]:
        """Return how many partitions were taken from threads whose pod was not being ended."""
        return group.given_up(since_ms), None

    def restored(self, group: DemoGroup, since_ms: int) -> int | None:
        """Return how many records were read again from changelogs, as the application's restore listener tells."""
        lines = (x for x in group.lines() if x["kind"] in ("restored", "restore_suspended") and x["at_ms"] >= since_ms)
        return sum(int(line["records"]) for line in lines)
