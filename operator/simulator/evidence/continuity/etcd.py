"""Backup and restore of etcd: objects, statuses and words of another time come back, and processes with them.

`etcdutl snapshot restore` gives the objects their old resourceVersions back; with a raised revision (`--bump-revision
--mark-compacted`) watches end with 410 and only single objects look older than they were.
"""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Step
from .scenario import RESTORE
from .state import DOWN, RUNS, Backup, Replica, State, bit
from .watch import Gaps


class Etcd(Gaps):
    """Steps of whoever keeps etcd."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield backup and restore."""
        if not state.left[RESTORE]:
            return
        if state.backup is None:
            backup = Backup(state.stateful_set, state.pod, state.status, state.said, state.confirmed, state.lease)
            yield Step("somebody backs etcd up", state._replace(backup=backup))
        elif self._may_restore(state):
            says = "etcd is restored from the backup"
            if self.scenario.is_bumped:
                says = f"{says}, its revision raised"
            if self.scenario.is_restored_said:
                says = f"{says}, and a person says so"
            yield Step(says, self._after(state, state.backup))

    def _may_restore(self, state: State) -> bool:
        runs = any(r.mode != DOWN for r in state.replicas)
        if self.scenario.is_restored_said:
            return not runs
        return runs or not self.scenario.is_restored_running

    def _after(self, state: State, back: Backup) -> State:
        """Bring everything back; a pod that the objects show as running is run again by its kubelet."""
        again = bit(back.pod) & ~state.alive if back.pod is not None and back.pod.phase == RUNS else 0
        return state._replace(
            stateful_set=back.stateful_set,
            pod=back.pod,
            status=back.status,
            said=back.said,
            confirmed=back.confirmed,
            alive=state.alive | again,
            revived=state.revived | again,
            replicas=tuple(self._rewound(r, back) for r in state.replicas),
            lease=back.lease if self.scenario.is_restored_said else None,
            flight=None,
            backup=None,
            left=self.spend(state, RESTORE),
            is_restored_said=self.scenario.is_restored_said,
        )

    def _rewound(self, replica: Replica, back: Backup) -> Replica:
        """Return a process that has yet to notice; to one that is not there a replay would show what is there again."""
        if replica.mode == DOWN:
            if back.lease is None:
                return replica
            sent = Replica(mode=DOWN, epoch=back.lease.epoch, asked=replica.asked, is_decided=replica.is_decided)
            return self.shown(sent, back.pod)._replace(is_born=False)
        outdated = replica._replace(is_rewound=True, is_current=False)
        return self.broken(outdated) if self.scenario.is_bumped else outdated._replace(log=())
