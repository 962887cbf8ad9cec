"""The waiters of a machine's pods: what each sees of the operator's note, and the files that they have written.

A kubelet shows a changed annotation in the pod's volume after a moment; now and then it misses a change, and shows it
with the next one. The waiter reads the volume, writes the ids once the note gives it a slot, and ends; it also ends
after a silence, without a file. Volume and file stay while the pod does, but not over a boot: they are in memory.

Sources: operator/slot_waiter/main.go; kubelet volume manager (a volume is written again when its pod is synced);
KEP-3721 (fileKeyRef); kubelet kuberuntime_manager.go (a new sandbox runs every init container again).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from staticgroup.api.names import SLOT_ANNOTATION, SLOT_NAME

from ...engine.loop import SimulationLoop
from ..objects import Json, uid_of
from .container_status import ContainerRecord
from .pod_worker import PodWorker

SILENCE_S: Final = 30.0
SHOWN_AFTER_S: Final = (0.05, 1.5)
MISSED_SHARE: Final = 0.03
READS_EVERY_S: Final = 0.1

Later = Callable[..., object]


def note_of(pod: Json, container: str) -> str:
    """Return what the note of a waiter's StaticGroup says to this pod; "" where there is none for it."""
    key = SLOT_ANNOTATION + container.removeprefix(SLOT_NAME)
    text = str((pod["metadata"].get("annotations") or {}).get(key, ""))
    said = text.removeprefix(f"{uid_of(pod)} ")
    return said if said != text else ""


def given_in(note: str) -> str:
    """Return the slot that a note gives; "" for none."""
    words = note.split()
    return words[1] if len(words) in (2, 3) and words[0] == "has" else ""


@dataclass(slots=True, kw_only=True)
class Wait:
    """One waiter that runs.

    Parameters
    ----------
    since_s, heard_s: when it began, and when its volume last showed another note, virtual seconds.
    shown: the note in its volume; known: the one that its kubelet knows.
    """

    since_s: float
    heard_s: float
    shown: str = ""
    known: str = ""


class Waiters:
    """The waiters of one machine.

    Parameters
    ----------
    later: does something after a delay, unless the kubelet process has ended by then. note: traces.

    Attributes
    ----------
    running: by uid and container. files: by uid and volume, what the file says.
    """

    def __init__(self, loop: SimulationLoop, rng: Random, *, later: Later, note: Callable[..., None]) -> None:
        self.running: dict[tuple[str, str], Wait] = {}
        self.files: dict[str, dict[str, Mapping[str, str]]] = {}
        self._loop, self._rng, self._later, self._note = loop, rng, later, note
        self._ended: set[tuple[str, str]] = set()

    def is_due(self, uid: str, record: ContainerRecord) -> bool:
        """True for a waiter that has not ended since the machine was booted."""
        return record.is_waiter and (uid, record.name) not in self._ended

    def run(self, worker: PodWorker, container: str, done: Callable[[], None]) -> None:
        """Run a waiter, or go on with one that an earlier kubelet process has started.

        Parameters
        ----------
        done: called after its end.
        """
        key, now_s = (worker.uid, container), self._loop.time()
        if key in self._ended:
            self._later(READS_EVERY_S, done)  # while no kubelet process saw it
            return
        if key not in self.running:
            self.running[key] = Wait(since_s=now_s, heard_s=now_s)
            self._note("waiter starts", pod=worker.name, uid=worker.uid[:8])
        wait = self.running[key]
        wait.known = note_of(worker.pod, container)
        self._later(READS_EVERY_S, self._show, worker, container, done)
        self._later(max(0.0, wait.heard_s + SILENCE_S - now_s), self._listen, worker, container, done)

    def take(self, worker: PodWorker, pod: Json, done: Callable[[str], None]) -> None:
        """Take a version of a pod from the API server; a note that changed is shown a little later.

        Parameters
        ----------
        done: called with the container after the end of its waiter.
        """
        for (uid, container), wait in list(self.running.items()):
            if uid != worker.uid or note_of(pod, container) == wait.known:
                continue
            wait.known = note_of(pod, container)
            if self._rng.random() >= MISSED_SHARE:
                low, high = SHOWN_AFTER_S
                after_s = low + (high - low) * self._rng.random()
                self._later(after_s, self._show, worker, container, partial(done, container))
            else:
                self._note("note missed", pod=worker.name, uid=uid[:8])

    def stop(self, uid: str) -> None:
        """End the waiters of a pod that is being ended; the program ends by itself on SIGTERM."""
        for key in [key for key in self.running if key[0] == uid]:
            self._end(key)

    def lose(self) -> None:
        """Lose what was in memory: the power was cut."""
        self.running.clear()
        self.files.clear()
        self._ended.clear()

    def forget(self, uid: str) -> None:
        """Remove the volumes of a pod of which nothing is left."""
        self.stop(uid)
        self.files.pop(uid, None)
        self._ended = {key for key in self._ended if key[0] != uid}

    def _show(self, worker: PodWorker, container: str, done: Callable[[], None]) -> None:
        """Write the newest note into the volume, where the waiter reads it unless it has waited for too long."""
        key, now_s = (worker.uid, container), self._loop.time()
        wait = self.running.get(key)
        if wait is None or now_s - wait.heard_s >= SILENCE_S:
            return
        note = note_of(worker.pod, container)
        if note == wait.shown:
            return
        wait.shown, wait.heard_s = note, now_s
        if slot := given_in(note):
            self.files.setdefault(worker.uid, {})[container] = _file(worker.pod, container, slot)
            self._note("waiter has a slot", pod=worker.name, uid=worker.uid[:8], slot=slot)
            self._end(key)
            self._later(READS_EVERY_S, done)
        else:
            self._later(SILENCE_S, self._listen, worker, container, done)

    def _listen(self, worker: PodWorker, container: str, done: Callable[[], None]) -> None:
        """End a waiter after a silence."""
        key = (worker.uid, container)
        wait = self.running.get(key)
        if wait is not None and self._loop.time() - wait.heard_s >= SILENCE_S - READS_EVERY_S:
            self._note("waiter gives up", pod=worker.name, uid=worker.uid[:8])
            self._end(key)
            self._later(READS_EVERY_S, done)

    def _end(self, key: tuple[str, str]) -> None:
        self.running.pop(key, None)
        self._ended.add(key)


def _file(pod: Json, container: str, slot: str) -> Mapping[str, str]:
    """Return what a waiter writes for a slot: KEY=TEMPLATE for each argument; %s stands for the slot."""
    found = next(c for c in pod["spec"]["initContainers"] if c["name"] == container)
    pairs = (str(each).partition("=") for each in found.get("args") or ())
    return {key: template.replace("%s", slot) for key, _, template in pairs}
