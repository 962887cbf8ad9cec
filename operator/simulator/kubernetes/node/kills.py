"""How a container runtime kills containers, and how a kill hangs (containerd#13416)."""

from __future__ import annotations

from collections.abc import Callable

from .processes import Processes


class Kills:
    """The signals that go from a kubelet to processes.

    Parameters
    ----------
    host: what the processes run on. note: called with what happened.
    """

    def __init__(self, processes: Processes, host: str, note: Callable[..., None]) -> None:
        self._processes = processes
        self._host = host
        self._note = note
        self._hung: set[str] = set()

    def hold(self, pod_uid: str) -> None:
        """Let the kills of one pod hang from now on, until `let_through` or a boot."""
        self._hung.add(pod_uid)

    def send(self, pod_uid: str, container: str, signal: str) -> None:
        """Have a container ended, unless the kills of its pod hang."""
        if pod_uid in self._hung:
            self._note("kill hangs", uid=pod_uid[:8], container=container, signal=signal)
        else:
            self._processes.signal(pod_uid, container, signal, node=self._host)

    def let_through(self) -> list[str]:
        """Let kills be carried out again, and return the pods whose kills hang."""
        hung = sorted(self._hung)
        self._hung.clear()
        return hung
