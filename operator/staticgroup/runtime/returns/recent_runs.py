"""What processes of pods did in the last hour, until the next round of their StaticGroup takes it.

The one idea: of a pod that was there all the while nothing is remembered, so that ten thousand of them cost nothing.
A version that shows a start or an end of the last hour is noted, and only what was noted is remembered, until it is
older than that. Standbys note it too, and keep the last minutes for the rounds that may begin here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...core.absences.runs import RECENT_MS, RunChange, run_changes
from ...core.evidence.pod import PodVersion
from ...kube.container_runs import pod_runs
from ..stores import Stores
from ..work_queue import Key

log = logging.getLogger(__name__)

PENDING_MAX: Final = 2_000
"""Most changes of pods of one StaticGroup that wait for its next round; the oldest go first."""
PENDING_AGE_MS: Final = 300_000
"""How long a standby keeps what pods did: longer than any change of the Lease's holder takes."""
_FORGET_MS: Final = 60_000
_Run = tuple[str, str, int, bool]


@dataclass(slots=True)
class RecentRuns:
    """Take every version of every pod.

    Parameters
    ----------
    may_write: True while this replica holds the Lease, so that rounds take what is noted.
    now_s: seconds since the Unix epoch.
    """

    stores: Stores
    may_write: Callable[[], bool]
    now_s: Callable[[], float]
    _pending: dict[Key, deque[RunChange]] = field(default_factory=dict)
    _noted: dict[_Run, int] = field(default_factory=dict)
    _forgot_ms: int = 0

    def pod_seen(self, raw: object, version: PodVersion) -> None:
        """Take one version of a pod, in whatever order they come; a fault in here costs the pod watch nothing."""
        try:
            now_ms = int(self.now_s() * 1000)
            if _shows_recent_run(version, now_ms):
                self._pod_seen(raw, version, now_ms)
        except Exception:
            log.exception("the runs of a pod could not be read", extra={"key": f"{version.namespace}/{version.name}"})

    def _pod_seen(self, raw: object, version: PodVersion, now_ms: int) -> None:
        groups = self.stores.groups_of_workload(version.namespace, version.name.rpartition("-")[0])
        if not groups:
            return
        self._forget_old(now_ms)
        _, changes = run_changes(None, pod_runs(raw, version), now_ms)
        news = [change for change in changes if self._noted.setdefault(_run(change), now_ms) == now_ms]
        for key in groups if news else ():
            waiting = self._pending.setdefault(key, deque(maxlen=PENDING_MAX))
            if not self.may_write():
                while waiting and waiting[0].observed_at_ms < now_ms - PENDING_AGE_MS:
                    waiting.popleft()
            waiting.extend(news)

    def _forget_old(self, now_ms: int) -> None:
        """Forget what no version shows any more, because it is more than an hour ago."""
        if now_ms - self._forgot_ms >= _FORGET_MS:
            self._forgot_ms = now_ms
            self._noted = {run: at_ms for run, at_ms in self._noted.items() if now_ms - at_ms <= RECENT_MS + _FORGET_MS}

    def taken(self, key: Key) -> Sequence[RunChange]:
        """Return what pods of a StaticGroup's workload did since a round took it, and drop it."""
        return tuple(self._pending.pop(key, ()))


def _run(change: RunChange) -> _Run:
    return change.pod.uid, change.container.name, change.restart_count, change.is_up


def _shows_recent_run(version: PodVersion, now_ms: int) -> bool:
    """Say without reading the whole object whether a container has started or ended in the last hour."""
    since_s = (now_ms - RECENT_MS) / 1000
    for container in version.required:
        end = container.last_end
        times = (container.started_at_s, end.finished_at_s if end is not None else None)
        if any(at_s is not None and at_s >= since_s for at_s in times):
            return True
    return False
