"""A real consumer in a process of its own, and the handle to rule it.

Why: only a process can be killed as a pod is killed, and only a real client behaves like one. One idea: the program
writes one JSON line per thing that happened to it; the handle reads them and waits for conditions with a deadline.
Run by itself: `python kafka_member.py '{"bootstrap.servers": …, "group.id": …}' topic`.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """One thing that happened: `assigned`, `revoked`, `lost`, `error`, `closed`.

    Parameters
    ----------
    error: librdkafka's name of the error (`_FATAL`, `_AUTHENTICATION`, `GROUP_AUTHORIZATION_FAILED`).
    text: its message; for `_FATAL` only the message tells the cause.
    """

    kind: str
    at_ms: int
    partitions: frozenset[int] = frozenset()
    error: str = ""
    text: str = ""


class Member:
    """One consumer process.

    Parameters
    ----------
    settings: librdkafka's consumer settings, `bootstrap.servers` and `group.id` among them.
    topic: one, or several separated by commas.
    """

    def __init__(self, settings: Mapping[str, str | int], topic: str) -> None:
        arguments = [sys.executable, __file__, json.dumps(dict(settings)), topic]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self._arrivals: queue.Queue[MemberEvent] = queue.Queue()
        self.events: list[MemberEvent] = []
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """The pid of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[MemberEvent], bool], timeout_s: float = 30.0) -> MemberEvent:
        """Return the first event, past ones included, that fulfils a condition."""
        deadline_s = time.monotonic() + timeout_s
        seen = 0
        while True:
            for event in self.events[seen:]:
                if condition(event):
                    return event
            seen = len(self.events)
            try:
                self.events.append(self._arrivals.get(timeout=max(0.0, deadline_s - time.monotonic())))
            except queue.Empty:
                raise TimeoutError(f"not seen in {timeout_s:.0f} s, only {self.events}") from None

    def wait_for_kind(self, kind: str, timeout_s: float = 30.0) -> MemberEvent:
        """Return the first event of a kind."""
        return self.wait_for(lambda event: event.kind == kind, timeout_s)

    def history(self) -> list[MemberEvent]:
        """Return everything that has happened so far."""
        while not self._arrivals.empty():
            self.events.append(self._arrivals.get())
        return list(self.events)

    def terminate(self, timeout_s: float = 20.0) -> None:
        """Close the consumer with SIGTERM, as the kubelet does, and wait for the end."""
        self._process.terminate()
        self._process.wait(timeout_s)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.wait(10)

    def freeze(self) -> None:
        """Stop the process with SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def hang(self) -> None:
        """Let the process poll no more, while its client goes on with its heartbeats."""
        os.kill(self.pid, signal.SIGUSR1)

    def thaw(self) -> None:
        """Let a stopped process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            content = json.loads(line)
            partitions = frozenset(content.pop("partitions", ()))
            self._arrivals.put(MemberEvent(partitions=partitions, **content))


def consume(settings: dict[str, Any], topics: str) -> None:
    """Consume topics, separated by commas, until SIGTERM or SIGINT, writing one JSON line per event to standard output."""
    from confluent_kafka import Consumer, KafkaError

    stopping = threading.Event()
    hanging = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    signal.signal(signal.SIGUSR1, lambda *_: hanging.set())

    def tell(kind: str, **content: object) -> None:
        print(json.dumps({"kind": kind, "at_ms": time.time_ns() // 1_000_000, **content}), flush=True)

    def partitions(changed: list[Any]) -> list[int]:
        return sorted(each.partition for each in changed)

    def on_error(error: KafkaError) -> None:
        tell("error", error=error.name(), text=error.str())

    consumer = Consumer({"log_level": 2, "error_cb": on_error, **settings})
    consumer.subscribe(
        topics.split(","),
        on_assign=lambda _, changed: tell("assigned", partitions=partitions(changed)),
        on_revoke=lambda _, changed: tell("revoked", partitions=partitions(changed)),
        on_lost=lambda _, changed: tell("lost", partitions=partitions(changed)),
    )
    while not stopping.is_set():
        if hanging.is_set():
            time.sleep(_POLL_S)
            continue
        message = consumer.poll(_POLL_S)
        error = message.error() if message is not None else None
        if error is not None:
            on_error(error)
    consumer.close()
    tell("closed")


if __name__ == "__main__":
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    consume(json.loads(sys.argv[1]), sys.argv[2])
