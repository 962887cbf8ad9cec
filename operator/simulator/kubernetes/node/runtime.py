"""The container runtime of one machine: what it has started, and how that ended; it outlives the kubelet process.

Source: containerd keeps its containers when a kubelet restarts, and says after a boot that none of them runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..objects import Json, uid_of
from .container_status import REBOOT_EXIT_CODE, ContainerRecord, records_of
from .processes import Processes


class Runtime:
    """The containers of the pods of one machine.

    Parameters
    ----------
    host: what the processes run on.
    """

    def __init__(self, processes: Processes, host: str) -> None:
        self._processes, self._host = processes, host
        self._records: dict[str, list[ContainerRecord]] = {}
        self._exits: dict[tuple[str, str], tuple[float, int]] = {}

    def records(self, pod: Json) -> list[ContainerRecord]:
        """Return the records of a pod's containers, made where there are none."""
        return self._records.setdefault(uid_of(pod), records_of(pod))

    def known(self) -> list[str]:
        """Return the uids of its pods."""
        return list(self._records)

    def owns(self, uid: str) -> bool:
        """True when it knows the pod."""
        return uid in self._records

    def has_container(self, uid: str, container: str) -> bool:
        """True when it knows a container of that name of the pod."""
        return any(record.name == container for record in self._records.get(uid, ()))

    def runs(self, uid: str, container: str) -> bool:
        """Whether a process of this container runs here."""
        return self._processes.is_running(uid, container, node=self._host)

    def running(self, uid: str) -> list[str]:
        """Return the names of the containers of a pod whose processes run."""
        return [record.name for record in self._records.get(uid, ()) if self.runs(uid, record.name)]

    def started(self, uid: str, container: str) -> None:
        """Forget the end of the run before."""
        self._exits.pop((uid, container), None)

    def exited(self, uid: str, container: str, at_s: float, exit_code: int) -> None:
        """Note that a process ended; at_s: by the node's clock."""
        self._exits[uid, container] = (at_s, exit_code)

    def ended(self, uid: str, records: list[ContainerRecord]) -> Iterator[tuple[ContainerRecord, float, int]]:
        """Yield the containers that a kubelet believes to run and whose end is known here, with time and exit code."""
        for record in records:
            if record.is_oneshot or not record.is_running or self.runs(uid, record.name):
                continue
            if (uid, record.name) in self._exits:  # else it has not reported the end yet
                yield record, *self._exits[uid, record.name]

    def lose_processes(self, now_s: float) -> None:
        """Note that the power was cut."""
        for records in self._records.values():
            for record in records:
                if record.is_running:
                    record.end(now_s, REBOOT_EXIT_CODE, "Unknown")

    def forget(self, uid: str) -> None:
        """Remove what is left of a pod."""
        for record in self._records.pop(uid, ()):
            self._exits.pop((uid, record.name), None)
