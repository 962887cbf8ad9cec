"""A steady load: numbered records to every partition of a topic, and which of them the brokers acknowledged.

The one idea: a record counts only when it was acknowledged (acks=all, idempotent), and its offset is printed; what
consumers must have seen is then known exactly. Lines of JSON on standard output:

    started  pid, topic, partitions            acked   once per second: partitions {"3": {offsets, sequences}} as ranges
    failed   partition, sequence, error, text  closed  sent, acked, failed
    error    error, text, fatal                log     level, text

Variables: BOOTSTRAP, TOPIC, RATE_PER_S (records, all partitions together; default 100), COUNT (stop after so many;
default: at SIGTERM), and those of the connection, as for consumer.py. The value of a record is `<sequence> <ms>`: its
number in its partition, from 0, and the time when it was sent.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from environment import CONNECTION, client_logger, client_settings, now_ms, required, tell
from ranges import Ranges, appended

TICK_S = 0.05
REPORT_S = 1.0
METADATA_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 10.0


class Load:
    """One producer from start to end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.is_stopping = threading.Event()
        self._topic = required(environment, "TOPIC")
        self._rate_per_s = float(environment.get("RATE_PER_S") or 100)
        self._count = int(environment.get("COUNT") or 0)
        self._sent = self._acked = self._failed = 0
        self._offsets: dict[int, Ranges] = {}
        self._sequences: dict[int, Ranges] = {}
        chosen = {"enable.idempotence": True, "linger.ms": 5, **client_settings(environment, CONNECTION)}
        self._producer = Producer({**chosen, "error_cb": self._on_error}, logger=client_logger())
        self._partitions = self._known_partitions()
        tell("started", pid=os.getpid(), topic=self._topic, partitions=self._partitions)

    def _known_partitions(self) -> int:
        topic = self._producer.list_topics(self._topic, METADATA_TIMEOUT_S).topics[self._topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return len(topic.partitions)

    def run(self) -> int:
        """Send until SIGTERM or until COUNT is reached; return the exit code: 0 when all was acknowledged."""
        started_s = time.monotonic()
        next_report_s = started_s + REPORT_S
        while not self.is_stopping.is_set() and not (self._count and self._sent >= self._count):
            due = int((time.monotonic() - started_s) * self._rate_per_s)
            for _ in range(due - self._sent if not self._count else min(due, self._count) - self._sent):
                self._send()
            self._producer.poll(0)
            if time.monotonic() >= next_report_s:
                self._tell_acked()
                next_report_s += REPORT_S
            self.is_stopping.wait(TICK_S)
        self._producer.flush(FLUSH_TIMEOUT_S)
        self._tell_acked()
        tell("closed", sent=self._sent, acked=self._acked, failed=self._failed)
        return 0 if self._acked == self._sent else 1

    def stop(self, *_: object) -> None:
        """Ask the loop to end; a handler of SIGTERM."""
        self.is_stopping.set()

    def _send(self) -> None:
        sequence, partition = divmod(self._sent, self._partitions)
        self._sent += 1
        value = f"{sequence} {now_ms()}".encode()
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._note(sequence))
            except BufferError:  # brokers are away: wait for room instead of dropping
                self._producer.poll(TICK_S)
            else:
                return

    def _note(self, sequence: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            if error is not None:
                self._failed += 1
                tell("failed", partition=partition, sequence=sequence, error=error.name(), text=error.str())
                return
            assert offset is not None
            self._acked += 1
            appended(self._offsets.setdefault(partition, []), offset)
            appended(self._sequences.setdefault(partition, []), sequence)

        return note

    def _tell_acked(self) -> None:
        if self._offsets:
            partitions = {
                str(partition): {"offsets": offsets, "sequences": self._sequences[partition]}
                for partition, offsets in sorted(self._offsets.items())
            }
            tell("acked", partitions=partitions)
        self._offsets, self._sequences = {}, {}

    @staticmethod
    def _on_error(error: KafkaError) -> None:
        tell("error", error=error.name(), text=error.str(), fatal=error.fatal())


def main(environment: Mapping[str, str]) -> int:
    """Run the load; return its exit code."""
    try:
        load = Load(environment)
    except KafkaException as refusal:
        tell("refused", text=refusal.args[0].str())
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, load.stop)
    return load.run()


if __name__ == "__main__":
    sys.exit(main(os.environ))
