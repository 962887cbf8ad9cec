"""A real consumer application: what a user's pod does, and says, while it is deployed, scaled and killed.

The one idea: every thing that happened to it is one JSON line on standard output (`kind`, `at_ms` and its own fields):

    started    pid, group, instance_id, protocol
    assigned   partitions, member_id          revoked, lost   partitions
    consumed   at most once per second: partitions {"3": {offsets, sequences}} as ranges, delay_ms_max; with
               REPORT_TIMES=true also {received}: from when to when records came or were worked on, without a pause
               above 250 ms, and delays {"12": records}: by how many tenths of a second after they were sent they were
               done with
    restored   with STATE_DIR: partition, records read again, elapsed_ms
    error      error, text, fatal             commit_failed   error, text
    log        level, text                    closed          elapsed_ms, partitions (all offsets of its life)

Variables: BOOTSTRAP, GROUP, TOPIC; KAFKA_GROUP_INSTANCE_ID (empty: a dynamic member), KAFKA_SESSION_TIMEOUT_MS,
GROUP_PROTOCOL (classic or consumer), PARTITION_ASSIGNMENT_STRATEGY; SECURITY_PROTOCOL, SASL_MECHANISM, SASL_USERNAME,
SASL_PASSWORD, SSL_CA_LOCATION; READY_FILE (exists while partitions are assigned, for a readiness probe); EXIT_ON_FATAL;
REPORT_TIMES; WORK_MS (the time that a batch takes, whatever is in it, before the next poll; default 0); STATE_DIR
(state.py; empty: no state), RESTORE_PER_S (records that its store takes in; default 5000).

Exit code: 0 after SIGTERM, 1 after a fatal error, 2 when the client refused its settings, 3 when closing took too long.
librdkafka never recovers from a fatal error and says so only once. EXIT_ON_FATAL=false is an application that overlooks
it: refused with UNRELEASED_INSTANCE_ID (KIP-848) it polls on in silence for ever; fenced in a classic group it reads on
what it no longer owns, and nothing it commits is accepted (both seen with librdkafka 2.16 and Kafka 4.4.0).
"""

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from environment import CONNECTION, CONSUMER, client_logger, client_settings, now_ms, required, tell
from ranges import Ranges, appended, merged, prolonged
from state import States

POLL_S = 0.1
BATCH = 500
REPORT_S = 1.0
# The kubelet's default patience is 30 s; a broker that is away must not make a pod's end seem to hang.
CLOSE_TIMEOUT_S = 10.0
COMMITTED_TIMEOUT_S = 30.0
# Above twice the poll, so that a steady stream of records is one range of time.
PAUSE_MS = 250
DELAY_STEP_MS = 100
FENCED = (KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED, KafkaError._FATAL)


def settings(environment: Mapping[str, str]) -> dict[str, str | int | bool]:
    """Return librdkafka's settings: the variables, and what this application decides itself."""
    return {
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
        **client_settings(environment, CONNECTION, CONSUMER),
    }  # fmt: skip


class Seen:
    """The records of one second: ranges of offsets and of the producer's sequence numbers, by partition.

    Parameters
    ----------
    has_times: whether the line tells when records came.
    """

    def __init__(self, *, has_times: bool = False) -> None:
        self._has_times = has_times
        self.received: dict[int, Ranges] = {}
        self.offsets: dict[int, Ranges] = {}
        self.sequences: dict[int, Ranges] = {}
        self.delay_ms_max: int | None = None
        self.delays: Counter[int] = Counter()

    def add(self, message: Message, now_ms: int, *, came_at_ms: int | None = None) -> None:
        """Count a record. Its value may be `<sequence> <sent at, ms>` as producer.py writes it, or anything else.

        Parameters
        ----------
        now_ms: when it was done with. came_at_ms: when it came; None: at the same time.
        """
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        appended(self.offsets.setdefault(partition, []), offset)
        received = self.received.setdefault(partition, [])
        if came_at_ms is not None:
            prolonged(received, came_at_ms, PAUSE_MS)
        prolonged(received, now_ms, PAUSE_MS if came_at_ms is None else now_ms - came_at_ms)
        words = (message.value() or b"").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            appended(self.sequences.setdefault(partition, []), int(words[0]))
            delay_ms = now_ms - int(words[1])
            self.delay_ms_max = max(self.delay_ms_max or 0, delay_ms)
            self.delays[delay_ms // DELAY_STEP_MS] += 1

    def tell(self) -> None:
        """Print the line `consumed`."""
        partitions = {
            str(partition): {
                "offsets": offsets,
                "sequences": self.sequences.get(partition, []),
                **({"received": self.received[partition]} if self._has_times else {}),
            }
            for partition, offsets in sorted(self.offsets.items())
        }
        times = {"delays": {str(step): count for step, count in sorted(self.delays.items())}} if self._has_times else {}
        tell("consumed", partitions=partitions, delay_ms_max=self.delay_ms_max, **times)


class Application:
    """One consumer from start to end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.is_stopping = threading.Event()
        self._stopped_at_s = 0.0
        self._topic = required(environment, "TOPIC")
        self._exits_on_fatal = environment.get("EXIT_ON_FATAL", "true").lower() != "false"
        self._has_times = environment.get("REPORT_TIMES", "").lower() == "true"
        self._ready_file = Path(environment["READY_FILE"]) if environment.get("READY_FILE") else None
        self._work_s = int(environment.get("WORK_MS") or 0) / 1000
        self._fatal: KafkaError | None = None
        self._total: dict[int, Ranges] = {}
        chosen = settings(environment)
        self._states = states_of(environment, chosen, self._topic)
        tell(
            "started", pid=os.getpid(), group=required(environment, "GROUP"),
            instance_id=chosen.get("group.instance.id"), protocol=chosen.get("group.protocol", "classic"),
        )  # fmt: skip
        self._consumer = Consumer({**chosen, "error_cb": self._on_error}, logger=client_logger())

    def run(self) -> int:
        """Consume until SIGTERM or a fatal error; return the exit code."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        seen, next_report_s = Seen(has_times=self._has_times), time.monotonic() + REPORT_S
        while not self.is_stopping.is_set():
            self._work(self._consumer.consume(BATCH, POLL_S), seen)
            if self._fatal is not None and self._exits_on_fatal:
                self._flush(seen)
                return 1
            if time.monotonic() >= next_report_s:
                self._commit()
                self._flush(seen)
                seen, next_report_s = Seen(has_times=self._has_times), time.monotonic() + REPORT_S
        self._flush(seen)
        if self._states is not None:
            self._commit()
        return self._close()

    def _work(self, messages: list[Message], seen: Seen) -> None:
        came_at_ms = now_ms() if self._work_s else None
        records = [message for message in messages if message.error() is None]
        if records and self._work_s:
            time.sleep(self._work_s)  # also when SIGTERM comes meanwhile: a batch that was begun is ended
        for message in records:
            seen.add(message, now_ms(), came_at_ms=came_at_ms)
            partition, offset = message.partition(), message.offset()
            if self._states is not None and partition is not None and offset is not None:
                self._states.add(partition, offset, message.value() or b"")
        for message in messages:
            error = message.error()
            if error is not None:
                self._on_error(error)

    def stop(self, signal_number: int, frame: FrameType | None) -> None:
        """Ask the loop to end; a handler of SIGTERM."""
        self._stopped_at_s = time.monotonic()
        self.is_stopping.set()

    def _close(self) -> int:
        guard = threading.Timer(CLOSE_TIMEOUT_S, self._give_up)
        guard.daemon = True
        guard.start()
        self._consumer.close()
        guard.cancel()
        elapsed_ms = int((time.monotonic() - self._stopped_at_s) * 1000)
        tell("closed", elapsed_ms=elapsed_ms, partitions={str(each): merged(r) for each, r in self._total.items()})
        return 0

    @staticmethod
    def _give_up() -> None:
        tell("close_timeout", timeout_s=CLOSE_TIMEOUT_S)
        os._exit(3)

    def _flush(self, seen: Seen) -> None:
        if seen.offsets:
            seen.tell()
        for partition, offsets in seen.offsets.items():
            self._total[partition] = merged([*self._total.get(partition, []), *offsets])

    def _commit(self) -> None:
        if self._fatal is not None:
            return
        if self._states is not None:
            self._states.save()
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() != KafkaError._NO_OFFSET:  # nothing new since the last commit
                tell("commit_failed", error=error.name(), text=error.str())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        tell("assigned", partitions=_numbers(partitions), member_id=consumer.memberid())
        if self._states is not None:
            self._restore(self._states, consumer, partitions)
        if self._ready_file is not None:
            self._ready_file.touch()

    def _restore(self, states: States, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Bring the state of each partition to where the group goes on; the client's heartbeats go on meanwhile."""
        for position in consumer.committed(partitions, COMMITTED_TIMEOUT_S):
            began_s = time.monotonic()
            records = states.restore(position.partition, max(0, position.offset), is_stopping=self.is_stopping.is_set)
            elapsed_ms = int((time.monotonic() - began_s) * 1000)
            tell("restored", partition=position.partition, records=records, elapsed_ms=elapsed_ms)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        if self._states is not None:
            self._states.give_up(_numbers(partitions))
        tell("revoked", partitions=_numbers(partitions))
        self._unready()

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # They belong to another member already: a commit would be refused.
        if self._states is not None:
            self._states.give_up(_numbers(partitions))
        tell("lost", partitions=_numbers(partitions))
        self._unready()

    def _unready(self) -> None:
        # With the cooperative protocols a revocation may leave partitions: the next assignment says so in any case.
        if self._ready_file is not None:
            self._ready_file.unlink(missing_ok=True)

    def _on_error(self, error: KafkaError) -> None:
        is_fatal = error.fatal() or error.code() in FENCED
        if is_fatal and self._fatal is not None:
            return
        tell("error", error=error.name(), text=error.str(), fatal=is_fatal)
        if is_fatal:
            self._fatal = error
            self._unready()


def states_of(environment: Mapping[str, str], chosen: Mapping[str, str | int | bool], topic: str) -> States | None:
    """Return the states of an application that has some."""
    folder = environment.get("STATE_DIR")
    if not folder:
        return None
    reader = client_settings(environment, CONNECTION) | {"group.id": f"{chosen['group.id']}-restore"}
    return States(Path(folder), topic, reader, per_s=int(environment.get("RESTORE_PER_S") or 5000))


def _numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)


def main(environment: Mapping[str, str]) -> int:
    """Run the application; return its exit code."""
    try:
        application = Application(environment)
    except KafkaException as refusal:
        tell("refused", text=refusal.args[0].str())
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, application.stop)
    return application.run()


if __name__ == "__main__":
    sys.exit(main(os.environ))
