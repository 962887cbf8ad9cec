"""A real consumer that writes down when it took up each record and was done with it: the truth of a standstill.

Run by itself: `python recorded.py '{"client": {…}, "topic": …, "file": …, "commit_ms": 1000, "batch_ms": 0,
"restore_ms": 0}'`.

client      librdkafka's settings; with `enable.auto.commit` it commits by itself, and `commit_ms` counts for nothing
commit_ms   how often it commits what it is done with
batch_ms    how long it works on each batch before it polls again
restore_ms  how long it takes in the state of each partition that it is given, before it goes on
file        gets a line `<partition> <offset> <taken up, Unix milliseconds> <done>` for each record, as soon as it is
done

It ends at SIGTERM, as the kubelet sends it; a record that was begun is ended. Standard output has a line for each
assignment.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

POLL_S = 0.1
BATCH = 500


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Recorded:
    """One consumer from start to end."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.is_stopping = threading.Event()
        self._settings = settings
        self._file = os.open(settings["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._commits_itself = bool(settings["client"].get("enable.auto.commit"))
        self._consumer = Consumer({"auto.offset.reset": "earliest", "enable.auto.commit": False, **settings["client"]})

    def run(self) -> None:
        """Consume until SIGTERM."""
        self._consumer.subscribe([self._settings["topic"]], on_assign=self._on_assign, on_revoke=self._on_revoke)
        due_s = time.monotonic()
        while not self.is_stopping.is_set():
            messages = [m for m in self._consumer.consume(BATCH, POLL_S) if m.error() is None]
            taken_ms = now_ms()
            if messages:
                time.sleep(self._settings["batch_ms"] / 1000)
            for message in messages:
                os.write(self._file, f"{message.partition()} {message.offset()} {taken_ms} {now_ms()}\n".encode())
            if not self._commits_itself and time.monotonic() >= due_s:
                self._commit()
                due_s = time.monotonic() + self._settings["commit_ms"] / 1000
        if not self._commits_itself:
            self._commit()
        self._consumer.close()

    def stop(self, *_: object) -> None:
        """Ask the loop to end; a handler of SIGTERM."""
        self.is_stopping.set()

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].fatal():
                raise SystemExit(1) from failure  # such as an instance id that another member still has
            if failure.args[0].code() not in (KafkaError._NO_OFFSET, KafkaError.ILLEGAL_GENERATION,
                                              KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS,
                                              KafkaError.STALE_MEMBER_EPOCH):  # fmt: skip
                raise

    def _on_assign(self, consumer: Consumer, partitions: list[Any]) -> None:
        time.sleep(self._settings["restore_ms"] * len(partitions) / 1000)
        print(json.dumps(sorted(each.partition for each in partitions)), flush=True)

    def _on_revoke(self, consumer: Consumer, partitions: list[Any]) -> None:
        if not self._commits_itself:
            self._commit()


if __name__ == "__main__":
    recorded = Recorded(json.loads(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, recorded.stop)
    recorded.run()
