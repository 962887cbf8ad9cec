"""One instance of the Kafka Streams application as a process on this host, with a single static stream thread."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.devcluster.java_application import application_jars


class StreamsInstance:
    """A process that runs until it is killed; its state directory goes with it.

    Parameters
    ----------
    instance_id: the client appends `-1`, the number of its only thread.
    topics: one, or several separated by commas.
    """

    def __init__(self, bootstrap: str, group_id: str, instance_id: str, topics: str, session_timeout_ms: int) -> None:
        self._state = tempfile.mkdtemp(prefix="streams-")
        environment = {
            "BOOTSTRAP": bootstrap,
            "GROUP": group_id,
            "TOPIC": topics,
            "STATE_DIR": self._state,
            "KAFKA_STREAMS_GROUP_INSTANCE_ID": instance_id,
            "KAFKA_STREAMS_SESSION_TIMEOUT_MS": str(session_timeout_ms),
        }
        classes = f"{application_jars(Path(__file__).parent)}/*"
        command = ["java", "-Xmx160m", "-XX:TieredStopAtLevel=1", "-cp", classes, "counting.CountingApplication"]
        self._process = subprocess.Popen(
            command, env={"PATH": os.environ["PATH"], **environment}, stdout=subprocess.DEVNULL
        )

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.wait(10)
        shutil.rmtree(self._state, ignore_errors=True)
